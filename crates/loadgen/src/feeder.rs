//! Rows of values for templates, from CSV or JSON lines.

use std::path::Path;

use crate::error::Error;
use crate::template::Names;

/// In which order rows are used. Every feeder starts again from the top at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the first to the last, and again.
    Sequential,
    /// Any row, by the seed.
    Random,
}

/// A table whose columns are variables.
#[derive(Debug, Clone)]
pub struct Feeder {
    variables: Vec<usize>,
    rows: Vec<Vec<String>>,
    order: Order,
}

impl Feeder {
    /// Reads `path`: `.csv` with a header line, or `.jsonl` with one object per line.
    pub fn read(path: &Path, order: Order, names: &mut Names) -> Result<Self, Error> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::usage(format!("feeder {shown}: {error}")))?;
        let is_lines =
            path.extension().is_some_and(|ending| ending == "jsonl" || ending == "ndjson");
        let parsed = if is_lines { json_lines(&text) } else { csv(&text) };
        let (columns, rows) = parsed
            .map_err(|(line, what)| Error::usage(format!("feeder {shown}:{line}: {what}")))?;
        if rows.is_empty() {
            return Err(Error::usage(format!("feeder {shown} has no rows")));
        }
        let variables = columns.iter().map(|name| names.intern(name)).collect();
        Ok(Self { variables, rows, order })
    }

    /// Writes the row number `turn` (or a random one) into `values`.
    pub fn feed(&self, turn: u64, random: &mut fastrand::Rng, values: &mut [String]) {
        let index = match self.order {
            Order::Sequential => (turn % self.rows.len() as u64) as usize,
            Order::Random => random.usize(..self.rows.len()),
        };
        for (variable, value) in self.variables.iter().zip(&self.rows[index]) {
            values[*variable].clone_from(value);
        }
    }
}

type Table = (Vec<String>, Vec<Vec<String>>);

/// What is wrong, and in which line.
type Flaw = (usize, String);

fn csv(text: &str) -> Result<Table, Flaw> {
    let mut rows = csv_rows(text)?.into_iter();
    let (_, columns) = rows.next().ok_or_else(|| (1, "no header line".to_owned()))?;
    let mut table = Vec::new();
    for (line, row) in rows {
        if row.len() != columns.len() {
            let text = format!("{} fields, but the header has {}", row.len(), columns.len());
            return Err((line, text));
        }
        table.push(row);
    }
    Ok((columns, table))
}

/// Rows with the line each starts on; quotes as in RFC 4180.
fn csv_rows(text: &str) -> Result<Vec<(usize, Vec<String>)>, Flaw> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut line = 1;
    let mut row_line = 1;
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\n' {
            line += 1;
        }
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                field.push('"');
                characters.next();
            }
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted && characters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                if row.len() > 1 || !row[0].is_empty() {
                    rows.push((row_line, std::mem::take(&mut row)));
                }
                row.clear();
                row_line = line;
            }
            other => field.push(other),
        }
    }
    if quoted {
        return Err((row_line, "a quoted field is not closed".to_owned()));
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push((row_line, row));
    }
    Ok(rows)
}

fn json_lines(text: &str) -> Result<Table, Flaw> {
    let mut columns: Vec<String> = Vec::new();
    let mut table = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| (index + 1, error.to_string()))?;
        if columns.is_empty() {
            columns = object.keys().cloned().collect();
        }
        let mut row = Vec::new();
        for column in &columns {
            row.push(match object.get(column) {
                Some(serde_json::Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => return Err((index + 1, format!("no {column:?}"))),
            });
        }
        table.push(row);
    }
    Ok((columns, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_with_quotes_and_crlf_is_read() {
        let (columns, rows) = csv("a,b\r\n1,\"x, \"\"y\"\"\nz\"\r\n2,\n").unwrap();
        assert_eq!(columns, ["a", "b"]);
        assert_eq!(rows, [["1", "x, \"y\"\nz"], ["2", ""]]);
    }

    #[test]
    fn a_bad_row_is_named_by_its_line() {
        assert_eq!(csv("a,b\n1,2\n3\n").unwrap_err().0, 3);
        assert_eq!(csv("a\n\"x\n").unwrap_err().0, 2);
        assert_eq!(json_lines("{\"a\":1}\n{\"b\":1}\n").unwrap_err(), (2, "no \"a\"".to_owned()));
    }

    #[test]
    fn json_lines_are_read() {
        let (columns, rows) =
            json_lines("{\"a\":1,\"b\":\"x\"}\n\n{\"a\":2,\"b\":\"y\"}\n").unwrap();
        assert_eq!((columns.len(), rows[1].join(" ")), (2, "2 y".to_owned()));
    }
}

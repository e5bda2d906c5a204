//! The table of crates in ARCHITECTURE.md, which is the one place that says who may import whom.
//!
//! ```text
//! | level | crate | its job, in one sentence | may import |
//! |---|---|---|---|
//! | 6 | `admin` | … | all below it but `loadgen` |
//! | 1b | `schema` | … | `service`, `proto`, `json` |
//! | beside | `build` | … | `proto` |
//! ```
//!
//! A level is a number and possibly a letter; `1a` is below `1b`, which is below `2`. A crate
//! beside the levels is part of no running service.

use std::collections::HashSet;

use crate::tree::{Finding, Tree};

/// Where the table is.
pub(crate) const DOCUMENT: &str = "ARCHITECTURE.md";

const HEAD: &str = "| level | crate |";

/// The crates of the table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
}

/// One crate of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name of its folder below `crates/`.
    pub(crate) name: String,
    /// `None` beside the levels.
    pub(crate) level: Option<Level>,
    pub(crate) imports: Imports,
    /// The line of the document.
    pub(crate) line: usize,
}

/// A level as `1b`: the number, then the letter.
pub(crate) type Level = (u8, Option<char>);

/// What a crate may import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Imports {
    /// These crates, and each of them has to be imported.
    Only(Vec<String>),
    /// Every crate of a lower level but these.
    AllBelowBut(Vec<String>),
}

impl Table {
    /// Reads the table of the tree's ARCHITECTURE.md, with what is wrong with it.
    pub(crate) fn read(tree: &Tree) -> (Self, Vec<Finding>) {
        let text = tree.text(DOCUMENT).unwrap_or_default();
        let mut table = Self::default();
        let mut findings = Vec::new();
        let lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.starts_with(HEAD));
        for (line, text) in lines.skip(2).take_while(|(_, line)| line.starts_with('|')) {
            match row(line, text) {
                Ok(row) => table.rows.push(row),
                Err(why) => findings.push(Finding::error(DOCUMENT, line, why)),
            }
        }
        if table.rows.is_empty() && findings.is_empty() {
            let text =
                format!("there is no table that begins with `{HEAD}`; add one row per crate");
            findings.push(Finding::error(DOCUMENT, 1, text));
        }
        findings.extend(table.faults());
        (table, findings)
    }

    /// The row of a crate.
    pub(crate) fn find(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Whether the row allows a normal dependency on the crate `to`.
    pub(crate) fn allows(&self, from: &Row, to: &str) -> bool {
        match &from.imports {
            Imports::Only(names) => names.iter().any(|name| name == to),
            Imports::AllBelowBut(excepted) => {
                let level = self.find(to).and_then(|row| row.level);
                level.is_some() && level < from.level && !excepted.iter().any(|name| name == to)
            }
        }
    }

    /// Permissions that lead upward or nowhere, and rows that occur twice.
    fn faults(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen = HashSet::new();
        for row in &self.rows {
            if !seen.insert(&row.name) {
                let text = format!("`{}` has two rows; remove one", row.name);
                findings.push(Finding::error(DOCUMENT, row.line, text));
            }
            let (Imports::Only(names) | Imports::AllBelowBut(names)) = &row.imports;
            for name in names {
                let why = match self.find(name) {
                    None => format!("`{name}` has no row; add one, or remove the name here"),
                    Some(to) if row.level.is_some() && to.level >= row.level => format!(
                        "`{}` may import `{name}`, which is not on a lower level; imports lead down",
                        row.name
                    ),
                    Some(_) => continue,
                };
                findings.push(Finding::error(DOCUMENT, row.line, why));
            }
        }
        findings
    }
}

fn row(line: usize, text: &str) -> Result<Row, String> {
    let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
    let [level, name, _, imports] = cells[..] else {
        return Err("a row of this table has four cells: level, crate, job, may import".to_owned());
    };
    let name = quoted(name).pop().ok_or("write the name of the crate in backticks")?;
    Ok(Row { name, level: self::level(level)?, imports: self::imports(imports)?, line })
}

fn level(text: &str) -> Result<Option<Level>, String> {
    if text == "beside" {
        return Ok(None);
    }
    let letter = text.chars().next_back().filter(char::is_ascii_lowercase);
    let number = letter.map_or(text, |_| &text[..text.len() - 1]);
    match number.parse() {
        Ok(number) => Ok(Some((number, letter))),
        Err(_) => Err(format!("the level `{text}` is not a number, as `2` or `1b`, or `beside`")),
    }
}

fn imports(text: &str) -> Result<Imports, String> {
    let names = quoted(text);
    match text.strip_prefix("all below it") {
        Some("") => Ok(Imports::AllBelowBut(Vec::new())),
        Some(rest) if rest.starts_with(" but `") => Ok(Imports::AllBelowBut(names)),
        None if text == "none" || !names.is_empty() => Ok(Imports::Only(names)),
        _ => Err(format!(
            "`{text}` is not a list of crates, `none`, `all below it` or `all below it but `NAME``"
        )),
    }
}

/// What stands between backticks.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &str) -> (Table, Vec<String>) {
        let text = format!("# Map\n\n{HEAD} job | may import |\n|---|---|---|---|\n{rows}");
        let (table, findings) = Table::read(&Tree::of(&[(DOCUMENT, &text)]));
        (table, findings.iter().map(Finding::to_string).collect())
    }

    #[test]
    fn a_row_says_level_and_imports() {
        let (table, findings) = read(
            "| 6 | `admin` | looks | all below it but `mock` |\n| 5 | `mock` | plays | `schema` |\n\
             | 1b | `schema` | knows | `service` |\n| 1a | `service` | is | none |\n\nend\n",
        );
        assert_eq!(findings, [""; 0]);
        assert_eq!(table.rows.len(), 4);
        let admin = table.find("admin").unwrap();
        let allowed =
            ["admin", "mock", "schema", "service", "other"].map(|to| table.allows(admin, to));
        assert_eq!(allowed, [false, false, true, true, false]);
        assert_eq!(table.find("schema").unwrap().level, Some((1, Some('b'))));
        assert_eq!(table.find("mock").unwrap().imports, Imports::Only(vec!["schema".to_owned()]));
    }

    #[test]
    fn a_table_that_contradicts_itself_is_a_finding() {
        for (rows, expected) in [
            ("| 1 | `a` | x | `b` |\n| 1 | `b` | x | none |\n", "not on a lower level"),
            ("| 1 | `a` | x | `b` |\n| 1a | `b` | x | none |\n", "not on a lower level"),
            ("| 1 | `a` | x | `b` |\n", "`b` has no row"),
            ("| 1 | `a` | x | none |\n| 1 | `a` | x | none |\n", "two rows"),
            ("| one | `a` | x | none |\n", "is not a number"),
            ("| 1 | `a` | x | some |\n", "is not a list of crates"),
            ("| 1 | `a` | x |\n", "four cells"),
            ("", "there is no table"),
        ] {
            let (_, findings) = read(rows);
            assert_eq!(findings.len(), 1, "{rows}: {findings:?}");
            assert!(findings[0].contains(expected), "{rows}: {findings:?}");
        }
    }
}

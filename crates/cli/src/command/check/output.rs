//! Findings as people and as programs read them.
//!
//! ```text
//! protos/shop.proto:12:3: error: name 'Itm' is not defined; did you mean 'Item'?
//!    12 |   Itm item = 1;
//!       |   ^^^
//!       = correct the name, declare it, or import the file that declares it
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use super::CheckReport;
use super::finding::{Finding, Severity};
use crate::call::printable::{printable_json, printable_lines};
use crate::colors;

/// The texts of files, each read once.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<String, Option<String>>);

/// A place in a file, both from 1.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Texts {
    /// The text of a file, unless it cannot be read.
    pub(super) fn text(&mut self, file: &str) -> Option<&str> {
        let read = || std::fs::read_to_string(file).ok();
        self.0.entry(file.to_owned()).or_insert_with(read).as_deref()
    }

    /// Where `wanted` is in a file, at or below a line.
    pub(super) fn place(&mut self, file: &str, from_line: u32, wanted: &str) -> Option<Position> {
        let skipped = usize::try_from(from_line).ok()?.checked_sub(1)?;
        for (index, line) in self.text(file)?.lines().enumerate().skip(skipped) {
            if let Some(at) = line.find(wanted) {
                let column = u32::try_from(line[..at].chars().count() + 1).ok()?;
                return Some(Position { line: u32::try_from(index + 1).ok()?, column });
            }
        }
        None
    }
}

/// Prints all findings and what they come to.
pub(super) fn print(found: &CheckReport, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut texts = Texts::default();
    let has_colors = colors::are_on(&out);
    for finding in &found.findings {
        if as_json {
            writeln!(out, "{}", printable_json(&serde_json::to_string(finding)?))?;
        } else {
            let rendered = render(finding, &mut texts);
            let shown = printable_lines(&rendered);
            if has_colors {
                let word = finding.severity.as_str();
                let is_error = finding.severity == Severity::Error;
                out.write_all(colors::marked(&shown, word, is_error).as_bytes())?;
            } else {
                out.write_all(shown.as_bytes())?;
            }
        }
    }
    if !as_json {
        writeln!(out, "{}", summary(found))?;
    }
    out.flush()
}

fn summary(found: &CheckReport) -> String {
    let count = |severity| found.findings.iter().filter(|f| f.severity == severity).count();
    let several = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    let errors = count(Severity::Error);
    let warnings = count(Severity::Warning);
    let outcome = match (errors, warnings) {
        (0, 0) => "nothing wrong".to_owned(),
        (errors, 0) => several(errors, "error"),
        (0, warnings) => several(warnings, "warning"),
        (errors, warnings) => {
            format!("{}, {}", several(errors, "error"), several(warnings, "warning"))
        }
    };
    let mut text = format!("checked {}: {outcome}", several(found.files, "file"));
    if !found.cached.is_empty() {
        let methods = match found.cached.len() {
            1 => "1 method is".to_owned(),
            number => format!("{number} methods are"),
        };
        let _ = write!(text, "\n{methods} cached{}", until(found));
    }
    text
}

/// For how long replies are cached.
fn until(found: &CheckReport) -> String {
    if !found.memo.is_on() {
        return ", but not while memo.enabled = false".to_owned();
    }
    let is_single = found.memo.single_writer == Some(true);
    let names = found.captured.join(", ");
    match (names.is_empty(), is_single) {
        (true, true) => {
            ": until this program changes what they depend on (memo.single_writer = true)"
                .to_owned()
        }
        (true, false) => {
            ": what another process changes is noticed within 5 s, and not at all by sources that \
             are not external()"
                .to_owned()
        }
        (false, true) => format!(
            ": until anybody changes {names} (oplog.capture), or this program what else they depend \
             on (memo.single_writer = true)"
        ),
        (false, false) => format!(
            ": who changes {names} is noticed at once (oplog.capture); what another process changes \
             of other sources within 5 s, and not at all by sources that are not external()"
        ),
    }
}

fn render(finding: &Finding, texts: &mut Texts) -> String {
    let mut text = finding.file.clone();
    for number in [finding.line, finding.column].into_iter().flatten() {
        let _ = write!(text, ":{number}");
    }
    let message = shortened(&finding.message);
    let _ = writeln!(text, ": {}: {message}", finding.severity.as_str());
    if let (Some(line), Some(column)) = (finding.line, finding.column)
        && let Some(source) = texts.text(&finding.file).and_then(|text| nth_line(text, line))
    {
        let Excerpt { source, column } = excerpt(source, column);
        let Mark { indent, mark } = marked(&source, column);
        let _ = writeln!(text, "{line:>5} | {source}");
        let _ = writeln!(text, "      | {indent}{mark}");
    }
    if let Some(help) = &finding.help {
        let _ = writeln!(text, "      = {}", shortened(help));
    }
    text.push('\n');
    text
}

/// A message that people read to its end: of a value in it that is longer, only the beginning.
fn shortened(message: &str) -> Cow<'_, str> {
    let count = message.chars().count();
    if count <= 2 * SHOWN_MAX {
        return Cow::Borrowed(message);
    }
    let begin: String = message.chars().take(SHOWN_MAX).collect();
    let end: String = message.chars().skip(count - SHOWN_MAX / 2).collect();
    Cow::Owned(format!("{begin}… ({count} characters) …{end}"))
}

/// How many characters of a line, and of a value in a message, are shown.
const SHOWN_MAX: usize = 200;

/// A part of a line, and a column in it.
struct Excerpt {
    source: String,
    column: u32,
}

/// The part of a line that is around a column, if the line is long.
fn excerpt(source: &str, column: u32) -> Excerpt {
    if source.chars().count() <= SHOWN_MAX {
        return Excerpt { source: source.to_owned(), column };
    }
    let at = usize::try_from(column).unwrap_or(1).saturating_sub(1);
    let begin = at.saturating_sub(SHOWN_MAX / 2);
    let mut chars = source.chars().skip(begin);
    let mut part: String = chars.by_ref().take(SHOWN_MAX).collect();
    if chars.next().is_some() {
        part.push('…');
    }
    let before = if begin > 0 { "…" } else { "" };
    let column = u32::try_from(at - begin + before.chars().count() + 1).unwrap_or(1);
    Excerpt { source: format!("{before}{part}"), column }
}

fn nth_line(text: &str, line: u32) -> Option<&str> {
    text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)
}

/// What goes below a line of source.
struct Mark {
    indent: String,
    mark: String,
}

/// Marks the word at a column; tabs stay tabs, so that the mark is below it.
fn marked(source: &str, column: u32) -> Mark {
    let before = usize::try_from(column).unwrap_or(1).saturating_sub(1);
    let indent = source.chars().take(before).map(|c| if c == '\t' { c } else { ' ' }).collect();
    let quotes_before = |quote| source.chars().take(before).filter(|c| *c == quote).count();
    let mut rest = source.chars().skip(before);
    let length = match rest.next() {
        // At a closing quote there is nothing to mark but the quote.
        Some(quote @ ('"' | '\'')) if quotes_before(quote) % 2 == 0 => {
            2 + rest.take_while(|c| *c != quote).count()
        }
        Some(first) if is_word(first) => 1 + rest.take_while(|c| is_word(*c)).count(),
        _ => 1,
    };
    let length = length.min(source.chars().count().saturating_sub(before).max(1));
    Mark { indent, mark: "^".repeat(length) }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_and_a_long_value_a_part_is_shown() {
        let long = "x".repeat(400_000);
        let source = format!("{long}wrong{long}");
        let Excerpt { source: part, column } = excerpt(&source, 400_001);
        assert!(part.chars().count() < 210, "{}", part.len());
        let Mark { indent, .. } = marked(&part, column);
        assert!(part.chars().skip(indent.chars().count()).collect::<String>().starts_with("wrong"));
        assert_eq!(excerpt("short", 3).source, "short");
        let message = shortened(&source);
        assert!(message.chars().count() < 400, "{}", message.len());
        assert!(message.contains("(800005 characters)"));
        assert_eq!(shortened("a message"), "a message");
    }

    #[test]
    fn the_mark_is_under_the_word() {
        let check = |source: &str, column, expected: &str| {
            let Mark { indent, mark } = marked(source, column);
            assert_eq!(format!("{indent}{mark}"), expected, "{source}");
        };
        check("  Itm item = 1;", 3, "  ^^^");
        check("\tItm item = 1;", 2, "\t^^^");
        check("import \"a.proto\";", 8, "       ^^^^^^^^^");
        check("import \"a", 8, "       ^^");
        check("get: \"/{a\" body: \"*\"", 10, "         ^");
        check("}", 1, "^");
        check("", 1, "^");
        check("über 1", 6, "     ^");
    }
}

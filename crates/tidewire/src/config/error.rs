//! What is wrong with a configuration, said so that it can be mended.

use std::fmt;
use std::path::Path;

use toml::de::DeTable;

use super::service;

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The setting that it begins with, `auth.jwt.keys`.
    pub(super) fn key(&self) -> Option<&str> {
        let key = self.0.split([' ', ':']).next()?;
        key.contains('.').then_some(key)
    }

    pub(super) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("cannot read {}: {error}", path.display()))
    }

    /// An error in the text of a file: its place, and for a wrong key the nearest right one.
    pub(super) fn toml(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let offset = offset(error, DeTable::parse_recoverable(text).0.get_ref());
        let Position { line, column } = position(text, offset);
        Self(format!("{name}:{line}:{column}: {}", explain(error.message())))
    }

    /// A value from elsewhere than a file that does not fit.
    pub(super) fn value(name: &str, error: &toml::de::Error) -> Self {
        Self(format!("{name}: {}", explain(error.message())))
    }

    pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> Self {
        Self(format!("unknown {what} {name}{}", suggestion(name, known)))
    }
}

/// Whether only something is missing, which may come from elsewhere.
pub(super) fn is_lack(error: &toml::de::Error) -> bool {
    error.message().starts_with("missing field")
}

/// Where an error in the text of a file is, as a byte. An error of a `[[service]]` as a whole has
/// the place of all of them, or none.
pub(super) fn offset(error: &toml::de::Error, table: &DeTable<'_>) -> usize {
    let span = error.span();
    let of_all = table.get("service").map(toml::Spanned::span);
    let is_of_one = span.is_none() || span == of_all;
    let one = is_of_one.then(|| service::first_wrong(table)).flatten();
    one.or(span).map_or(0, |span| span.start)
}

/// A place in a text, both from 1.
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Where a byte of a text is.
pub(super) fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line: before.matches('\n').count() + 1, column }
}

/// Serde's words in ours: for an unknown key with the nearest known one, for a wrong type with what
/// to write.
pub(super) fn explain(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        let message = message.trim_end();
        let known = WANTED.iter().find_map(|(serde, ours)| {
            message.strip_suffix(serde).map(|before| format!("{before}{ours}"))
        });
        return known.unwrap_or_else(|| message.to_owned());
    };
    let mut quoted = rest.split('`');
    let name = quoted.next().unwrap_or_default();
    let known: Vec<_> = quoted.skip(1).step_by(2).collect();
    format!("unknown key {name}{}", suggestion(name, &known))
}

/// What serde calls a type, and what a reader of TOML does.
const WANTED: [(&str, &str); 8] = [
    ("expected a sequence", "expected a list, such as [\"a\"]"),
    ("expected a map", "expected a table, such as { NAME = \"value\" }"),
    ("expected a string", "expected a text in quotation marks"),
    ("wanted string or table", "expected a text in quotation marks"),
    ("expected a boolean", "expected true or false"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
];

/// `; did you mean x?` for a near name, otherwise all of them.
fn suggestion(name: &str, known: &[&str]) -> String {
    const NEAR: f64 = 0.8;
    let best = known
        .iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, known)) if likeness >= NEAR => format!("; did you mean {known}?"),
        Some(_) => format!("; there is {}", known.join(", ")),
        None => String::new(),
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

//! Where in the text of a file something is wrong.

use toml::de::DeTable;

use super::error::{ConfigError, explain};
use super::service_entry;

impl ConfigError {
    /// An error in the text of a file: its place, and for a wrong key the nearest right one.
    pub(super) fn toml(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let offset = offset(error, DeTable::parse_recoverable(text).0.get_ref());
        let Position { line, column } = position(text, offset);
        Self::new(format!("{name}:{line}:{column}: {}", explain(error.message())))
    }
}

/// Where an error in the text of a file is, as a byte. An error of a `[[service]]` as a whole has
/// the place of all of them, or none.
pub(super) fn offset(error: &toml::de::Error, table: &DeTable<'_>) -> usize {
    let span = error.span();
    let of_all = table.get("service").map(toml::Spanned::span);
    let is_of_one = span.is_none() || span == of_all;
    let one = is_of_one.then(|| service_entry::first_wrong(table)).flatten();
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

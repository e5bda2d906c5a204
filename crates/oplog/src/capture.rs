//! Which table's changes are changes of which source.

use tidewire_memo::{Source, SourceKey, Suspension};

use crate::registry::Registry;

/// One source that one table feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capture {
    /// The table as the user names it.
    pub(crate) table: String,
    /// The source's name.
    pub(crate) source: String,
    /// The columns whose values are the key's parts, in order.
    pub(crate) columns: Vec<String>,
    /// Only rows that come or go count.
    pub(crate) is_of_rows: bool,
}

/// What a log is told before it starts: its sources, and the tables that feed them.
#[derive(Debug, Default)]
pub(crate) struct CaptureSet {
    pub(crate) registry: Registry,
    pub(crate) captures: Vec<Capture>,
    /// Sources are suspended from here on, until the log has started.
    pub(crate) suspended: Vec<Suspension>,
}

impl CaptureSet {
    /// Adds a source; `capture`, if a table feeds it.
    pub(crate) fn add<K: SourceKey>(&mut self, source: &Source<K>, capture: Option<Capture>) {
        if self.registry.find(source.name()).is_none() {
            self.suspended.push(source.suspend());
        }
        self.registry.add(source, capture.as_ref().map(|capture| &*capture.table));
        self.captures.extend(capture);
    }
}

impl Capture {
    /// Keys by columns of a table.
    pub(crate) fn keys<K: SourceKey>(
        table: &str,
        source: &Source<K>,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let table = table.to_owned();
        let source = source.name().to_owned();
        let columns = columns.into_iter().map(Into::into).collect();
        Self { table, source, columns, is_of_rows: false }
    }

    /// Rows of a table that come or go.
    pub(crate) fn rows(table: &str, source: &Source<()>) -> Self {
        Self { is_of_rows: true, ..Self::keys(table, source, [""; 0]) }
    }
}

/// Captures by table, in the order in which tables were named first.
pub(crate) fn by_table(captures: &[Capture]) -> Vec<(&str, Vec<&Capture>)> {
    let mut tables: Vec<(&str, Vec<&Capture>)> = Vec::new();
    for capture in captures {
        match tables.iter_mut().find(|(table, _)| *table == capture.table) {
            Some((_, known)) => known.push(capture),
            None => tables.push((&capture.table, vec![capture])),
        }
    }
    tables
}

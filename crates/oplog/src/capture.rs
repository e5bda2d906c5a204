//! Which table's changes are changes of which source.

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

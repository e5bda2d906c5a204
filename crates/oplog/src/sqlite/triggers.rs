//! Triggers that fill the log, for each row: SQLite has no others.
//!
//! `REPLACE` removes rows that share a unique key with the new one and fires no trigger for that.
//! So before a row comes, the rows that it could replace are logged.

use std::fmt::Write as _;

use rusqlite::Connection;

use crate::capture::{Capture, by_table};
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;
use crate::sql::{fingerprint, identifier};

/// One trigger, as it has to be.
#[derive(Debug)]
pub(super) struct Trigger {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) sql: String,
}

/// Columns that no two rows share, each with the collation that decides that.
type Unique = Vec<(String, String)>;

/// The triggers of these captures.
///
/// # Errors
/// When a table cannot be captured.
pub(super) fn triggers(
    database: &Connection,
    settings: &Settings,
    captures: &[Capture],
) -> Result<Vec<Trigger>, Error> {
    let mut all = Vec::new();
    for (table, captures) in by_table(captures) {
        let refuse =
            |text: String| Error::new(ErrorKind::Capture, format!("table {table}: {text}"));
        let failed = |error: rusqlite::Error| {
            Error::new(ErrorKind::Database, format!("cannot look up table {table}")).because(error)
        };
        let known = columns(database, table).map_err(failed)?;
        if known.is_empty() {
            return Err(refuse("it does not exist".to_owned()));
        }
        for column in captures.iter().flat_map(|capture| &capture.columns) {
            if !known.iter().any(|(name, _)| name == column) {
                return Err(refuse(format!("it has no column {column}")));
            }
            if !is_binary(database, table, column).map_err(failed)? {
                return Err(refuse(format!(
                    "column {column} has a collation that calls unequal text equal, so that equal keys may \
                     be unequal text"
                )));
            }
        }
        let mut unique = unique(database, table).map_err(failed)?.ok_or_else(|| {
            refuse(
                "it has a unique index over an expression, so that REPLACE may remove rows unseen"
                    .to_owned(),
            )
        })?;
        let primary: Vec<_> = known.iter().filter(|(_, in_primary)| *in_primary).collect();
        if let [(name, _)] = primary[..] {
            // An INTEGER PRIMARY KEY has no index.
            unique.push(vec![(name.clone(), "BINARY".to_owned())]);
        }
        all.extend(of_table(settings, table, &captures, &unique));
    }
    Ok(all)
}

fn of_table(
    settings: &Settings,
    table: &str,
    captures: &[&Capture],
    unique: &[Unique],
) -> Vec<Trigger> {
    let log = |row: &str, captures: &[&Capture]| {
        captures.iter().fold(String::new(), |mut sql, capture| {
            let _ = writeln!(
                sql,
                "    INSERT INTO tidewire_log (source, key) VALUES ({}, {});",
                literal(&capture.source),
                key(settings, capture, row)
            );
            sql
        })
    };
    let replaced = |is_update: bool| {
        let mut sql = String::new();
        for columns in unique {
            let same = |(name, collation): &(String, String)| {
                format!("r.{0} = NEW.{0} COLLATE {1}", identifier(name), identifier(collation))
            };
            let mut condition = columns.iter().map(same).collect::<Vec<_>>().join(" AND ");
            if is_update {
                let other = |(name, _): &(String, String)| {
                    format!("NEW.{0} IS NOT OLD.{0}", identifier(name))
                };
                let others = columns.iter().map(other).collect::<Vec<_>>().join(" OR ");
                let _ = write!(condition, " AND ({others})");
            }
            for capture in captures {
                let _ = writeln!(
                    sql,
                    "    INSERT INTO tidewire_log (source, key) SELECT {}, {} FROM {} AS r WHERE {condition};",
                    literal(&capture.source),
                    key(settings, capture, "r"),
                    identifier(table),
                );
            }
        }
        sql
    };
    let keyed: Vec<&Capture> =
        captures.iter().copied().filter(|capture| !capture.is_of_rows).collect();
    let bodies = [
        ("before_insert", "BEFORE INSERT", replaced(false)),
        ("before_update", "BEFORE UPDATE", replaced(true)),
        ("insert", "AFTER INSERT", log("NEW", captures)),
        ("update", "AFTER UPDATE", updated(settings, &keyed)),
        ("delete", "AFTER DELETE", log("OLD", captures)),
    ];
    let bodies = bodies.into_iter().filter(|(.., body)| !body.is_empty());
    let trigger = |(event, when, body): (&str, &str, String)| {
        let name = format!("tidewire_{event}_{}", fingerprint(&[table, &body]));
        let sql = format!(
            "CREATE TRIGGER IF NOT EXISTS {} {when} ON {} BEGIN\n{body}END",
            identifier(&name),
            identifier(table)
        );
        Trigger { name, table: table.to_owned(), sql }
    };
    bodies.map(trigger).collect()
}

/// The new key, and the old one where it was another.
fn updated(settings: &Settings, captures: &[&Capture]) -> String {
    captures.iter().fold(String::new(), |mut sql, capture| {
        let source = literal(&capture.source);
        let new = key(settings, capture, "NEW");
        let old = key(settings, capture, "OLD");
        let _ =
            writeln!(sql, "    INSERT INTO tidewire_log (source, key) VALUES ({source}, {new});");
        if !capture.columns.is_empty() {
            let changed = |name: &String| format!("OLD.{0} IS NOT NEW.{0}", identifier(name));
            let changed = capture.columns.iter().map(changed).collect::<Vec<_>>().join(" OR ");
            let _ = writeln!(
                sql,
                "    INSERT INTO tidewire_log (source, key) SELECT {source}, {old} WHERE {changed};"
            );
        }
        sql
    })
}

/// The key of a row as text; NULL, which is every key, for what has no such text.
fn key(settings: &Settings, capture: &Capture, row: &str) -> String {
    let part = |column: &String| {
        let value = format!("{row}.{}", identifier(column));
        format!(
            "CASE typeof({value}) WHEN 'integer' THEN CAST({value} AS TEXT) WHEN 'text' THEN \
             replace(replace({value}, '%', '%25'), '/', '%2F') WHEN 'blob' THEN lower(hex({value})) \
             WHEN 'null' THEN '%_' END"
        )
    };
    if capture.columns.is_empty() {
        return "''".to_owned();
    }
    let key = capture.columns.iter().map(part).collect::<Vec<_>>().join(" || '/' || ");
    let max = settings.key_bytes_max;
    format!(
        "(SELECT CASE WHEN length(CAST(k AS BLOB)) <= {max} THEN k END FROM (SELECT {key} AS k))"
    )
}

/// The columns of a table, and whether they are in its primary key.
fn columns(database: &Connection, table: &str) -> rusqlite::Result<Vec<(String, bool)>> {
    let sql = "SELECT i.name, i.pk > 0 FROM sqlite_schema s JOIN pragma_table_info(s.name) i \
               WHERE s.type = 'table' AND s.name = ?1";
    let mut select = database.prepare(sql)?;
    select.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The unique indexes of a table; `None` where one is over an expression.
fn unique(database: &Connection, table: &str) -> rusqlite::Result<Option<Vec<Unique>>> {
    let sql = "SELECT l.name, x.name, x.coll FROM pragma_index_list(?1) l JOIN pragma_index_xinfo(l.name) x \
               WHERE l.\"unique\" AND x.key ORDER BY l.seq, x.seqno";
    let mut select = database.prepare(sql)?;
    let mut rows = select.query([table])?;
    let mut found: Vec<(String, Unique)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (index, Some(column), collation) =
            (row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get(2)?)
        else {
            return Ok(None);
        };
        match found.last_mut().filter(|(last, _)| *last == index) {
            Some((_, columns)) => columns.push((column, collation)),
            None => found.push((index, vec![(column, collation)])),
        }
    }
    Ok(Some(found.into_iter().map(|(_, columns)| columns).collect()))
}

/// Whether equal values of a column are equal text: it has the collation `BINARY`.
fn is_binary(database: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    let table = identifier(table);
    let column = identifier(column);
    // The first part of a compound gives the column its collation.
    let sql = format!(
        "SELECT count(*) FROM (SELECT {column} AS v FROM {table} WHERE 0 UNION ALL SELECT 'a' UNION ALL \
         SELECT 'b ') WHERE v = 'A' OR v = 'b'"
    );
    database.query_row(&sql, [], |row| row.get::<_, i64>(0)).map(|equal| equal == 0)
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

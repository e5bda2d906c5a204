//! What PostgreSQL knows of a table that is to be captured: its columns, and where its rows are.

use tokio_postgres::Client;

use crate::capture::Capture;
use crate::error::{Error, ErrorKind};

/// A table that can be captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) oid: u32,
    /// Qualified and quoted.
    pub(crate) name: String,
    /// It and all of its partitions, qualified and quoted.
    pub(crate) relations: Vec<Relation>,
    /// The columns that keys are made of.
    pub(crate) columns: Vec<Column>,
}

/// A table or a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// A subscription writes to it: its rows fire triggers of rows only.
    pub(crate) is_subscribed: bool,
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) form: Form,
}

/// How a value becomes a part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As PostgreSQL prints it: integers, uuids, booleans.
    Printed,
    /// Text, escaped.
    Escaped,
    /// Bytes, in hexadecimal.
    Hexadecimal,
}

impl Table {
    /// Looks a table up, with the columns that its captures use.
    pub(crate) async fn find(
        client: &Client,
        name: &str,
        captures: &[&Capture],
    ) -> Result<Self, Error> {
        let refuse = |text: String| Error::new(ErrorKind::Capture, format!("table {name}: {text}"));
        let database = |error| {
            Error::new(ErrorKind::Database, format!("cannot look up table {name}")).because(error)
        };
        let found = client.query_opt(TABLE, &[&name]).await.map_err(database)?;
        let Some(row) = found else { return Err(refuse("it does not exist".to_owned())) };
        let oid: u32 = row.get(0);
        let kind: &str = row.get(2);
        let parent: Option<&str> = row.get(3);
        if !["r", "p"].contains(&kind) {
            return Err(refuse(
                "it is not a table; capture the tables that it shows rows of".to_owned(),
            ));
        }
        if let Some(parent) = parent {
            return Err(refuse(format!("it is a part of {parent}; capture that")));
        }
        let columns = client.query(COLUMNS, &[&oid]).await.map_err(database)?;
        let mut used = Vec::<Column>::new();
        for column in captures.iter().flat_map(|capture| &capture.columns) {
            if used.iter().any(|known| known.name == *column) {
                continue;
            }
            let Some(row) = columns.iter().find(|row| row.get::<_, &str>(0) == column) else {
                return Err(refuse(format!("it has no column {column}")));
            };
            let is_deterministic: bool = row.get(3);
            let form = Form::of(row.get(1)).filter(|_| is_deterministic).ok_or_else(|| {
                let of: &str = row.get(2);
                let why =
                    if is_deterministic { "" } else { " whose collation calls unequal text equal" };
                refuse(format!(
                    "column {column} is of type {of}{why}, so that equal keys may be unequal text; \
                     keys are integers, text, varchar, uuid, boolean or bytea"
                ))
            })?;
            used.push(Column { name: column.clone(), form });
        }
        let relations = client.query(RELATIONS, &[&oid]).await.map_err(database)?;
        let mut parts = Vec::with_capacity(relations.len());
        for row in &relations {
            let kind: &str = row.get(3);
            if !["r", "p"].contains(&kind) {
                let part: &str = row.get(1);
                return Err(refuse(format!("its partition {part} is in another database")));
            }
            parts.push(Relation { oid: row.get(0), name: row.get(1), is_subscribed: row.get(2) });
        }
        Ok(Self { oid, name: row.get(1), relations: parts, columns: used })
    }

    pub(crate) fn form(&self, column: &str) -> Option<Form> {
        self.columns.iter().find(|known| known.name == column).map(|known| known.form)
    }
}

impl Form {
    fn of(type_name: &str) -> Option<Self> {
        match type_name {
            "int2" | "int4" | "int8" | "uuid" | "bool" => Some(Self::Printed),
            "text" | "varchar" => Some(Self::Escaped),
            "bytea" => Some(Self::Hexadecimal),
            _ => None,
        }
    }
}

/// The table of this name, and the one that it is a part of.
const TABLE: &str = "
SELECT c.oid, format('%I.%I', n.nspname, c.relname), c.relkind::text,
    (SELECT i.inhparent::regclass::text FROM pg_inherits i WHERE i.inhrelid = c.oid LIMIT 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)";

/// Its columns: name, the type below all domains, the type as declared, whether equal is equal
/// text.
const COLUMNS: &str = "
WITH RECURSIVE domains AS (
    SELECT a.attname, a.atttypid AS type, a.atttypid AS declared, a.attcollation AS collation
    FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT d.attname, t.typbasetype, d.declared, d.collation
    FROM domains d JOIN pg_type t ON t.oid = d.type WHERE t.typtype = 'd'
)
SELECT d.attname::text,
    CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname::text ELSE '' END,
    format_type(d.declared, NULL), coalesce(c.collisdeterministic, true)
FROM domains d JOIN pg_type t ON t.oid = d.type LEFT JOIN pg_collation c ON c.oid = d.collation
WHERE t.typtype <> 'd'";

/// It and all below it, and whether a subscription writes there.
const RELATIONS: &str = "
WITH RECURSIVE tree AS (
    SELECT $1::oid AS oid
    UNION
    SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid
)
SELECT c.oid, format('%I.%I', n.nspname, c.relname),
    EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid), c.relkind::text
FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY c.oid";

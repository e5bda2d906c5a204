//! Triggers that fill the log: whoever writes, the change is in the writer's own transaction.
//!
//! They are of statements, with transition tables, so that a statement adds a row for each source
//! and not one for each row. They run with the rights of whoever made them, so that writers need
//! none, and they fire under `session_replication_role = replica` too. A statement on a partitioned
//! table fires the triggers of the table that it names, so every partition has them. A subscription
//! fires triggers of rows only, so where one writes they are of rows.
//!
//! Names end in a fingerprint of what the triggers do, so that two versions of a program that
//! capture differently stand beside each other while one replaces the other.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Client;

use super::schema::{INSTALL_LOCK, literal};
use super::tables::{Form, Relation, Table};
use crate::capture::{Capture, by_table};
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;
use crate::sql::{fingerprint, identifier};

/// The triggers of one table and of its partitions, as they have to be.
#[derive(Debug)]
pub(crate) struct Triggers {
    table: Table,
    prefix: String,
    hash: String,
    function: String,
    body: String,
    row_function: String,
    row_body: String,
}

impl Triggers {
    /// What the tables of these captures need. A table that cannot be captured is an error.
    pub(crate) async fn find(
        client: &Client,
        settings: &Settings,
        captures: &[Capture],
    ) -> Vec<(String, Result<Self, Error>)> {
        let mut found = Vec::new();
        for (name, captures) in by_table(captures) {
            let table = Table::find(client, name, &captures).await;
            let triggers = table.map(|table| Self::of(settings, table, &captures));
            found.push((name.to_owned(), triggers));
        }
        found
    }

    fn of(settings: &Settings, table: Table, captures: &[&Capture]) -> Self {
        let schema = identifier(&settings.schema);
        let body = statement_body(settings, &table, captures);
        let row_body = row_body(settings, &table, captures);
        let hash = fingerprint(&[&table.name, &body, &row_body]);
        let function = |kind: &str| format!("{schema}.{}", identifier(&format!("{kind}_{hash}")));
        Self {
            function: function("capture"),
            body,
            row_function: function("capture_row"),
            row_body,
            prefix: settings.schema.clone(),
            hash,
            table,
        }
    }

    /// The statements that put them in place. Anybody may run them again; each waits for the
    /// writers of its table, once.
    pub(crate) fn ddl(&self) -> String {
        let mut ddl = format!("-- {}\n", self.table.name);
        ddl.push_str(&function(&self.function, &self.body));
        let has_rows = self.table.relations.iter().any(|relation| relation.is_subscribed);
        if has_rows {
            ddl.push_str(&function(&self.row_function, &self.row_body));
        }
        for relation in &self.table.relations {
            for trigger in self.expected(relation) {
                ddl.push_str(&trigger.ddl(relation));
            }
        }
        ddl
    }

    fn expected(&self, relation: &Relation) -> Vec<Trigger<'_>> {
        let named = |event: &'static str, tables, by_row: bool| Trigger {
            name: format!("{}_{}_{}", self.prefix, event.to_lowercase(), self.hash),
            event,
            tables,
            by_row,
            function: if by_row { &self.row_function } else { &self.function },
        };
        let by_row = relation.is_subscribed;
        vec![
            named("INSERT", "NEW TABLE AS new_rows", by_row),
            named("UPDATE", "OLD TABLE AS old_rows NEW TABLE AS new_rows", by_row),
            named("DELETE", "OLD TABLE AS old_rows", by_row),
            named("TRUNCATE", "", false),
        ]
    }

    /// What is not as it has to be; `None` when all is.
    pub(crate) async fn fault(
        &self,
        client: &Client,
    ) -> Result<Option<String>, tokio_postgres::Error> {
        let mut bodies = vec![(&self.function, &self.body)];
        if self.table.relations.iter().any(|relation| relation.is_subscribed) {
            bodies.push((&self.row_function, &self.row_body));
        }
        for (function, body) in bodies {
            let row = client.query_opt(SOURCE, &[function]).await?;
            let found: Option<&str> = row.as_ref().map(|row| row.get(0));
            if found != Some(body) {
                return Ok(Some(format!("function {function} is missing, or is another")));
            }
        }
        let oids: Vec<u32> = self.table.relations.iter().map(|relation| relation.oid).collect();
        let found: BTreeMap<(u32, String), (String, bool)> = client
            .query(TRIGGERS, &[&oids])
            .await?
            .iter()
            .map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3))))
            .collect();
        for relation in &self.table.relations {
            for trigger in self.expected(relation) {
                let known = found.get(&(relation.oid, trigger.name.clone()));
                let shape = trigger.shape();
                match known {
                    Some((found, true)) if *found == shape => {}
                    Some((_, false)) => {
                        let name = trigger.name;
                        return Ok(Some(format!(
                            "trigger {name} of {} is disabled",
                            relation.name
                        )));
                    }
                    _ => {
                        let name = trigger.name;
                        return Ok(Some(format!("trigger {name} of {} is missing", relation.name)));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// What was found of the triggers of all tables.
#[derive(Debug, Default)]
pub(crate) struct TriggerCheck {
    /// Tables whose changes are not captured, and why.
    pub(crate) broken: BTreeMap<String, Error>,
    /// Tables whose triggers were put in place just now: changes before are in no log.
    pub(crate) repaired: BTreeSet<String>,
}

/// Puts missing triggers in place, in one transaction for each table, or says what is missing.
/// `patience` bounds the wait for a table's writers, as PostgreSQL reads it.
pub(crate) async fn settle(
    client: &Client,
    settings: &Settings,
    captures: &[Capture],
    patience: &str,
) -> Result<TriggerCheck, tokio_postgres::Error> {
    let TriggerCheck { mut broken, mut repaired } = TriggerCheck::default();
    for (name, triggers) in Triggers::find(client, settings, captures).await {
        let triggers = match triggers {
            Ok(triggers) => triggers,
            Err(error) => {
                broken.insert(name, error);
                continue;
            }
        };
        let Some(fault) = triggers.fault(client).await? else { continue };
        if !settings.install {
            let text = format!("{fault}; run what `tidewire oplog sql` prints");
            broken.insert(name, Error::new(ErrorKind::NotInstalled, text));
            continue;
        }
        let ddl = format!(
            "BEGIN; SET LOCAL lock_timeout = '{patience}'; {INSTALL_LOCK}; {}; COMMIT",
            triggers.ddl()
        );
        match client.batch_execute(&ddl).await {
            Ok(()) => _ = repaired.insert(name),
            Err(error) => {
                client.batch_execute("ROLLBACK").await?;
                let text = format!("{fault}, and cannot be made");
                broken.insert(name, Error::new(ErrorKind::NotInstalled, text).because(error));
            }
        }
    }
    Ok(TriggerCheck { broken, repaired })
}

/// One trigger of one relation.
struct Trigger<'a> {
    name: String,
    event: &'static str,
    tables: &'static str,
    by_row: bool,
    function: &'a str,
}

impl Trigger<'_> {
    fn ddl(&self, relation: &Relation) -> String {
        let Self { event, function, .. } = self;
        let name = identifier(&self.name);
        let on = &relation.name;
        let referencing = match self.tables {
            tables if tables.is_empty() || self.by_row => String::new(),
            tables => format!(" REFERENCING {tables}"),
        };
        let each = if self.by_row { "ROW" } else { "STATEMENT" };
        format!(
            "CREATE OR REPLACE TRIGGER {name} AFTER {event} ON {on}{referencing}\n    \
             FOR EACH {each} EXECUTE FUNCTION {function}();\n\
             ALTER TABLE {on} ENABLE ALWAYS TRIGGER {name};\n"
        )
    }

    /// As [`TRIGGERS`] describes it.
    fn shape(&self) -> String {
        let bits = match self.event {
            "INSERT" => 4,
            "DELETE" => 8,
            "UPDATE" => 16,
            _ => 32,
        };
        let (old, new) = match self.by_row {
            true => ("", ""),
            false => (
                if self.tables.contains("old_rows") { "old_rows" } else { "" },
                if self.tables.contains("new_rows") { "new_rows" } else { "" },
            ),
        };
        let function = self.function.replace('"', "");
        format!("{} {function} {old} {new}", bits + i32::from(self.by_row))
    }
}

/// They run with the rights of their owner and the `search_path` of the writer, so every name and
/// operator in a body is qualified: setting the path would cost each statement that is captured
/// more than the rest of the function. Transition tables go before all other tables.
fn function(name: &str, body: &str) -> String {
    // No text in the body ends it.
    let quote = |number: u64| format!("$tidewire{number}$");
    let quote = (0..).map(quote).find(|quote| !body.contains(quote.as_str())).unwrap_or_default();
    format!(
        "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER\n    \
         AS {quote}{body}{quote};\n"
    )
}

/// Which key a row has, by the name that the row has.
fn key(table: &Table, capture: &Capture, row: &str) -> String {
    let part = |column: &String| {
        let value = format!("{row}.{}", identifier(column));
        let text = match table.form(column) {
            Some(Form::Hexadecimal) => format!("pg_catalog.encode({value}, 'hex')"),
            Some(Form::Escaped) => format!(
                "pg_catalog.replace(pg_catalog.replace({value}::pg_catalog.text, '%', '%25'), '/', '%2F')"
            ),
            Some(Form::Printed) | None => format!("{value}::pg_catalog.text"),
        };
        format!("coalesce({text}, '%_')")
    };
    let parts: Vec<String> = capture.columns.iter().map(part).collect();
    parts.join(" OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) ")
}

/// The array of the keys that a query has, each once; NULL where one is too long.
fn listed(settings: &Settings, table: &Table, capture: &Capture, query: &str) -> String {
    let max = settings.key_bytes_max;
    let is_printed = |column: &String| table.form(column) == Some(Form::Printed);
    let is_short = capture.columns.iter().all(is_printed)
        && capture.columns.len() * PRINTED_BYTES_MAX <= max as usize;
    match is_short {
        true => format!("ARRAY({query})"),
        false => format!(
            "(SELECT CASE WHEN pg_catalog.max(pg_catalog.octet_length(k.key)) \
             OPERATOR(pg_catalog.<=) {max}\n                        \
             THEN pg_catalog.array_agg(k.key) END FROM ({query}) AS k)"
        ),
    }
}

/// The branch of each event.
fn body([insert, update, delete, truncate]: [&str; 4]) -> String {
    let is = |event: &str| format!("IF TG_OP OPERATOR(pg_catalog.=) '{event}' THEN");
    format!(
        "\nBEGIN\n    {}\n{insert}    ELS{}\n{update}    ELS{}\n{delete}    ELSE\n{truncate}    \
         END IF;\n    RETURN NULL;\nEND\n",
        is("INSERT"),
        is("UPDATE"),
        is("DELETE"),
    )
}

/// One statement for each event, whatever the number of captures: a row of the log for each.
fn statement_body(settings: &Settings, table: &Table, captures: &[&Capture]) -> String {
    let log = format!("{}.log", identifier(&settings.schema));
    let max = settings.keys_max;
    let branch = |tables: &[&str], captures: &[&Capture]| {
        let row = |capture: &&Capture| {
            let source = literal(&capture.source);
            if capture.columns.is_empty() {
                return format!("({source}, {UNIT})");
            }
            let select = |rows: &&str| {
                format!("SELECT {} AS key FROM {rows} AS r", key(table, capture, "r"))
            };
            let query = match tables {
                [rows] => select(rows).replacen("SELECT", "SELECT DISTINCT", 1),
                _ => tables.iter().map(select).collect::<Vec<_>>().join(" UNION "),
            };
            let keys = listed(settings, table, capture, &query);
            format!("({source}, CASE WHEN c.n OPERATOR(pg_catalog.<=) {max} THEN {keys} END)")
        };
        let Some(first) = tables.first().filter(|_| !captures.is_empty()) else {
            return NOTHING.to_owned();
        };
        let rows: Vec<String> = captures.iter().map(row).collect();
        format!(
            "        INSERT INTO {log} (source, keys)\n            SELECT v.source, v.keys\n            \
             FROM (SELECT pg_catalog.count(*) AS n FROM (SELECT FROM {first} LIMIT {}) AS f) AS c\n            \
             CROSS JOIN LATERAL (VALUES\n                {}\n            ) AS v(source, keys)\n            \
             WHERE c.n OPERATOR(pg_catalog.>) 0;\n",
            u64::from(max) + 1,
            rows.join(",\n                "),
        )
    };
    let keyed: Vec<&Capture> =
        captures.iter().copied().filter(|capture| !capture.is_of_rows).collect();
    let whole = |capture: &&Capture| format!("({}, NULL)", literal(&capture.source));
    let whole: Vec<String> = captures.iter().map(whole).collect();
    body([
        &branch(&["new_rows"], captures),
        &branch(&["new_rows", "old_rows"], &keyed),
        &branch(&["old_rows"], captures),
        &format!("        INSERT INTO {log} (source, keys) VALUES {};\n", whole.join(", ")),
    ])
}

fn row_body(settings: &Settings, table: &Table, captures: &[&Capture]) -> String {
    let log = format!("{}.log", identifier(&settings.schema));
    let branch = |rows: &[&str], updates: bool| {
        let row = |capture: &&Capture| {
            let source = literal(&capture.source);
            if capture.columns.is_empty() {
                return format!("({source}, {UNIT})");
            }
            let keys: Vec<String> = rows.iter().map(|row| key(table, capture, row)).collect();
            let query = format!(
                "SELECT DISTINCT k.key FROM pg_catalog.unnest(ARRAY[{}]) AS k(key)",
                keys.join(", ")
            );
            format!("({source}, {})", listed(settings, table, capture, &query))
        };
        let of = captures.iter().filter(|capture| !(updates && capture.is_of_rows));
        let rows: Vec<String> = of.map(row).collect();
        if rows.is_empty() {
            return NOTHING.to_owned();
        }
        let rows = rows.join(",\n            ");
        format!("        INSERT INTO {log} (source, keys) VALUES\n            {rows};\n")
    };
    let [insert, update, delete] =
        [branch(&["NEW"], false), branch(&["NEW", "OLD"], true), branch(&["OLD"], false)];
    body([&insert, &update, &delete, NOTHING])
}

const NOTHING: &str = "        NULL;\n";
/// The one key of a source without columns.
const UNIT: &str = "'{\"\"}'::pg_catalog.text[]";
/// No part of a key that is printed as it is has more, with what follows it: a uuid.
const PRINTED_BYTES_MAX: usize = 37;

/// The text of a function without arguments that returns a trigger, as it has to be.
const SOURCE: &str = "
SELECT prosrc FROM pg_proc
WHERE oid = to_regproc($1) AND prosecdef AND proconfig IS NULL";

/// The triggers of relations: bits of the event and of rows, function, transition tables, whether
/// they always fire.
const TRIGGERS: &str = "
SELECT t.tgrelid, t.tgname::text,
    format('%s %s %s %s', t.tgtype, replace(n.nspname || '.' || p.proname, chr(34), ''),
        t.tgoldtable, t.tgnewtable),
    t.tgenabled = 'A'
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE t.tgrelid = ANY ($1::oid[]) AND NOT t.tgisinternal";

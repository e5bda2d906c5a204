//! Keys as text: what Rust writes and reads, PostgreSQL logs and SQLite logs is the same, by one
//! file that every language is tested with.

use rusqlite::Connection;
use serde_json::Value;
use tidewire_memo::{KeyPart, Source};
use tidewire_oplog::Oplog;
use tokio_postgres::types::ToSql;

use crate::cluster;
use crate::support::settings;

struct Case {
    parts: Vec<Part>,
    key: String,
}

struct Part {
    kind: String,
    value: Option<String>,
}

fn cases() -> Vec<Case> {
    let case = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let part = |part: &Value| Part { kind: text(&part[0]).unwrap(), value: text(&part[1]) };
        let parts = line["parts"].as_array().unwrap().iter().map(part).collect();
        Case { parts, key: text(&line["key"]).unwrap() }
    };
    include_str!("../../../../tests/fixtures/oplog/keys.jsonl").lines().map(case).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    Vec::<u8>::parse(hexadecimal).unwrap()
}

/// Writes a part and reads it back.
fn rust(part: &Part) -> String {
    fn check<P: KeyPart + PartialEq + std::fmt::Debug>(value: Option<P>) -> String {
        let mut text = String::new();
        value.write(&mut text);
        assert_eq!(Option::<P>::parse(&text), Some(value));
        text
    }
    let value = part.value.as_deref();
    match part.kind.as_str() {
        "integer" => check(value.map(|value| value.parse::<i64>().unwrap())),
        "boolean" => check(value.map(|value| value == "true")),
        "bytes" => check(value.map(bytes)),
        _ => check(value.map(str::to_owned)),
    }
}

#[test]
fn rust_writes_and_reads_them() {
    for case in cases() {
        let key: Vec<String> = case.parts.iter().map(rust).collect();
        assert_eq!(key.join("/"), case.key);
    }
}

#[tokio::test]
async fn postgresql_logs_them() {
    let config = cluster::database().await;
    let client = cluster::open(&config).await;
    for (number, case) in cases().iter().enumerate() {
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        let types = case.parts.iter().enumerate().map(|(at, part)| {
            columns.push(format!("c \"{at}"));
            let (kind, cast) = match part.kind.as_str() {
                "integer" => ("bigint", format!("${}::text::bigint", at + 1)),
                "boolean" => ("boolean", format!("${}::text::boolean", at + 1)),
                "bytes" => ("bytea", format!("decode(${}::text, 'hex')", at + 1)),
                "uuid" => ("uuid", format!("${}::text::uuid", at + 1)),
                _ => ("text", format!("${}::text", at + 1)),
            };
            values.push(cast);
            format!("\"c \"\"{at}\" {kind}")
        });
        let types = types.chain(["other integer".to_owned()]).collect::<Vec<_>>().join(", ");
        let table = format!("\"T'{number}\"");
        client.batch_execute(&format!("CREATE TABLE {table} ({types})")).await.unwrap();
        let source = Source::<()>::new("it's \\ a \"source\"");
        let log = Oplog::postgres(&config).settings(settings()).capture(&table, &source, columns);
        let oplog = log.start().await.unwrap();
        // That it made the triggers.
        oplog.published().await.unwrap();
        values.push("1".to_owned());
        let insert = format!("INSERT INTO {table} VALUES ({})", values.join(", "));
        let params: Vec<&(dyn ToSql + Sync)> =
            case.parts.iter().map(|part| &part.value as &(dyn ToSql + Sync)).collect();
        client.execute(&insert, &params).await.unwrap();
        let sql = "SELECT source, keys FROM tidewire.log ORDER BY xid DESC LIMIT 1";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), source.name());
        assert_eq!(row.get::<_, Option<Vec<String>>>(1), Some(vec![case.key.clone()]));
        oplog.stop().await;
    }
}

#[tokio::test]
async fn sqlite_logs_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.sqlite");
    let database = Connection::open(&path).unwrap();
    for (number, case) in cases().iter().enumerate() {
        // SQLite has no type for these; a program that keeps booleans as 0 and 1 has integers as
        // keys.
        if case.parts.iter().any(|part| part.kind == "boolean") {
            continue;
        }
        let columns: Vec<String> = (0..case.parts.len()).map(|at| format!("c \"{at}")).collect();
        let quoted = columns.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
        let types = quoted.chain(["other".to_owned()]).collect::<Vec<_>>().join(", ");
        let table = format!("T'{number}");
        database.execute_batch(&format!("CREATE TABLE \"{table}\" ({types})")).unwrap();
        let source = Source::<()>::new("it's \\ a \"source\"");
        let log = Oplog::sqlite(&path).settings(settings()).capture(&table, &source, columns);
        let oplog = log.start().await.unwrap();
        let values = case.parts.iter().map(|part| {
            let Some(value) = part.value.clone() else { return rusqlite::types::Value::Null };
            match part.kind.as_str() {
                "integer" => rusqlite::types::Value::Integer(value.parse().unwrap()),
                "bytes" => rusqlite::types::Value::Blob(bytes(&value)),
                _ => rusqlite::types::Value::Text(value),
            }
        });
        let values = values.chain([rusqlite::types::Value::Integer(1)]);
        let places = vec!["?"; case.parts.len() + 1].join(", ");
        let insert = format!("INSERT INTO \"{table}\" VALUES ({places})");
        database.execute(&insert, rusqlite::params_from_iter(values)).unwrap();
        let sql = "SELECT source, key FROM tidewire_log ORDER BY seq DESC LIMIT 1";
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        };
        let logged = database.query_row(sql, [], row).unwrap();
        assert_eq!(logged, (source.name().to_owned(), Some(case.key.clone())));
        oplog.stop().await;
    }
}

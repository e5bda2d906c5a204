//! Filling a database with made-up contacts, the same ones each time.
//!
//! All of it is one transaction and one `COPY`, as with SQLite; a database where ids up to `rows`
//! were ever given is left alone.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Instant;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio_postgres::Config;

use super::session::{connect, place, prepared};
use super::{Options, schema};
use crate::store::Progress;
use crate::store::names::Names;

/// Adds contacts until ids up to `rows` were given; returns how many it added.
///
/// # Errors
/// When the database cannot be reached or written; nothing is added then.
pub async fn fill(config: &Config, rows: u32, mut report: impl FnMut(Progress)) -> Result<u32> {
    if rows == 0 {
        return Ok(0);
    }
    let config = prepared(config, &Options::default())?;
    schema::prepare(&config).await?;
    add(&config, rows, &mut report).await.with_context(|| format!("filling {}", place(&config)))
}

async fn add(config: &Config, rows: u32, report: &mut dyn FnMut(Progress)) -> Result<u32> {
    let (mut client, _line) = connect(config).await?;
    let transaction = client.transaction().await?;
    // A fill takes as long as it takes.
    transaction
        .batch_execute("SET LOCAL statement_timeout = 0; LOCK contact IN SHARE ROW EXCLUSIVE MODE")
        .await?;
    let given = transaction
        .query_one("SELECT coalesce(max(id), 0), (SELECT is_called FROM contact_id_seq), (SELECT last_value FROM contact_id_seq) FROM contact", &[])
        .await?;
    let largest: i32 = given.get(0);
    let called: bool = given.get(1);
    let last: i64 = given.get(2);
    let given = i64::from(largest).max(if called { last } else { 0 });
    let given = u32::try_from(given).unwrap_or_default();
    if given >= rows {
        return Ok(0);
    }
    let started = Instant::now();
    let names = Names::new();
    let copy = transaction.copy_in("COPY contact (id, firstname, surname) FROM STDIN").await?;
    let mut copy = pin!(copy);
    let mut lines = String::new();
    for id in given + 1..=rows {
        let (first_name, surname) = names.of(id);
        writeln!(lines, "{id}\t{first_name}\t{surname}")?;
        if id % REPORT_EVERY_ROWS == 0 || id == rows {
            copy.send(Bytes::from(std::mem::take(&mut lines))).await?;
            let added = id - given;
            let elapsed = started.elapsed();
            report(Progress { done: id, rows, added, elapsed });
        }
    }
    copy.finish().await?;
    transaction.execute("SELECT setval('contact_id_seq', $1)", &[&i64::from(rows)]).await?;
    transaction.commit().await?;
    // So that the planner knows what is there before it is asked.
    client.batch_execute("ANALYZE contact").await?;
    Ok(rows - given)
}

const REPORT_EVERY_ROWS: u32 = 10_000;

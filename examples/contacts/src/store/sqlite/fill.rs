//! Filling a database with made-up contacts, the same ones each time.
//!
//! All of it is one transaction: when it is interrupted nothing was done, and the next start does
//! it anew. Ids count from 1; a database where ids up to `rows` were ever given is left alone, so
//! contacts that were deleted stay deleted.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, TransactionBehavior};

use super::{Options, schema};
use crate::store::Progress;
use crate::store::names::Names;

/// Adds contacts until ids up to `rows` were given; returns how many it added.
///
/// # Errors
/// When the database cannot be opened or written; nothing is added then.
pub fn fill(path: &Path, rows: u32, mut report: impl FnMut(Progress)) -> Result<u32> {
    let mut database = schema::open(path, Options::default().busy_timeout)?;
    let what = || format!("filling database {}", path.display());
    add(&mut database, rows, &mut report).with_context(what)
}

fn add(database: &mut Connection, rows: u32, report: &mut dyn FnMut(Progress)) -> Result<u32> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let given: u32 = transaction.query_row(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'contact'), 0)",
        [],
        |row| row.get(0),
    )?;
    if given >= rows {
        return Ok(0);
    }
    let started = Instant::now();
    let names = Names::new();
    let mut insert =
        transaction.prepare("INSERT INTO contact (id, firstname, surname) VALUES (?1, ?2, ?3)")?;
    for id in given + 1..=rows {
        let (first_name, surname) = names.of(id);
        insert.execute((id, first_name, surname))?;
        if id % REPORT_EVERY_ROWS == 0 || id == rows {
            let added = id - given;
            let elapsed = started.elapsed();
            report(Progress { done: id, rows, added, elapsed });
        }
    }
    drop(insert);
    transaction.commit()?;
    Ok(rows - given)
}

const REPORT_EVERY_ROWS: u32 = 10_000;

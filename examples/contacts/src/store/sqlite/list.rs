//! Several contacts: those with some ids, those of a page, or all, page by page.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rusqlite::{Connection, Row};
use tidewire::{Error, Result, Stream};

use super::reader::WeakReads;
use crate::proto::contacts::v1::Contact;

/// Up to `rows` contacts with ids over `after`, up to `last`.
pub(super) fn rows(
    database: &Connection,
    after: i32,
    last: i32,
    rows: u32,
) -> rusqlite::Result<Vec<Contact>> {
    let mut select = database.prepare_cached(
        "SELECT id, firstname, surname FROM contact WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3",
    )?;
    select.query_map((after, last, rows), contact)?.collect()
}

/// The contacts with these ids.
pub(super) fn with_ids(database: &Connection, ids: &[i32]) -> rusqlite::Result<Vec<Contact>> {
    let mut select = database.prepare_cached(
        "SELECT id, firstname, surname FROM contact \
         WHERE id IN (SELECT value FROM json_each(?1))",
    )?;
    select.query_map([json_array(ids)], contact)?.collect()
}

/// What `json_each` reads ids from: a statement has one parameter, however many there are.
pub(super) fn json_array(ids: &[impl ToString]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    format!("[{}]", ids.join(","))
}

fn contact(row: &Row<'_>) -> rusqlite::Result<Contact> {
    Ok(Contact {
        id: row.get(0)?,
        first_name: row.get(1)?,
        surname: row.get(2)?,
        ..Default::default()
    })
}

/// All contacts, up to the last one that is there now.
pub(super) async fn all(reads: WeakReads) -> Result<Stream<Contact>> {
    let last = |database: &Connection| {
        database
            .prepare_cached("SELECT coalesce(max(id), 0) FROM contact")?
            .query_row([], |row| row.get(0))
    };
    let last = reads.run(last).await?;
    let pages = stream::try_unfold(Some(i32::MIN), move |after| {
        let reads = reads.clone();
        async move {
            let Some(after) = after else { return Ok::<_, Error>(None) };
            let page = reads.run(move |database| rows(database, after, last, PAGE_ROWS)).await?;
            // A page that is not full is the last one.
            let next = page.last().filter(|_| page.len() == PAGE_ROWS as usize);
            let next = next.map(|contact| contact.id);
            Ok(Some((page, next)))
        }
    });
    let contacts = pages.map_ok(|page| stream::iter(page).map(Ok)).try_flatten();
    Ok(Stream::new(contacts))
}

/// How many contacts of a list are in memory at once.
const PAGE_ROWS: u32 = 500;

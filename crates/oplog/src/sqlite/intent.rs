//! [Intents](crate::intent) in the file: a row for each process that runs commands, and its pulse.
//!
//! While commands run, and a second longer, a process counts its row's `beat` up. Who polls the
//! file sees that, as it sees any commit. A beat that stays the same for too long is that of a dead
//! process: no clock is compared with that of another.
//!
//! Nobody can write while somebody else does. So whoever had to wait before it could remove a row
//! lets the process live on, once: it may have been kept from its beat. So does whoever stood still
//! itself, on a machine that was paused or had no processor for it: the others may have, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::poll::open_to_write;
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::intent::{LOST, NextStep};

/// The other processes' rows, as this one has seen them.
#[derive(Debug, Default)]
pub(super) struct LifeSigns {
    rows: Mutex<BTreeMap<i64, Sign>>,
    /// When this process last looked whether one is silent.
    looked: Mutex<Option<Instant>>,
    /// There is another row.
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Sign {
    beat: i64,
    /// Since when it has been this one, as far as is known.
    since: Instant,
    /// Its process was let live on.
    is_spared: bool,
}

/// A row that has said nothing for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SilentRow {
    id: i64,
    beat: i64,
    is_spared: bool,
}

impl LifeSigns {
    /// Takes all rows of the table, but for this process's own.
    fn see(&self, rows: &BTreeMap<i64, i64>, own: Option<i64>) {
        let mut known = self.rows.lock();
        known.retain(|id, _| rows.contains_key(id) && own != Some(*id));
        for (&id, &beat) in rows.iter().filter(|(id, _)| own != Some(**id)) {
            let is_same = known.get(&id).is_some_and(|sign| sign.beat == beat);
            if !is_same {
                known.insert(id, Sign { beat, since: Instant::now(), is_spared: false });
                self.changed.notify_one();
            }
        }
    }

    /// Reads the table, on the connection that polls.
    pub(super) fn read(&self, database: &Connection) -> rusqlite::Result<()> {
        self.see(&rows(database)?, None);
        Ok(())
    }

    fn silent(&self, own: Option<i64>) -> Vec<SilentRow> {
        let rows = self.rows.lock();
        let of_others = rows.iter().filter(|(id, _)| own != Some(**id));
        let silent = of_others.filter(|(_, sign)| sign.since.elapsed() >= SILENCE_MAX);
        silent
            .map(|(&id, sign)| SilentRow { id, beat: sign.beat, is_spared: sign.is_spared })
            .collect()
    }

    /// Lets the processes of these rows live on.
    fn spare(&self, silent: &[SilentRow]) {
        let mut rows = self.rows.lock();
        for row in silent {
            if let Some(sign) = rows.get_mut(&row.id) {
                (sign.since, sign.is_spared) = (Instant::now(), true);
            }
        }
    }

    /// Lets every process live on that was not let before.
    fn spare_all(&self) {
        for sign in self.rows.lock().values_mut().filter(|sign| !sign.is_spared) {
            (sign.since, sign.is_spared) = (Instant::now(), true);
        }
    }

    /// The file could not be written, by others perhaps no more than by this process.
    fn look_again(&self) {
        self.rows.lock().values_mut().for_each(|sign| sign.since = Instant::now());
    }

    /// Waits until a row has been silent for too long.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn until_silent(&self, own: Option<i64>) {
        loop {
            let since = {
                let rows = self.rows.lock();
                let of_others = rows.iter().filter(|(id, _)| own != Some(**id));
                of_others.map(|(_, sign)| sign.since).min()
            };
            let Some(since) = since else {
                self.changed.notified().await;
                continue;
            };
            let now = Instant::now();
            let looked = self.looked.lock().replace(now).unwrap_or(now).max(since);
            if now - looked >= 2 * BEAT {
                self.spare_all();
                continue;
            }
            match SILENCE_MAX.saturating_sub(now - since) {
                Duration::ZERO => return,
                left => {
                    _ = tokio::time::timeout(left.min(BEAT), self.changed.notified()).await;
                }
            }
        }
    }
}

/// Registers this process while commands run, and tells of others that died. For ever, on threads
/// for what blocks.
pub(super) async fn follow_intents(core: Arc<Core>, path: PathBuf, signs: Arc<LifeSigns>) {
    let mut own = None;
    let mut has_failed_to_tell = false;
    loop {
        let work = tokio::select! {
            biased;
            step = core.intents.next_step() => match step {
                NextStep::Register => Work::Register,
                NextStep::Remove => Work::Remove,
            },
            () = tokio::time::sleep(BEAT), if own.is_some() => Work::Beat,
            () = signs.until_silent(own) => Work::Bury,
        };
        let of_work = (path.clone(), Arc::clone(&signs));
        let done = spawn_blocking(move || {
            let (path, signs) = of_work;
            run(&path, &signs, work, own)
        });
        // The runtime is shutting down.
        let Ok(done) = done.await else { return };
        if work == Work::Bury {
            has_failed_to_tell = end_telling(&core, &signs, has_failed_to_tell, done.map(|_| ()));
            continue;
        }
        own = settle(&core, work, own, done);
    }
}

/// What is to be done in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Register,
    Remove,
    Beat,
    /// Remove the rows of dead processes, and tell of them.
    Bury,
}

/// Does it; returns the number of this process's row.
fn run(
    path: &Path,
    signs: &LifeSigns,
    work: Work,
    own: Option<i64>,
) -> rusqlite::Result<Option<i64>> {
    let mut database = open_to_write(path)?;
    // No process outlives a crash of the system, so in WAL mode no beat waits for a disk that is
    // busy (https://www.sqlite.org/pragma.html#pragma_synchronous).
    database.pragma_update(None, "synchronous", "NORMAL")?;
    match (work, own) {
        (Work::Register, _) => register(&database).map(Some),
        (Work::Beat, Some(id)) => match database.execute(COUNT_UP, [id])? {
            0 => {
                // Somebody took it for dead, or it is another file.
                tracing::info!("{REGISTERED_ANEW}");
                register(&database).map(Some)
            }
            _ => Ok(Some(id)),
        },
        (Work::Remove, Some(id)) => {
            database.execute(REMOVE, [id])?;
            Ok(None)
        }
        (Work::Bury, own) => bury(&mut database, signs, own).map(|()| own),
        (Work::Beat | Work::Remove, None) => Ok(None),
    }
}

/// Takes the result of a step.
fn settle(
    core: &Core,
    work: Work,
    own: Option<i64>,
    done: rusqlite::Result<Option<i64>>,
) -> Option<i64> {
    let error = match done {
        Ok(own) => {
            match work {
                Work::Register => core.intents.registered(),
                Work::Remove => core.intents.removed(),
                Work::Beat | Work::Bury => {}
            }
            return own;
        }
        Err(error) => error,
    };
    let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
    match work {
        // Nobody could take its row away either.
        Work::Beat if is_busy => return own,
        Work::Remove if is_busy => {
            core.intents.keep();
            return own;
        }
        _ => {}
    }
    let text = "the change log cannot be written";
    core.intents.refuse(&Error::new(ErrorKind::Database, text).because(error));
    None
}

/// Takes the result of telling that others died; whether it failed, which is said once.
fn end_telling(
    core: &Core,
    signs: &LifeSigns,
    has_failed: bool,
    done: rusqlite::Result<()>,
) -> bool {
    let Err(error) = done else {
        // This process hears of it by its next poll, as others do.
        core.wanted.notify_one();
        return false;
    };
    signs.look_again();
    let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
    if !is_busy && !has_failed {
        tracing::warn!(%error, "it cannot be told that another process died in a command");
    }
    !is_busy
}

fn register(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row(REGISTER, [], |row| row.get(0))
}

fn rows(database: &Connection) -> rusqlite::Result<BTreeMap<i64, i64>> {
    let mut select = database.prepare_cached("SELECT id, beat FROM tidewire_intent")?;
    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Removes the rows of dead processes and tells every process by the log.
fn bury(database: &mut Connection, signs: &LifeSigns, own: Option<i64>) -> rusqlite::Result<()> {
    // Polls may be further apart than beats.
    signs.see(&rows(database)?, own);
    let silent = signs.silent(own);
    if silent.is_empty() {
        return Ok(());
    }
    let begun = Instant::now();
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if begun.elapsed() >= WAIT_MAX && silent.iter().any(|row| !row.is_spared) {
        signs.spare(&silent);
        return Ok(());
    }
    let mut is_dead = false;
    for SilentRow { id, beat, .. } in silent {
        is_dead |= transaction.execute(BURY, [id, beat])? > 0;
    }
    if is_dead {
        transaction.execute("INSERT INTO tidewire_log (source) VALUES (?1)", [LOST])?;
        tracing::warn!("{PROCESS_DIED}");
    }
    transaction.commit()
}

const REGISTER: &str = "INSERT INTO tidewire_intent (id, beat) VALUES (random(), 0) RETURNING id";
const COUNT_UP: &str = "UPDATE tidewire_intent SET beat = beat + 1 WHERE id = ?1";
const REMOVE: &str = "DELETE FROM tidewire_intent WHERE id = ?1";
const BURY: &str = "DELETE FROM tidewire_intent WHERE id = ?1 AND beat = ?2";

/// The pause between beats.
const BEAT: Duration = Duration::from_millis(500);
/// For how long a beat may stay the same: a process that is killed is missed within 2 seconds.
const SILENCE_MAX: Duration = Duration::from_millis(1500);
/// Whoever waits for longer to write does so behind a long transaction.
const WAIT_MAX: Duration = Duration::from_millis(250);
const REGISTERED_ANEW: &str = "this process was taken for dead while commands of its programs ran: other \
                               processes have dropped more than had to go";
const PROCESS_DIED: &str = "a process died while commands of its programs ran; in every process pages with \
                            tags, and what depends on sources that only programs change, are stale";

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    /// Lets time pass as it does for a process that is not kept from anything.
    async fn pass(time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            tokio::time::advance(BEAT / 10).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_stood_still_itself_lets_the_others_live_on_once() {
        let signs = Arc::new(LifeSigns::default());
        signs.see(&BTreeMap::from([(1, 7)]), None);
        let waits = Arc::clone(&signs);
        let mut silent = tokio::spawn(async move { waits.until_silent(None).await });
        pass(BEAT).await;
        // All stood still.
        tokio::time::advance(2 * SILENCE_MAX).await;
        pass(SILENCE_MAX - BEAT).await;
        assert!((&mut silent).now_or_never().is_none(), "it had no time to beat");
        pass(BEAT * 2).await;
        (&mut silent).now_or_never().expect("it had time enough").unwrap();

        let waits = Arc::clone(&signs);
        signs.rows.lock().values_mut().for_each(|sign| sign.since = Instant::now());
        let mut silent = tokio::spawn(async move { waits.until_silent(None).await });
        pass(BEAT).await;
        tokio::time::advance(2 * SILENCE_MAX).await;
        pass(BEAT).await;
        (&mut silent)
            .now_or_never()
            .expect("a machine that stops often keeps nobody alive")
            .unwrap();
    }
}

//! Finds a program that does nothing any more, on a machine of any load.
//!
//! A deadlock is told from a busy machine by what the threads do: in a deadlock all of them sleep, again
//! and again; one that may run and gets no processor does not. A loop without end is told by the processor
//! time that it takes. Where the system does not say, only a long silence counts.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::world::HEARTBEAT;

/// Looks at the process in which all threads but the caller's sleep.
const DEADLOCKED_AFTER: u32 = 6;
/// Processor time, in ticks of ten milliseconds, without anything done.
const LOOPS_AFTER: u64 = 2_000;
/// Where nothing else is known.
const SILENT_AFTER: Duration = Duration::from_secs(120);

/// Calls `stuck` once nothing happens any more; looks so often.
pub(super) fn watch_over(every: Duration, stuck: fn()) {
    std::thread::spawn(move || {
        let mut quiet = Quiet::begin();
        loop {
            std::thread::park_timeout(every);
            if HEARTBEAT.load(SeqCst) != quiet.heartbeat {
                quiet = Quiet::begin();
            } else if quiet.is_stuck() {
                stuck();
            }
        }
    });
}

/// A time in which nothing was done.
struct Quiet {
    heartbeat: u64,
    since: Instant,
    ticks: u64,
    asleep: u32,
}

impl Quiet {
    fn begin() -> Self {
        let heartbeat = HEARTBEAT.load(SeqCst);
        Self { heartbeat, since: Instant::now(), ticks: ticks().unwrap_or(0), asleep: 0 }
    }

    fn is_stuck(&mut self) -> bool {
        let (Some(ticks), Some(running)) = (ticks(), running()) else {
            return self.since.elapsed() > SILENT_AFTER;
        };
        // This thread runs.
        self.asleep = if running <= 1 { self.asleep + 1 } else { 0 };
        self.asleep >= DEADLOCKED_AFTER || ticks - self.ticks > LOOPS_AFTER
    }
}

/// What follows the name of a process or thread in its `stat`.
fn fields(path: &std::path::Path) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

/// The processor time of this process.
fn ticks() -> Option<u64> {
    let fields = fields("/proc/self/stat".as_ref())?;
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// How many threads of this process run, or would.
fn running() -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let stats = threads.filter_map(|thread| fields(&thread.ok()?.path().join("stat")));
    Some(stats.filter(|fields| fields[0] != "S").count())
}

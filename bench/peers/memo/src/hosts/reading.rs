//! Readers of the host that reads, and what they count.

use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use super::board::{Board, COUNT, clock};
use crate::cases::Way;
use crate::random::Random;

/// Calls under way at once for each thread that reads.
const READERS_A_THREAD: usize = 20;
/// Reads between two looks at the time.
const READS: usize = 16;
/// A reader gives way after this time, whatever a read costs: what a host hears of is dealt with
/// soon.
const TURN: Duration = Duration::from_micros(5);
/// A stale answer that comes later than this after the write is told of apart.
const LATE: Duration = Duration::from_millis(100);

/// What becomes of what is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is counted.
    Warming,
    Counted,
    /// Nothing is written any more; only how long answers stay stale is looked at.
    Settling,
    Over,
}

/// What reads came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadCounts {
    /// With a name that was written, stale ones too.
    pub(super) answered: u64,
    /// Older than what was acknowledged before the read began.
    pub(super) stale: u64,
    /// Of these, longer after the write than [`LATE`].
    pub(super) late: u64,
    /// A name that nobody wrote, or another user's.
    pub(super) wrong: u64,
    pub(super) failed: u64,
}

impl AddAssign for ReadCounts {
    fn add_assign(&mut self, more: Self) {
        self.answered += more.answered;
        self.stale += more.stale;
        self.late += more.late;
        self.wrong += more.wrong;
        self.failed += more.failed;
    }
}

/// What a measurement came to.
pub(super) struct Counts {
    pub(super) reads: ReadCounts,
    /// Acknowledged while reads were counted.
    pub(super) writes: u64,
    /// Seconds from the acknowledgement of these writes to the last answer without them.
    pub(super) stale_p50: f64,
    pub(super) stale_p99: f64,
}

/// The readers of a host.
pub(super) struct Readers<W> {
    host: Arc<ReadingHost<W>>,
    tasks: JoinSet<ReadCounts>,
}

struct ReadingHost<W> {
    way: W,
    judge: Judge,
    phase: AtomicU8,
    /// The first failure, in words.
    failure: Mutex<Option<String>>,
}

impl<W: Way> Readers<W> {
    /// Reads everything once, and then without a rest.
    pub(super) async fn start(way: W, board: Board) -> Result<Self> {
        for id in 1..=COUNT as i64 {
            way.get(id, |_| ()).await?;
        }
        let host = Arc::new(ReadingHost {
            way,
            judge: Judge::new(board),
            phase: AtomicU8::new(Phase::Warming as u8),
            failure: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for seed in 0..READERS_A_THREAD * super::reading_threads() {
            let host = Arc::clone(&host);
            tasks.spawn(async move { host.read(Random::of(seed as u64)).await });
        }
        Ok(Self { host, tasks })
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.host.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Ends the reading; `counted` is when reads were counted.
    pub(super) async fn end(mut self, counted: Range<u64>) -> Result<Counts> {
        self.enter(Phase::Over);
        let mut reads = ReadCounts::default();
        while let Some(read) = self.tasks.join_next().await {
            reads += read?;
        }
        if reads.answered == 0 {
            let failure = self.host.failure.lock().unwrap_or_else(PoisonError::into_inner);
            bail!("no read was answered: {}", failure.as_deref().unwrap_or("all names are wrong"));
        }
        let delays = self.host.judge.delays(&counted);
        let of = |percent| percentile(&delays, percent) as f64 / 1e9;
        Ok(Counts { reads, writes: delays.len() as u64, stale_p50: of(50), stale_p99: of(99) })
    }
}

impl<W: Way> ReadingHost<W> {
    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    async fn read(&self, mut random: Random) -> ReadCounts {
        let mut all = ReadCounts::default();
        while !self.is_in(Phase::Over) {
            let is_counted = self.is_in(Phase::Counted);
            let mut counts = ReadCounts::default();
            let until = Instant::now() + TURN;
            loop {
                for _ in 0..READS {
                    self.look(random.below(COUNT), &mut counts).await;
                }
                if Instant::now() >= until {
                    break;
                }
            }
            if is_counted {
                all += counts;
            }
            tokio::task::yield_now().await;
        }
        all
    }

    async fn look(&self, user: usize, counts: &mut ReadCounts) {
        let least = self.judge.board.acknowledged(user);
        match self.way.get(user as i64 + 1, |name| name.parse().ok()).await {
            Ok(name) => self.judge.judge(user, least, name, counts),
            Err(error) => {
                counts.failed += 1;
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }
}

/// Says what an answer is worth.
struct Judge {
    board: Board,
    /// Of each version of each user, when an answer without it was last given after it was
    /// acknowledged; 0 is never.
    last: Vec<AtomicU64>,
}

impl Judge {
    fn new(board: Board) -> Self {
        let last = (0..COUNT * board.versions).map(|_| AtomicU64::new(0)).collect();
        Self { board, last }
    }

    /// Takes the number of an answer that began after `least` was acknowledged.
    fn judge(&self, user: usize, least: u64, name: Option<u64>, counts: &mut ReadCounts) {
        let count = COUNT as u64;
        let version = name.filter(|name| name % count == user as u64).map(|name| name / count);
        let Some(version) = version else {
            counts.wrong += 1;
            return;
        };
        if version > least && version > self.board.last_version(user) {
            counts.wrong += 1;
            return;
        }
        counts.answered += 1;
        if version < least {
            self.stale(user, version + 1..least + 1, counts);
        }
    }

    fn stale(&self, user: usize, missed: Range<u64>, counts: &mut ReadCounts) {
        let now = clock();
        counts.stale += 1;
        let mut oldest = now;
        for version in missed {
            if let Some(at) = self.board.acknowledged_at(user, version) {
                oldest = oldest.min(at);
                self.last[user * self.board.versions + version as usize]
                    .fetch_max(now, Ordering::Relaxed);
            }
        }
        counts.late += u64::from(Duration::from_nanos(now - oldest) > LATE);
    }

    /// By write that was acknowledged in this time, nanoseconds until the last answer without it;
    /// in order.
    fn delays(&self, acknowledged: &Range<u64>) -> Vec<u64> {
        let mut delays = Vec::new();
        for user in 0..COUNT {
            for version in 1..=self.board.acknowledged(user) {
                let at = self.board.acknowledged_at(user, version);
                let Some(at) = at.filter(|at| acknowledged.contains(at)) else { continue };
                let last = &self.last[user * self.board.versions + version as usize];
                delays.push(last.load(Ordering::Relaxed).saturating_sub(at));
            }
        }
        delays.sort_unstable();
        delays
    }
}

/// Of values in order.
fn percentile(values: &[u64], percent: usize) -> u64 {
    let last = values.len().saturating_sub(1);
    values.get((last * percent).div_ceil(100)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge() -> Judge {
        let folder = tempfile::tempdir().unwrap();
        Judge::new(Board::make(&folder.path().join("board"), 0.0).unwrap())
    }

    /// What an answer of user 7 comes to.
    fn judged(judge: &Judge, name: Option<u64>) -> ReadCounts {
        let mut counts = ReadCounts::default();
        judge.judge(7, judge.board.acknowledged(7), name, &mut counts);
        counts
    }

    #[test]
    fn an_answer_is_new_stale_or_none() {
        let judge = judge();
        let begun = clock();
        for _ in 0..2 {
            let version = judge.board.ask(7).unwrap();
            judge.board.acknowledge(7, version);
        }
        let version = judge.board.ask(7).unwrap();
        let answered = ReadCounts { answered: 1, ..ReadCounts::default() };
        let wrong = ReadCounts { wrong: 1, ..ReadCounts::default() };
        assert_eq!(judged(&judge, Some(2_007)), answered);
        // It may be there before its writer hears of it.
        assert_eq!(judged(&judge, Some(version * 1_000 + 7)), answered);
        assert_eq!(judged(&judge, Some(4_007)), wrong);
        assert_eq!(judged(&judge, Some(2_008)), wrong);
        assert_eq!(judged(&judge, None), wrong);
        assert_eq!(judge.delays(&(begun..clock() + 1)), [0, 0]);
        let stale = judged(&judge, Some(1_007));
        assert_eq!((stale.answered, stale.stale), (1, 1));
        let delays = judge.delays(&(begun..clock() + 1));
        assert!(delays.len() == 2 && delays[0] == 0 && delays[1] > 0, "{delays:?}");
        assert!(judge.delays(&(0..begun)).is_empty());
    }

    #[test]
    fn a_percentile_is_a_value_that_as_many_do_not_exceed() {
        let values: Vec<u64> = (0..=100).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (50, 99));
        assert_eq!((percentile(&[1, 9], 99), percentile(&[], 99)), (9, 0));
    }
}

//! What was acknowledged and what was read, and which of it must not be.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// All that happened so far.
pub(crate) struct History {
    lease: Duration,
    cells: Vec<Mutex<Cell>>,
    reads: AtomicU64,
    writes: AtomicU64,
    with_token: AtomicU64,
    pub(crate) violations: AtomicU64,
}

struct Cell {
    /// The highest value acknowledged by then, in the order of time.
    acknowledged: Vec<(Instant, u64)>,
    /// The highest value that each host gave to a request that has ended.
    given: Vec<u64>,
}

/// A read that has begun.
pub(crate) struct OpenRead {
    at: Instant,
    host: usize,
    cell: u64,
    of_token: u64,
    given: u64,
}

impl History {
    pub(crate) fn new(cells: u64, hosts: usize, lease: Duration) -> Self {
        let cell = |_| Mutex::new(Cell { acknowledged: Vec::new(), given: vec![0; hosts] });
        Self {
            lease,
            cells: (0..cells).map(cell).collect(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            with_token: AtomicU64::new(0),
            violations: AtomicU64::new(0),
        }
    }

    fn cell(&self, cell: u64) -> std::sync::MutexGuard<'_, Cell> {
        self.cells[usize::try_from(cell).unwrap()].lock().unwrap()
    }

    pub(crate) fn acknowledged(&self, cell: u64, value: u64) {
        self.writes.fetch_add(1, SeqCst);
        let mut cell = self.cell(cell);
        let highest = cell.acknowledged.last().map_or(0, |(_, value)| *value);
        cell.acknowledged.push((Instant::now(), value.max(highest)));
    }

    pub(crate) fn begin(&self, host: usize, cell: u64, of_token: u64) -> OpenRead {
        let given = self.cell(cell).given[host];
        OpenRead { at: Instant::now(), host, cell, of_token, given }
    }

    /// A host that was started anew begins anew with promise 4.
    pub(crate) fn check(&self, begun: &OpenRead, value: u64, same_host: bool) {
        self.reads.fetch_add(1, SeqCst);
        self.with_token.fetch_add(u64::from(begun.of_token > 0), SeqCst);
        let mut cell = self.cell(begun.cell);
        let old = begun.at.checked_sub(self.lease).unwrap();
        let before = cell.acknowledged.partition_point(|(at, _)| *at < old);
        let of_lease = before.checked_sub(1).map_or(0, |last| cell.acknowledged[last].1);
        if same_host {
            let given = &mut cell.given[begun.host];
            *given = (*given).max(value);
        }
        drop(cell);
        let given = if same_host { begun.given } else { 0 };
        for (promise, least) in [(2, begun.of_token), (4, given), (5, of_lease)] {
            if value < least {
                let OpenRead { cell, host, .. } = begun;
                let text =
                    format!("promise {promise}: cell {cell}, host {host}: {value} after {least}");
                self.violated(&text);
            }
        }
    }

    pub(crate) fn violated(&self, text: &str) {
        if self.violations.fetch_add(1, SeqCst) < 20 {
            println!("VIOLATION {text}");
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [reads, with_token, writes, violations] =
            [&self.reads, &self.with_token, &self.writes, &self.violations]
                .map(|it| it.load(SeqCst));
        write!(
            f,
            "reads {reads} ({with_token} with a token), writes {writes}, violations {violations}"
        )
    }
}

/// Numbers that look random, the same for a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

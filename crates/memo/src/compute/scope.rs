//! Capture in a spawned task.
//!
//! A task that a computation spawns runs on another thread, where the ambient frame is not set.
//! [`scope`] gives the task a frame of its own for the same node and hands over every read at once, so
//! the computation depends on it however the task sends its answer. What a task reads after its
//! computation was published becomes a dependency late; if it has changed by then, the value is stale.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::compute::capture::{Frame, FrameGuard, MissedKey, PolledBy, current};
use crate::compute::own_runs;
use crate::graph::ambient::Ambient;
use crate::graph::audits::{self, AuditGuard};
use crate::graph::late::{ClosedVersion, late};
use crate::graph::unkept::{Unkept, UnkeptReads};
use crate::graph::validate::{Record, Taint};
use crate::graph::{Shared, relief};
use crate::memory::depth;
use crate::memory::sync::{Mutex, MutexGuard};
use crate::store::slots::Id;

/// Where scoped tasks of one attempt leave what they read.
#[derive(Default)]
pub(crate) struct ScopedReads {
    state: Mutex<Reads>,
}

/// See [`ScopedReads::closing`].
pub(crate) struct ClosingReads<'a>(MutexGuard<'a, Reads>);

/// What tasks have read since it was taken last.
#[derive(Default)]
pub(crate) struct TakenReads {
    pub(crate) records: Vec<Record>,
    /// What that was made of that is not kept.
    pub(crate) unkept: Vec<Arc<UnkeptReads>>,
    /// Whether the attempt must not be published.
    pub(crate) taint: Taint,
}

#[derive(Default)]
struct Reads {
    new: TakenReads,
    /// What is known of all of it.
    has_read: bool,
    taint: Taint,
    /// See [`Frame::asks`].
    open: i32,
    missed: HashSet<MissedKey>,
    stage: Stage,
}

/// How far the attempt is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Its value was published: what comes from now on comes late.
    Closed(ClosedVersion),
    /// Nothing was made of it that is kept, so that nothing depends on what tasks read.
    Over,
}

/// A share of what tasks of an attempt have read. That of the function is dropped when the attempt is over.
#[derive(Default)]
pub(crate) struct Adopted {
    reads: Arc<ScopedReads>,
    is_tasks: bool,
}

impl Adopted {
    /// That of a task.
    fn of_task(&self) -> Self {
        Self { reads: self.reads.clone(), is_tasks: true }
    }
}

impl std::ops::Deref for Adopted {
    type Target = ScopedReads;

    fn deref(&self) -> &ScopedReads {
        &self.reads
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if self.is_tasks {
            return;
        }
        let mut reads = self.reads.state.lock();
        if reads.stage == Stage::Open {
            reads.stage = Stage::Over;
            let left = (std::mem::take(&mut reads.new), std::mem::take(&mut reads.missed));
            drop(reads);
            drop(left);
        }
    }
}

impl ScopedReads {
    pub(crate) fn take(&self) -> TakenReads {
        std::mem::take(&mut self.state.lock().new)
    }

    /// Why what was made of it so far is not kept, taken or not.
    pub(crate) fn taint(&self) -> Taint {
        self.state.lock().taint
    }

    /// Whether anything was read so far, taken or not.
    pub(crate) fn has_read(&self) -> bool {
        self.state.lock().has_read
    }

    /// A task begins, where so much was read.
    fn begin(&self, has_read: bool, taint: Taint) {
        let mut reads = self.state.lock();
        reads.has_read |= has_read;
        reads.taint = reads.taint.or(taint);
    }

    /// Holds up whoever reads, until the value is published or not; `None` when not everything was taken.
    /// To be asked under the graph lock, in the hold that publishes.
    pub(crate) fn closing(&self) -> Option<ClosingReads<'_>> {
        let reads = self.state.lock();
        let is_taken = reads.new.records.is_empty() && reads.new.taint == Taint::default();
        is_taken.then_some(ClosingReads(reads))
    }

    pub(crate) fn count_open(&self, more: i32) {
        self.state.lock().open += more;
    }

    /// A task looked for what is not in memory.
    pub(crate) fn misses(&self, graph: &'static Shared, node: Id, key: MissedKey) {
        let stage = {
            let mut reads = self.state.lock();
            if reads.stage == Stage::Open {
                reads.missed.insert(key);
            }
            reads.stage
        };
        // Nobody will tell that it is there.
        if let Stage::Closed(closed) = stage {
            late(graph, node, Err(Taint::UNTRACKED), closed);
        }
    }

    pub(crate) fn makes_good(&self, key: MissedKey) {
        self.state.lock().missed.remove(&key);
    }

    /// Adds a read, or a taint; returns how far the attempt was.
    pub(crate) fn add(
        &self,
        graph: &'static Shared,
        node: Id,
        read: Result<Record, Box<Unkept>>,
    ) -> Stage {
        let (read, made_of) = match read {
            Ok(record) => (Ok(record), None),
            Err(unkept) => (Err(unkept.taint), unkept.reads),
        };
        let stage = {
            let mut reads = self.state.lock();
            reads.has_read |= read.is_ok();
            reads.taint = reads.taint.or(read.err().unwrap_or_default());
            if reads.stage == Stage::Open {
                match read {
                    Ok(record) => reads.new.records.push(record),
                    Err(taint) => reads.new.taint = reads.new.taint.or(taint),
                }
                made_of.into_iter().for_each(|made_of| made_of.add(&mut reads.new.unkept));
            }
            reads.stage
        };
        // What a task changes late marks the value by itself.
        let counts = read.err().is_none_or(Taint::is_any);
        if let Stage::Closed(closed) = stage
            && counts
        {
            late(graph, node, read, closed);
        }
        stage
    }
}

impl ClosingReads<'_> {
    /// How many questions of tasks are open, less what the function waited for.
    pub(crate) fn open(&self) -> i32 {
        self.0.open
    }

    /// Whether tasks looked for what they did not find.
    pub(crate) fn has_missed(&self) -> bool {
        !self.0.missed.is_empty()
    }

    /// The value was published: what comes from now on comes late.
    pub(crate) fn close(mut self, start_tick: u64, version: u64, announces: bool) {
        self.0.stage = Stage::Closed(ClosedVersion { start_tick, version, announces });
    }
}

/// Wraps a future so that it can be spawned by a memoized function and is still captured.
///
/// Outside of a computation it does nothing.
///
/// ```no_run
/// # use tidewire_memo::{Source, scope};
/// # fn spawn<F: Future>(f: F) -> F { f }
/// # async fn example(rows: Source<i32>) {
/// let task = spawn(scope(async move { rows.read(&1) }));
/// task.await;
/// # }
/// ```
pub fn scope<F: Future>(future: F) -> ScopedFuture<F> {
    let frame = current().map(|frame| {
        let adopted = frame.adopted.get_or_init(Adopted::default);
        adopted.begin(!frame.records().is_empty(), frame.taint());
        let frame = ScopedFrame(Frame::scoped(frame, adopted.of_task()));
        (frame, Ambient::current(), Outer(own_runs::running()))
    });
    ScopedFuture { frame, is_audit: audits::is_polled(), future }
}

/// The future of [`scope`].
#[derive(Debug)]
pub struct ScopedFuture<F> {
    frame: Option<(ScopedFrame, Ambient, Outer)>,
    /// Whether it was begun by a run that looks at a hit, which is nobody's computation.
    is_audit: bool,
    future: F,
}

struct ScopedFrame(Frame);

/// The runs of one who writes on behalf of which a task runs.
struct Outer(own_runs::Running);

impl std::fmt::Debug for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outer")
    }
}

// SAFETY: the frame is private to this future and only touched through `&mut self` of its `poll`.
unsafe impl Send for ScopedFrame {}
// SAFETY: no method takes `&ScopedFrame`.
unsafe impl Sync for ScopedFrame {}

impl std::fmt::Debug for ScopedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScopedFrame")
    }
}

impl<F: Future> Future for ScopedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is structurally pinned: never moved out of, and this type has no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let _audit = this.is_audit.then(AuditGuard::new);
        let Some((scoped, ambient, Outer(runs))) = &mut this.frame else {
            return future.poll(context);
        };
        let polled_by = current();
        let is_others = |by: &&Frame| by.asker.get() != scoped.0.asker.get();
        let polled = {
            let _by = polled_by.filter(is_others).map(|by| PolledBy::new(&scoped.0, by));
            let _ambient = ambient.enter_from_elsewhere();
            let _inside = own_runs::Inside::new(runs);
            let _entered = FrameGuard::new(Some(&scoped.0));
            future.poll(context)
        };
        match polled_by {
            // Another computation than its own depends on what it does not know, also where it does not
            // wait for it.
            Some(by) if is_others(&by) => by.add_taint(Taint::UNTRACKED),
            Some(by) if polled.is_ready() => by.take_over(),
            _ => {}
        }
        if depth::is_outside() {
            // No call looks after what is read when its run is over.
            relief::relieve_after(scoped.0.graph, scoped.0.node);
        }
        polled
    }
}

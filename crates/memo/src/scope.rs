//! Capture in a spawned task.
//!
//! A task that a computation spawns runs on another thread, where the ambient frame is not set.
//! [`scope`] gives the task a frame of its own for the same node and hands over what it read after
//! every poll, so the computation that awaits the task depends on it. What a task reads after its
//! computation was published is ignored and counted.
#![allow(unsafe_code)]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::capture::{Entered, Frame, Record, current};
use crate::sync::Mutex;

/// Where scoped tasks of one attempt leave what they read.
pub(crate) struct Adopted {
    state: Mutex<Reads>,
}

#[derive(Default)]
struct Reads {
    records: Vec<Record>,
    tainted: bool,
    closed: bool,
}

impl Adopted {
    /// Ends the adoption and returns what was read, and whether the attempt must not be published.
    pub(crate) fn close(&self) -> (Vec<Record>, bool) {
        let mut reads = self.state.lock();
        reads.closed = true;
        (std::mem::take(&mut reads.records), reads.tainted)
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
pub fn scope<F: Future>(future: F) -> Scoped<F> {
    let frame = current().map(|frame| {
        let adopted =
            frame.adopted.get_or_init(|| Arc::new(Adopted { state: Mutex::new(Reads::default()) }));
        ScopedFrame { frame: Frame::new(frame.graph, frame.node), adopted: adopted.clone() }
    });
    Scoped { frame, future }
}

/// The future of [`scope`].
#[derive(Debug)]
pub struct Scoped<F> {
    frame: Option<ScopedFrame>,
    future: F,
}

struct ScopedFrame {
    frame: Frame,
    adopted: Arc<Adopted>,
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

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is structurally pinned: never moved out of, and this type has no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let Some(scoped) = &mut this.frame else { return future.poll(context) };
        let polled = {
            let _entered = Entered::new(Some(&scoped.frame));
            future.poll(context)
        };
        scoped.hand_over();
        polled
    }
}

impl ScopedFrame {
    fn hand_over(&mut self) {
        let records = self.frame.records();
        let tainted = self.frame.is_tainted();
        if records.is_empty() && !tainted {
            return;
        }
        let late = {
            let mut reads = self.adopted.state.lock();
            if !reads.closed {
                reads.records.extend_from_slice(records);
                reads.tainted |= tainted;
            }
            reads.closed
        };
        if late {
            self.frame.graph.core.lock().stats.late_reads += records.len() as u64;
        }
        self.frame.reset();
    }
}

//! Runs whose results are not kept, in the order of reads that holds for values that are.
//!
//! What such a run reads of sources is noted only to know which writes it may have seen: its result is held
//! until those are announced; see [`crate::graph::order`]. Values of memos are held by themselves.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::compute::capture::{self, Frame};
use crate::graph::order::Hold;
use crate::graph::{Graph, Shared, relief};
use crate::memory::{depth, sync};

/// What a run reads whose result is not memoized, so that it can be held as a value is: until every write
/// that has begun by its end, of a key that it read, is announced. Nobody who asks later is then given an
/// older state from memory.
///
/// Who writes himself waits for no write, neither his own nor another's; who that is is whoever called
/// [`OrderedReads::new`]. Inside a memoized function
/// it notes nothing: there the same holds for the function's value. What tasks that the run spawns
/// read is not seen.
///
/// ```
/// use tidewire_memo::{Graph, OrderedReads, Source};
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let rows = Source::<i32>::new_in(&graph, "rows");
/// let run = async move {
///     rows.read(&1);
///     "row 1" // a database would be asked here
/// };
/// assert_eq!(OrderedReads::new(&graph).follow(run).await, "row 1");
/// # })
/// ```
pub struct OrderedReads {
    shared: &'static Shared,
    /// `None` inside of a computation.
    frame: Option<ReadsFrame>,
}

/// The future of [`OrderedReads::follow`].
pub struct InOrder<F: Future> {
    reads: OrderedReads,
    future: F,
    held: Option<(F::Output, Hold)>,
}

struct ReadsFrame(Frame);

// SAFETY: the frame is private to its owner and only touched through `&mut self`.
unsafe impl Send for ReadsFrame {}
// SAFETY: no method takes `&ReadsFrame`.
unsafe impl Sync for ReadsFrame {}

impl OrderedReads {
    /// Of sources of this graph.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let is_computing = capture::current().is_some();
        let frame = || ReadsFrame(Frame::alone(graph.shared, capture::asker()));
        Self { shared: graph.shared, frame: (!is_computing).then(frame) }
    }

    /// Notes what is read meanwhile.
    #[inline]
    pub fn note<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let _noting = self.frame.as_ref().map(|frame| ReadScope::new(&frame.0));
        run()
    }

    /// Whether no write of what was read goes on, so that the result may be given.
    #[inline]
    pub fn are_announced(&mut self) -> bool {
        !self.shared.has_writes() || self.hold().0.is_empty()
    }

    /// Notes what a future reads, and holds its result for as long as it has to be.
    ///
    /// # Cancel safety
    /// As of the future: nothing is lost but its result.
    pub fn follow<F: Future>(self, future: F) -> InOrder<F> {
        InOrder { reads: self, future, held: None }
    }

    /// Whether the one who reads writes himself: like any reader he then waits for nobody.
    fn is_writing(&self) -> bool {
        let asker = self.frame.as_ref().map(|ReadsFrame(frame)| frame.asker.get());
        asker.is_some_and(|asker| self.shared.is_writing(asker))
    }

    #[cold]
    fn hold(&mut self) -> Hold {
        if self.is_writing() {
            return Hold(Vec::new());
        }
        let writes = self.frame.as_mut().map_or_else(Vec::new, |ReadsFrame(frame)| {
            self.shared.core.lock().writes_of(frame.records(), frame.asker.get())
        });
        Hold(writes)
    }
}

impl Drop for OrderedReads {
    /// The budget is looked after, which whoever computes does otherwise.
    fn drop(&mut self) {
        if self.frame.is_some() && depth::is_outside() {
            relief::relieve(self.shared);
        }
    }
}

impl<F: Future> Future for InOrder<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved; what is moved out of `held` is no longer polled.
        let this = unsafe { self.get_unchecked_mut() };
        // Unlike that of any other future that waits.
        let number = std::ptr::from_ref(this).addr() as u64;
        if this.held.is_none() {
            // SAFETY: it is not moved until it is dropped.
            let future = unsafe { Pin::new_unchecked(&mut this.future) };
            let output = ready!(this.reads.note(|| future.poll(context)));
            if !this.reads.shared.has_writes() {
                return Poll::Ready(output);
            }
            this.held = Some((output, this.reads.hold()));
        }
        if let Some((_, hold)) = &this.held
            && !this.reads.is_writing()
            && hold.poll(this.reads.shared, number, context)
        {
            return Poll::Pending;
        }
        let (output, _) = this.held.take().expect("it is held");
        Poll::Ready(output)
    }
}

/// The frame of a run on this thread that is no computation, if it notes what is read of this graph.
#[inline]
pub(crate) fn noting<'f>(graph: &'static Shared) -> Option<&'f Frame> {
    // SAFETY: `ReadScope` takes the pointer back before the run that set it ends; callers use the reference
    // within that run only.
    let frame = NOTING.with(|frame| unsafe { frame.get().as_ref() });
    frame.filter(|frame| std::ptr::eq(frame.graph, graph))
}

/// Notes in a frame until it is dropped.
struct ReadScope {
    outer: *const Frame,
}

impl ReadScope {
    fn new(frame: &Frame) -> Self {
        Self { outer: NOTING.with(|noting| noting.replace(frame)) }
    }
}

impl Drop for ReadScope {
    fn drop(&mut self) {
        NOTING.with(|noting| noting.set(self.outer));
    }
}

sync::thread_local! {
    static NOTING: Cell<*const Frame> = const { Cell::new(std::ptr::null()) };
}

impl fmt::Debug for OrderedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedReads").finish_non_exhaustive()
    }
}

impl<F: Future> fmt::Debug for InOrder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrder").field("is_held", &self.held.is_some()).finish_non_exhaustive()
    }
}

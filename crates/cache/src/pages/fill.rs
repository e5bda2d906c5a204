//! A body on its way, that is given and stored at once.
//!
//! Whoever reads it, and whoever waits for the page, moves it on: neither a caller who reads slowly
//! nor one who goes away holds up the others. Once it is larger than pages may be, it passes to its
//! reader alone, piece by piece; and so do all once those on their way take as much as pages may.
//!
//! A body that said its length is stored once it has that: whoever reads it knows that it is whole,
//! asks for nothing more, and may ask for the page again.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tidewire_service::{Body, Error, Frame, Frames, Result, Wakers};

/// What bodies on their way take, all together.
#[derive(Debug)]
pub(crate) struct FillBudget {
    used: AtomicUsize,
    max: AtomicUsize,
}

impl FillBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max: AtomicUsize::new(max) }
    }

    pub(crate) fn set_max(&self, bytes: usize) {
        self.max.store(bytes, Ordering::Relaxed);
    }

    /// Whether so many bytes more fit in; they are taken, whatever it says.
    fn take(&self, bytes: usize) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        before + bytes <= self.max.load(Ordering::Relaxed)
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A body on its way.
pub(crate) struct Fill {
    state: Mutex<State>,
    waiting: Arc<PieceWakers>,
}

/// What is done with a body that came whole, or with none.
pub(crate) type OnEnd = Box<dyn FnOnce(Option<Bytes>) + Send>;

struct State {
    frames: Pin<Box<dyn Frames>>,
    pieces: VecDeque<Frame>,
    /// How many pieces were taken out for good.
    taken: usize,
    /// How many the reader has had.
    read: usize,
    /// What of the budget is taken.
    bytes: usize,
    budget: Arc<FillBudget>,
    bytes_max: usize,
    /// The length that its head says.
    length: Option<usize>,
    phase: Phase,
    on_end: Option<OnEnd>,
}

enum Phase {
    Filling,
    /// It came whole, or passes on unstored, and is over.
    Over,
    /// It is stored, or will not be, and goes on.
    Passing,
    Broken(Error),
}

/// Everybody who waits for the next piece.
#[derive(Default)]
struct PieceWakers(Mutex<Wakers>);

impl Wake for PieceWakers {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock());
        waiting.wake();
    }
}

impl Fill {
    /// Stores a body of up to so many bytes as it is read; `length` is what its head says.
    pub(crate) fn new(
        frames: Pin<Box<dyn Frames>>,
        length: Option<usize>,
        bytes_max: usize,
        budget: &Arc<FillBudget>,
        on_end: OnEnd,
    ) -> Arc<Self> {
        let state = State {
            frames,
            pieces: VecDeque::new(),
            taken: 0,
            read: 0,
            bytes: 0,
            budget: Arc::clone(budget),
            bytes_max,
            length,
            phase: Phase::Filling,
            on_end: Some(on_end),
        };
        Arc::new(Self { state: Mutex::new(state), waiting: Arc::default() })
    }

    /// The body, for the one who asked first.
    pub(crate) fn reader(self: &Arc<Self>) -> Body {
        let fill = Arc::clone(self);
        let mut next = 0;
        let mut is_over = false;
        Body::frames(futures_util::stream::poll_fn(move |cx| {
            if is_over {
                return Poll::Ready(None);
            }
            let polled = fill.poll_piece(next, cx);
            match &polled {
                Poll::Ready(Some(Ok(_))) => next += 1,
                Poll::Ready(_) => is_over = true,
                Poll::Pending => {}
            }
            polled
        }))
    }

    /// Waits until it is decided whether it is stored.
    pub(crate) fn poll_end(&self, cx: &Context<'_>) -> Poll<()> {
        self.waiting.0.lock().add(cx.waker());
        let mut state = self.state.lock();
        while matches!(state.phase, Phase::Filling) {
            std::task::ready!(self.poll_more(&mut state));
        }
        Poll::Ready(())
    }

    fn poll_piece(&self, number: usize, cx: &Context<'_>) -> Poll<Option<Result<Frame>>> {
        self.waiting.0.lock().add(cx.waker());
        let mut state = self.state.lock();
        loop {
            let place = number - state.taken;
            if let Some(piece) = state.pieces.get(place).cloned() {
                state.read = number + 1;
                if !matches!(state.phase, Phase::Filling) {
                    state.forget_read();
                }
                return Poll::Ready(Some(Ok(piece)));
            }
            match &state.phase {
                Phase::Over => return Poll::Ready(None),
                Phase::Broken(error) => return Poll::Ready(Some(Err(error.clone()))),
                Phase::Filling | Phase::Passing => std::task::ready!(self.poll_more(&mut state)),
            }
        }
    }

    /// Takes the next piece; whoever waits is woken once there may be another.
    fn poll_more(&self, state: &mut State) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&self.waiting));
        let polled = state.frames.poll_next_unpin(&mut Context::from_waker(&waker));
        let is_filling = matches!(state.phase, Phase::Filling);
        match std::task::ready!(polled) {
            Some(Ok(frame)) => {
                let is_stored = match &frame {
                    Frame::Data(_) if !is_filling => true,
                    Frame::Data(data) => {
                        state.bytes += data.len();
                        state.budget.take(data.len()) && state.bytes <= state.bytes_max
                    }
                    // Trailers are not stored, so that what has some is not.
                    Frame::Trailers(trailers) => trailers.is_empty(),
                };
                state.pieces.push_back(frame);
                let is_whole = state.length.is_some_and(|length| length == state.bytes);
                if is_filling && (!is_stored || is_whole) {
                    let whole = is_stored.then(|| state.whole());
                    state.phase = Phase::Passing;
                    state.forget_read();
                    state.end(whole);
                }
            }
            Some(Err(error)) => {
                state.phase = Phase::Broken(error);
                state.end(None);
            }
            None => {
                state.phase = Phase::Over;
                let whole = is_filling.then(|| state.whole());
                state.end(whole);
            }
        }
        // Others have looked before this piece was there.
        Wake::wake_by_ref(&self.waiting);
        Poll::Ready(())
    }
}

impl State {
    /// Drops what the reader has had: there is no other one, nor will there be.
    fn forget_read(&mut self) {
        let had = (self.read - self.taken).min(self.pieces.len());
        self.pieces.drain(..had);
        self.taken += had;
    }

    fn give_back(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.bytes));
    }

    fn end(&mut self, whole: Option<Bytes>) {
        self.give_back();
        if let Some(on_end) = self.on_end.take() {
            on_end(whole);
        }
    }

    fn whole(&self) -> Bytes {
        let mut whole = BytesMut::with_capacity(self.bytes);
        for piece in &self.pieces {
            if let Frame::Data(data) = piece {
                whole.extend_from_slice(data);
            }
        }
        whole.freeze()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fill").finish_non_exhaustive()
    }
}

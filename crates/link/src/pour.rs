//! The items of a stream on their way to the peer, of either side.
//!
//! ```text
//!  stream ─ items that are ready ─▶ put together as a frame has them ─▶ session, asked once
//!     ▲                                                                   │ full
//!     └──────────────────────── once there is room again ◀────────────────┘
//! ```
//!
//! What is put together goes when a frame is full, when the stream has to wait, and at the end of a turn
//! ([`TURN`]): then the connection writes, and others go on. So an item is not kept back for one that is not
//! there yet, and a stream that always has another takes no more than its share of a thread. A reader that is
//! slow stops the stream one frame after its window.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::Stream;
use tidewire_live::{CallId, Gathered, Push};
use tidewire_service::{Error, Frame, Headers};

use crate::link::{Link, State};

/// Sends all items of a stream; then gives its trailers.
///
/// # Errors
/// That of the stream, behind all items before it; an item that is larger than the peer takes.
pub(crate) struct Pour<S> {
    link: Link,
    call: CallId,
    frames: S,
    gathered: Gathered,
    /// It does not fit in with what is gathered.
    next: Option<Bytes>,
    trailers: Headers,
    /// How it ended, behind what is gathered.
    end: Option<Result<(), Error>>,
}

impl<S> Pour<S>
where
    S: Stream<Item = Result<Frame, Error>> + Unpin,
{
    /// Sends `frames` as the items of `call`; with `trailers`, unless it has others.
    pub(crate) fn new(link: Link, call: CallId, frames: S, trailers: Headers) -> Self {
        let gathered = Gathered::default();
        Self { link, call, frames, gathered, next: None, trailers, end: None }
    }

    /// Puts together what is there; whether the stream has to wait for more.
    fn gather(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        while self.next.is_none() && self.end.is_none() && !turn.is_over {
            match Pin::new(&mut self.frames).poll_next(cx) {
                Poll::Ready(Some(Ok(Frame::Data(item)))) => {
                    if !self.gathered.add(&item) {
                        self.next = Some(item);
                    }
                    turn.went_on();
                }
                Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => self.trailers = trailers,
                Poll::Ready(Some(Err(error))) => self.end = Some(Err(error)),
                Poll::Ready(None) => self.end = Some(Ok(())),
                Poll::Pending => return true,
            }
        }
        false
    }

    /// Gives the session what is put together: whether it is wanted.
    fn push(&mut self, cx: &Context<'_>) -> Poll<Result<bool, Error>> {
        if self.gathered.is_empty() && self.next.is_none() {
            return Poll::Ready(Ok(true));
        }
        let mut state = self.link.lock();
        let State { session, exchanges, .. } = &mut *state;
        let Some(exchange) = exchanges.get_mut(&self.call) else { return Poll::Ready(Ok(false)) };
        let mut pushed = Push::Queued;
        if !self.gathered.is_empty() {
            pushed = session.push_gathered(self.call, &mut self.gathered);
        }
        if pushed == Push::Queued
            && let Some(item) = &self.next
        {
            // It begins the next frame, unless it is too large to share one.
            if !self.gathered.add(item) {
                pushed = session.push_shared(self.call, item);
            }
            if pushed == Push::Queued {
                self.next = None;
            }
        }
        Poll::Ready(match pushed {
            Push::Queued => {
                state.wake();
                Ok(true)
            }
            Push::Over => Ok(false),
            Push::Full => {
                exchange.wait_for_room(cx);
                state.wake();
                return Poll::Pending;
            }
            Push::TooLarge => {
                let bytes = self.next.as_ref().map_or(0, Bytes::len);
                let max = session.peer().limits.body_max;
                let text = format!("a message of {bytes} bytes is over body_max = {max}");
                Err(Error::resource_exhausted(text))
            }
        })
    }
}

impl<S> Future for Pour<S>
where
    S: Stream<Item = Result<Frame, Error>> + Unpin,
{
    /// The trailers; none when the peer wants no more.
    type Output = Result<Option<Headers>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut turn = Turn::begin();
        loop {
            let is_waiting = self.gather(cx, &mut turn);
            if !ready!(self.push(cx))? {
                return Poll::Ready(Ok(None));
            }
            if !self.gathered.is_empty() {
                // What began the next frame goes with those after it.
                continue;
            }
            if let Some(end) = self.end.take() {
                let trailers = std::mem::take(&mut self.trailers);
                return Poll::Ready(end.map(|()| Some(trailers)));
            }
            if is_waiting {
                return Poll::Pending;
            }
            if turn.is_over {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

/// For how long a stream goes on before others do.
struct Turn {
    began: Instant,
    items: u32,
    is_over: bool,
}

impl Turn {
    fn begin() -> Self {
        Self { began: Instant::now(), items: 0, is_over: false }
    }

    /// Another item was made. The first ones tell of a stream that takes its time for each.
    #[inline]
    fn went_on(&mut self) {
        self.items += 1;
        if self.items.is_multiple_of(LOOK_ITEMS) || self.items.is_power_of_two() {
            self.is_over = self.began.elapsed() >= TURN;
        }
    }
}

/// How long a turn takes.
const TURN: Duration = Duration::from_micros(200);
/// Items between two looks at the time.
const LOOK_ITEMS: u32 = 32;

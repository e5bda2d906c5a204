//! The items of a stream on their way to the peer, of either side.
//!
//! ```text
//!  stream ─ items that are ready ─▶ put together as a frame has them ─▶ session, asked once
//!     ▲                                                                   │ full
//!     └──────────────────────── once there is room again ◀────────────────┘
//! ```
//!
//! What is put together goes when a frame is full, when the stream has to wait, and at the end of a
//! turn ([`TURN`]): then the connection writes, and others go on. So an item is not kept back for
//! one that is not there yet, and a stream that always has another takes no more than its share of
//! a thread. A reader that is slow stops the stream one frame after its window.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidewire_live_proto::{CallId, Push};
use tidewire_service::{Error, Frame, Frames, Messages, ThinHeaders};

use crate::link::{Link, State};

/// Sends all items of a stream; then gives its trailers.
///
/// # Errors
/// That of the stream, behind all items before it; an item that is larger than the peer takes.
pub(crate) struct Pour<S> {
    link: Link,
    call: CallId,
    frames: S,
    messages: Messages,
    /// It does not fit in with what is put together.
    next: Option<Bytes>,
    trailers: ThinHeaders,
    /// How it ended, behind what is put together.
    end: Option<Result<(), Error>>,
}

impl<S> Pour<S>
where
    S: Frames + Unpin,
{
    /// Sends `frames` as the items of `call`; with `trailers`, unless it has others.
    pub(crate) fn new(link: Link, call: CallId, frames: S, trailers: ThinHeaders) -> Self {
        let messages = Messages::default();
        Self { link, call, frames, messages, next: None, trailers, end: None }
    }

    /// Puts together what is there; whether the stream has to wait for more.
    fn gather(&mut self, cx: &mut Context<'_>, turn: &mut Turn) -> bool {
        while self.next.is_none() && self.end.is_none() && !turn.is_over {
            self.messages.allow(turn.items());
            match Pin::new(&mut self.frames).poll_messages(cx, &mut self.messages) {
                Poll::Ready(Some(Ok(Frame::Data(item)))) => {
                    if !self.messages.add(&item) {
                        self.next = Some(item);
                    }
                }
                Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => self.trailers = trailers,
                Poll::Ready(Some(Err(error))) => self.end = Some(Err(error)),
                Poll::Ready(None) => self.end = Some(Ok(())),
                Poll::Pending => return true,
            }
            turn.look();
        }
        false
    }

    /// Gives the session what is put together: whether it is wanted.
    fn push(&mut self, cx: &Context<'_>) -> Poll<Result<bool, Error>> {
        if self.messages.is_empty() && self.next.is_none() {
            return Poll::Ready(Ok(true));
        }
        let mut state = self.link.lock();
        state.settle(&self.link);
        let State { session, exchanges, .. } = &mut *state;
        let Some(exchange) = exchanges.get_mut(&self.call) else { return Poll::Ready(Ok(false)) };
        let mut pushed = Push::Queued;
        if !self.messages.is_empty() {
            pushed = session.push_messages(self.call, &mut self.messages);
        }
        if pushed == Push::Queued
            && let Some(item) = &self.next
        {
            // It begins the next frame, unless it is too large to share one: then the one after it
            // is put together where it is sent from.
            if item.len() > SHARES_BYTES_MAX || !self.messages.add(item) {
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
    S: Frames + Unpin,
{
    /// The trailers; none when the peer wants no more.
    type Output = Result<Option<ThinHeaders>, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut turn = Turn::begin();
        loop {
            let is_waiting = self.gather(cx, &mut turn);
            if !ready!(self.push(cx))? {
                return Poll::Ready(Ok(None));
            }
            if !self.messages.is_empty() {
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
    looks: u32,
    is_over: bool,
}

impl Turn {
    fn begin() -> Self {
        Self { began: Instant::now(), looks: 0, is_over: false }
    }

    /// How many items may go together until the next look: few at first, for a stream that takes
    /// its time for each.
    fn items(&self) -> u32 {
        1 << self.looks.min(ITEMS_BITS)
    }

    /// Looks at the time.
    fn look(&mut self) {
        self.looks += 1;
        self.is_over = self.began.elapsed() >= TURN;
    }
}

/// The largest item that begins a frame for others.
const SHARES_BYTES_MAX: usize = 4 << 10;
/// How long a turn takes.
const TURN: Duration = Duration::from_micros(200);
/// Items between two looks at the time, at most, as a power of two.
const ITEMS_BITS: u32 = 6;

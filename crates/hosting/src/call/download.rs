//! Replies on their way to their callers: nobody holds a place by reading slowly.
//!
//! ```text
//!  program ─▶ frames ─▶ [ read ahead, while calls wait ] ─▶ caller
//!                            a permit until the program's last byte is here, or the reply is lost
//! ```
//!
//! What counts is the time that a caller takes from one piece of the reply to the next, while more
//! lies ready. The time that the program takes does not, so that an idle event stream is never
//! slow. A caller is slow once it is [`WINDOW`] behind `limits.transfer_rate_min`; reading ahead of
//! the rate gives it as much to spare, and no more. What the server and the system hold for a
//! connection counts as read.
//!
//! Nothing happens while no call waits for a place. While some do, the keeper of the service looks
//! at the replies that are open, at once and each second ([`Inner::make_room`]): it reads up to
//! [`AHEAD_BYTES`] of those that are not being read, so that a small reply gives its place back,
//! and takes the places of the slowest away. The body of such a reply ends with an error.
//!
//! A reply that is slow, whoever's doing that is, such as an event stream, has its place for as
//! long as its caller has no more than its share (`Pool::vacate_share`).
//!
//! Pages pass in pieces of at most [`PIECE_BYTES`], each of which a caller at the rate reads within
//! the window. A message passes whole, whatever its size.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use tidewire_service::{Body, CallerKey, Error, Frame, Frames, Result};
use tokio::time::Instant;

use crate::call::permit::InstancePermit;
use crate::service::inner::Inner;

/// The streamed replies of a service that have a place.
#[derive(Debug, Default)]
pub(crate) struct OpenReplies(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// With some that are over.
    replies: Vec<Weak<OpenReply>>,
    /// At how many of them those that are over are taken out.
    purge_at: usize,
    looked_at: Option<Instant>,
}

/// A reply that is being read.
#[derive(Debug)]
struct OpenReply {
    /// How many bytes a second are to be read.
    rate_min: u64,
    /// How much is passed on at once.
    piece_bytes: usize,
    caller: CallerKey,
    opened: Instant,
    state: Mutex<ReplyState>,
}

struct ReplyState {
    /// None once all of it is here, or it is lost.
    source: Option<Source>,
    /// What was read ahead.
    ahead: VecDeque<Result<Frame>>,
    ahead_bytes: usize,
    /// Since when the caller takes nothing; `None` while it waits for the program.
    since: Option<Instant>,
    pace: Pace,
    /// How many bytes the caller took.
    taken: u64,
    /// Who waits for the program.
    reader: Option<Waker>,
}

/// What a reply holds of its program.
struct Source {
    frames: Pin<Box<dyn Frames>>,
    permit: InstancePermit,
}

/// How far a caller is behind the rate, or ahead of it: both up to [`WINDOW`].
#[derive(Debug, Default, Clone, Copy)]
struct Pace {
    behind: Duration,
    ahead: Duration,
}

/// Makes a body of these frames that holds a place until all of them are here. `is_page` says that
/// they are chunks, which pass in any size.
pub(crate) fn hold(frames: Pin<Box<dyn Frames>>, permit: InstancePermit, is_page: bool) -> Body {
    let inner = Arc::clone(&permit.inner);
    let rate_min = inner.transfer_rate_min().max(1);
    let reply = Arc::new(OpenReply {
        rate_min,
        piece_bytes: if is_page { piece_bytes(rate_min) } else { usize::MAX },
        caller: permit.caller,
        opened: Instant::now(),
        state: Mutex::new(ReplyState {
            source: Some(Source { frames, permit }),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            since: Some(Instant::now()),
            pace: Pace::default(),
            taken: 0,
            reader: None,
        }),
    });
    inner.replies.add(&reply);
    Body::frames(futures_util::stream::poll_fn(move |cx| reply.poll_frame(cx)))
}

/// Less than a caller at this rate reads within the window.
fn piece_bytes(rate_min: u64) -> usize {
    let of_window = rate_min.saturating_mul(WINDOW.as_secs() - 1);
    usize::try_from(of_window).unwrap_or(usize::MAX).clamp(1, PIECE_BYTES)
}

impl OpenReply {
    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        let state = &mut *self.state.lock();
        if let Some(since) = state.since.take() {
            state.pace.passes(since.elapsed());
        }
        let frame = match state.ahead.pop_front() {
            Some(frame) => frame,
            None => match state.poll_program(cx) {
                Poll::Ready(Some(frame)) => frame,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    state.reader.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
                    return Poll::Pending;
                }
            },
        };
        let frame = state.piece(frame, self.piece_bytes);
        // What has no place loses none.
        if state.source.is_some() {
            let bytes = frame.as_ref().map_or(0, bytes_of);
            state.taken = state.taken.saturating_add(bytes as u64);
            state.pace.takes(bytes, self.rate_min);
            state.since = Some(Instant::now());
        }
        Poll::Ready(Some(frame))
    }

    /// Reads ahead; returns how slow the caller is if it is too slow, and which instance it holds
    /// a place of.
    fn look(&self, now: Instant, cx: &mut Context<'_>) -> Option<(Duration, u64)> {
        let state = &mut *self.state.lock();
        let since = state.since?;
        while state.ahead_bytes < AHEAD_BYTES {
            match state.poll_program(cx) {
                Poll::Ready(Some(frame)) => {
                    state.ahead_bytes += frame.as_ref().map_or(0, bytes_of);
                    state.ahead.push_back(frame);
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        let source = state.source.as_ref().filter(|_| !state.ahead.is_empty())?;
        let behind = state.pace.behind_after(now.saturating_duration_since(since));
        (behind >= WINDOW).then_some((behind, source.permit.instance.id))
    }

    /// Which instance it holds a place of, if the reply is slow, whoever's doing that is.
    fn look_whole(&self, now: Instant) -> Option<u64> {
        let open = now.saturating_duration_since(self.opened);
        let state = self.state.lock();
        let is_slow = state.taken < self.rate_min.saturating_mul(open.as_secs());
        let source = state.source.as_ref().filter(|_| open >= WINDOW && is_slow)?;
        Some(source.permit.instance.id)
    }

    /// Takes its place away, unless it is read again or has none.
    fn lose(&self, name: &str) -> Option<Source> {
        let state = &mut *self.state.lock();
        let source = state.source.take_if(|_| state.since.is_some())?;
        let rate = self.rate_min;
        state.end(Error::deadline_exceeded(format!(
            "the reply was read slower than limits.transfer_rate_min = {rate} bytes a second while \
             others waited for {name}"
        )));
        Some(source)
    }

    /// Takes its place away for another caller, who has fewer, unless it has none.
    fn lose_share(&self, name: &str) -> Option<Source> {
        let state = &mut *self.state.lock();
        let source = state.source.take()?;
        let rate = self.rate_min;
        state.end(Error::deadline_exceeded(format!(
            "the reply was slower than limits.transfer_rate_min = {rate} bytes a second while a \
             caller who has fewer calls waited for {name}"
        )));
        Some(source)
    }
}

impl ReplyState {
    /// The caller gets this error, and no more.
    fn end(&mut self, error: Error) {
        self.ahead.clear();
        self.ahead.push_back(Err(error));
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// The next frame of the program, whose place is free after the last.
    fn poll_program(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        let frame = ready!(source.frames.poll_next_unpin(cx));
        match frame {
            Some(Err(error)) => {
                let error = broken_off(&source.permit, error);
                self.source = None;
                Poll::Ready(Some(Err(error)))
            }
            None => {
                self.source = None;
                Poll::Ready(None)
            }
            frame => Poll::Ready(frame),
        }
    }

    /// The first piece of a frame, the rest of which comes next.
    fn piece(&mut self, frame: Result<Frame>, bytes_max: usize) -> Result<Frame> {
        let Ok(Frame::Data(mut data)) = frame else { return frame };
        if data.len() > bytes_max {
            let rest = data.split_off(bytes_max);
            self.ahead.push_front(Ok(Frame::Data(rest)));
        }
        self.ahead_bytes = self.ahead.iter().flatten().map(bytes_of).sum();
        Ok(Frame::Data(data))
    }
}

impl Pace {
    fn behind_after(self, time: Duration) -> Duration {
        (self.behind + time).saturating_sub(self.ahead)
    }

    /// The caller took so long.
    fn passes(&mut self, time: Duration) {
        let behind = self.behind_after(time).min(WINDOW);
        self.ahead = self.ahead.saturating_sub(self.behind + time);
        self.behind = behind;
    }

    /// The caller takes so many bytes.
    fn takes(&mut self, bytes: usize, rate_min: u64) {
        let worth = (bytes as u64).saturating_mul(1_000_000) / rate_min;
        let worth = Duration::from_micros(worth).min(2 * WINDOW);
        self.ahead = (self.ahead + worth.saturating_sub(self.behind)).min(WINDOW);
        self.behind = self.behind.saturating_sub(worth);
    }
}

impl OpenReplies {
    fn add(&self, reply: &Arc<OpenReply>) {
        let mut open = self.0.lock();
        if open.replies.len() >= open.purge_at {
            open.replies.retain(|reply| reply.strong_count() > 0);
            open.purge_at = (2 * open.replies.len()).max(PURGE_MIN);
        }
        open.replies.push(Arc::downgrade(reply));
    }

    /// Those that are open, to look at; or when to look, since it is too soon.
    fn to_look_at(&self, now: Instant) -> Result<Vec<Arc<OpenReply>>, Instant> {
        let mut open = self.0.lock();
        let due = open.looked_at.map(|at| at + PAUSE).filter(|due| *due > now);
        if let Some(due) = due {
            return Err(due);
        }
        open.looked_at = Some(now);
        Ok(open.replies.iter().filter_map(Weak::upgrade).collect())
    }
}

impl Inner {
    /// Takes places of slow readers away for calls that wait; returns when to look again.
    pub(crate) fn make_room(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        if !self.pool().needs_places() {
            return None;
        }
        let open = match self.replies.to_look_at(now) {
            Ok(open) => open,
            Err(due) => return Some(due),
        };
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        let looked = open.iter().filter_map(|reply| Some((reply, reply.look(now, &mut cx)?)));
        let mut slow: Vec<_> = looked.collect();
        slow.sort_by_key(|(_, (behind, _))| Reverse(*behind));
        for (reply, (behind, id)) in slow {
            let pool = self.pool();
            if !pool.needs_places() {
                break;
            }
            // One that gets no more calls has no place for those that wait.
            let gets_calls = pool.gets_calls(id);
            drop(pool);
            if gets_calls && let Some(source) = reply.lose(self.name()) {
                let service = self.name();
                tracing::info!(service, ?behind, "a reply that is read slowly lost its place");
                self.pool().vacate();
                drop(source);
            }
        }
        for reply in &open {
            let Some(id) = reply.look_whole(now) else { continue };
            let mut pool = self.pool();
            if !pool.gets_calls(id) || !pool.vacate_share(reply.caller) {
                continue;
            }
            drop(pool);
            match reply.lose_share(self.name()) {
                Some(source) => {
                    let service = self.name();
                    tracing::info!(service, "a slow reply lost its place to another caller");
                    drop(source);
                }
                None => self.pool().keep(),
            }
        }
        Some(now + LOOK)
    }
}

/// There is more of a reply that is read ahead.
impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake.notify_one();
    }
}

impl fmt::Debug for ReplyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, pace, .. } = self;
        f.debug_struct("ReplyState")
            .field("since", since)
            .field("pace", pace)
            .finish_non_exhaustive()
    }
}

/// What callers are told of an answer that ends too early: not by which rule of the protocol, which
/// the log says.
fn broken_off(permit: &InstancePermit, error: Error) -> Error {
    if permit.instance.native().is_none() || !permit.instance.is_out_of_reach(&error) {
        return error;
    }
    let name = permit.instance.generation.program.name();
    let text = format!("{name} ended in the middle of its answer");
    Error::new(error.code(), text).with_outcome(error.outcome()).with_cause(error)
}

fn bytes_of(frame: &Frame) -> usize {
    match frame {
        Frame::Data(data) => data.len(),
        Frame::Trailers(_) => 0,
    }
}

/// How far behind the rate a caller is slow.
const WINDOW: Duration = Duration::from_secs(5);
/// How much of a reply is read before its caller takes it.
const AHEAD_BYTES: usize = 64 << 10;
/// How much of a page passes at once.
const PIECE_BYTES: usize = 64 << 10;
/// How often replies are looked at while calls wait, at least and at most.
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);
const PURGE_MIN: usize = 16;

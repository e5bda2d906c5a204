//! What is known of one connection's peer: whether calls run, and whose turn it is.
//!
//! ```text
//! reply ─▶ hold (bytes that wait) ─▶ hand a piece over ─▶ the peer takes it, or is gone ─▶ let go
//!                                        └── longer than limits.reply_progress_timeout: stuck
//! ```
//!
//! Each call on an HTTP/2 connection has a [`Slot`], which lives until the last byte of its reply
//! left the server: the pieces that the HTTP library holds ([`Piece`]) keep it. While the library
//! still runs the stream, its future looks at them (`connection/http2.rs`); what is left after that
//! the connection looks at, in two ages that it turns over ([`Activity::turn_over`]), so that a
//! stream costs no clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidewire_service::{Error, Outcome, Result};

use crate::limits::Limits;
use crate::socket::prepared::RequestProgress;

/// What the parts of a connection tell each other of its peer.
#[derive(Debug)]
pub(crate) struct Activity {
    /// How often something was read.
    reads: AtomicUsize,
    /// HTTP/1.1: a head was waited for.
    had_head: AtomicBool,
    /// HTTP/1.1: no call runs, and the next head is not there.
    waits_for_head: AtomicBool,
    /// HTTP/1.1: something is to be written, and the peer takes no more.
    is_blocked: AtomicBool,
    /// HTTP/1.1: how far the HTTP library is.
    pub(crate) requests: RequestProgress,
    /// How many calls run, and how many began and ended, whichever.
    calls: AtomicUsize,
    changes: AtomicUsize,
    /// How many calls are over but for pieces that the peer has to take, of two ages.
    left: [AtomicUsize; 2],
    age: AtomicUsize,
    waiting: AtomicUsize,
    waiting_max: usize,
    all: Arc<UnreadBytes>,
}

/// The bytes of replies that wait for their readers, over all connections.
#[derive(Debug)]
pub(crate) struct UnreadBytes {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// One call, until its reply has left.
#[derive(Debug)]
pub(crate) struct Slot {
    activity: Arc<Activity>,
    held: AtomicUsize,
    /// How many pieces of its reply were handed over, and how many of them taken.
    handed: AtomicUsize,
    taken: AtomicUsize,
    /// Its age after 1, once only pieces of it are left.
    left: AtomicUsize,
    unread: Mutex<UnreadRequest>,
}

/// What nobody read of a request.
#[derive(Debug, Default)]
enum UnreadRequest {
    /// Nothing, or what there is belongs to nobody any more.
    #[default]
    Nothing,
    /// Somebody has its body: perhaps a connection to a program that answered before it had read
    /// all. Who waits for it is woken.
    Held(Option<Waker>),
    /// Its body, of which nobody wants more.
    Body(Incoming),
}

/// Bytes of a reply that are the peer's to take; the library that holds them lets go of them then.
#[derive(Debug)]
pub(crate) struct Piece {
    data: Bytes,
    /// None where nobody counts it.
    slot: Option<Arc<Slot>>,
}

impl UnreadBytes {
    /// None yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max: limits.reply_bytes_waiting_all_max }
    }
}

impl Activity {
    /// A connection of which nothing is known.
    pub(crate) fn new(all: Arc<UnreadBytes>, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            reads: AtomicUsize::new(0),
            had_head: AtomicBool::new(false),
            waits_for_head: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            requests: RequestProgress::default(),
            calls: AtomicUsize::new(0),
            changes: AtomicUsize::new(0),
            left: Default::default(),
            age: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            waiting_max: limits.reply_bytes_waiting_max,
            all,
        })
    }

    /// Something was read.
    pub(crate) fn read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether the head that is asked for is the connection's first.
    pub(crate) fn is_first_head(&self) -> bool {
        !self.had_head.swap(true, Ordering::Relaxed)
    }

    /// Whether the connection, of HTTP/1.1, waits for the head of a request.
    pub(crate) fn set_waits_for_head(&self, waits: bool) {
        self.waits_for_head.store(waits, Ordering::Relaxed);
    }

    pub(crate) fn waits_for_head(&self) -> bool {
        self.waits_for_head.load(Ordering::Relaxed) && !self.is_blocked()
    }

    /// Whether something is to be written, of HTTP/1.1, and the peer takes no more.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }

    /// Something is to be written, of HTTP/1.1, and the peer takes no more; or all was taken.
    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        if self.is_blocked.load(Ordering::Relaxed) != is_blocked {
            self.is_blocked.store(is_blocked, Ordering::Relaxed);
        }
    }

    /// How many calls have a slot.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// A number that is another one once a call began or ended.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// Lets what is left age; whether something was left for a whole age.
    pub(crate) fn turn_over(&self) -> bool {
        let next = 1 - self.age.load(Ordering::Acquire);
        let stuck = self.left[next].load(Ordering::Acquire) > 0;
        self.age.store(next, Ordering::Release);
        stuck
    }

    /// Counts bytes that wait.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when they are too many on top of others.
    fn wait(&self, bytes: usize) -> Result<()> {
        let check = |before: usize, max: usize| before == 0 || before.saturating_add(bytes) <= max;
        let before = self.waiting.fetch_add(bytes, Ordering::AcqRel);
        let before_all = self.all.bytes.fetch_add(bytes, Ordering::AcqRel);
        let name = if !check(before, self.waiting_max) {
            format!("limits.reply_bytes_waiting_max = {}", self.waiting_max)
        } else if !check(before_all, self.all.bytes_max) {
            format!("limits.reply_bytes_waiting_all_max = {}", self.all.bytes_max)
        } else {
            return Ok(());
        };
        self.let_go(bytes);
        let text = format!("{name} bytes of replies wait to be read; read them first");
        Err(Error::resource_exhausted(text).with_outcome(Outcome::Unknown))
    }

    fn let_go(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.all.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Slot {
    /// A call begins.
    pub(crate) fn begin(activity: &Arc<Activity>) -> Arc<Self> {
        activity.calls.fetch_add(1, Ordering::AcqRel);
        activity.changes.fetch_add(1, Ordering::AcqRel);
        Arc::new(Self {
            activity: Arc::clone(activity),
            held: AtomicUsize::new(0),
            handed: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            unread: Mutex::default(),
        })
    }

    /// Somebody has the body of the request, and will put it aside.
    pub(crate) fn lend(&self) {
        *self.unread.lock() = UnreadRequest::Held(None);
    }

    /// Puts aside what nobody wants of the request, until the reply is over; `None` where all of
    /// it was read. After [`Self::close`] it is forgotten.
    pub(crate) fn put_aside(&self, body: Option<Incoming>) {
        let mut unread = self.unread.lock();
        let UnreadRequest::Held(waker) = &mut *unread else { return };
        let waker = waker.take();
        *unread = body.map_or(UnreadRequest::Nothing, UnreadRequest::Body);
        drop(unread);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether there is, or may come, a rest of the request that nobody read.
    pub(crate) fn has_unread(&self) -> bool {
        !matches!(*self.unread.lock(), UnreadRequest::Nothing)
    }

    /// What is put aside once nobody has the body any more; `None` where that is nothing.
    pub(crate) fn poll_unread(&self, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let mut unread = self.unread.lock();
        if let UnreadRequest::Held(waker) = &mut *unread {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(match std::mem::take(&mut *unread) {
            UnreadRequest::Body(body) => Some(body),
            UnreadRequest::Nothing | UnreadRequest::Held(_) => None,
        })
    }

    /// Nothing is put aside any more.
    pub(crate) fn close(&self) {
        let unread = std::mem::take(&mut *self.unread.lock());
        drop(unread);
    }

    /// So many bytes of its reply wait now.
    ///
    /// # Errors
    /// As of [`Activity::wait`]; then as many wait as before.
    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        let before = self.held.load(Ordering::Acquire);
        match bytes.cmp(&before) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Greater => self.activity.wait(bytes - before)?,
            std::cmp::Ordering::Less => self.activity.let_go(before - bytes),
        }
        self.held.store(bytes, Ordering::Release);
        Ok(())
    }

    /// These bytes are the peer's to take.
    pub(crate) fn hand_over(self: &Arc<Self>, data: Bytes) -> Piece {
        self.handed.fetch_add(1, Ordering::AcqRel);
        Piece { data, slot: Some(Arc::clone(self)) }
    }

    /// Nobody looks after its pieces any more but the connection.
    pub(crate) fn leave(&self) {
        let age = self.activity.age.load(Ordering::Acquire);
        self.activity.left[age].fetch_add(1, Ordering::AcqRel);
        self.left.store(age + 1, Ordering::Release);
    }

    /// How many pieces the peer took, while others are its to take.
    pub(crate) fn awaits(&self) -> Option<usize> {
        let taken = self.taken.load(Ordering::Acquire);
        (taken < self.handed.load(Ordering::Acquire)).then_some(taken)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.activity.let_go(*self.held.get_mut());
        if let Some(age) = self.left.get_mut().checked_sub(1) {
            self.activity.left[age].fetch_sub(1, Ordering::AcqRel);
        }
        self.activity.calls.fetch_sub(1, Ordering::AcqRel);
        self.activity.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Piece {
    /// Bytes that nobody counts.
    pub(crate) const fn uncounted(data: Bytes) -> Self {
        Self { data, slot: None }
    }

    /// The same as bytes, which costs an allocation.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.data.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.data
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.taken.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(all: &Arc<UnreadBytes>) -> Arc<Activity> {
        let limits = Limits { reply_bytes_waiting_max: 100, ..Limits::default() };
        Activity::new(Arc::clone(all), &limits)
    }

    fn all(bytes_max: usize) -> Arc<UnreadBytes> {
        let limits = Limits { reply_bytes_waiting_all_max: bytes_max, ..Limits::default() };
        Arc::new(UnreadBytes::new(&limits))
    }

    #[test]
    fn a_reply_of_any_size_may_wait_and_others_on_top_of_it_within_the_bound() {
        let all = all(1000);
        let activity = activity(&all);
        let [one, two, three] = [(); 3].map(|()| Slot::begin(&activity));
        one.hold(60).unwrap();
        two.hold(40).unwrap();
        let error = three.hold(1).unwrap_err();
        assert!(error.message().contains("limits.reply_bytes_waiting_max = 100"), "{error}");
        two.hold(39).unwrap();
        three.hold(1).unwrap();
        drop((one, two, three));
        let large = Slot::begin(&activity);
        large.hold(5000).unwrap();
        drop(large);
        assert_eq!((activity.waiting.load(Ordering::Relaxed), activity.calls()), (0, 0));
        assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_bound_over_all_connections_is_theirs_together() {
        let all = all(150);
        let [one, two] = [activity(&all), activity(&all)].map(|activity| Slot::begin(&activity));
        one.hold(100).unwrap();
        let error = two.hold(51).unwrap_err();
        assert!(error.message().contains("limits.reply_bytes_waiting_all_max = 150"), "{error}");
        two.hold(50).unwrap();
        drop(one);
        two.hold(100).unwrap();
    }

    #[test]
    fn what_is_left_of_a_call_for_an_age_is_stuck() {
        let activity = activity(&all(1000));
        let slot = Slot::begin(&activity);
        assert_eq!(slot.awaits(), None);
        let [one, two] = ["one", "two"].map(|data| slot.hand_over(Bytes::from(data)));
        assert_eq!((one.chunk(), slot.awaits()), (&b"one"[..], Some(0)));
        assert!(!activity.turn_over() && !activity.turn_over(), "its stream looks after it");
        slot.leave();
        drop((one, slot));
        assert!(!activity.turn_over(), "it is younger than an age");
        assert!(activity.turn_over());
        assert_eq!(activity.calls(), 1, "a piece of its reply is not taken");
        drop(two);
        assert_eq!(activity.calls(), 0);
        assert!(!activity.turn_over() && !activity.turn_over());
    }
}

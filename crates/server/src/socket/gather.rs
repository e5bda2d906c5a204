//! Answers of pipelined requests leave together, in one write.
//!
//! HTTP/1.1 clients may send several requests at once; a write for each answer would cost more than
//! the answers. The HTTP library has a switch for it (`pipeline_flush`), but with that on it also
//! buffers a streamed body for as long as its frames are ready, however slowly the client reads. So
//! it is off, and the answers are gathered here, below the library and within a bound:
//!
//! | the library | here |
//! |---|---|
//! | writes | is held, up to [`HELD_MAX`]; past it everything is written first |
//! | flushes | is remembered |
//! | reads, and owes no answer | what is held is written first: all requests that came are answered |
//! | waits | [`GatherHandle::has_held`]: the connection is polled once more, and what is held is written |
//!
//! Before its last answer the library looks whether there are more requests, which writes nothing.
//!
//! Over HTTP/1.1 it says that it cannot write several slices at once, so that the library makes one
//! of a head and a small body, which it then copies once more; that costs less than keeping account
//! of slices.
//!
//! HTTP/2, which gathers by itself, and connections that are to be upgraded pass through. The head
//! of a frame of HTTP/2 and its data leave in one write.
//!
//! Whatever is written to a client that takes nothing for `limits.reply_progress_timeout` fails.
//!
//! A connection that ends before all of a request came would break the client's sending, and with
//! it lose the answer that was just written (RFC 9112, section 9.6). So such a one is shut down for
//! writing first, and what still comes is read and forgotten until the client closes too, up to
//! `limits.body_bytes_max`, or `limits.unread_body_bytes_max` if that is more, and for
//! `limits.unread_body_timeout`.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use tidewire_service::{Headers, InterimSender, InterimSink, Peer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::limits::Limits;
use crate::socket::activity::Activity;
use crate::socket::detect::DetectedProtocol;
use crate::socket::interim::InterimQueue;
use crate::socket::prepared::{PreparedConnection, PreparedReplies};

/// A connection whose small writes are held back.
pub(crate) struct Gather<IO> {
    io: IO,
    /// What was read before.
    first: Bytes,
    held: Vec<u8>,
    written: usize,
    activity: Arc<Activity>,
    patience: StallLimit,
    linger: Linger,
    state: GatherHandle,
    /// What is answered beside the HTTP library; nothing over HTTP/2.
    prepared: Option<Box<PreparedConnection>>,
    /// The library may have something to write that is not here yet.
    has_unflushed: bool,
    is_http2: bool,
    has_written: bool,
}

/// What is still read once nothing more is written.
struct Linger {
    bytes_left: usize,
    timeout: Duration,
    /// Since the connection is shut down for writing.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// How long the client may take nothing of what is written to it.
struct StallLimit {
    timeout: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What the owner of a connection knows of and says to its [`Gather`]; clones share it.
#[derive(Clone, Default)]
pub(crate) struct GatherHandle(Arc<Flags>);

#[derive(Default)]
struct Flags {
    /// A flush was asked for and not done.
    flush_due: AtomicBool,
    /// A flush is to be done when asked for.
    through: AtomicBool,
    /// Nothing is held any more.
    direct: AtomicBool,
    /// A request was read, and nothing of its answer is here.
    owes: AtomicBool,
    /// Twice the number of the last request, and one more while its body is not all there.
    body: AtomicU64,
    /// The body that nobody reads to its end, as `body` has it.
    abandoned: AtomicU64,
    /// The request that was read has been answered from memory before.
    repeated: AtomicBool,
    /// What goes before the answer.
    interim: InterimQueue,
}

impl InterimSink for Flags {
    fn send(&self, call: u64, status: StatusCode, headers: Headers) {
        self.interim.send(call, status, &headers);
    }
}

impl GatherHandle {
    /// Whether a flush is still to be done, now that the connection waits. It will be done in the
    /// next poll of the connection, which the caller makes at once.
    pub(crate) fn has_held(&self) -> bool {
        let due = self.0.flush_due.load(Ordering::Relaxed);
        if due {
            self.0.flush_due.store(false, Ordering::Relaxed);
            self.0.through.store(true, Ordering::Relaxed);
        }
        due
    }

    /// Lets everything pass from now on, whoever polls the connection.
    pub(crate) fn end(&self) {
        self.0.direct.store(true, Ordering::Relaxed);
    }

    /// A request was read: an answer will come.
    pub(crate) fn owes(&self) {
        self.0.owes.store(true, Ordering::Relaxed);
    }

    /// Whether a request of the same bytes was answered from memory before, or one that came with
    /// it.
    pub(crate) fn is_repeated(&self) -> bool {
        self.0.repeated.load(Ordering::Relaxed)
    }

    /// A request was read, whose body is all there or still to come.
    pub(crate) fn begin_body(&self, is_awaited: bool) {
        let number = self.0.body.load(Ordering::Relaxed) / 2 + 1;
        self.0.body.store(2 * number + u64::from(is_awaited), Ordering::Relaxed);
    }

    /// The body that is still to come; `None` without one.
    pub(crate) fn awaited_body(&self) -> Option<AwaitedBody> {
        let state = self.0.body.load(Ordering::Relaxed);
        (state % 2 == 1).then(|| AwaitedBody { connection: self.clone(), state })
    }

    /// A call begins, over HTTP/1.1: what sends its interim responses.
    pub(crate) fn interim_sender(&self) -> InterimSender {
        let call = self.0.interim.begin();
        InterimSender::new(Arc::clone(&self.0) as Arc<dyn InterimSink>, call)
    }

    /// Whether nobody reads the body of the last request to its end, so that the connection closes
    /// after the answer: what is left of it cannot be told from the next request.
    pub(crate) fn is_body_abandoned(&self) -> bool {
        let state = self.0.body.load(Ordering::Relaxed);
        state % 2 == 1 && self.0.abandoned.load(Ordering::Relaxed) == state
    }

    /// The interim responses.
    pub(crate) fn interim(&self) -> &InterimQueue {
        &self.0.interim
    }

    fn awaits_body(&self) -> bool {
        self.0.body.load(Ordering::Relaxed) % 2 == 1
    }

    fn is_direct(&self) -> bool {
        self.0.direct.load(Ordering::Relaxed)
    }
}

/// The body of one request of a connection, until all of it is there. Who drops it before reads no
/// more of that.
pub(crate) struct AwaitedBody {
    connection: GatherHandle,
    state: u64,
}

impl AwaitedBody {
    /// All of it is there. By then the body of the next request may be awaited.
    pub(crate) fn came(self) {
        let body = &self.connection.0.body;
        let all_there = self.state - 1;
        let _ = body.compare_exchange(self.state, all_there, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        self.connection.0.abandoned.store(self.state, Ordering::Relaxed);
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Gather<IO> {
    /// Holds back small writes to `io`, of which `first` was read.
    pub(crate) fn new(
        io: IO,
        (speaks, first): (DetectedProtocol, Bytes),
        activity: Arc<Activity>,
        limits: &Limits,
        prepared: Option<(&Arc<PreparedReplies>, &Arc<Peer>)>,
    ) -> (Self, GatherHandle) {
        let state = GatherHandle::default();
        let is_http2 = speaks == DetectedProtocol::Http2;
        if is_http2 {
            state.end();
        }
        let patience = StallLimit { timeout: limits.reply_progress_timeout, sleep: None };
        let linger = Linger {
            bytes_left: limits.unread_body_bytes_max.max(limits.body_bytes_max),
            timeout: limits.unread_body_timeout,
            sleep: None,
        };
        let held = Vec::new();
        let is_http1 = speaks == DetectedProtocol::Http1;
        let prepared = prepared.filter(|(prepared, _)| is_http1 && prepared.is_on());
        let prepared = prepared.map(|(prepared, peer)| {
            Box::new(PreparedConnection::new(Arc::clone(prepared), Arc::clone(peer)))
        });
        let handle = state.clone();
        let gather = Self {
            io,
            first,
            held,
            written: 0,
            activity,
            patience,
            linger,
            state,
            prepared,
            has_unflushed: false,
            is_http2,
            has_written: false,
        };
        (gather, handle)
    }

    /// Writes what is held, and flushes.
    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.held.len() {
            let io = Pin::new(&mut self.io);
            let written = io.poll_write(cx, &self.held[self.written..]);
            let written = self.patience.poll(written, cx);
            self.activity.set_blocked(written.is_pending());
            let count = ready!(written)?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.held.clear();
        self.held.shrink_to(HELD_KEPT);
        self.written = 0;
        self.state.0.flush_due.store(false, Ordering::Relaxed);
        self.state.0.through.store(false, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Reads what there is, once what is held is written, unless an answer will come.
    fn poll_piece(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.held.is_empty()
            && (self.state.is_direct() || !self.state.0.owes.load(Ordering::Relaxed))
        {
            ready!(self.poll_release(cx))?;
        }
        if !self.first.is_empty() {
            self.take_first(buf);
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.activity.read();
        Poll::Ready(Ok(()))
    }

    /// Moves what was read before.
    fn take_first(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..count]);
        self.first.advance(count);
        if self.first.is_empty() {
            self.first = Bytes::new();
        }
    }

    /// The same, and answers those requests whose responses are prepared (`socket/prepared.rs`).
    fn poll_request(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut prepared) = self.prepared.take() else { return self.poll_piece(cx, buf) };
        let polled = self.poll_unprepared(cx, buf, &mut prepared);
        self.prepared = Some(prepared);
        polled
    }

    /// Reads until there is a request that has to be computed, or a part of one.
    fn poll_unprepared(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        prepared: &mut PreparedConnection,
    ) -> Poll<io::Result<()>> {
        let progress = &Arc::clone(&self.activity).requests;
        if self.has_unflushed || !prepared.is_between_requests(progress) {
            ready!(self.poll_piece(cx, buf))?;
            prepared.give_more(buf.filled(), progress);
            self.state.0.repeated.store(false, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
        loop {
            if self.held.len() > HELD_MAX || self.first.is_empty() && !self.held.is_empty() {
                ready!(self.poll_release(cx))?;
            }
            if self.first.is_empty() {
                ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
            } else {
                self.take_first(buf);
            }
            let read = buf.filled().len();
            let answered = prepared.answer(buf.filled(), &mut self.held, HELD_MAX);
            if answered > 0 {
                progress.count_answered();
                let is_full = self.held.len() > HELD_MAX;
                if is_full && answered < read {
                    self.first = [&buf.filled()[answered..], &self.first].concat().into();
                }
                if is_full || answered == read {
                    buf.clear();
                    continue;
                }
                buf.filled_mut().copy_within(answered.., 0);
                buf.set_filled(read - answered);
            }
            prepared.give(buf.filled(), progress);
            self.state.0.repeated.store(prepared.is_repeated(), Ordering::Relaxed);
            if !self.held.is_empty() {
                self.state.0.flush_due.store(true, Ordering::Relaxed);
            }
            self.activity.read();
            return Poll::Ready(Ok(()));
        }
    }

    /// Makes room for `length` bytes; false when they are too many to hold.
    fn poll_room(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<io::Result<bool>> {
        if self.held.len() + length <= HELD_MAX && !self.state.is_direct() {
            return Poll::Ready(Ok(true));
        }
        if !self.held.is_empty() {
            ready!(self.poll_release(cx))?;
        }
        Poll::Ready(Ok(length <= HELD_MAX && !self.state.is_direct()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gather<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let looks = this.prepared.as_ref().is_some_and(|prepared| prepared.is_used());
        if looks && !this.state.is_direct() {
            return this.poll_request(cx, buf);
        }
        ready!(this.poll_piece(cx, buf))?;
        if let Some(prepared) = &mut this.prepared {
            prepared.give_more(buf.filled(), &this.activity.requests);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gather<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.state.0.owes.store(false, Ordering::Relaxed);
        if let Some(prepared) = &mut this.prepared {
            prepared.write(data, !this.has_unflushed, &this.activity.requests);
        }
        this.has_unflushed = true;
        this.has_written = true;
        if !ready!(this.poll_room(cx, data.len()))? {
            let written = Pin::new(&mut this.io).poll_write(cx, data);
            let written = this.patience.poll(written, cx);
            this.activity.set_blocked(written.is_pending());
            return written;
        }
        this.held.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if !this.is_http2 {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[], |slice| slice));
        }
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, slices);
        this.patience.poll(written, cx)
    }

    /// The library asks before its first write, too, and is told no then: it copies frames of up to
    /// 1 KiB together, in place of 256 bytes, so that small replies leave in one write.
    fn is_write_vectored(&self) -> bool {
        self.is_http2 && self.has_written && self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // The library has nothing left to write.
        this.has_unflushed = false;
        if this.state.0.interim.has_some() {
            this.state.0.interim.take_into(&mut this.held);
            this.state.0.through.store(true, Ordering::Relaxed);
        }
        if this.held.is_empty() {
            return Pin::new(&mut this.io).poll_flush(cx);
        }
        if this.state.0.through.load(Ordering::Relaxed) || this.state.is_direct() {
            return this.poll_release(cx);
        }
        this.state.0.flush_due.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.held.is_empty() {
            ready!(this.poll_release(cx))?;
        }
        if this.linger.sleep.is_none() {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            if !this.state.awaits_body() {
                return Poll::Ready(Ok(()));
            }
        }
        this.linger.poll(&mut this.io, cx).map(Ok)
    }
}

impl Linger {
    /// Ready once the client closed its side, or sent too much or for too long.
    fn poll(&mut self, io: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.timeout;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if sleep.as_mut().poll(cx).is_ready() {
            tracing::debug!("a connection is closed after limits.unread_body_timeout");
            return Poll::Ready(());
        }
        let mut room = [const { MaybeUninit::uninit() }; LINGER_ROOM];
        loop {
            let mut buf = ReadBuf::uninit(&mut room);
            let read = ready!(Pin::new(&mut *io).poll_read(cx, &mut buf));
            let bytes = buf.filled().len();
            if read.is_err() || bytes == 0 {
                return Poll::Ready(());
            }
            let Some(left) = self.bytes_left.checked_sub(bytes) else {
                tracing::debug!("a connection is closed after limits.body_bytes_max");
                return Poll::Ready(());
            };
            self.bytes_left = left;
        }
    }
}

impl StallLimit {
    /// What was written, or that nothing was for too long.
    fn poll(
        &mut self,
        written: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.sleep = None;
            return written;
        }
        let timeout = self.timeout;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        let text = format!("nothing was read in limits.reply_progress_timeout = {timeout:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

/// How much is read at once of what is forgotten.
const LINGER_ROOM: usize = 4 << 10;

/// How many bytes are held back at most; one prepared response more may be.
const HELD_MAX: usize = 64 << 10;
/// The room that stays for what is held next.
const HELD_KEPT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::socket::activity::UnreadBytes;

    #[tokio::test]
    async fn slices_are_written_over_http2_once_something_was() {
        let limits = Limits::default();
        for (speaks, has_slices) in
            [(DetectedProtocol::Http2, true), (DetectedProtocol::Http1, false)]
        {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let activity = Activity::new(Arc::new(UnreadBytes::new(&limits)), &limits);
            let (mut gather, handle) =
                Gather::new(ours, (speaks, Bytes::new()), activity, &limits, None);
            handle.end();
            assert!(!gather.is_write_vectored(), "the library asks first");
            let written = poll_fn(|cx| Pin::new(&mut gather).poll_write(cx, b"first")).await;
            assert_eq!((written.unwrap(), gather.is_write_vectored()), (5, has_slices));
            let slices = [b"", &b"head"[..], b"data"].map(io::IoSlice::new);
            let written =
                poll_fn(|cx| Pin::new(&mut gather).poll_write_vectored(cx, &slices)).await;
            let expected = if has_slices { &b"firstheaddata"[..] } else { b"firsthead" };
            assert_eq!(written.unwrap(), expected.len() - 5);
            drop(gather);
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, expected);
        }
    }
}

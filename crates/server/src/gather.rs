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
//! | waits | [`Gathering::has_held`]: the connection is polled once more, and what is held is written |
//!
//! Reading writes nothing: before its last answer the library looks whether there are more requests.
//!
//! It says that it cannot write several slices at once, so that the library makes one of a head and a
//! small body, which it then copies once more; that costs less than keeping account of slices.
//!
//! HTTP/2, which gathers by itself, and connections that are to be upgraded pass through.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose small writes are held back.
pub(crate) struct Gather<IO> {
    io: IO,
    held: Vec<u8>,
    written: usize,
    read_any: bool,
    state: Gathering,
}

/// What the owner of a connection knows of and says to its [`Gather`]; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Gathering(Arc<Flags>);

#[derive(Default)]
struct Flags {
    /// A flush was asked for and not done.
    flush_due: AtomicBool,
    /// A flush is to be done when asked for.
    through: AtomicBool,
    /// Nothing is held any more.
    direct: AtomicBool,
}

impl Gathering {
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

    fn is_direct(&self) -> bool {
        self.0.direct.load(Ordering::Relaxed)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Gather<IO> {
    /// Holds back small writes to `io`.
    pub(crate) fn new(io: IO) -> (Self, Gathering) {
        let state = Gathering::default();
        let gather =
            Self { io, held: Vec::new(), written: 0, read_any: false, state: state.clone() };
        (gather, state)
    }

    /// Writes what is held, and flushes.
    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.held.len() {
            let count = ready!(Pin::new(&mut self.io).poll_write(cx, &self.held[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.held.clear();
        self.written = 0;
        self.state.0.flush_due.store(false, Ordering::Relaxed);
        self.state.0.through.store(false, Ordering::Relaxed);
        Pin::new(&mut self.io).poll_flush(cx)
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
        if this.state.is_direct() && !this.held.is_empty() {
            ready!(this.poll_release(cx))?;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        if !this.read_any {
            this.read_any = true;
            let first = &buf.filled()[before..];
            // The start of HTTP/2's preface; a shorter first read might become one.
            if first.starts_with(b"PRI") || first.len() < 3 {
                this.state.end();
            }
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
        if !ready!(this.poll_room(cx, data.len()))? {
            return Pin::new(&mut this.io).poll_write(cx, data);
        }
        this.held.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
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
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

/// How many bytes are held back at most.
const HELD_MAX: usize = 64 << 10;

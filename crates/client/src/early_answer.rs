//! Servers that say something and leave, with more on its way to them.
//!
//! Most servers answer 401 or 413 by the head alone, and close the connection with the body unread.
//! A process that ends writes its last trailers while a PING or a window is on its way to it. What
//! is then written to it fails, although what it said was received and can be read. The HTTP
//! library gives up at the first write that fails; so it is not told, and the socket is read until
//! its end:
//!
//! | what can be read | the call |
//! |---|---|
//! | a whole answer | has it; the connection ends with it |
//! | nothing, or a part of an answer | fails: the server closed the connection before its answer |
//!
//! Over HTTP/1.1 such a socket takes nothing more from the library either, so that the connection
//! is used for no other call: the library waits for a write that never ends. Over HTTP/2 what is
//! written is dropped, since the library does not read on while it waits to write. An answer
//! without a length ends with its connection, so one that ends in a reset may be a part. Nothing
//! can last for ever by this: who takes no more has closed, and what can be read has an end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that is read to its end although nothing can be written any more.
pub(crate) struct EarlyAnswer<S> {
    socket: S,
    /// The peer takes no more.
    is_closed_for_writing: bool,
    is_http2: bool,
}

impl<S> EarlyAnswer<S> {
    /// A socket for HTTP/1.1.
    pub(crate) const fn http1(socket: S) -> Self {
        Self { socket, is_closed_for_writing: false, is_http2: false }
    }

    /// A socket for HTTP/2.
    pub(crate) const fn http2(socket: S) -> Self {
        Self { socket, is_closed_for_writing: false, is_http2: true }
    }
}

impl<S: AsyncWrite + Unpin> EarlyAnswer<S> {
    /// Writes, unless the peer takes no more: who reads finds that out. Over HTTP/2 it returns
    /// `all` then, as if all had been written.
    fn poll_unless_closed<T>(
        &mut self,
        all: T,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.is_closed_for_writing {
            let written = write(Pin::new(&mut self.socket));
            let Poll::Ready(Err(error)) = &written else { return written };
            if !is_closed(error) {
                return written;
            }
            tracing::debug!(%error, "a server takes no more of a request; its answer is read");
            self.is_closed_for_writing = true;
        }
        if self.is_http2 { Poll::Ready(Ok(all)) } else { Poll::Pending }
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

impl<S: AsyncRead + Unpin> AsyncRead for EarlyAnswer<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EarlyAnswer<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_unless_closed(data.len(), |socket| socket.poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = data.iter().map(|slice| slice.len()).sum();
        self.poll_unless_closed(len, |socket| socket.poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_unless_closed((), |socket| socket.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closed_for_writing {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

//! Servers that answer before they have read the request, and close.
//!
//! Most servers answer 401 or 413 by the head alone, and close the connection with the body unread.
//! What is then written to it fails, although the answer was received and can be read. The HTTP
//! library gives up at the first write that fails; so it is not told. A socket whose peer takes no
//! more takes nothing more from the library either, and is read until its end:
//!
//! | what can be read | the call |
//! |---|---|
//! | a whole answer | has it; the connection ends with it |
//! | nothing, or a part of an answer | fails: the server closed the connection before its answer |
//!
//! An answer without a length ends with its connection, so one that ends in a reset may be a part.
//! A connection like this is used for no other call: the library waits for a write that never ends.
//! Nothing can last for ever by this, since who takes no more has closed, and what can be read has
//! an end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that is read to its end although nothing can be written any more.
pub(crate) struct EarlyAnswer<S> {
    socket: S,
    /// The peer takes no more.
    is_closed_for_writing: bool,
}

impl<S> EarlyAnswer<S> {
    pub(crate) const fn new(socket: S) -> Self {
        Self { socket, is_closed_for_writing: false }
    }
}

impl<S: AsyncWrite + Unpin> EarlyAnswer<S> {
    /// Writes, unless the peer takes no more: who reads finds that out.
    fn poll_unless_closed<T>(
        &mut self,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.is_closed_for_writing {
            return Poll::Pending;
        }
        let written = write(Pin::new(&mut self.socket));
        if let Poll::Ready(Err(error)) = &written
            && is_closed(error)
        {
            tracing::debug!(%error, "a server takes no more of a request; its answer is read");
            self.is_closed_for_writing = true;
            return Poll::Pending;
        }
        written
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
        self.poll_unless_closed(|socket| socket.poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_unless_closed(|socket| socket.poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_unless_closed(|socket| socket.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closed_for_writing {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

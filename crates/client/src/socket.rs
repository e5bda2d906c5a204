//! What HTTP is spoken on: a socket that others can live with, and the task of HTTP/1.1 on it.
//!
//! HTTP/2 is in [`http2`](crate::http2).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::dial::Socket;
use crate::early_answer::EarlyAnswer;
use crate::outgoing::RequestBody;

/// The task of a connection, to be spawned by its owner.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts HTTP/1.1 on a socket.
pub(crate) async fn http1(
    socket: Socket,
) -> hyper::Result<(http1::SendRequest<RequestBody>, Driver)> {
    let (socket, _) = CountedSocket::new(EarlyAnswer::http1(socket));
    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let driver = Box::pin(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an HTTP/1.1 connection ended");
        }
    });
    Ok((sender, driver))
}

/// How many bytes are read before other tasks have their turn.
///
/// A server that sends without end what asks for no answer, such as interim responses, would have a
/// thread to itself otherwise.
const TURN_BYTES: usize = 64 << 10;

/// A socket that lets others have their turn, and counts how often it was read from.
pub(crate) struct CountedSocket<S> {
    socket: S,
    heard: Arc<AtomicUsize>,
    /// What may still be read in this turn.
    left: usize,
}

impl<S> CountedSocket<S> {
    pub(crate) fn new(socket: S) -> (Self, Arc<AtomicUsize>) {
        let heard = Arc::new(AtomicUsize::new(0));
        (Self { socket, heard: Arc::clone(&heard), left: TURN_BYTES }, heard)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.left == 0 {
            this.left = TURN_BYTES;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let outcome = Pin::new(&mut this.socket).poll_read(cx, buf);
        match &outcome {
            Poll::Ready(_) => {
                this.heard.fetch_add(1, Ordering::Relaxed);
                this.left = this.left.saturating_sub(buf.filled().len() - before);
            }
            Poll::Pending => this.left = TURN_BYTES,
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn whoever_reads_without_end_lets_others_have_their_turn() {
        let (mut socket, heard) = CountedSocket::new(tokio::io::repeat(b'x'));
        let mut buf = [0; 4096];
        for _ in 0..3 {
            let mut read = 0;
            // One turn: until nothing is there for now.
            poll_fn(|cx| {
                let mut buf = ReadBuf::new(&mut buf);
                while Pin::new(&mut socket).poll_read(cx, &mut buf).is_ready() {
                    read += buf.filled().len();
                    buf.clear();
                    assert!(read <= TURN_BYTES, "it goes on for ever");
                }
                Poll::Ready(())
            })
            .await;
            assert_eq!(read, TURN_BYTES);
        }
        assert_eq!(heard.load(Ordering::Relaxed), 3 * TURN_BYTES / 4096);
        assert_eq!(socket.read(&mut buf).await.unwrap(), 4096, "it is woken");
    }
}

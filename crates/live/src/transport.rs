//! What a session runs over: bytes both ways, and an end.
//!
//! | transport | what it carries |
//! |---|---|
//! | [`ByteStream`] | TCP, TLS, Unix sockets: the frames are the stream |
//! | [`Socket`](crate::Socket) | the same, between a gateway and a process that it hosts |
//! | [`WebSocket`](crate::WebSocket) | binary messages, each of whole frames |

pub(crate) mod socket;
pub(crate) mod websocket;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tidewire_live_proto::Violation;
use tokio::io::{AsyncRead, AsyncWrite};

/// Why nothing more comes.
#[derive(Debug)]
#[non_exhaustive]
pub enum TransportEnd {
    /// The connection is gone.
    Lost(io::Error),
    /// What came breaks a rule of the transport.
    Violation(Violation),
}

/// Bytes both ways. It is polled by one task.
pub trait Transport: Send + Unpin {
    /// Adds what came to `into`; ready with 0 at the end.
    ///
    /// # Errors
    /// The connection broke, or its peer broke the rules of the transport.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>>;

    /// Sends whole frames, and takes them out of `out` as they leave; ready once all have left.
    /// Until then it is called again with what is in it.
    ///
    /// # Errors
    /// The connection broke.
    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>>;

    /// Ends the connection, for a reason of the protocol where there was one.
    ///
    /// # Errors
    /// The connection broke.
    fn poll_close(&mut self, cx: &mut Context<'_>, reason: Option<u8>) -> Poll<io::Result<()>>;

    /// What others write with than the task that polls it, if they can.
    fn at_once(&self) -> Option<Arc<dyn DirectWriter>> {
        None
    }
}

/// Writes to a connection from any task, without waiting.
pub trait DirectWriter: Send + Sync {
    /// Sends as many of these bytes as the connection takes now, and returns how many.
    ///
    /// # Errors
    /// It takes none now, or is gone: the task that polls it finds out which.
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>> {
        (**self).poll_receive(cx, into)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, out)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, reason: Option<u8>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx, reason)
    }

    fn at_once(&self) -> Option<Arc<dyn DirectWriter>> {
        (**self).at_once()
    }
}

/// Frames as a stream of bytes.
pub struct ByteStream<S> {
    stream: S,
    /// How much is read at once.
    reads: usize,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream<S> {
    /// Frames over `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, reads: READ_BYTES_MIN }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Transport for ByteStream<S> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>> {
        into.reserve(self.reads);
        let stream = Pin::new(&mut self.stream);
        let read =
            ready!(tokio_util::io::poll_read_buf(stream, cx, into)).map_err(TransportEnd::Lost)?;
        // Who sends much is read in large pieces, and others take little memory.
        if read >= self.reads {
            self.reads = (self.reads * 2).min(READ_BYTES_MAX);
        } else if read < self.reads / 4 {
            self.reads = (self.reads / 2).max(READ_BYTES_MIN);
        }
        Poll::Ready(Ok(read))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        let mut written = 0;
        while written < out.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &out[written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    out.drain(..written);
                    return Poll::Pending;
                }
            }
        }
        out.clear();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: Option<u8>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S> fmt::Debug for ByteStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

/// What is read at once, at least: a frame of the usual largest size and its head.
const READ_BYTES_MIN: usize = 32 << 10;
const READ_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that others may write, and takes all.
    struct Open;

    impl DirectWriter for Open {
        fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
    }

    impl Transport for Open {
        fn poll_receive(
            &mut self,
            _: &mut Context<'_>,
            _: &mut BytesMut,
        ) -> Poll<Result<usize, TransportEnd>> {
            Poll::Ready(Ok(0))
        }

        fn poll_send(&mut self, _: &mut Context<'_>, _: &mut Vec<u8>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(&mut self, _: &mut Context<'_>, _: Option<u8>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn at_once(&self) -> Option<Arc<dyn DirectWriter>> {
            Some(Arc::new(Self))
        }
    }

    #[test]
    fn a_transport_in_a_box_is_written_to_as_it_is_without() {
        let boxed: Box<dyn Transport> = Box::new(Open);
        let sent = Transport::at_once(&boxed).map(|open| open.try_send(b"abc").unwrap());
        assert_eq!(sent, Some(3));
    }
}

//! The socket of a session with a process: whoever makes a call writes to it, one task reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustix::net::Shutdown;
use tidewire_link::{AtOnce, Broken, Transport};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The gateway's end of a socket pair.
#[derive(Debug)]
pub(crate) struct Socket {
    reads: OwnedReadHalf,
    writes: Arc<Writes>,
}

/// What writes to it.
#[derive(Debug)]
struct Writes(OwnedWriteHalf);

impl Socket {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let (reads, writes) = stream.into_split();
        Self { reads, writes: Arc::new(Writes(writes)) }
    }

    fn stream(&self) -> &UnixStream {
        self.reads.as_ref()
    }
}

impl Transport for Socket {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, Broken>> {
        into.reserve(READ_BYTES);
        tokio_util::io::poll_read_buf(Pin::new(&mut self.reads), cx, into).map_err(Broken::Lost)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            match self.writes.try_send(out) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(sent) => _ = out.drain(..sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream().poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>, _: Option<u8>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(self.stream(), Shutdown::Write).map_err(io::Error::from))
    }

    fn at_once(&self) -> Option<Arc<dyn AtOnce>> {
        Some(Arc::clone(&self.writes) as _)
    }
}

impl AtOnce for Writes {
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }
}

/// What is read at once: a frame of the usual largest size and its head.
const READ_BYTES: usize = 32 << 10;

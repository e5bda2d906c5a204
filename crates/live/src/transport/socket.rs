//! The Unix socket between a gateway and a process that it hosts: whoever makes a call writes to
//! it, one task reads.
//!
//! It is waited for to take more only once it was full. The kernel says that a Unix socket may be
//! written to whenever its peer has read something, and each time would wake the side that waits
//! for an answer.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::transport::{DirectWriter, Transport, TransportEnd};

/// One end of a socket pair.
pub struct Socket {
    stream: Arc<UnixStream>,
    /// What tells of it; nothing where the system has no room to.
    events: Option<AsyncFd<Arc<UnixStream>>>,
    /// Whether it is waited for to take more.
    is_full: bool,
    /// What is read at once.
    buffer: Box<[u8]>,
}

impl Socket {
    /// One end, within a runtime.
    ///
    /// # Errors
    /// The system has no room for another that is waited for.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let buffer = vec![0; READ_BYTES].into();
        let mut socket = Self { stream: Arc::new(stream), events: None, is_full: false, buffer };
        socket.wait_for(Interest::READABLE)?;
        Ok(socket)
    }

    /// Is told of this from now on.
    fn wait_for(&mut self, interest: Interest) -> io::Result<()> {
        // One socket is known to the system once.
        self.events = None;
        // SAFETY: the socket is open, and the same, for as long as somebody has it, as these events
        // do.
        #[expect(unsafe_code, reason = "that a descriptor stays open is promised")]
        let events = unsafe { AsyncFd::register_with_interest(Arc::clone(&self.stream), interest) };
        self.events = Some(events?);
        self.is_full = interest.is_writable();
        Ok(())
    }
}

impl Transport for Socket {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>> {
        loop {
            let Some(events) = &self.events else {
                return Poll::Ready(Err(TransportEnd::Lost(io::ErrorKind::NotConnected.into())));
            };
            let mut ready = ready!(events.poll_read_ready(cx)).map_err(TransportEnd::Lost)?;
            match (&*self.stream).read(&mut self.buffer) {
                Ok(read) => {
                    if (1..self.buffer.len()).contains(&read) {
                        // That was all; of more there is another event.
                        ready.clear_ready();
                    }
                    into.extend_from_slice(&self.buffer[..read]);
                    return Poll::Ready(Ok(read));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(TransportEnd::Lost(error))),
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            match self.stream.try_send(out) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(sent) => _ = out.drain(..sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.is_full {
                        self.wait_for(Interest::READABLE | Interest::WRITABLE)?;
                    }
                    let Some(events) = &self.events else {
                        return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                    };
                    ready!(events.poll_write_ready(cx))?.clear_ready();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if self.is_full {
            self.wait_for(Interest::READABLE)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>, _: Option<u8>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }

    fn at_once(&self) -> Option<Arc<dyn DirectWriter>> {
        Some(Arc::clone(&self.stream) as _)
    }
}

impl DirectWriter for UnixStream {
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self;
        stream.write(bytes)
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("is_full", &self.is_full).finish_non_exhaustive()
    }
}

/// What is read at once: a frame of the usual largest size and its head.
const READ_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn receive(socket: &mut Socket) -> BytesMut {
        let mut came = BytesMut::new();
        poll_fn(|cx| socket.poll_receive(cx, &mut came)).await.unwrap();
        came
    }

    #[tokio::test]
    async fn what_did_not_fit_goes_on_as_it_is_read_and_answers_are_heard_before_and_after() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Socket::new(ours).unwrap(), Socket::new(theirs).unwrap());
        for round in 0..3_u8 {
            let mut out = vec![round; 4 << 20];
            let length = out.len();
            let sends = poll_fn(|cx| ours.poll_send(cx, &mut out));
            let reads = async {
                let mut read = BytesMut::new();
                while read.len() < length {
                    assert_ne!(poll_fn(|cx| theirs.poll_receive(cx, &mut read)).await.unwrap(), 0);
                }
                assert!(read.iter().all(|byte| *byte == round));
                poll_fn(|cx| theirs.poll_send(cx, &mut b"all".to_vec())).await.unwrap();
            };
            tokio::join!(async { sends.await.unwrap() }, reads);
            assert!(!ours.is_full, "it waits to be told of answers alone");
            assert_eq!(receive(&mut ours).await, "all");
        }
        let (next, answer) = (receive(&mut ours), async {
            tokio::task::yield_now().await;
            theirs.at_once().unwrap().try_send(b"next").unwrap()
        });
        assert_eq!(tokio::join!(next, answer).0, "next", "who waited before is woken");
        poll_fn(|cx| theirs.poll_close(cx, None)).await.unwrap();
        assert_eq!(receive(&mut ours).await, "", "its end");
    }

    #[tokio::test]
    async fn who_waits_for_answers_while_it_is_full_hears_them() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = Socket::new(ours).unwrap();
        let mut out = vec![0; 4 << 20];
        let mut came = BytesMut::new();
        // As the task of a connection: it writes and reads whenever it is woken.
        let both = poll_fn(|cx| {
            let sent = ours.poll_send(cx, &mut out);
            assert!(sent.is_pending(), "nobody reads");
            ours.poll_receive(cx, &mut came)
        });
        let answers = async {
            tokio::task::yield_now().await;
            (&theirs).write_all(b"stop").unwrap();
        };
        assert_eq!(tokio::join!(both, answers).0.unwrap(), 4);
        assert_eq!(came, "stop");
    }
}

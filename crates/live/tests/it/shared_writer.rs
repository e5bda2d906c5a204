//! Calls of a hosted process are written by those who make them, beside the task of the connection:
//! the process reads what each of them wrote, whole and in order, however little its socket takes
//! at once.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use tidewire_live::{
    Arrival, ByteStream, Config, DirectWriter, Identity, Link, Links, Process, Transport,
    TransportEnd, feature,
};
use tidewire_service::{Body, StreamKind};
use tokio::io::{AsyncWrite, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::task::TaskTracker;

use crate::pair::{Echo, Hosted, query, streamed, text};

/// A socket that takes a few bytes at a time, and is full after each.
struct Narrow {
    reads: ReadHalf<DuplexStream>,
    writes: Arc<Writes>,
    is_full: bool,
}

pub(crate) struct Writes {
    stream: Mutex<WriteHalf<DuplexStream>>,
    takes: usize,
    /// What is done once while somebody writes.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Writes {
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let few = &bytes[..bytes.len().min(self.takes)];
        Pin::new(&mut *self.stream.lock().unwrap()).poll_write(cx, few)
    }
}

impl DirectWriter for Writes {
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
        match self.poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Transport for Narrow {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<Result<usize, TransportEnd>> {
        into.reserve(4096);
        tokio_util::io::poll_read_buf(Pin::new(&mut self.reads), cx, into)
            .map_err(TransportEnd::Lost)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            self.is_full = !self.is_full;
            if self.is_full {
                // Others have their turn before it takes more.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let written = ready!(self.writes.poll_write(cx, out))?;
            out.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: Option<u8>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.writes.stream.lock().unwrap()).poll_shutdown(cx)
    }

    fn at_once(&self) -> Option<Arc<dyn DirectWriter>> {
        Some(Arc::clone(&self.writes) as _)
    }
}

/// A session with a process, by a socket that takes so many bytes at a time.
pub(crate) async fn hosted(takes: usize) -> (Link, Arc<Writes>) {
    let config = || Config {
        features: feature::HOSTED,
        required: feature::HOSTED,
        boot: Some([1; 16]),
        ..Config::default()
    };
    let host = || Arc::new(Hosted(Arc::<Echo>::default()));
    let (near, far) = tokio::io::duplex(256);
    let process = Process::new(config(), host());
    tokio::spawn(async move { process.run(ByteStream::new(far)).await });
    let (reads, writes) = tokio::io::split(near);
    let (stream, meanwhile) = (Mutex::new(writes), Mutex::default());
    let writes = Arc::new(Writes { stream, takes, meanwhile });
    let socket = Narrow { reads, writes: Arc::clone(&writes), is_full: false };
    let links = Links::new(config(), host(), TaskTracker::new(), 0);
    let arrival = Arrival { is_started_here: true, ..Arrival::default() };
    let greeted = links.greet(socket, arrival, async |_| Ok(Identity::default())).await;
    let (link, connection) = greeted.expect("it is greeted");
    tokio::spawn(connection.run());
    // From the first answer on both sides are greeted.
    assert_eq!(said(&link, "first").await, "first");
    (link, writes)
}

async fn said(link: &Link, what: &str) -> String {
    text(link.call(query("Say", Bytes::from(what.to_owned()))).await).await.expect("it is said")
}

/// What a caller says: of every length, and like nothing else.
fn words(caller: usize, call: usize) -> String {
    format!("{caller}-{call} ").repeat(1 + (caller * 31 + call * 7) % 90)
}

async fn callers_are_answered_what_they_said(link: &Link) {
    let callers = (0..8).map(|caller| {
        let link = link.clone();
        tokio::spawn(async move {
            for call in 0..12 {
                let words = words(caller, call);
                assert_eq!(said(&link, &words).await, words);
                let items = [words.clone(), words.clone()].map(|item| Ok(Bytes::from(item)));
                let items = Body::stream(futures_util::stream::iter(items));
                let echoed = link.call(streamed("Echo", StreamKind::Bidi, items)).await;
                assert_eq!(text(echoed).await, Ok(words.repeat(2)));
            }
        })
    });
    for caller in join_all(callers).await {
        caller.expect("its answers are right");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_socket_takes_in_parts_arrives_whole_and_in_order() {
    for takes in [1, 7, 100, 4096] {
        let (link, _) = hosted(takes).await;
        callers_are_answered_what_they_said(&link).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn so_does_what_several_threads_write() {
    for takes in [1, 7, 100, 4096] {
        let (link, _) = hosted(takes).await;
        callers_are_answered_what_they_said(&link).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_while_another_is_written_is_written_after_it() {
    for takes in [3, 4096] {
        let (link, writes) = hosted(takes).await;
        let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let (inner, runtime) = (link.clone(), tokio::runtime::Handle::current());
        *writes.meanwhile.lock().unwrap() = Some(Box::new(move || {
            let mut call = Box::pin(inner.call(query("Say", Bytes::from("inner"))));
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "nothing is written yet");
            runtime.spawn(async move { answers.send(text(call.await).await) });
        }));
        assert_eq!(said(&link, "outer").await, "outer");
        assert_eq!(answered.recv().await, Some(Ok("inner".to_owned())));
    }
}

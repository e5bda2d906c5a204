//! The least that passes calls to a worker as frames of the live protocol: hyper before it, and
//! behind it a table of waiting requests. It checks nothing, keeps nothing, and knows one method.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as Socket;
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Notify, oneshot};

use crate::Result;
use crate::worker::Worker;

const METHOD: &[u8] = b"\x01/hosting.v1.Greeter/Greet";
const NAME: &[u8] = br#"{"name":"Ada"}"#;
const REQUEST: u8 = 3;
const REPLY: u8 = 4;
const END: u8 = 1;

fn frame(kind: u8, stream: u32, metadata: &[u8], payload: &[u8], deadline: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + metadata.len() + payload.len());
    out.extend_from_slice(&((metadata.len() + payload.len()) as u32).to_le_bytes());
    out.extend_from_slice(&stream.to_le_bytes());
    out.extend_from_slice(&[kind, if kind == REQUEST { END } else { 0 }]);
    out.extend_from_slice(&(metadata.len() as u16).to_le_bytes());
    out.extend_from_slice(&deadline.to_le_bytes());
    out.extend_from_slice(metadata);
    out.extend_from_slice(payload);
    out
}

/// Version 1, with features HTTP and HOSTED.
fn hello() -> Vec<u8> {
    frame(1, 0, &[], &[1, 4, 1, 0, 1, 0, 2, 1, 34, 3, 1, 32], u32::from_le_bytes(*b"TWLV"))
}

/// The request of a slot; the first one names the method, which is number 0.
fn request(stream: u32, is_first: bool, payload: &[u8]) -> Vec<u8> {
    let mut metadata = vec![1, 1, 0];
    if is_first {
        metadata.extend_from_slice(&[2, METHOD.len() as u8]);
        metadata.extend_from_slice(METHOD);
    }
    frame(REQUEST, stream, &metadata, payload, 0)
}

/// Takes the whole frames off the front of what was read: the kind, the stream and the payload of
/// each.
fn frames(read: &mut Vec<u8>, mut hear: impl FnMut(u8, u32, &[u8])) {
    let mut at = 0;
    while read.len() - at >= 16 {
        let head = &read[at..at + 16];
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if read.len() - at < 16 + length {
            break;
        }
        let stream = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let metadata = usize::from(u16::from_le_bytes([head[10], head[11]]));
        hear(head[8], stream, &read[at + 16 + metadata..at + 16 + length]);
        at += 16 + length;
    }
    read.drain(..at);
}

/// A worker and nothing before it: its socket, asked one call at a time.
pub struct Direct {
    socket: Socket,
    read: Vec<u8>,
    pub worker: Child,
}

impl Direct {
    /// Starts a worker with a request waiting in its socket, until that is answered.
    pub fn open(worker: &Worker) -> Result<Self> {
        let (mut socket, theirs) = Socket::pair()?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        socket.write_all(&hello())?;
        socket.write_all(&request(2, true, NAME))?;
        let worker = worker.spawn(theirs.as_fd())?;
        drop(theirs);
        let mut direct = Self { socket, read: Vec::new(), worker };
        direct.answer()?;
        Ok(direct)
    }

    /// Makes another call.
    pub fn ask(&mut self) -> Result<()> {
        self.socket.write_all(&request(2, false, NAME))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<()> {
        let (mut buffer, mut is_answered) = ([0; 4096], false);
        while !is_answered {
            let count = self.socket.read(&mut buffer)?;
            if count == 0 {
                return Err("the worker closed its socket".into());
            }
            self.read.extend_from_slice(&buffer[..count]);
            frames(&mut self.read, |kind, _, payload| {
                is_answered |= kind == REPLY && payload.windows(10).any(|ten| ten == b"Hello, Ada");
            });
        }
        Ok(())
    }
}

/// Who waits, and what is to be written.
#[derive(Default)]
struct Table {
    waiting: Vec<Option<oneshot::Sender<Bytes>>>,
    free: Vec<usize>,
    out: Vec<u8>,
    has_called: bool,
}

/// Serves at `LISTEN` what a worker answers.
pub fn serve(worker: &Worker) -> Result<()> {
    let (ours, theirs) = Socket::pair()?;
    ours.set_nonblocking(true)?;
    let _child = worker.spawn(theirs.as_fd())?;
    drop(theirs);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = tokio::task::LocalSet::new();
    all.block_on(&runtime, async {
        let (mut reads, mut writes) = UnixStream::from_std(ours)?.into_split();
        let (table, more) = (Rc::new(RefCell::new(Table::default())), Rc::new(Notify::new()));
        table.borrow_mut().out = hello();
        let (hears, asks) = (Rc::clone(&table), Rc::clone(&more));
        more.notify_one();
        let writing = Rc::clone(&table);
        tokio::task::spawn_local(async move {
            loop {
                asks.notified().await;
                let out = std::mem::take(&mut writing.borrow_mut().out);
                writes.write_all(&out).await.expect("the worker reads");
            }
        });
        tokio::task::spawn_local(async move {
            let mut read = Vec::with_capacity(65_536);
            while reads.read_buf(&mut read).await.expect("the worker writes") > 0 {
                frames(&mut read, |kind, stream, payload| {
                    if kind == REPLY {
                        let slot = stream as usize / 2 - 1;
                        let mut table = hears.borrow_mut();
                        let waiting = table.waiting[slot].take();
                        table.free.push(slot);
                        let _ =
                            waiting.expect("somebody asked").send(Bytes::copy_from_slice(payload));
                    }
                });
            }
        });
        let address = std::env::var("LISTEN")?;
        if let Some(path) = address.strip_prefix("unix:") {
            let listener = UnixListener::bind(path)?;
            loop {
                answer(listener.accept().await?.0, &table, &more);
            }
        }
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            answer(stream, &table, &more);
        }
    })
}

/// Answers the calls of a connection.
fn answer<S>(stream: S, table: &Rc<RefCell<Table>>, more: &Rc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (table, more) = (Rc::clone(table), Rc::clone(more));
    let answers = service_fn(move |request| call(request, Rc::clone(&table), Rc::clone(&more)));
    let serves = hyper::server::conn::http1::Builder::new();
    tokio::task::spawn_local(serves.serve_connection(TokioIo::new(stream), answers));
}

async fn call(
    asked: Request<Incoming>,
    table: Rc<RefCell<Table>>,
    more: Rc<Notify>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let payload = asked.into_body().collect().await.expect("it comes").to_bytes();
    let (sender, answered) = oneshot::channel();
    {
        let mut table = table.borrow_mut();
        let slot = table.free.pop().unwrap_or(table.waiting.len());
        if slot == table.waiting.len() {
            table.waiting.push(None);
        }
        table.waiting[slot] = Some(sender);
        let is_first = !std::mem::replace(&mut table.has_called, true);
        let frame = request(2 * (slot as u32 + 1), is_first, &payload);
        table.out.extend_from_slice(&frame);
    }
    more.notify_one();
    let reply = answered.await.expect("the worker answers");
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::new(reply)).expect("it is well formed"))
}

//! The live protocol: peers that send, or ask for, all that they may and give nothing back.
//!
//! Each keeps to the rules that a server checks, and to nothing else; the server's memory is in the
//! row, also that of the sessions which stay behind for two minutes.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidewire_live_proto::frame::{self, HEAD_BYTES, Head, Kind, flag};
use tidewire_live_proto::metadata::{Metadata, put_command, put_entry, put_number, tag};
use tidewire_live_proto::{Hello, Limits, feature, varint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::victim::{CHAT, ECHO, SUM};

const LOOK: &str = "/tidewire.test.v1.BehaviourService/Look";
const MIB: usize = 1 << 20;
/// A server that takes nothing for so long waits for its own answers to be read.
const STALL: Duration = Duration::from_secs(3);

/// A peer by hand, which states `credit` for what it wants to hear.
struct Peer {
    stream: TcpStream,
    input: BytesMut,
    out: Vec<u8>,
    /// What the server lets its peers do.
    limits: Limits,
    /// What was sent and not credited, by stream; 0 is the connection.
    outstanding: HashMap<u32, u64>,
    /// Requests that were made on slots of their own.
    requests: u32,
    /// Frames of each kind that were read.
    read: HashMap<u8, usize>,
}

impl Peer {
    async fn connect(address: SocketAddr, credit: u64) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        let limits = Limits {
            stream_credit: credit,
            connection_credit: credit,
            watches_max: 1000,
            ..Limits::default()
        };
        let boot = Some([9; 16]);
        let hello = Hello { features: feature::USUAL, limits, boot, ..Hello::default() };
        let mut out = Vec::new();
        hello.encode(&mut out);
        let mut peer = Self {
            stream,
            input: BytesMut::new(),
            out,
            limits: Limits::default(),
            outstanding: HashMap::new(),
            requests: 0,
            read: HashMap::new(),
        };
        peer.flush().await?;
        peer.wait_for(Kind::Hello).await?;
        Ok(peer)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.stream.write_all(&out).await
    }

    /// Sends what there is; whether the server took it before [`STALL`].
    async fn push(&mut self) -> io::Result<bool> {
        match tokio::time::timeout(STALL, self.flush()).await {
            Ok(written) => written.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Reads until a frame of this kind came.
    async fn wait_for(&mut self, kind: Kind) -> io::Result<()> {
        let before = self.count(kind);
        while self.count(kind) == before {
            self.read().await?;
        }
        Ok(())
    }

    fn count(&self, kind: Kind) -> usize {
        self.read.get(&(kind as u8)).copied().unwrap_or(0)
    }

    /// Reads what is there, at least something.
    async fn read(&mut self) -> io::Result<()> {
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err(io::Error::other("the server hung up"));
        }
        while let Some((head, _)) = self.input.split_first_chunk::<HEAD_BYTES>() {
            let head = Head::decode(head);
            if self.input.len() < HEAD_BYTES + head.len as usize {
                break;
            }
            let mut frame = self.input.split_to(HEAD_BYTES + head.len as usize).freeze();
            let metadata = frame.split_off(HEAD_BYTES);
            self.handle(head, metadata)?;
        }
        Ok(())
    }

    fn handle(&mut self, head: Head, mut metadata: Bytes) -> io::Result<()> {
        let payload = metadata.split_off(head.meta_len.into());
        *self.read.entry(head.kind).or_default() += 1;
        match Kind::from_number(head.kind) {
            Some(Kind::Hello) => {
                let hello = Hello::decode(&metadata, &payload);
                self.limits = hello.map_err(|why| io::Error::other(format!("{why:?}")))?.limits;
            }
            Some(Kind::Credit) => {
                let credit = varint::take(&mut &payload[..]).unwrap_or(0);
                let outstanding = self.outstanding.entry(head.stream).or_default();
                *outstanding = outstanding.saturating_sub(credit);
            }
            Some(Kind::Goaway) => {
                return Err(io::Error::other(String::from_utf8_lossy(&payload).into_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits until the server has handled all that was sent.
    async fn settle(&mut self) -> io::Result<()> {
        frame::put(&mut self.out, Kind::Ping, 0, 0, b"");
        self.flush().await?;
        self.wait_for(Kind::Pong).await
    }

    /// A call on the next free slot; the stream's number.
    fn request(&mut self, path: &str, flags: u8, body: &[u8]) -> u32 {
        let stream = 2 * self.requests + 1;
        self.request_on(stream, self.requests, path, flags, body);
        self.requests += 1;
        stream
    }

    /// A call on this slot, whose method gets this number and is named by its path.
    fn request_on(&mut self, stream: u32, method: u32, path: &str, flags: u8, body: &[u8]) {
        let frame = frame::open(&mut self.out, Kind::Request, stream, flags);
        put_number(&mut self.out, tag::METHOD, method.into());
        put_entry(&mut self.out, tag::NAME, format!("\0{path}").as_bytes());
        let frame = frame.metadata_ends(&self.out);
        self.out.extend_from_slice(body);
        frame.finish(&mut self.out);
    }

    /// Runs the command of this number, from 1, after all before it: until it has its reply.
    async fn run_command(&mut self, id: u64, path: &str, body: &[u8]) -> io::Result<()> {
        let frame = frame::open(&mut self.out, Kind::Request, 1, flag::END);
        put_number(&mut self.out, tag::METHOD, 0);
        if id == 1 {
            put_entry(&mut self.out, tag::NAME, format!("\0{path}").as_bytes());
        }
        put_command(&mut self.out, id, id);
        let frame = frame.metadata_ends(&self.out);
        self.out.extend_from_slice(body);
        frame.finish(&mut self.out);
        self.flush().await?;
        let replies = self.count(Kind::Reply);
        while self.count(Kind::Reply) == replies {
            self.read().await?;
            if self.count(Kind::Error) > 0 {
                return Err(io::Error::other(format!("{path} was refused")));
            }
        }
        Ok(())
    }

    fn may_send(&self, stream: u32) -> bool {
        let sent = |stream| self.outstanding.get(&stream).copied().unwrap_or(0);
        sent(stream) < self.limits.stream_credit && sent(0) < self.limits.connection_credit
    }

    /// Sends up to `bytes` of an unfinished item on each open call, as far as it may; how many in
    /// all.
    async fn unfinished_items(&mut self, bytes: usize) -> io::Result<usize> {
        let piece = vec![b'x'; 16 << 10];
        let (mut sent, mut all) = (vec![0; self.requests as usize], 0);
        loop {
            let before = all;
            for (call, sent) in (0_u32..).zip(&mut sent) {
                let stream = 2 * call + 1;
                while *sent < bytes && self.may_send(stream) {
                    frame::put(&mut self.out, Kind::Items, stream, flag::MORE, &piece);
                    for level in [0, stream] {
                        *self.outstanding.entry(level).or_default() += piece.len() as u64;
                    }
                    *sent += piece.len();
                    all += piece.len();
                }
                self.flush().await?;
            }
            // Handlers take what came in turns of their own.
            for _ in 0..20 {
                self.settle().await?;
            }
            if all == before {
                return Ok(all);
            }
        }
    }
}

/// Unfinished items on 250 streams of one connection after the other, as much as credit lets.
pub(crate) async fn unfinished(address: SocketAddr) -> Result<String, String> {
    let sent = async {
        let mut sent = 0;
        for _ in 0..3 {
            let mut peer = Peer::connect(address, 1 << 20).await?;
            for _ in 0..250 {
                peer.request(SUM, 0, b"");
            }
            sent += peer.unfinished_items(3 * MIB).await?;
        }
        io::Result::Ok(sent)
    };
    let sent = told(sent.await)?;
    Ok(format!("{} MiB were let in, of 2250", sent / MIB))
}

/// Replies of a megabyte each, whose reader states any credit and goes away.
pub(crate) async fn unread_replies(address: SocketAddr) -> Result<String, String> {
    let rounds = async {
        for _ in 0..3 {
            let mut connections = JoinSet::new();
            for _ in 0..20 {
                connections.spawn(unread_reply(address));
            }
            while let Some(connection) = connections.join_next().await {
                connection??;
            }
        }
        io::Result::Ok(())
    };
    told(rounds.await)?;
    Ok("12000 replies of 1 MB were asked for, and none was read".into())
}

async fn unread_reply(address: SocketAddr) -> io::Result<()> {
    let mut peer = Peer::connect(address, 1 << 30).await?;
    for _ in 0..200 {
        peer.request(CHAT, flag::END, b"");
    }
    peer.push().await?;
    // Until the server stops to write, as what it wrote is not read.
    peer.out.extend_from_slice(&ping());
    peer.push().await?;
    // tidy: allow-sleep the server produces meanwhile what nobody reads
    tokio::time::sleep(STALL).await;
    Ok(())
}

/// Names of methods that are not there, as many and as long as they may be.
pub(crate) async fn names(address: SocketAddr) -> Result<String, String> {
    let held = async {
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut peer = Peer::connect(address, 1 << 20).await?;
            for number in 0..peer.limits.methods_max {
                let name = format!("/{number}{}", "n".repeat(16_000));
                peer.request_on(1, number, &name, flag::END, b"");
                peer.flush().await?;
                peer.wait_for(Kind::Error).await?;
            }
            held.push(peer);
        }
        io::Result::Ok(held)
    };
    let held = told(held.await)?;
    let errors: usize = held.iter().map(|peer| peer.count(Kind::Error)).sum();
    Ok(format!("{errors} names of 16 kB were refused"))
}

/// Calls that stay open, as many as the server lets.
pub(crate) async fn open_streams(address: SocketAddr) -> Result<String, String> {
    let held = async {
        let mut held = Vec::new();
        for _ in 0..100 {
            let mut peer = Peer::connect(address, 1 << 20).await?;
            for _ in 0..peer.limits.calls_max {
                peer.request(SUM, 0, b"");
            }
            peer.settle().await?;
            held.push(peer);
        }
        io::Result::Ok(held)
    };
    let held = told(held.await)?;
    let open: u32 = held.iter().map(|peer| peer.requests).sum();
    Ok(format!("{open} streams held"))
}

/// Sessions that are begun and left.
pub(crate) async fn sessions(address: SocketAddr) -> Result<String, String> {
    for _ in 0..5600 {
        told(Peer::connect(address, 1 << 20).await)?;
    }
    Ok("5600 sessions begun and left".into())
}

/// Watches whose news nobody reads, of something that changes and changes.
pub(crate) async fn unread_watches(address: SocketAddr) -> Result<String, String> {
    let held = async {
        let mut held = Vec::new();
        for _ in 0..50 {
            let mut peer = Peer::connect(address, 1 << 20).await?;
            for number in 0..200 {
                // A key of its own each, so that each has an answer of its own.
                let key = format!("\u{a}\u{4}{number:04}");
                peer.request(LOOK, flag::END | flag::VALUES, key.as_bytes());
            }
            peer.flush().await?;
            while peer.count(Kind::Reply) < 200 {
                peer.read().await?;
            }
            held.push(peer);
        }
        let mut writer = Peer::connect(address, 1 << 20).await?;
        for number in 1..=500 {
            let text = format!("\u{a}\u{4}{number:04}");
            writer.run_command(number, ECHO, text.as_bytes()).await?;
        }
        io::Result::Ok(held)
    };
    told(held.await)?;
    Ok("500 changes of 10000 watches, and no news was read".into())
}

/// Frames made by their number, until the server stops to take them or so many bytes were sent.
async fn pour(
    address: SocketAddr,
    connections: usize,
    bytes: usize,
    make: fn(&mut Peer, u32),
) -> Result<String, String> {
    let mut pouring = JoinSet::new();
    for _ in 0..connections {
        pouring.spawn(async move {
            let mut peer = Peer::connect(address, 1 << 20).await?;
            let (mut sent, mut number) = (0, 0);
            while sent < bytes / connections {
                while peer.out.len() < 64 << 10 {
                    make(&mut peer, number);
                    number += 1;
                }
                let size = peer.out.len();
                match peer.push().await {
                    Ok(true) => sent += size,
                    Ok(false) => return Ok(Poured { peer: Some(peer), sent, is_taken: false }),
                    Err(_) => return Ok(Poured { peer: None, sent, is_taken: false }),
                }
            }
            io::Result::Ok(Poured { peer: Some(peer), sent, is_taken: true })
        });
    }
    let mut held = Vec::new();
    while let Some(poured) = pouring.join_next().await {
        held.push(told(poured.map_err(io::Error::other).and_then(|poured| poured))?);
    }
    let sent: usize = held.iter().map(|poured| poured.sent).sum();
    let closed = held.iter().filter(|poured| poured.peer.is_none()).count();
    let taken = held.iter().filter(|poured| poured.is_taken).count();
    Ok(format!(
        "{} MiB were taken; all of it on {taken} connections, {closed} were closed",
        sent / MIB
    ))
}

/// What became of a connection into which somebody poured.
struct Poured {
    /// Held, so that what it did not read stays unread.
    peer: Option<Peer>,
    sent: usize,
    is_taken: bool,
}

fn ping() -> Vec<u8> {
    let mut ping = Vec::new();
    frame::put(&mut ping, Kind::Ping, 0, 0, &[7; 64]);
    ping
}

/// Pings, whose answers nobody reads.
pub(crate) async fn pings(address: SocketAddr) -> Result<String, String> {
    pour(address, 20, 384 * MIB, |peer, _| peer.out.extend_from_slice(&ping())).await
}

/// Queries that are taken back at once, and whose answers nobody reads.
pub(crate) async fn cancelled(address: SocketAddr) -> Result<String, String> {
    pour(address, 20, 86 * MIB, |peer, number| {
        let stream = 2 * (number % 250) + 1;
        peer.request_on(stream, number % 250, LOOK, flag::END, b"");
        let frame = frame::open(&mut peer.out, Kind::Cancel, 0, 0);
        varint::put_numbers(&mut peer.out, &[stream]);
        frame.finish(&mut peer.out);
    })
    .await
}

/// Frames of kinds that are not known yet.
pub(crate) async fn unknown_kinds(address: SocketAddr) -> Result<String, String> {
    pour(address, 4, 1024 * MIB, |peer, _| {
        let head =
            Head { len: 60_000, stream: 0, kind: 200, flags: 0, meta_len: 0, deadline_ms: 0 };
        peer.out.extend_from_slice(&head.encode());
        peer.out.resize(peer.out.len() + 60_000, b'x');
    })
    .await
}

/// Default headers, replaced again and again.
pub(crate) async fn headers(address: SocketAddr) -> Result<String, String> {
    pour(address, 4, 150 * MIB, |peer, number| {
        let metadata =
            Metadata::builder().header("x-large", format!("{number}{}", "x".repeat(15_000)));
        let frame = frame::open(&mut peer.out, Kind::Auth, 0, 0);
        peer.out.extend_from_slice(metadata.build().raw());
        frame.metadata_ends(&peer.out).finish(&mut peer.out);
    })
    .await
}

fn told<T>(result: io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

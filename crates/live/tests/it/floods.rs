//! Peers that send, or ask for, all that they may and give nothing back: the server's resident
//! memory stays within a bound, while they are connected and after they left.
//!
//! One test in a process of its own, since a process is what is measured.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;

use bytes::BytesMut;
use tidewire_live::{ByteStream, Config, ConnectionEnd};
use tidewire_live_proto::frame::{self, HEAD_BYTES, Head, Kind, flag};
use tidewire_live_proto::metadata::{put_entry, put_number, tag};
use tidewire_live_proto::{Hello, Limits, feature, varint};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use crate::pair::{Served, client, pair, query, text};

const MIB: usize = 1 << 20;
/// The most MiB that the process may grow by; each of the floods would take more.
const MOST: usize = 256;
/// Set in the process that is measured.
const MEASURED: &str = "TIDEWIRE_FLOODS";

/// What a server states by default.
fn limits() -> Limits {
    Limits {
        calls_max: 256,
        stream_credit: 128 << 10,
        connection_credit: 8 << 20,
        ..Config::default().limits
    }
}

fn served() -> Arc<Served> {
    let boot = Some([1; 16]);
    Arc::new(Served::with(Config { limits: limits(), boot, ..Config::default() }))
}

/// Bytes of memory that this process holds.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A peer by hand: it keeps to its credit, and to nothing else.
struct Flood {
    stream: DuplexStream,
    /// Ends when the server has seen that the connection ended.
    served: JoinHandle<Option<ConnectionEnd>>,
    input: BytesMut,
    out: Vec<u8>,
    /// What was sent and not credited, by stream; 0 is the connection.
    outstanding: HashMap<u32, u64>,
    open: usize,
}

impl Flood {
    async fn new(served: &Served, credit: u64) -> Self {
        let (stream, far) = tokio::io::duplex(1 << 20);
        let served = served.serve(ByteStream::new(far));
        let limits = Limits { stream_credit: credit, connection_credit: credit, ..limits() };
        let boot = Some([9; 16]);
        let hello = Hello { features: feature::USUAL, limits, boot, ..Hello::default() };
        let mut out = Vec::new();
        hello.encode(&mut out);
        let (input, outstanding) = (BytesMut::new(), HashMap::new());
        let mut flood = Self { stream, served, input, out, outstanding, open: 0 };
        flood.flush().await;
        while !flood.read().await {}
        flood
    }

    /// Goes away; the server has seen it.
    async fn leave(self) {
        drop(self.stream);
        self.served.await.unwrap();
    }

    async fn flush(&mut self) {
        let out = std::mem::take(&mut self.out);
        self.stream.write_all(&out).await.unwrap();
    }

    /// Reads what is there, at least something: whether a whole frame was.
    async fn read(&mut self) -> bool {
        assert!(self.stream.read_buf(&mut self.input).await.unwrap() > 0, "the server hung up");
        let mut had_frame = false;
        while let Some((head, _)) = self.input.split_first_chunk::<HEAD_BYTES>() {
            let head = Head::decode(head);
            if self.input.len() < HEAD_BYTES + head.len as usize {
                break;
            }
            let whole = self.input.split_to(HEAD_BYTES + head.len as usize);
            had_frame = true;
            if head.kind == Kind::Credit as u8 {
                let credit = varint::take(&mut &whole[HEAD_BYTES..]).unwrap();
                *self.outstanding.get_mut(&head.stream).unwrap() -= credit;
            }
            let goaway = head.kind == Kind::Goaway as u8;
            assert!(!goaway, "{}", String::from_utf8_lossy(&whole));
        }
        had_frame
    }

    /// Waits until the server has handled all that was sent.
    async fn settle(&mut self) {
        let frame = frame::open(&mut self.out, Kind::Ping, 0, 0);
        frame.finish(&mut self.out);
        self.flush().await;
        while !self.read().await {}
    }

    fn request(&mut self, name: &str, flags: u8) {
        let stream = 2 * self.open as u32 + 1;
        let frame = frame::open(&mut self.out, Kind::Request, stream, flags);
        put_number(&mut self.out, tag::METHOD, self.open as u64);
        put_entry(&mut self.out, tag::NAME, format!("\0/t.v1.Echo/{name}").as_bytes());
        frame.metadata_ends(&self.out).finish(&mut self.out);
        self.open += 1;
    }

    fn may_send(&self, stream: u32) -> bool {
        let sent = |stream| self.outstanding.get(&stream).copied().unwrap_or(0);
        sent(stream) < limits().stream_credit && sent(0) < limits().connection_credit
    }

    /// Sends `bytes` of an unfinished item on each open call, as far as it may; how many in all.
    async fn unfinished_items(&mut self, bytes: usize) -> usize {
        let piece = vec![b'x'; 16 << 10];
        let (mut sent, mut all) = (vec![0; self.open], 0);
        loop {
            let before = all;
            for (call, sent) in sent.iter_mut().enumerate() {
                let stream = 2 * call as u32 + 1;
                while *sent < bytes && self.may_send(stream) {
                    frame::put(&mut self.out, Kind::Items, stream, flag::MORE, &piece);
                    for level in [0, stream] {
                        *self.outstanding.entry(level).or_default() += piece.len() as u64;
                    }
                    *sent += piece.len();
                    all += piece.len();
                }
                self.flush().await;
            }
            // Handlers take what came in turns of their own.
            for _ in 0..20 {
                self.settle().await;
            }
            if all == before {
                return all;
            }
        }
    }
}

#[test]
fn what_a_peer_makes_the_server_hold_is_bounded() {
    if std::env::var_os(MEASURED).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(floods());
    }
    let name = "floods::what_a_peer_makes_the_server_hold_is_bounded";
    let mut measured = Command::new(std::env::current_exe().unwrap());
    let output = measured.args(["--exact", name]).env(MEASURED, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

async fn floods() {
    // What a first call leaves behind is not counted.
    let (link, _other) = pair();
    assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    let before = resident();
    let grown = || (resident().saturating_sub(before)) / MIB;

    // 250 calls, each with up to 3 MiB of an item that does not end: 750 MiB.
    let served = served();
    for round in 0..3 {
        let mut flood = Flood::new(&served, 1 << 20).await;
        for _ in 0..250 {
            flood.request("Say", 0);
        }
        let sent = flood.unfinished_items(3 * MIB).await;
        assert!(grown() < MOST, "{} MiB in connection {round}, of {} sent", grown(), sent / MIB);
        flood.leave().await;
    }
    assert!(grown() < MOST, "{} MiB are parked", grown());
    served.links.expire_parked();

    // 200 replies of a megabyte each, whose reader states any credit and never reads, five times.
    let served = crate::floods::served();
    for round in 0..5 {
        let mut flood = Flood::new(&served, 1 << 30).await;
        for _ in 0..200 {
            flood.request("Lines", flag::END);
        }
        flood.flush().await;
        while served.echo.counted.load(std::sync::atomic::Ordering::SeqCst) < 200 * (round + 1) {
            tokio::task::yield_now().await;
        }
        assert!(grown() < MOST, "{} MiB in connection {round}", grown());
        flood.leave().await;
    }
    assert!(grown() < MOST, "{} MiB are parked", grown());
    served.links.expire_parked();

    // Names of methods that are not there.
    let served = crate::floods::served();
    let mut floods = Vec::new();
    for _ in 0..24 {
        let mut flood = Flood::new(&served, 1 << 20).await;
        for number in 0..1024_u32 {
            let frame = frame::open(&mut flood.out, Kind::Request, 1, flag::END);
            put_number(&mut flood.out, tag::METHOD, number.into());
            let name = format!("\0/{number}{}", "n".repeat(16_000));
            put_entry(&mut flood.out, tag::NAME, name.as_bytes());
            frame.metadata_ends(&flood.out).finish(&mut flood.out);
            flood.flush().await;
            while !flood.read().await {}
        }
        floods.push(flood);
    }
    assert!(grown() < MOST, "{} MiB for names", grown());
}

#[tokio::test]
async fn bodies_that_are_larger_together_than_any_window_all_come_whole() {
    let limits = Limits { stream_credit: 32 << 10, connection_credit: 128 << 10, ..limits() };
    let served = Arc::new(Served::with(Config { limits, ..Config::default() }));
    let link = client(move || {
        let (near, far) = tokio::io::duplex(64 << 10);
        served.serve(ByteStream::new(far));
        Ok(near)
    });
    let calls = (0..30_u8).map(|n| {
        let (link, body) = (Arc::clone(&link), vec![b'a' + n % 26; 300_000 + usize::from(n)]);
        async move {
            let came = text(link.call(query("Say", body.clone())).await).await;
            came.unwrap().into_bytes() == body
        }
    });
    assert_eq!(futures_util::future::join_all(calls).await, [true; 30]);
}

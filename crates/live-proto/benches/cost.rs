//! What the protocol costs, both ends together, without a transport: encode, decode, state.
//!
//! ```text
//! cargo bench -p tidewire-live-proto --bench cost                 every case: ns and allocations
//! cargo bench -p tidewire-live-proto --bench cost -- watch_memory bytes that a granted watch holds
//! valgrind --tool=callgrind <bench> unary_query 10000       instructions: subtract a run of half
//! ```
//!
//! A case runs calls in batches of 64 in flight, as a socket would carry them: one buffer each way.
//! Targets: at most 150 ns per unary call of 32 B, 15 ns per stream item, no allocation
//! per small call beyond the payload. An allocation per batch is a read buffer's.

#![allow(unsafe_code, reason = "counting allocations needs a GlobalAlloc")]
#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tidewire_live_proto::{
    Acceptor, CallId, Config, Event, MethodId, OutgoingReply, Push, Request, Session, SessionId,
    Watch, feature,
};
use tidewire_service::{Codec, Validator};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes allocated and not freed.
static HELD: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method forwards to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(size as u64, Ordering::Relaxed);
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const BATCH: usize = 64;
const BYTES: &[u8] = &[7; 32];
const PAYLOAD: Bytes = Bytes::from_static(BYTES);

struct Pair {
    client: Session,
    server: Session,
    method: MethodId,
    wire: Vec<u8>,
    asked: Vec<CallId>,
    answers: usize,
    items: usize,
}

impl Pair {
    fn new() -> Self {
        // Without zstd: items of equal bytes would measure the compressor.
        let features = feature::USUAL & !feature::ZSTD;
        let mut client = Session::dialer(Config { features, ..Config::default() });
        let method = client.method("/bench.v1.Bench/Sum", Codec::Proto);
        client.connect(0);
        let mut wire = Vec::new();
        client.poll_output(0, &mut wire);
        let mut acceptor = Acceptor::new(Config::default(), 0);
        acceptor.input().extend_from_slice(&wire);
        let hello = acceptor.poll(0).expect("a good hello").expect("a whole hello");
        let id = SessionId { id: [1; 16], secret: [2; 32] };
        let server = acceptor.accept(hello, id, 0);
        let mut pair =
            Self { client, server, method, wire, asked: Vec::new(), answers: 0, items: 0 };
        pair.hear();
        pair
    }

    fn serve(&mut self) {
        self.wire.clear();
        self.client.poll_output(0, &mut self.wire);
        self.server.input().extend_from_slice(&self.wire);
        while let Some(event) = self.server.poll_event(0) {
            if let Event::Request(request) = event {
                black_box(request.payload());
                self.asked.push(request.call);
            }
        }
    }

    fn hear(&mut self) {
        self.wire.clear();
        self.server.poll_output(0, &mut self.wire);
        self.client.input().extend_from_slice(&self.wire);
        while let Some(event) = self.client.poll_event(0) {
            match event {
                Event::Reply(answer) => {
                    black_box(answer.payload());
                    self.answers += 1;
                }
                Event::Items { call, items } => {
                    for item in items.iter() {
                        black_box(item);
                        self.items += 1;
                    }
                    let bytes = items.bytes();
                    self.client.consumed(call, bytes);
                }
                _ => {}
            }
        }
    }

    fn batch(
        &mut self,
        request: impl Fn(MethodId) -> Request,
        reply: impl Fn() -> OutgoingReply<'static>,
    ) {
        for _ in 0..BATCH {
            let call = self.client.call(request(self.method), 0);
            black_box(call.expect("the batch is below calls_max"));
        }
        self.serve();
        let mut asked = std::mem::take(&mut self.asked);
        for call in asked.drain(..) {
            self.server.reply(call, reply());
        }
        self.asked = asked;
        self.hear();
    }
}

fn unary(
    calls: usize,
    request: impl Fn(MethodId) -> Request,
    reply: impl Fn() -> OutgoingReply<'static>,
) -> usize {
    let mut pair = Pair::new();
    while pair.answers < calls {
        pair.batch(&request, &reply);
    }
    pair.answers
}

fn stream(items: usize, item: &[u8]) -> usize {
    let mut pair = Pair::new();
    let call = pair.client.call(Request::query(pair.method, PAYLOAD), 0);
    black_box(call.expect("there is room"));
    pair.serve();
    let call = pair.asked.pop().expect("the request arrived");
    pair.server.reply_stream(call, &OutgoingReply::default());
    while pair.items < items {
        while pair.server.push(call, item) == Push::Queued {}
        pair.hear();
        pair.serve();
    }
    pair.items
}

/// Bodies of 4 MiB, one after the other, each gathered by the caller; in bytes.
fn bodies(bytes: usize) -> usize {
    let mut pair = Pair::new();
    let body = Bytes::from(vec![7; BODY_BYTES]);
    let mut gathered = Vec::with_capacity(BODY_BYTES);
    let mut done = 0;
    while done < bytes {
        let call = pair.client.call(Request::query(pair.method, PAYLOAD), 0);
        black_box(call.expect("there is room"));
        pair.serve();
        let asked = pair.asked.pop().expect("the request arrived");
        pair.server.reply_body(asked, &OutgoingReply::default(), &body);
        gathered.clear();
        while gathered.len() < BODY_BYTES {
            pair.wire.clear();
            pair.server.poll_output(0, &mut pair.wire);
            pair.client.input().extend_from_slice(&pair.wire);
            while let Some(event) = pair.client.poll_event(0) {
                if let Event::Piece { call, piece } = event {
                    gathered.extend_from_slice(&piece.bytes);
                    pair.client.consumed(call, piece.bytes.len() as u64);
                }
            }
            pair.serve();
        }
        pair.hear();
        done += black_box(&gathered).len();
    }
    done
}

/// The copies that a body of 4 MiB cannot do without, in frames of 64 KiB: into the output, over
/// what stands for the transport, and out of the input; in bytes.
fn copies(bytes: usize) -> usize {
    let body = Bytes::from(vec![7; BODY_BYTES]);
    let (mut wire, mut gathered) = (Vec::new(), Vec::with_capacity(BODY_BYTES));
    let mut input = bytes::BytesMut::new();
    let mut done = 0;
    while done < bytes {
        gathered.clear();
        for piece in body.chunks(64 << 10) {
            wire.clear();
            wire.extend_from_slice(&[0; 16]);
            wire.extend_from_slice(piece);
            input.extend_from_slice(&wire);
            let frame = input.split().freeze();
            gathered.extend_from_slice(&frame[16..]);
        }
        done += black_box(&gathered).len();
    }
    done
}

/// Watches are granted and all made stale, again and again.
fn watches(count: usize) -> usize {
    let mut pair = Pair::new();
    let mut done = 0;
    while done < count {
        for _ in 0..BATCH {
            let request = Request::query(pair.method, PAYLOAD).watch(Watch::Notify);
            black_box(pair.client.call(request, 0).expect("there is room"));
        }
        pair.serve();
        let asked = std::mem::take(&mut pair.asked);
        for &call in &asked {
            pair.server.reply(
                call,
                OutgoingReply::new(BYTES).validator(Validator::new([1; 16])).watched(),
            );
        }
        pair.hear();
        for &call in &asked {
            pair.server.stale(call);
        }
        pair.hear();
        done += asked.len();
    }
    done
}

/// What `count` granted watches hold at the caller and at the callee, beyond the answers.
fn watch_memory(count: usize) -> (u64, u64) {
    let mut pair = Pair::new();
    let mut open = 0;
    while open < count {
        for _ in 0..BATCH {
            let request = Request::query(pair.method, PAYLOAD).watch(Watch::Notify);
            black_box(pair.client.call(request, 0).expect("there is room"));
        }
        pair.serve();
        for call in std::mem::take(&mut pair.asked) {
            open += 1;
            pair.server.reply(
                call,
                OutgoingReply::new(BYTES).validator(Validator::new([1; 16])).watched(),
            );
        }
        pair.hear();
    }
    let Pair { client, server, .. } = pair;
    let freed = |session: Session| {
        let before = HELD.load(Ordering::Relaxed);
        drop(session);
        before - HELD.load(Ordering::Relaxed)
    };
    (freed(client), freed(server))
}

fn print_watch_memory() {
    const WATCHES: usize = 64_000;
    let (few, many) = (watch_memory(BATCH), watch_memory(BATCH + WATCHES));
    let each = |few: u64, many: u64| (many - few) as f64 / WATCHES as f64;
    println!(
        "watch_memory: {:.1} bytes a watch at the caller, {:.1} at the callee",
        each(few.0, many.0),
        each(few.1, many.1)
    );
}

type Case = (&'static str, usize, fn(usize) -> usize);

const BODY_BYTES: usize = 4 << 20;

const CASES: [Case; 9] = [
    ("unary_query", 400_000, |n| {
        unary(n, |m| Request::query(m, PAYLOAD), || OutgoingReply::new(BYTES))
    }),
    ("unary_command", 400_000, |n| {
        unary(n, |m| Request::command(m, PAYLOAD), || OutgoingReply::new(BYTES))
    }),
    ("unary_deadline", 400_000, |n| {
        unary(n, |m| Request::query(m, PAYLOAD).deadline(30_000_000), || OutgoingReply::new(BYTES))
    }),
    ("watch_and_stale", 400_000, watches),
    ("stream_1_byte", 20_000_000, |n| stream(n, &[1])),
    ("stream_100_bytes", 5_000_000, |n| stream(n, &[1; 100])),
    ("stream_10_kib", 100_000, |n| stream(n, &[1; 10_240])),
    ("body_4_mib_byte", 256 << 20, bodies),
    ("body_4_mib_byte_copied", 256 << 20, copies),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let wanted = arguments.first().map(String::as_str);
    if wanted.is_none_or(|wanted| wanted == "watch_memory") {
        print_watch_memory();
    }
    let count = arguments.get(1).and_then(|count| count.parse().ok());
    for (name, usual, case) in CASES {
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        if let Some(count) = count {
            println!("{name}: {} done", case(count));
            continue;
        }
        let mut rounds: Vec<(f64, f64)> = (0..7)
            .map(|_| {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let start = Instant::now();
                let done = case(usual) as f64;
                let nanos = start.elapsed().as_nanos() as f64;
                let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
                (nanos / done, allocations as f64 / done)
            })
            .collect();
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (best, median, worst) = (rounds[0].0, rounds[3].0, rounds[6].0);
        println!(
            "{name}: median {median:.1} ns, best {best:.1}, worst {worst:.1}, {:.4} allocations",
            rounds[3].1
        );
    }
}

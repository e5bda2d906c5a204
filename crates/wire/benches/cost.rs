//! What the protocols cost beyond HTTP: heads, envelopes and ends, without a transport or a
//! handler.
//!
//! ```text
//! cargo bench -p tidewire-wire --bench cost                every case: ns and allocations a call
//! valgrind --tool=callgrind <bench> 'answer grpc' 10000    instructions: subtract a run of half
//! ```
//!
//! `answer …` is a server's part of a unary call of 44 bytes each way: negotiate, read, reply.
//! `call …` is a client's: the request, and reading a reply. `item …` is a message of a stream, one
//! of a thousand. The headers that the HTTP library would have made are cloned for each call, which
//! is counted.

#![allow(unsafe_code, reason = "counting allocations needs a GlobalAlloc")]
#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use tidewire_service::{Codec, Spec, StreamKind};
use tidewire_wire::{
    Caller, Coders, Compression, Dialect, Event, Exchange, Head, ReadStep, negotiate,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method forwards to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const MESSAGE: Bytes = Bytes::from_static(&[7; 44]);
const LIMIT: usize = 4 << 20;
const ITEMS: u64 = 1000;

static UNARY: Spec = Spec::new("a.B", "C", "/a.B/C", StreamKind::Unary, ["a.Q", "a.R"]);
static STREAM: Spec = Spec::new("a.B", "D", "/a.B/D", StreamKind::Server, ["a.Q", "a.R"]);

/// A dialect with a codec, and what a usual client of it sends.
struct Case {
    name: &'static str,
    dialect: Dialect,
    codec: Codec,
    headers: &'static [(&'static str, &'static str)],
    body: Bytes,
}

fn cases() -> [Case; 4] {
    let enveloped: Bytes = [&[0, 0, 0, 0, 44][..], &MESSAGE].concat().into();
    let grpc = &[
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "2S"),
        ("grpc-accept-encoding", "gzip"),
        ("user-agent", "grpc-go/1.76.0"),
    ];
    let connect = |content_type| -> &'static [(&'static str, &'static str)] {
        Vec::leak(vec![
            ("content-type", content_type),
            ("connect-protocol-version", "1"),
            ("connect-timeout-ms", "2000"),
            ("accept-encoding", "gzip"),
            ("content-length", "44"),
            ("user-agent", "connect-go/1.19.1"),
            ("host", "127.0.0.1:8080"),
        ])
    };
    let web = &[("content-type", "application/grpc-web"), ("x-grpc-web", "1")];
    let case = |name, dialect, codec, headers, body| Case { name, dialect, codec, headers, body };
    let connect_json = connect("application/json");
    let connect_proto = connect("application/proto");
    [
        case("grpc", Dialect::Grpc, Codec::Proto, grpc, enveloped.clone()),
        case("connect-json", Dialect::Connect, Codec::Json, connect_json, MESSAGE),
        case("connect-proto", Dialect::Connect, Codec::Proto, connect_proto, MESSAGE),
        case("grpc-web", Dialect::GrpcWeb, Codec::Proto, web, enveloped),
    ]
}

impl Case {
    fn headers(&self) -> HeaderMap {
        let pairs = self
            .headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn negotiated(&self, headers: &HeaderMap, method: &Spec) -> Exchange {
        let (verb, version) = (&Method::POST, Version::HTTP_2);
        let head = Head { verb, query: None, version, headers };
        negotiate(&head, Some(method)).expect("the head is right")
    }

    fn answer(&self, calls: u64) {
        let (headers, coders) = (self.headers(), Coders::default());
        for _ in 0..calls {
            let headers = black_box(headers.clone());
            let exchange = self.negotiated(&headers, &UNARY);
            let mut requests = exchange.requests(LIMIT).expect("it is small");
            requests.push(self.body.clone());
            requests.finish();
            let Ok(ReadStep::Message(message)) = requests.read(&coders) else {
                unreachable!("the body is a message")
            };
            let none = HeaderMap::new;
            let mut response = exchange.reply(none(), black_box(message), none(), &coders);
            black_box((response.headers, response.trailers.take()));
            response.body.for_each(|piece| drop(black_box(piece)));
        }
    }

    fn call(&self, calls: u64) {
        let (dialect, codec, coders) = (self.dialect, self.codec, Arc::new(Coders::default()));
        let compression = Compression::default();
        let (queries_by_get, message_bytes_max) = (false, LIMIT);
        let caller = Caller {
            dialect,
            compression,
            queries_by_get,
            message_bytes_max,
            coders: Arc::clone(&coders),
        };
        let exchange = self.negotiated(&self.headers(), &UNARY);
        let mut response = exchange.reply(HeaderMap::new(), MESSAGE, HeaderMap::new(), &coders);
        let http_trailers = response.trailers.take();
        let pieces: Vec<Bytes> = response.body.collect();
        let host = Arc::from("127.0.0.1");
        for _ in 0..calls {
            let request = caller.request(&UNARY, codec, HeaderMap::new(), Some(MESSAGE));
            black_box(request.expect("it is small"));
            let (mut head, ()) = http::Response::new(()).into_parts();
            head.headers = black_box(response.headers.clone());
            let replies = caller.replies(StreamKind::Unary, codec, head, &host);
            let mut replies = replies.expect("the head is right");
            pieces.iter().for_each(|piece| replies.push(piece.clone()));
            let message = replies.read();
            if let Some(trailers) = &http_trailers {
                replies.trailers(trailers.clone());
            }
            replies.finish();
            let mut last = replies.read().expect("the reply is right");
            while !matches!(last, Event::End(_)) {
                last = replies.read().expect("the reply is right");
            }
            let _ = black_box((message.is_ok(), last));
        }
    }

    fn items(&self, calls: u64) {
        let mut headers = self.headers();
        if self.dialect == Dialect::Connect {
            let stream = HeaderValue::from_static("application/connect+proto");
            headers.insert("content-type", stream);
        }
        let coders = Coders::default();
        let exchange = self.negotiated(&headers, &STREAM);
        for _ in 0..calls * ITEMS {
            let pieces = exchange.message(black_box(MESSAGE), &coders).expect("it is small");
            drop(black_box(pieces));
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let only = arguments.first().map(String::as_str);
    let calls = arguments.get(1).and_then(|calls| calls.parse().ok()).unwrap_or(200_000);
    println!("{:<22} {:>8} {:>12}", "case", "ns", "allocations");
    for case in cases() {
        report(&format!("answer {}", case.name), only, calls, 1, |calls| case.answer(calls));
        report(&format!("call {}", case.name), only, calls, 1, |calls| case.call(calls));
        report(&format!("item {}", case.name), only, calls / ITEMS, ITEMS, |calls| {
            case.items(calls);
        });
    }
}

fn report(name: &str, only: Option<&str>, calls: u64, each: u64, work: impl Fn(u64)) {
    if only.is_some_and(|only| name != only) {
        return;
    }
    let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
    work(calls);
    let taken = started.elapsed();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let count = (calls * each) as f64;
    let (ns, each) = (taken.as_nanos() as f64 / count, allocations as f64 / count);
    println!("{name:<22} {ns:>8.1} {each:>12.2}");
}

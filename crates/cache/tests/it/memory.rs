//! What kept answers are counted as, beside what the allocator gave for them: a counting allocator,
//! by thread, since tests run side by side.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use tidewire_cache::{PageCache, PageRuntime, PageSettings, ReplyCache};
use tidewire_memo::{Graph, Source};
use tidewire_service::{
    Body, CacheScope, Call, Codec, Context, Headers, Layer, Reply, Service, StaleSet, Staleness,
};

use crate::harness::{Behind, query};

struct Counting;

/// What one test frees another may have made: one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

thread_local! {
    static TAKEN: Cell<isize> = const { Cell::new(0) };
}

/// What an allocator gives for a request: its own word, and a multiple of two.
fn note(layout: Layout, sign: isize) {
    let bytes = (layout.size() + 8).next_multiple_of(16).max(32);
    // A thread that ends frees what it has after its counter.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + sign * bytes as isize));
}

// SAFETY: both methods forward to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout, 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(layout, -1);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn taken() -> isize {
    TAKEN.with(Cell::get)
}

/// A service of rows, each a message of eight bytes, and the source that it reads.
fn rows(graph: &Graph, sharing: CacheScope, reply: fn() -> Reply) -> (Source<u64>, Behind) {
    let source = Source::new_in(graph, "rows");
    let behind =
        Behind::with(ReplyCache::new(graph), query(sharing), move |mut call: Call| async move {
            let bytes = call.message().await?;
            source.read(&u64::from_be_bytes(bytes[..].try_into().expect("eight bytes")));
            Ok(reply())
        });
    (source, behind)
}

async fn ask(behind: &Behind, row: u64) {
    asked(behind, row).await;
}

async fn asked(behind: &Behind, row: u64) -> Reply {
    let context = Context::new(Headers::new()).with_conditions();
    let body = Body::from(row.to_be_bytes().to_vec());
    let call = Call::method(behind.method(), context, Codec::Proto, body);
    behind.service.call(call).await.expect("an answer")
}

fn small() -> Reply {
    Reply::new(Body::from(vec![7; 90]))
}

fn with_headers() -> Reply {
    let mut reply = small();
    for name in ["x-one", "x-two", "x-three"] {
        reply.headers.insert(name, "a value of some length".parse().expect("a value"));
    }
    reply
}

/// As a connection has them: values are views into the buffer that was read.
fn with_views() -> Reply {
    let buffer = Bytes::from(vec![b'x'; 8 << 10]);
    let mut reply = Reply::new(Body::Full(buffer.slice(100..1_124)));
    for (at, name) in ["x-one", "x-two", "x-three"].into_iter().enumerate() {
        let value = HeaderValue::from_maybe_shared(buffer.slice(at * 30..at * 30 + 29));
        reply.headers.insert(name, value.expect("a value"));
    }
    reply
}

/// A clock that stands still.
struct Runtime(Instant);

impl PageRuntime for Runtime {
    fn now(&self) -> Instant {
        self.0
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}

    fn run(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
}

#[tokio::test]
async fn what_pages_are_counted_as_is_what_they_take() {
    const PAGES: usize = 4_000;
    let _alone = ALONE.lock().await;
    let cache = PageCache::new(Runtime(Instant::now()));
    let pages = Arc::new(async |_: Call| {
        let mut reply = with_views();
        reply.set_header("cache-control", "max-age=60")?;
        reply.set_header("cache-tag", "pages")?;
        Ok(reply)
    });
    let service = cache.layer("shop", PageSettings::default()).layer(pages);
    let get = async |number: usize| {
        let uri = format!("/pages/{number}").parse().expect("a target");
        let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
        let body = service.call(call).await.expect("a page").body;
        assert_eq!(body.collect(2 << 10).await.expect("its bytes").len(), 1_024);
    };
    get(0).await;
    let (before, counted) = (taken(), cache.stats().bytes);
    for number in 1..PAGES {
        get(number).await;
    }
    assert_eq!(cache.stats().pages, PAGES);
    let taken = (taken() - before) as f64 / PAGES as f64;
    let counted = (cache.stats().bytes - counted) as f64 / PAGES as f64;
    println!("pages: {taken:.0} bytes are counted as {counted:.0}");
    let ratio = taken / counted;
    assert!((0.7..1.1).contains(&ratio), "{taken:.0} are counted as {counted:.0}");
}

#[tokio::test]
async fn what_answers_are_counted_as_is_what_they_take() {
    let _alone = ALONE.lock().await;
    // Kept to the end, so that no case is given the places of another.
    let mut graphs = Vec::new();
    for (what, sharing, reply, rows_kept) in [
        ("small", CacheScope::Public, small as fn() -> Reply, 20_000),
        ("a caller's, which ends by time", CacheScope::Caller, small, 20_000),
        ("with headers", CacheScope::Public, with_headers, 8_000),
        ("with headers of a connection", CacheScope::Public, with_views, 2_000),
        ("larger", CacheScope::Public, || Reply::new(Body::from(vec![7; 5_000])), 2_000),
    ] {
        let graph = Graph::new();
        graph.advance(Instant::now());
        let (_, behind) = rows(&graph, sharing, reply);
        ask(&behind, 0).await;
        let (before, counted) = (taken(), graph.stats().bytes);
        for row in 1..rows_kept {
            ask(&behind, row).await;
            ask(&behind, row).await; // from memory
        }
        assert_eq!(behind.runs() as u64, rows_kept, "{what}: all are kept");
        let taken = (taken() - before) as f64 / rows_kept as f64;
        let counted = (graph.stats().bytes - counted) as f64 / rows_kept as f64;
        println!("{what}: {taken:.0} bytes are counted as {counted:.0}");
        let ratio = taken / counted;
        // Less is taken where the pools of memo have places that tests beside this one gave back.
        assert!(ratio < 1.3, "{what}: {taken:.0} are counted as {counted:.0}");
        graphs.push(graph);
    }
}

#[tokio::test]
async fn rows_that_are_made_read_and_deleted_leave_little_behind() {
    let _alone = ALONE.lock().await;
    let graph = Graph::new();
    let (source, behind) = rows(&graph, CacheScope::Public, small);
    for row in 0..1_000 {
        ask(&behind, row).await;
    }
    let (before, counted) = (taken(), graph.stats().bytes);
    for row in 1_000..30_000 {
        source.changed(&row);
        ask(&behind, row).await;
        source.changed(&row);
    }
    // 29,000 answers and what they read, kept to the budget, would be 26 MB.
    let taken = taken() - before;
    assert!(taken < 6 << 20, "{taken} bytes are taken more");
    let counted = graph.stats().bytes - counted;
    assert!(counted < 4 << 20, "{counted} bytes are counted more");
    let runs = behind.runs();
    for row in 0..1_000 {
        ask(&behind, row).await;
    }
    assert_eq!(behind.runs(), runs, "what is current stays");
}

#[tokio::test]
async fn a_place_in_a_set_of_subscriptions_takes_little_and_all_ring_in_one_go() {
    let _alone = ALONE.lock().await;
    // What a table of 32,768 places takes.
    const ROWS: u64 = 28_000;
    let graph = Graph::new();
    graph.set_budget(1 << 30);
    let (source, behind) = rows(&graph, CacheScope::Public, small);
    for row in 0..ROWS {
        ask(&behind, row).await;
    }
    let (mut set, mut joined) = (StaleSet::default(), Vec::with_capacity(ROWS as usize));
    let before = taken();
    for row in 0..ROWS {
        let reply = asked(&behind, row).await;
        let staleness: &Arc<dyn Staleness> = reply.freshness.staleness().expect("kept");
        joined.push(set.add(row as u32, staleness));
    }
    assert!(joined.iter().all(|joined| !joined.is_stale()));
    let each = (taken() - before) as f64 / ROWS as f64;
    println!("a subscription takes {each:.1} bytes in the graph, the set and the cache");
    assert!(each < 90.0, "{each:.1}");
    source.changed_all();
    let mut rung = Vec::new();
    set.take(&mut rung);
    assert!(rung.iter().copied().eq(0..ROWS as u32));
    assert!(joined.iter().all(|joined| joined.is_stale()));
    drop(joined);
    let left = (taken() - before) / ROWS as isize;
    assert!(left < 40, "{left}: what is left is the table of the graph");
}

//! Cached replies that leave as they lie: nobody notices, but by the calls that are not made.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use tidewire_cache::ReplyCache;
use tidewire_memo::{Graph, Source};
use tidewire_server::{
    Builder, CallerAddresses, Limits, RunningServer, Server, Settings, TokioClock,
};
use tidewire_service::{
    Answer, Body, CacheScope, CachedBody, Call, End, Head, Layer, Observation, Observer, Reply,
    Service,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::host::start;
use crate::prepared_watched::Watcher;

/// A service with a cache, and how often it was called.
pub(crate) struct Asked {
    service: Arc<dyn Service>,
    calls: Arc<AtomicUsize>,
    /// Whether it says of itself that it need not be asked.
    is_transparent: bool,
}

impl Service for Asked {
    fn call(&self, call: Call) -> Answer {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.service.call(call)
    }

    fn keeps(&self, kept: &dyn CachedBody) -> bool {
        self.is_transparent && self.service.keeps(kept)
    }
}

/// Pages that are cached, `/page/{n}`, and how often their service was called.
pub(crate) struct Pages {
    pages: Source<u64>,
    calls: Arc<AtomicUsize>,
}

impl Pages {
    pub(crate) fn new(is_transparent: bool, verify: f64) -> (Self, Asked) {
        let graph = Graph::new();
        let pages = Source::new_in(&graph, "pages");
        let versions = Arc::new(AtomicUsize::new(0));
        let page = move |call: Call| {
            let version = Arc::clone(&versions);
            async move {
                let page = call.param::<u64>("n")?;
                pages.read(&page);
                let accept = call.context.header("accept").cloned();
                let version = version.fetch_add(1, Ordering::Relaxed);
                let text = format!("page {page}, version {version}, for {accept:?}\n");
                Ok(Reply::text(text.repeat(1 + page as usize * 40)))
            }
        };
        let cache = ReplyCache::new(&graph).verify(verify).on_mismatch(|_| {});
        let service = cache.page_layer(TokioClock, CacheScope::Public).layer(Arc::new(page));
        let calls = Arc::new(AtomicUsize::new(0));
        (Self { pages, calls: Arc::clone(&calls) }, Asked { service, calls, is_transparent })
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// One connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) async fn connect(server: &RunningServer) -> Self {
        let address = server.url();
        let stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        // Pieces of requests leave as they are cut.
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).await.unwrap();
    }

    /// The next response but for `date` and `age`.
    async fn response(&mut self, has_body: bool) -> String {
        let (mut text, mut length, mut dates) = (String::new(), 0, 0);
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(self.0.read_u8().await.unwrap());
            }
            let line = String::from_utf8(line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().unwrap();
            }
            dates += usize::from(line.starts_with("date: "));
            if line == "\r\n" {
                break;
            }
            if !line.starts_with("date: ") && !line.starts_with("age: ") {
                text.push_str(&line);
            }
        }
        assert_eq!(dates, 1, "{text}");
        if has_body && !text.starts_with("HTTP/1.1 304") {
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await.unwrap();
            text.push_str(std::str::from_utf8(&body).unwrap());
        }
        text
    }

    /// What the server sees that it comes from.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.get_ref().local_addr().unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(get(path, "").as_bytes()).await;
        self.response(true).await
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n")
}

/// The server calls its services for each request.
fn unprepared() -> Limits {
    let mut limits = Limits::default();
    limits.prepared_bytes_max = 0;
    limits
}

#[tokio::test]
async fn a_request_that_comes_again_is_answered_without_a_call_until_the_page_changes() {
    let (pages, service) = Pages::new(true, 0.0);
    let server = start(Server::builder().route(Method::GET, "/page/{n}", service)).await;
    let mut client = Client::connect(&server).await;
    let first = client.get("/page/1").await;
    assert!(first.contains("tidewire; fwd=miss; stored"), "{first}");
    let second = client.get("/page/1").await;
    assert!(second.contains("tidewire; hit"), "{second}");
    for _ in 0..2 {
        assert_eq!(client.get("/page/1").await, second);
    }
    assert_eq!(pages.calls(), 4);
    for _ in 0..10 {
        assert_eq!(client.get("/page/1").await, second);
    }
    let mut other = Client::connect(&server).await;
    other.get("/page/0").await;
    assert_eq!(other.get("/page/1").await, second);
    assert_eq!(pages.calls(), 5, "what was prepared on one connection is there for all");
    pages.pages.changed(&1);
    let changed = client.get("/page/1").await;
    assert!(changed.contains("version 2,"), "{changed}");
    let calls = pages.calls();
    for _ in 0..10 {
        assert!(other.get("/page/1").await.contains("version 2,"));
    }
    assert_eq!(pages.calls(), calls + 2);
}

#[tokio::test]
async fn pipelined_requests_are_prepared_one_by_one() {
    let (pages, service) = Pages::new(true, 0.0);
    let server = start(Server::builder().route(Method::GET, "/page/{n}", service)).await;
    let mut client = Client::connect(&server).await;
    let requests: String = (0..4).map(|n| get(&format!("/page/{n}"), "")).collect();
    // Where the bytes of a round are cut, and so what is known of them, is the network's.
    for _ in 0..100 {
        let before = pages.calls();
        client.send(requests.repeat(4).as_bytes()).await;
        for at in 0..16 {
            let text = client.response(true).await;
            assert!(text.contains(&format!("page {}, version {},", at % 4, at % 4)), "{text}");
        }
        if pages.calls() == before {
            return;
        }
    }
    panic!("no round was prepared: {} calls", pages.calls());
}

/// Whoever wraps the cache sees each call, and so does what looks at requests.
#[tokio::test]
async fn what_looks_at_each_call_goes_on_to_see_each() {
    struct Nobody;
    impl Observer for Nobody {
        fn begin(&self, _: &Head) -> Arc<dyn Observation> {
            Arc::new(Self)
        }
    }
    impl Observation for Nobody {
        fn end(&self, _: &End) {}
    }
    type Change = fn(Builder) -> Builder;
    let cases: [(&str, bool, f64, Change); 8] = [
        ("nothing", true, 0.0, |it| it),
        ("a wrapper", false, 0.0, |it| it),
        ("checks", true, 0.001, |it| it),
        ("an observer", true, 0.0, |it| it.observer(Nobody)),
        ("a gate", true, 0.0, |it| it.gate(|_: &mut Head| Ok(()))),
        ("traces", true, 0.0, |it| it.traces(0.0)),
        ("addresses", true, 0.0, |it| {
            it.callers(CallerAddresses::default().deny(["192.0.2.1"]).unwrap())
        }),
        ("a limit of 0", true, 0.0, |it| it.limits(unprepared())),
    ];
    for (what, is_transparent, verify, change) in cases {
        let (pages, service) = Pages::new(is_transparent, verify);
        let builder = Server::builder().route(Method::GET, "/page/{n}", service);
        let server = start(change(builder)).await;
        let mut client = Client::connect(&server).await;
        for _ in 0..8 {
            client.get("/page/0").await;
        }
        assert_eq!(pages.calls(), if what == "nothing" { 4 } else { 8 }, "{what}");
    }
}

#[tokio::test]
async fn a_date_of_the_handlers_own_stays() {
    const OLD: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let page = move |_: Call| async move {
        rows.read(&1);
        Reply::text("old").with_header("date", OLD)
    };
    let cache = ReplyCache::new(&graph).page_layer(TokioClock, CacheScope::Public);
    let page = cache.layer(Arc::new(page));
    let server = start(Server::builder().route(Method::GET, "/page", page)).await;
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    for _ in 0..8 {
        stream.write_all(get("/page", "").as_bytes()).await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\nold") {
            text.push(stream.read_u8().await.unwrap());
        }
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!("date: {OLD}\r\n")), "{text}");
    }
}

#[tokio::test]
async fn other_settings_hold_for_what_was_prepared_before() {
    let (_, service) = Pages::new(true, 0.0);
    let builder = Server::builder().route(Method::GET, "/page/{n}", service);
    let reload = builder.reload_handle();
    let server = start(builder).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..5 {
        client.get("/page/0").await;
    }
    let mut settings = Settings::default();
    settings.callers = CallerAddresses::default().deny(["127.0.0.1"]).unwrap();
    reload.reload(settings).unwrap();
    assert!(client.get("/page/0").await.starts_with("HTTP/1.1 403 "));
    reload.reload(Settings::default()).unwrap();
    assert!(client.get("/page/0").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn who_reads_nothing_does_not_fill_the_memory() {
    let (_, service) = Pages::new(true, 0.0);
    let mut limits = Limits::default();
    limits.reply_progress_timeout = Duration::from_millis(50);
    let builder = Server::builder().limits(limits).route(Method::GET, "/page/{n}", service);
    let server = start(builder).await;
    let mut client = Client::connect(&server).await;
    for _ in 0..4 {
        client.get("/page/9").await;
    }
    let requests = get("/page/9", "").repeat(100);
    while client.0.get_mut().write_all(requests.as_bytes()).await.is_ok() {}
}

/// Programs of requests, cut anywhere, to a server that prepares and to one that does not.
#[tokio::test]
async fn random_requests_are_answered_as_without_it() {
    let seed = std::env::var("PREPARED_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let programs = std::env::var("PREPARED_PROGRAMS").ok().and_then(|it| it.parse().ok());
    for seed in seed..seed + programs.unwrap_or(25_u64) {
        random_program(seed).await;
    }
}

async fn random_program(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let watched = random.bool();
    let echo = async |mut call: Call| {
        let body = std::mem::take(&mut call.body).collect(1 << 20).await?;
        Ok(Reply::text(Body::from(body)))
    };
    let mut sides = Vec::new();
    for limits in [Limits::default(), unprepared()] {
        let (pages, service) = Pages::new(true, 0.0);
        let watcher = Watcher::default();
        let builder = Server::builder().limits(limits);
        let builder = if watched { builder.observer(watcher.clone()) } else { builder };
        let builder = builder.route(Method::GET, "/page/{n}", service);
        let builder = builder.route(Method::POST, "/echo", echo);
        let builder = builder.route(Method::GET, "/free", async |_: Call| Ok("free"));
        let server = start(builder).await;
        let client = Client::connect(&server).await;
        sides.push((pages, server, client, watcher));
    }
    for _ in 0..random.usize(5..30) {
        let mut bytes = Vec::new();
        let mut bodies = Vec::new();
        for _ in 0..random.usize(1..6) {
            let request = random_request(&mut random);
            bodies.push(!request.starts_with("HEAD"));
            bytes.extend_from_slice(request.as_bytes());
        }
        let mut cuts: Vec<_> =
            (0..random.usize(0..4)).map(|_| random.usize(0..=bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let changed = random.u64(0..12);
        let reconnects = random.usize(0..8) == 0;
        let mut told = Vec::new();
        for (pages, server, client, _) in &mut sides {
            for cut in cuts.windows(2) {
                client.send(&bytes[cut[0]..cut[1]]).await;
                tokio::task::yield_now().await;
            }
            let mut responses = Vec::new();
            for has_body in &bodies {
                responses.push(client.response(*has_body).await);
            }
            told.push(responses);
            if changed < 3 {
                pages.pages.changed(&changed);
            }
            if reconnects {
                *client = Client::connect(server).await;
            }
        }
        let sent = String::from_utf8_lossy(&bytes);
        assert_eq!(told[0], told[1], "seed {seed}, {cuts:?}: {sent}");
    }
    let mut told = Vec::new();
    for (_, server, client, watcher) in sides {
        drop((client, server));
        let mut all = watcher.all_told().await;
        all.sort_unstable();
        told.push(all);
    }
    assert_eq!(told[0], told[1], "seed {seed}");
}

/// Every kind of request that the server answers and goes on after.
fn random_request(random: &mut fastrand::Rng) -> String {
    let path = format!("/page/{}", random.u64(0..3));
    match random.usize(0..16) {
        0 => {
            let body = ["", "\r\n\r\n", "x", "GET /page/0 HTTP/1.1\r\nhost: test\r\n\r\n"];
            let body = body[random.usize(0..4)];
            let mut text = String::from("POST /echo HTTP/1.1\r\nhost: test\r\n");
            if random.bool() {
                write!(text, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
            } else {
                text.push_str("transfer-encoding: chunked\r\n\r\n");
                if !body.is_empty() {
                    write!(text, "{:x}\r\n{body}\r\n", body.len()).unwrap();
                }
                text.push_str("0\r\n\r\n");
            }
            text
        }
        1 => get("/free", ""),
        2 => get(&path, "accept: text/html\r\n"),
        3 => get(&path, "if-none-match: *\r\n"),
        4 => get(&path, "content-length: 0\r\n"),
        5 => format!("\r\n\r\n{}", get(&path, "")),
        6 => get(&path, "").replace("\r\n", "\n"),
        7 => get(&path, "").replace("GET", "HEAD"),
        8 => get("/nothing", ""),
        _ => get(&path, ""),
    }
}

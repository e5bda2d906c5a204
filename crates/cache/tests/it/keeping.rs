//! What is kept, and until when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, Method, header::SET_COOKIE};
use tidewire_cache::ReplyCache;
use tidewire_memo::{Graph, Memo, Source};
use tidewire_service::{
    Body, CacheScope, Call, Code, Codec, Context, Error, Freshness, Idempotency, Lifetime, Reply,
    Signal, Spec, StreamKind,
};

use crate::harness::{Behind, query, text};

/// Rows that can be written, behind a source.
#[derive(Clone)]
struct Rows {
    source: Source<String>,
    content: Arc<Mutex<String>>,
}

impl Rows {
    fn new(graph: &Graph) -> Self {
        let source = Source::new_in(graph, "rows");
        Self { source, content: Arc::new(Mutex::new("one".to_owned())) }
    }

    fn write(&self, key: &str, content: &str) {
        let guard = self.source.write(&key.to_owned());
        *self.content.lock().unwrap() = content.to_owned();
        guard.finish();
    }

    async fn read(self, mut call: Call) -> tidewire_service::Result<Reply> {
        let key = String::from_utf8(call.message().await?.to_vec()).unwrap();
        self.source.read(&key);
        let content = self.content.lock().unwrap().clone();
        Ok(Reply::new(Body::from(format!("{key}:{content}").into_bytes())))
    }
}

fn rows(sharing: CacheScope) -> (Rows, Behind) {
    let graph = Graph::new();
    let rows = Rows::new(&graph);
    let read = rows.clone();
    let behind = Behind::new(&graph, query(sharing), move |call| read.clone().read(call));
    (rows, behind)
}

#[tokio::test]
async fn an_answer_is_kept_until_what_it_read_changes_and_no_longer() {
    let (rows, behind) = rows(CacheScope::Public);
    for _ in 0..3 {
        assert_eq!(behind.text("a", Context::default()).await, "a:one");
    }
    assert_eq!(behind.text("b", Context::default()).await, "b:one");
    assert_eq!(behind.runs(), 2);
    rows.write("a", "two");
    assert_eq!(behind.text("b", Context::default()).await, "b:one", "b is as it was");
    assert_eq!(behind.runs(), 2);
    assert_eq!(behind.text("a", Context::default()).await, "a:two");
    assert_eq!(behind.runs(), 3);
}

#[tokio::test]
async fn an_answer_ends_with_a_memo_that_it_was_made_of_and_outlives_one_that_comes_out_equal() {
    let graph = Graph::new();
    let rows = Rows::new(&graph);
    let inside = rows.clone();
    let length = Memo::infallible_in(&graph, "length", move |key: String| {
        inside.source.read(&key);
        let length = inside.content.lock().unwrap().len();
        async move { length }
    });
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_| async move {
        let length =
            length.get("k".to_owned()).await.map_err(|e| Error::internal(e.to_string()))?;
        Ok(Reply::new(Body::from(length.to_string().into_bytes())))
    });
    assert_eq!(behind.text("x", Context::default()).await, "3");
    rows.write("k", "six");
    assert_eq!(behind.text("x", Context::default()).await, "3");
    assert_eq!(behind.runs(), 1, "an equal length leaves the answer as it is");
    rows.write("k", "seven");
    assert_eq!(behind.text("x", Context::default()).await, "5");
    assert_eq!(behind.runs(), 2);
}

#[tokio::test]
async fn an_answer_that_nothing_ends_is_not_kept_unless_the_method_says_how_long_it_is_good() {
    for (spec, runs) in [
        (query(CacheScope::Public), 2),
        (query(CacheScope::Public).ttl_ms(60_000), 1),
        (query(CacheScope::Public).immutable(), 1),
    ] {
        let lifetime = match (spec.ttl_ms, spec.immutable) {
            (Some(ms), _) => Lifetime::For(Duration::from_millis(ms)),
            (None, true) => Lifetime::Immutable,
            _ => Lifetime::Unknown,
        };
        let handler = |_| async { Ok(Reply::new(Body::from("same"))) };
        let behind = Behind::new(&Graph::new(), spec, handler);
        for _ in 0..2 {
            assert_eq!(behind.text("", Context::default()).await, "same");
        }
        assert_eq!(behind.runs(), runs, "{lifetime:?}");
        let reply = behind.ask("", Context::default()).await.unwrap();
        assert_eq!(reply.freshness.lifetime(), lifetime);
        assert_eq!(reply.freshness.validator().is_some(), runs == 1, "{lifetime:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_with_what_it_says_of_itself() {
    let signal = Arc::new(Mutex::new(Signal::new()));
    let inside = Arc::clone(&signal);
    let tracked = Behind::new(&Graph::new(), query(CacheScope::Public), move |_| {
        let freshness = Freshness::tracked(Arc::new(inside.lock().unwrap().clone()));
        async move { Ok(Reply::new(Body::from("far")).with_freshness(freshness)) }
    });
    let lasting = Behind::new(&Graph::new(), query(CacheScope::Public), |_| async {
        let freshness = Freshness::lasting(Duration::from_secs(9)).with_age(Duration::from_secs(4));
        Ok(Reply::new(Body::from("far")).with_freshness(freshness))
    });
    for behind in [&tracked, &lasting] {
        for _ in 0..2 {
            behind.ask("", Context::default()).await.unwrap();
        }
        assert_eq!(behind.runs(), 1);
    }
    std::mem::take(&mut *signal.lock().unwrap()).fire();
    tracked.ask("", Context::default()).await.unwrap();
    assert_eq!(tracked.runs(), 2);
    tokio::time::advance(Duration::from_millis(4_999)).await;
    let reply = lasting.ask("", Context::default()).await.unwrap();
    assert_eq!((lasting.runs(), reply.freshness.age().as_millis()), (1, 8_999));
    tokio::time::advance(Duration::from_millis(1)).await;
    lasting.ask("", Context::default()).await.unwrap();
    assert_eq!(lasting.runs(), 2);
}

#[tokio::test]
async fn a_code_that_speaks_of_the_data_is_kept_and_one_that_speaks_of_the_moment_is_not() {
    for (code, kept) in [
        (Code::NotFound, true),
        (Code::InvalidArgument, true),
        (Code::FailedPrecondition, true),
        (Code::OutOfRange, true),
        (Code::Unavailable, false),
        (Code::Internal, false),
        (Code::PermissionDenied, false),
        (Code::Unauthenticated, false),
        (Code::ResourceExhausted, false),
    ] {
        let graph = Graph::new();
        let source = Source::<u8>::new_in(&graph, "rows");
        let behind = Behind::new(&graph, query(CacheScope::Public), move |_| async move {
            source.read(&1);
            Err(Error::new(code, "no"))
        });
        for _ in 0..2 {
            let error = behind.ask("", Context::default()).await.unwrap_err();
            assert_eq!((error.code(), error.message()), (code, "no"));
            assert_eq!(error.freshness().is_known(), kept, "{code}");
        }
        assert_eq!(behind.runs(), if kept { 1 } else { 2 }, "{code}");
        source.changed(&1);
        behind.ask("", Context::default()).await.unwrap_err();
        assert_eq!(behind.runs(), if kept { 2 } else { 3 }, "{code}");
    }
}

#[tokio::test]
async fn cookies_streams_and_large_replies_pass_through_whole() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let large = "x".repeat(2_000);
    let expected = large.clone();
    let cache = || ReplyCache::new(&graph).reply_bytes_max(1_000);
    let cookie = Behind::with(cache(), query(CacheScope::Public), move |_| async move {
        source.read(&1);
        Reply::new(Body::from("hi")).with_header(SET_COOKIE, "session=1")
    });
    let big = Behind::with(cache(), query(CacheScope::Public), move |_| {
        source.read(&1);
        let large = large.clone();
        async move { Ok(Reply::new(Body::from(large.into_bytes()))) }
    });
    let stream = Behind::with(cache(), query(CacheScope::Public), move |_| async move {
        source.read(&1);
        let parts = [Ok("a".into()), Ok("b".into())];
        Ok(Reply::new(Body::stream(futures_util::stream::iter(parts))))
    });
    for (behind, expected) in [(cookie, "hi"), (big, expected.as_str()), (stream, "ab")] {
        for runs in 1..=2 {
            assert_eq!(behind.text("", Context::default()).await, expected);
            assert_eq!(behind.runs(), runs);
        }
    }
}

#[tokio::test]
async fn commands_streams_and_calls_with_large_keys_pass_through() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let names = ["test.v1.A", "test.v1.B"];
    let command = Spec::dynamic("test.v1.Rows", "Set", StreamKind::Unary, names);
    let stream = Spec::dynamic("test.v1.Rows", "List", StreamKind::Server, names)
        .idempotency(Idempotency::NoSideEffects);
    let handler = move |_| async move {
        source.read(&1);
        Ok(Reply::new(Body::from("done")))
    };
    let small = ReplyCache::new(&graph).key_bytes_max(3);
    for behind in [
        Behind::new(&graph, command, handler),
        Behind::new(&graph, stream, handler),
        Behind::with(small, query(CacheScope::Public), handler),
    ] {
        for runs in 1..=2 {
            assert_eq!(behind.text("four", Context::default()).await, "done");
            assert_eq!(behind.runs(), runs);
        }
    }
}

#[tokio::test]
async fn a_page_is_kept_by_its_uri_and_what_the_caller_accepts() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let behind = Behind::new(&graph, query(CacheScope::Public), move |call: Call| async move {
        source.read(&1);
        assert!(matches!(call.body, Body::Empty), "what has no body is asked for without one");
        let accept = call.context.header("accept").cloned();
        let uri = call.http_target().expect("a page").uri.clone();
        Ok(Reply::text(format!("{uri} {accept:?}")))
    });
    let get = |uri: &'static str, accept: &'static str| {
        let context = crate::harness::from("accept", accept);
        Call::http(Method::GET, uri.parse().unwrap(), context, Body::Empty)
    };
    let ask = async |uri, accept| text(behind.service.call(get(uri, accept)).await.unwrap()).await;
    let first = ask("/a?x=1", "text/plain").await;
    assert_eq!(ask("/a?x=1", "text/plain").await, first);
    assert_eq!(behind.runs(), 1);
    for (runs, uri, accept) in
        [(2, "/a?x=2", "text/plain"), (3, "/a?x=1", "text/html"), (4, "/b?x=1", "text/plain")]
    {
        assert_ne!(ask(uri, accept).await, first);
        assert_eq!(behind.runs(), runs);
    }
    let post = Call::http(Method::POST, "/a?x=1".parse().unwrap(), Context::default(), Body::Empty);
    behind.service.call(post).await.unwrap();
    assert_eq!(behind.runs(), 5);
}

#[tokio::test]
async fn codecs_are_part_of_the_key() {
    let (_, behind) = rows(CacheScope::Public);
    let spec = Arc::new(query(CacheScope::Public));
    for (codec, accept) in
        [(Codec::Proto, Codec::Proto), (Codec::Proto, Codec::Json), (Codec::Json, Codec::Json)]
    {
        let before = behind.runs();
        for _ in 0..2 {
            let body = Body::from("a");
            let call = Call::method(spec.clone(), Context::default(), codec, body);
            behind.service.call(call.with_codecs(codec, accept)).await.unwrap();
        }
        assert_eq!(behind.runs(), before + 1, "{codec:?} {accept:?}");
    }
}

#[tokio::test]
async fn an_answer_made_of_another_kept_answer_is_computed_anew_and_each_keeps_its_own() {
    let graph = Graph::new();
    let rows = Rows::new(&graph);
    let read = rows.clone();
    let inner = Behind::new(&graph, query(CacheScope::Public), move |call| read.clone().read(call));
    let around = |behind: Behind, message: &'static str| {
        Behind::new(&graph, query(CacheScope::Public), move |_| {
            let behind = behind.clone();
            async move {
                let text = format!("<{}>", behind.text(message, Context::default()).await);
                Ok(Reply::new(Body::from(text.into_bytes())))
            }
        })
    };
    let middle = around(inner.clone(), "a");
    let outer = around(middle.clone(), "m");
    assert_eq!(outer.text("x", Context::default()).await, "<<a:one>>");
    rows.write("a", "two");
    assert_eq!(outer.text("x", Context::default()).await, "<<a:two>>");
    assert_eq!(middle.text("m", Context::default()).await, "<a:two>");
    assert_eq!(inner.text("a", Context::default()).await, "a:two");
}

#[tokio::test]
async fn a_method_whose_first_answers_are_private_is_tried_again() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let behind = Behind::new(&graph, query(CacheScope::Public), move |call: Call| async move {
        source.read(&1);
        if matches!(&call.body, Body::Full(bytes) if &**bytes == b"private") {
            call.context.headers();
        }
        Ok(Reply::new(Body::from("same")))
    });
    for _ in 0..20 {
        behind.text("private", Context::default()).await;
    }
    for _ in 0..600 {
        behind.text("open", Context::default()).await;
    }
    let runs = behind.runs();
    behind.text("open", Context::default()).await;
    assert_eq!(behind.runs(), runs, "an answer that may be kept is kept in the end");
}

#[tokio::test]
async fn a_cookie_that_comes_with_an_error_is_given_once_too() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    for is_trailer in [false, true] {
        let behind = Behind::new(&graph, query(CacheScope::Public), move |_| async move {
            source.read(&1);
            let mut error = Error::not_found("nothing");
            let cookie = HeaderValue::from_static("session=1");
            if is_trailer {
                error.trailers_mut().insert(SET_COOKIE, cookie);
            } else {
                error.headers_mut().insert(SET_COOKIE, cookie);
            }
            Err(error)
        });
        for _ in 0..2 {
            assert_eq!(
                behind.ask("", Context::default()).await.unwrap_err().code(),
                Code::NotFound
            );
        }
        assert_eq!(behind.runs(), 2);
    }
}

#[tokio::test]
async fn a_page_is_kept_by_what_its_status_says_of_the_data_and_not_of_the_moment() {
    for (status, is_kept) in [
        (200, true),
        (204, true),
        (206, false),
        (302, true),
        (304, false),
        (400, true),
        (401, false),
        (403, false),
        (404, true),
        (409, false),
        (410, true),
        (429, false),
        (500, false),
        (503, false),
    ] {
        let graph = Graph::new();
        let source = Source::<u8>::new_in(&graph, "rows");
        let status = http::StatusCode::from_u16(status).unwrap();
        let behind = Behind::new(&graph, query(CacheScope::Public), move |_| async move {
            source.read(&1);
            Ok(Reply::text("text").with_status(status))
        });
        for _ in 0..2 {
            assert_eq!(behind.ask("", Context::default()).await.unwrap().status, status);
        }
        assert_eq!(behind.runs() == 1, is_kept, "{status}");
    }
}

#[tokio::test]
async fn a_service_that_names_its_content_is_asked_by_that_name_and_need_not_send_it_again() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let content = Arc::new(Mutex::new("one"));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (read, log) = (Arc::clone(&content), Arc::clone(&sent));
    let behind = Behind::new(&graph, query(CacheScope::Public), move |call: Call| {
        let (read, log) = (Arc::clone(&read), Arc::clone(&log));
        async move {
            source.read(&1);
            let text = *read.lock().unwrap();
            let mut name = [0; 16];
            name[..3].copy_from_slice(text.as_bytes());
            let name = tidewire_service::Validator::new(name);
            let is_held = call.context.caller_validators().contains(&name);
            log.lock().unwrap().push((text, is_held));
            match is_held {
                true => Reply::unchanged(name).with_header(http::header::SERVER, "again"),
                false => Reply::text(text)
                    .with_freshness(Freshness::default().with_validator(name))
                    .with_header(http::header::VIA, "x"),
            }
        }
    });
    for (now, is_held) in [("one", false), ("one", true), ("two", false), ("two", true)] {
        *content.lock().unwrap() = now;
        source.changed(&1);
        for _ in 0..2 {
            let reply = behind.ask("", Context::default()).await.unwrap();
            assert!(reply.headers.contains_key(http::header::VIA), "headers are as they were");
            assert_eq!(reply.headers.contains_key(http::header::SERVER), is_held);
            assert_eq!(text(reply).await, now);
        }
        assert_eq!(sent.lock().unwrap().pop(), Some((now, is_held)));
    }
    assert_eq!(behind.runs(), 4);
}

#[tokio::test]
async fn answers_that_are_made_of_one_that_is_not_kept_do_not_keep_others_from_being_kept() {
    let graph = Graph::new();
    let rows = Rows::new(&graph);
    let outer = Behind::new(&graph, query(CacheScope::Public), move |mut call| {
        let rows = rows.clone();
        async move {
            if call.message().await?.starts_with(b"untold") {
                tidewire_memo::read_untracked();
            }
            rows.read(call).await
        }
    });
    for _ in 0..40 {
        outer.text("untold", Context::default()).await;
    }
    outer.text("a", Context::default()).await;
    outer.text("a", Context::default()).await;
    assert_eq!(outer.runs(), 41);
}

/// A query that reads a row and asks another service, whose answers are as `reply` makes them of
/// their text; and that text.
fn asking(
    spec: Spec,
    reply: impl Fn(&'static str) -> Reply + Send + Sync + 'static,
) -> (Behind, Behind, Arc<Mutex<&'static str>>) {
    let graph = Graph::new();
    let (rows, content) = (Rows::new(&graph), Arc::new(Mutex::new("old")));
    let answers = Arc::clone(&content);
    let inner = Behind::new(&graph, spec, move |_| {
        let reply = reply(*answers.lock().unwrap());
        async move { Ok(reply) }
    });
    let asked = inner.clone();
    let outer = Behind::new(&graph, query(CacheScope::Public), move |call| {
        let (rows, asked) = (rows.clone(), asked.clone());
        async move {
            rows.read(call).await?;
            let inner = asked.text("a", Context::default()).await;
            Ok(Reply::new(Body::from(inner.into_bytes())))
        }
    });
    (outer, inner, content)
}

#[tokio::test(start_paused = true)]
async fn an_answer_made_of_one_that_nothing_ends_is_not_kept_however_often_that_was_asked_for() {
    let command = Spec::dynamic("test.v1.Rows", "Set", StreamKind::Unary, ["", ""]);
    for spec in [query(CacheScope::Public), command] {
        let (outer, inner, content) = asking(spec, |content| Reply::new(Body::from(content)));
        // Those that are never kept are passed on without a look, and so are commands.
        for direct in 0..40 {
            *content.lock().unwrap() = "old";
            assert_eq!(outer.text("a", Context::default()).await, "old", "{direct}");
            *content.lock().unwrap() = "new";
            assert_eq!(outer.text("a", Context::default()).await, "new", "{direct}");
            inner.text("a", Context::default()).await;
        }
        // Who would watch it is told that nobody tells.
        let reply = outer.ask("a", Context::default()).await.unwrap();
        assert!(!reply.freshness.is_known());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_made_without_one_that_it_did_not_wait_for_is_not_kept() {
    let graph = Graph::new();
    let rows = Rows::new(&graph);
    let slow = rows.clone();
    let inner = Behind::new(&graph, query(CacheScope::Public), move |call| {
        let slow = slow.clone();
        async move {
            slow.read(call).await?;
            std::future::pending().await
        }
    });
    let outer = Behind::new(&graph, query(CacheScope::Public), move |call| {
        let (rows, inner) = (rows.clone(), inner.clone());
        async move {
            rows.read(call).await?;
            let asked = inner.ask("b", Context::default());
            let _ = tokio::time::timeout(Duration::from_millis(100), asked).await;
            Ok(Reply::new(Body::from("in its place")))
        }
    });
    for runs in 1..=3 {
        assert_eq!(outer.text("a", Context::default()).await, "in its place");
        assert_eq!(outer.runs(), runs);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_kept_for_longer_than_what_it_is_made_of_says_of_itself() {
    let told = Arc::new(Mutex::new(Signal::new()));
    let signal = Arc::clone(&told);
    let (outer, inner, content) = asking(query(CacheScope::Public), move |content| {
        let freshness = Freshness::tracked(Arc::new(signal.lock().unwrap().clone()));
        Reply::new(Body::from(content)).with_freshness(freshness)
    });
    for made in ["old", "new"] {
        *content.lock().unwrap() = made;
        std::mem::take(&mut *told.lock().unwrap()).fire();
        assert_eq!(outer.text("a", Context::default()).await, made);
        assert_eq!(outer.text("a", Context::default()).await, made);
    }
    assert_eq!(inner.runs(), 2);
    let (outer, inner, content) = asking(query(CacheScope::Public), |content| {
        let freshness = Freshness::lasting(Duration::from_secs(9));
        Reply::new(Body::from(content)).with_freshness(freshness)
    });
    for made in ["old", "new"] {
        *content.lock().unwrap() = made;
        assert_eq!(outer.text("a", Context::default()).await, made);
        assert_eq!(outer.text("a", Context::default()).await, made);
        tokio::time::advance(Duration::from_secs(9)).await;
    }
    assert_eq!(inner.runs(), 2);
}

/// Who is told *unchanged* shows the headers and trailers that it holds.
#[tokio::test]
async fn another_header_or_trailer_is_another_content() {
    let graph = Graph::new();
    let source = Source::<()>::new_in(&graph, "rows");
    let version = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&version);
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_| {
        source.read(&());
        let version = now.load(Ordering::SeqCst);
        async move {
            Reply::new(Body::from("the same"))
                .with_header("x-header", version % 2)?
                .with_trailer("x-trailer", version / 2)
        }
    });
    let mut seen = Vec::new();
    for next in [0, 1, 2, 3] {
        version.store(next, Ordering::SeqCst);
        source.changed(&());
        let reply = behind.ask("", Context::default().with_conditions()).await.unwrap();
        let validator = reply.freshness.validator();
        assert!(!seen.contains(&validator), "{next}");
        seen.push(validator);
    }
}

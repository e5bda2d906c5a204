//! The page cache in front of a real upstream: what is shared, waited for, and given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use http::{Method, StatusCode};
use tidewire_cache::PageSettings;
use tidewire_service::{Body, Frame, Principal, Service};
use tokio::sync::Notify;

use crate::clock::CachingProxy;
use crate::origin::{Origin, Step, ok, response};
use crate::{call, text};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

#[tokio::test]
async fn a_thousand_misses_of_a_page_are_one_request() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let origin = Origin::start(move |_| {
        let mut steps = vec![Step::Wait(Arc::clone(&waits))];
        steps.extend(ok(&[FRESH], "page"));
        steps
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let asked: Vec<_> = (0..1000).map(|_| tokio::spawn(cached.get_owned("/"))).collect();
    origin.until(1).await;
    // All of them wait by now: a notice is kept until somebody waits for it.
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    for asked in asked {
        assert_eq!(asked.await.unwrap().body, "page");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn nobody_waits_for_what_cannot_be_stored() {
    let origin = Origin::start(|_| ok(&[("Cache-Control", "no-store")], "own")).await;
    let cached = CachingProxy::new(&origin);
    cached.get("/").await;
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let slow = Origin::start(move |_| {
        let mut steps = vec![Step::Wait(Arc::clone(&waits))];
        steps.extend(ok(&[("Cache-Control", "no-store")], "own"));
        steps
    })
    .await;
    let cached = CachingProxy::new(&slow);
    let first = tokio::spawn(cached.get_owned("/"));
    slow.until(1).await;
    go.notify_one();
    first.await.unwrap();
    // From now on all of them are at the upstream at once, without an answer to any.
    let asked: Vec<_> = (0..50).map(|_| tokio::spawn(cached.get_owned("/"))).collect();
    slow.until(51).await;
    for asked in asked {
        go.notify_one();
        // Whose turn it is nobody knows.
        drop(asked);
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_nobody_with_it() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let origin = Origin::start(move |received| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 8\r\n\r\nhalf";
        match received.number {
            0 => vec![
                Step::Send(head.into()),
                Step::Wait(Arc::clone(&waits)),
                Step::Send("full".into()),
            ],
            _ => ok(&[FRESH], "another"),
        }
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let first = cached.call(call(Method::GET, "/", &[], Body::Empty)).await.unwrap();
    let second = tokio::spawn(cached.get_owned("/"));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    // Its caller had half of it.
    drop(first);
    go.notify_one();
    assert_eq!(second.await.unwrap().body, "halffull");
    assert_eq!(cached.get("/").await.body, "halffull");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn half_a_page_is_not_stored() {
    for cut in [
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 8\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let origin = Origin::start(move |received| match received.number {
            0 => vec![Step::Send(cut.into()), Step::Close],
            _ => ok(&[FRESH], "whole"),
        })
        .await;
        let cached = CachingProxy::new(&origin);
        let reply = cached.call(call(Method::GET, "/", &[], Body::Empty)).await;
        let outcome = match reply {
            Ok(reply) => text(reply).await,
            Err(error) => Err(error),
        };
        assert!(outcome.is_err(), "{cut}");
        assert_eq!(cached.get("/").await.body, "whole");
    }
}

#[tokio::test]
async fn a_body_without_end_passes_unstored_and_piece_by_piece() {
    let more = Arc::new(Notify::new());
    let waits = Arc::clone(&more);
    let origin = Origin::start(move |_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
        let piece = format!("{:x}\r\n{}\r\n", 64 << 10, "x".repeat(64 << 10));
        let mut steps = vec![Step::Send(head.into())];
        for _ in 0..64 {
            steps.push(Step::Send(piece.clone().into_bytes()));
            steps.push(Step::Wait(Arc::clone(&waits)));
        }
        steps.push(Step::Send("0\r\n\r\n".into()));
        steps
    })
    .await;
    let cached = CachingProxy::with(&origin, |it| it.page_bytes_max = 100_000);
    let reply = cached.call(call(Method::GET, "/", &[], Body::Empty)).await.unwrap();
    let (mut frames, mut bytes) = (reply.body.into_frames(), 0);
    while let Some(frame) = frames.next().await {
        let Frame::Data(data) = frame.unwrap() else { continue };
        bytes += data.len();
        if bytes % (64 << 10) == 0 {
            // The next piece is sent only now.
            more.notify_one();
        }
    }
    assert_eq!(bytes, 64 * (64 << 10));
    assert_eq!(cached.pages.stats().pages, 0);
    // One that says its length is not even looked at.
    let long =
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1073741824\r\n\r\nbegin";
    let origin = Origin::start(move |_| vec![Step::Send(long.into()), Step::Close]).await;
    let cached = CachingProxy::new(&origin);
    let reply = cached.call(call(Method::GET, "/", &[], Body::Empty)).await.unwrap();
    let said = reply.headers.get("cache-status").unwrap();
    assert_eq!(said, "tidewire; fwd=uri-miss");
}

#[tokio::test]
async fn a_page_of_a_known_caller_is_nobody_elses() {
    let origin = Origin::start(|received| {
        let told = received.header("tidewire-principal").unwrap_or("nobody").to_owned();
        let cache = match received.target.as_str() {
            "/public" => "public, max-age=60",
            "/shared" => "s-maxage=60",
            _ => "max-age=60",
        };
        ok(&[("Cache-Control", cache)], &told)
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let ask = async |target: &str, subject: &str| {
        let mut asked = call(Method::GET, target, &[], Body::Empty);
        if !subject.is_empty() {
            asked.context.set_principal(Principal::new("i", subject));
        }
        text(cached.call(asked).await.unwrap()).await.unwrap()
    };
    assert!(ask("/own", "ada").await.contains("ada"));
    assert!(ask("/own", "bob").await.contains("bob"));
    assert_eq!(ask("/own", "").await, "nobody");
    assert!(ask("/own", "ada").await.contains("ada"), "not what nobody got");
    assert!(ask("/shared", "ada").await.contains("ada"));
    assert!(ask("/shared", "bob").await.contains("bob"));
    assert_eq!(ask("/shared", "").await, "nobody");
    let before = origin.count();
    assert!(ask("/shared", "ada").await.contains("ada"));
    assert_eq!(origin.count(), before, "it is kept for its caller");
    assert!(ask("/public", "ada").await.contains("ada"));
    assert!(ask("/public", "bob").await.contains("ada"), "its program says that it is for all");
}

#[tokio::test]
async fn what_is_not_in_the_key_does_not_reach_the_upstream() {
    let origin = Origin::start(|_| ok(&[FRESH], "page")).await;
    let cached = CachingProxy::new(&origin);
    let sent = [
        ("x-original-url", "/admin"),
        ("x-rewrite-url", "/admin"),
        ("x-host", "evil.example"),
        ("x-http-method-override", "POST"),
        ("x-own", "1"),
    ];
    cached.get_with("/", &sent).await;
    let received = origin.last();
    for (name, _) in &sent[..4] {
        assert_eq!(received.header(name), None, "{name}");
    }
    assert_eq!(received.header("x-own"), Some("1"));
    for (target, host) in [("/?a", "shop.example"), ("/", "other.example"), ("/a", "shop.example")]
    {
        let before = origin.count();
        let mut asked = call(Method::GET, target, &[], Body::Empty);
        asked.context.headers_mut().insert("host", host.parse().unwrap());
        cached.call(asked).await.unwrap();
        assert_eq!(origin.count(), before + 1, "{target} {host}");
    }
    let mut asked = call(Method::GET, "/", &[], Body::Empty);
    asked.context.headers_mut().insert("host", "SHOP.example:80".parse().unwrap());
    let before = origin.count();
    cached.call(asked).await.unwrap();
    assert_eq!(origin.count(), before, "the same host");
}

#[tokio::test]
async fn a_tag_ends_its_pages_and_no_others() {
    let origin = Origin::start(|received| match received.method.as_str() {
        "POST" => ok(&[("Tidewire-Changed", "items/1, news")], ""),
        _ => {
            let tags = match received.target.as_str() {
                "/1" => "items/1",
                "/2" => "items/2, news",
                _ => "items",
            };
            ok(&[FRESH, ("Cache-Tag", tags)], "page")
        }
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let fill = async || {
        for target in ["/1", "/2", "/all"] {
            cached.get(target).await;
        }
    };
    let hits = async || {
        let mut hits = Vec::new();
        for target in ["/1", "/2", "/all"] {
            let before = origin.count();
            cached.get(target).await;
            hits.push(origin.count() == before);
        }
        hits
    };
    fill().await;
    assert_eq!(cached.pages.changed("items/2"), 1);
    assert_eq!(hits().await, [true, false, true]);
    assert_eq!(cached.pages.changed("items"), 3);
    assert_eq!(hits().await, [false, false, false]);
    assert_eq!(cached.pages.source_changed("items", "1"), 2, "those of the key, and of all keys");
    assert_eq!(hits().await, [false, true, false]);
    let reply = cached.call(call(Method::POST, "/set", &[], "x")).await.unwrap();
    assert_eq!(reply.headers.get("tidewire-changed"), None, "it is said to the gateway");
    assert_eq!(hits().await, [false, false, true]);
}

#[tokio::test]
async fn what_was_asked_for_before_a_change_is_not_stored_after_it() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let origin = Origin::start(move |received| match received.number {
        0 => {
            let mut steps = vec![Step::Wait(Arc::clone(&waits))];
            steps.extend(ok(&[FRESH, ("Cache-Tag", "items/1")], "before"));
            steps
        }
        _ => ok(&[FRESH, ("Cache-Tag", "items/1")], "after"),
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let first = tokio::spawn(cached.get_owned("/"));
    origin.until(1).await;
    cached.pages.changed("items/1");
    go.notify_one();
    assert_eq!(first.await.unwrap().body, "before");
    assert_eq!(cached.get("/").await.body, "after");
}

#[tokio::test]
async fn memory_is_bounded_and_what_is_asked_for_stays() {
    let origin = Origin::start(|_| ok(&[FRESH], &"x".repeat(10_000))).await;
    let cached = CachingProxy::new(&origin);
    let pages = cached.pages.clone().bytes_max(200_000);
    for number in 0..200 {
        cached.get("/often").await;
        cached.get(&format!("/{number}")).await;
        assert!(pages.stats().bytes <= 200_000);
    }
    let often = origin.received().iter().filter(|it| it.target == "/often").count();
    assert_eq!(often, 1);
    assert!(pages.stats().evicted > 150, "{:?}", pages.stats());
}

#[tokio::test]
async fn readers_that_stop_do_not_make_memory_grow() {
    let body = "x".repeat(50_000);
    let origin = Origin::start(move |_| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
        let piece = format!("{:x}\r\n{body}\r\n", body.len());
        let mut steps = vec![Step::Send(head.into())];
        steps.extend((0..10).map(|_| Step::Send(piece.clone().into_bytes())));
        steps.push(Step::Send("0\r\n\r\n".into()));
        steps
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let pages = cached.pages.clone().bytes_max(1_000_000);
    let mut stopped = Vec::new();
    // Each would be a page of 500 kB; together they may take the million of all pages.
    for number in 0..6 {
        let asked = call(Method::GET, &format!("/{number}"), &[], Body::Empty);
        let mut frames = cached.call(asked).await.unwrap().body.into_frames();
        let mut bytes = 0;
        while bytes < 400_000 {
            let Some(Ok(Frame::Data(data))) = frames.next().await else { panic!("a piece") };
            bytes += data.len();
        }
        stopped.push((frames, bytes));
    }
    for (mut frames, mut bytes) in stopped {
        while let Some(frame) = frames.next().await {
            if let Frame::Data(data) = frame.unwrap() {
                bytes += data.len();
            }
        }
        assert_eq!(bytes, 500_000, "all of it passes");
    }
    assert_eq!(pages.stats().pages, 1, "what was too much was not kept to be stored");
}

#[tokio::test]
async fn any_service_may_say_what_it_has_changed() {
    use tidewire_service::Layer;
    let origin = Origin::start(|_| ok(&[FRESH, ("Cache-Tag", "items/1")], "page")).await;
    let writer = Origin::start(|_| ok(&[("Tidewire-Changed", "items")], "saved")).await;
    let cached = CachingProxy::new(&origin);
    let writes = Arc::new(crate::upstream(&[&writer.url()]));
    let writes = cached.pages.changes_layer("writes").layer(writes);
    cached.get("/").await;
    let reply = writes.call(call(Method::GET, "/", &[], Body::Empty)).await.unwrap();
    assert_eq!(reply.status, StatusCode::OK);
    cached.get("/").await;
    assert_eq!(origin.count(), 1, "only commands change anything");
    let reply = writes.call(call(Method::POST, "/", &[], "x")).await.unwrap();
    assert_eq!(reply.headers.get("tidewire-changed"), None);
    cached.get("/").await;
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn errors_are_shared_and_not_kept() {
    let failing = Arc::new(AtomicUsize::new(1));
    let fails = Arc::clone(&failing);
    let origin = Origin::start(move |_| match fails.load(Ordering::SeqCst) {
        0 => ok(&[FRESH], "well"),
        _ => response(503, &[], ""),
    })
    .await;
    let cached = CachingProxy::new(&origin);
    assert_eq!(cached.get("/").await.status, StatusCode::SERVICE_UNAVAILABLE);
    failing.store(0, Ordering::SeqCst);
    assert_eq!(cached.get("/").await.body, "well");
    assert_eq!(cached.get("/").await.status_text(), "tidewire; hit; ttl=60");
    let _ = PageSettings::default();
}

/// As HTTP servers do once they have sent as much as the head said.
#[tokio::test]
async fn a_page_is_stored_once_its_length_is_there_whoever_asks_for_its_end() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let origin = Origin::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\n";
        vec![Step::Send(head.into()), Step::Wait(Arc::clone(&waits)), Step::Send("page".into())]
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let first = cached.call(call(Method::GET, "/", &[], Body::Empty)).await.unwrap();
    go.notify_one();
    let Body::Stream(mut frames) = first.body else { panic!("it comes from the upstream") };
    let Some(Ok(Frame::Data(data))) = frames.next().await else { panic!("it has a body") };
    assert_eq!(&data[..], b"page");
    drop(frames);
    assert_eq!(cached.get("/").await.body, "page");
    assert_eq!(origin.count(), 1);
}

/// No request has it, so requests cannot be told apart by it.
#[tokio::test]
async fn what_depends_on_what_the_gateway_tells_of_a_caller_is_not_stored() {
    for vary in ["Tidewire-Principal", "accept, TIDEWIRE-principal"] {
        let origin = Origin::start(move |_| {
            ok(&[("Cache-Control", "public, max-age=60"), ("Vary", vary)], "own")
        })
        .await;
        let cached = CachingProxy::new(&origin);
        cached.get("/").await;
        cached.get("/").await;
        assert_eq!(origin.count(), 2, "{vary}");
    }
}

/// One with a range, a condition or a header that nobody else sends.
#[tokio::test]
async fn what_a_request_was_refused_for_is_not_stored_for_others() {
    for status in [400, 408, 411, 412, 413, 415, 416, 417, 421, 429, 431] {
        let origin = Origin::start(move |received| match received.number {
            0 => response(status, &[FRESH], "refused"),
            _ => ok(&[FRESH], "page"),
        })
        .await;
        let cached = CachingProxy::new(&origin);
        assert_eq!(cached.get("/").await.status.as_u16(), status);
        assert_eq!(cached.get("/").await.body, "page", "{status}");
    }
}

/// What a command brings is of the time when it ran: changes of others while it is on its way count
/// as for any page.
#[tokio::test]
async fn what_a_post_brings_is_stored_unless_others_changed_it_meanwhile() {
    for (changed, hits) in [("/other", 1), ("/page", 0)] {
        let go_on = Arc::new(Notify::new());
        let waits = Arc::clone(&go_on);
        let origin = Origin::start(move |received| {
            let own = [FRESH, ("Content-Location", "/page"), ("Tidewire-Changed", "news")];
            match received.number {
                0 => {
                    let mut steps = vec![Step::Wait(Arc::clone(&waits))];
                    steps.extend(ok(&own, "posted"));
                    steps
                }
                _ => ok(&[], "later"),
            }
        })
        .await;
        let cached = CachingProxy::new(&origin);
        let posting = {
            let cached = cached.clone();
            tokio::spawn(async move { cached.ask(Method::POST, "/page", &[]).await })
        };
        origin.until(1).await;
        cached.ask(Method::POST, changed, &[]).await;
        go_on.notify_one();
        assert_eq!(posting.await.unwrap().body, "posted");
        let before = origin.count();
        cached.get("/page").await;
        assert_eq!(origin.count() - before, 1 - hits, "{changed}");
    }
}

//! What commands change, where nobody is there to be told of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, poll};
use http::{Method, StatusCode};
use tidewire_proxy::{Upstream, UpstreamSettings};
use tidewire_service::{Body, Error, Frame, Layer, Service};
use tokio::sync::Notify;

use crate::call;
use crate::clock::CachingProxy;
use crate::origin::{Origin, Step, ok};
use crate::trouble::nowhere;

/// A shop whose pages are numbered, and have a tag.
async fn shop() -> Origin {
    Origin::start(|asked| {
        let headers = [("Cache-Control", "max-age=60"), ("Cache-Tag", "items/1")];
        ok(&headers, &asked.number.to_string())
    })
    .await
}

/// A program that answers a command to `/save` when it may, and breaks off at others.
async fn writer(go: &Arc<Notify>) -> Origin {
    let go = Arc::clone(go);
    Origin::start(move |asked| {
        if asked.target != "/save" {
            return vec![Step::Close];
        }
        let mut steps = vec![Step::Wait(Arc::clone(&go))];
        steps.extend(ok(&[("Tidewire-Changed", "items/1")], "saved"));
        steps
    })
    .await
}

/// The program behind the same page cache, whose own pages are not kept.
fn behind(cached: &CachingProxy, url: &str, request_timeout: Duration) -> Arc<dyn Service> {
    let mut settings = UpstreamSettings::new("writer", [url]);
    settings.request_timeout = request_timeout;
    let upstream = Upstream::new(settings, |client| client).unwrap();
    cached.pages.changes_layer("writer").layer(Arc::new(upstream))
}

/// Asks until the page is another.
async fn until_changed(cached: &CachingProxy, before: &str) {
    while cached.get("/").await.body == before {
        tokio::task::yield_now().await;
    }
}

const PATIENT: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_command_is_heard_although_its_caller_went_away() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    let before = cached.get("/").await.body;
    let mut answer = Box::pin(writes.call(call(Method::POST, "/save", &[], "x")));
    while writer.count() < 1 {
        assert!(poll!(&mut answer).is_pending());
        tokio::task::yield_now().await;
    }
    drop(answer);
    assert_eq!(cached.get("/").await.body, before, "nothing is known yet");
    go.notify_one();
    until_changed(&cached, &before).await;
}

#[tokio::test]
async fn a_command_that_breaks_off_ends_the_pages_of_its_service_and_what_that_has_ever_named() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    let before = cached.get("/").await.body;
    let fails = async || writes.call(call(Method::POST, "/other", &[], "x")).await.unwrap_err();
    assert_eq!(fails().await.http_status(), StatusCode::BAD_GATEWAY);
    assert_eq!(cached.get("/").await.body, before, "it never named anything of this shop");
    go.notify_one();
    writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    assert_eq!(cached.get("/").await.body, before);
    fails().await;
    assert_ne!(cached.get("/").await.body, before);
}

#[tokio::test]
async fn a_service_that_breaks_off_in_a_command_keeps_none_of_its_pages() {
    let origin = Origin::start(|asked| match &*asked.method {
        "POST" => vec![Step::Close],
        _ => ok(&[("Cache-Control", "max-age=60")], &asked.number.to_string()),
    })
    .await;
    let cached = CachingProxy::new(&origin);
    let before = cached.get("/").await.body;
    assert_eq!(cached.get("/").await.body, before);
    assert_eq!(cached.ask(Method::POST, "/save", &[]).await.status, StatusCode::BAD_GATEWAY);
    assert_ne!(cached.get("/").await.body, before);
}

#[tokio::test]
async fn a_command_that_was_never_sent_ends_nothing() {
    let origin = shop().await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &nowhere(), PATIENT);
    let before = cached.get("/").await.body;
    let error = writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap_err();
    assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY, "{error}");
    assert_eq!(cached.get("/").await.body, before);
    assert_eq!(cached.pages.stats().invalidated, 0);
}

#[tokio::test]
async fn what_a_command_changes_after_its_caller_was_told_that_it_is_late_is_heard() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), Duration::from_millis(1));
    let error = writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap_err();
    assert_eq!(error.http_status(), StatusCode::GATEWAY_TIMEOUT, "{error}");
    let before = cached.get("/").await.body;
    assert_eq!(cached.get("/").await.body, before, "it is kept");
    go.notify_one();
    until_changed(&cached, &before).await;
}

#[tokio::test]
async fn a_call_of_grpc_ends_with_its_caller_and_ends_nothing() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    go.notify_one();
    writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    let headers = [("content-type", "application/grpc")];
    let mut answer = Box::pin(writes.call(call(Method::POST, "/save", &headers, "x")));
    while writer.count() < 2 {
        assert!(poll!(&mut answer).is_pending());
        tokio::task::yield_now().await;
    }
    drop(answer);
    assert_eq!(cached.get("/").await.body, before);
    assert_eq!(cached.pages.commands_without_callers(), 0);
}

/// No program acts on an incomplete request, so anybody could end pages by sending some.
#[tokio::test]
async fn a_command_whose_caller_breaks_it_off_ends_nothing() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    go.notify_one();
    writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    for breaks_off in [true, false] {
        let first = [Ok(Frame::Data("a part".into()))];
        let error = Err(Error::unavailable("the caller is gone"));
        let rest = futures_util::stream::iter(breaks_off.then_some(error));
        let body = futures_util::stream::iter(first).chain(rest);
        let body = match breaks_off {
            true => Body::frames(body),
            false => Body::frames(body.chain(futures_util::stream::pending())),
        };
        let headers = [("content-length", "1000")];
        let mut answer = Box::pin(writes.call(call(Method::POST, "/other", &headers, body)));
        match breaks_off {
            true => drop(answer.await.unwrap_err()),
            false => assert!(poll!(&mut answer).is_pending()),
        }
    }
    assert_eq!(cached.get("/").await.body, before);
    assert_eq!(cached.pages.commands_without_callers(), 0);
}

#[tokio::test]
async fn commands_without_callers_are_bounded_and_can_be_waited_for() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = writer(&go).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    for number in 1..=100 {
        let mut answer = Box::pin(writes.call(call(Method::POST, "/save", &[], "x")));
        while writer.count() < number {
            assert!(poll!(&mut answer).is_pending());
            tokio::task::yield_now().await;
        }
        drop(answer);
    }
    assert_eq!(cached.pages.commands_without_callers(), 64, "of one service");
    let mut all_end = Box::pin(cached.pages.until_commands_end());
    assert!(poll!(&mut all_end).is_pending());
    drop(writer);
    all_end.await;
    assert_eq!(cached.pages.commands_without_callers(), 0);
}

/// Answers a command with half of a body, and with the other half when it may.
async fn slow_writer(go: &Arc<Notify>, rest: Step) -> Origin {
    let go = Arc::clone(go);
    let rest = std::sync::Mutex::new(Some(rest));
    Origin::start(move |_| {
        let head = [("Content-Length", "8"), ("Tidewire-Changed", "items/1")];
        let mut steps = ok(&head, "half");
        steps.push(Step::Wait(Arc::clone(&go)));
        steps.extend(rest.lock().unwrap().take());
        steps
    })
    .await
}

/// How many commands are held now.
fn count_holds(cached: &CachingProxy) -> Arc<()> {
    let held = Arc::new(());
    let each = Arc::clone(&held);
    cached.pages.hold_commands(move || Box::new(Arc::clone(&each)));
    held
}

#[tokio::test]
async fn a_command_is_over_when_its_response_is_complete() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = slow_writer(&go, Step::Send(b"more".to_vec())).await;
    let cached = CachingProxy::new(&origin);
    let held = count_holds(&cached);
    let idle = Arc::strong_count(&held);
    let writes = behind(&cached, &writer.url(), PATIENT);
    let reply = writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    assert_eq!(Arc::strong_count(&held), idle + 1, "half of it is there");
    go.notify_one();
    assert_eq!(reply.body.collect(100).await.unwrap(), "halfmore");
    assert_eq!(Arc::strong_count(&held), idle);
    assert_eq!(cached.get("/").await.body, before, "it named what it changed in its head");
}

#[tokio::test]
async fn a_command_whose_response_breaks_off_ends_what_its_service_has_ever_named() {
    let origin = shop().await;
    let go = Arc::default();
    let writer = slow_writer(&go, Step::Close).await;
    let cached = CachingProxy::new(&origin);
    let writes = behind(&cached, &writer.url(), PATIENT);
    let reply = writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    assert_eq!(cached.get("/").await.body, before);
    go.notify_one();
    reply.body.collect(100).await.unwrap_err();
    assert_ne!(cached.get("/").await.body, before);
}

#[tokio::test]
async fn a_caller_who_breaks_the_response_to_a_command_off_ends_nothing() {
    let origin = shop().await;
    let writer = slow_writer(&Arc::default(), Step::Close).await;
    let cached = CachingProxy::new(&origin);
    let held = count_holds(&cached);
    let idle = Arc::strong_count(&held);
    let writes = behind(&cached, &writer.url(), PATIENT);
    let reply = writes.call(call(Method::POST, "/save", &[], "x")).await.unwrap();
    let before = cached.get("/").await.body;
    drop(reply);
    assert_eq!(Arc::strong_count(&held), idle);
    assert_eq!(cached.get("/").await.body, before);
}

//! Bodies that are slow in coming: whose place they take, and when they lose it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tidewire_hosting::{HostedService, LifeLimits};
use tidewire_service::{Body, Call, Code, Frame, Principal, Reply, Result, Service};
use tokio::sync::mpsc;

use crate::{call, get, host, limits, programs, some_time_passes, text, until};

/// A request whose body comes as this is sent.
fn upload(path: &str) -> (mpsc::Sender<Bytes>, Call) {
    let (send, mut pieces) = mpsc::channel::<Bytes>(1);
    let body = Body::frames(futures_util::stream::poll_fn(move |cx| {
        pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::Data(piece))))
    }));
    (send, call(Method::POST, path, body))
}

fn with_header(mut call: Call, name: &'static str, value: &'static str) -> Call {
    let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
    call.context.headers_mut().insert(name, value);
    call
}

/// Asks once how far an answer is, so that what can be done at once is.
async fn is_pending(answer: &mut Pin<&mut impl Future<Output = Result<Reply>>>) -> bool {
    poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_pending())).await
}

/// Nobody is refused for a wait, but by what is tested.
fn patient(concurrency: usize) -> LifeLimits {
    limits(|limits| {
        limits.concurrency = concurrency;
        limits.queue_timeout = YEAR;
        limits.request_timeout = YEAR;
        limits.idle_stop = None;
    })
}

/// Sends a piece, and waits until it is taken.
async fn comes(pieces: &mpsc::Sender<Bytes>, piece: &'static [u8]) {
    pieces.send(Bytes::from_static(piece)).await.unwrap();
    drop(pieces.reserve().await.unwrap());
}

fn calls_back(hosted: &HostedService, path: &'static str) -> tokio::task::JoinHandle<String> {
    let hosted = hosted.clone();
    tokio::spawn(async move { get(&hosted, path).await.unwrap() })
}

#[tokio::test]
async fn uploads_that_dribble_take_no_place_until_64_kib_of_them_are_there() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, patient(2));
        assert_eq!(get(&hosted, "/first").await.unwrap(), "/first");
        let (uploads, calls): (Vec<_>, Vec<_>) = (0..64).map(|_| upload("/whole")).unzip();
        let mut answers: Vec<_> =
            calls.into_iter().map(|call| Box::pin(hosted.call(call))).collect();
        for (answer, pieces) in answers.iter_mut().zip(&uploads) {
            pieces.try_send(vec![b'x'; (64 << 10) - 1].into()).unwrap();
            assert!(is_pending(&mut answer.as_mut()).await);
        }
        assert_eq!(hosted.status().calls, 0);
        assert_eq!(get(&hosted, "/other").await.unwrap(), "/other");
        // One that ends before is passed on whole, one that goes on once so much is there.
        let (first, second) = (answers.remove(0), answers.remove(0));
        let mut uploads = uploads.into_iter();
        drop(uploads.next());
        let reply = first.await.unwrap();
        assert_eq!(reply.body.collect(1 << 20).await.unwrap().len(), (64 << 10) - 1);
        let mut second = second;
        uploads.as_slice()[0].try_send(Bytes::from_static(b"y")).unwrap();
        assert!(is_pending(&mut second.as_mut()).await);
        assert_eq!(hosted.status().calls, 1);
        uploads.as_slice()[0].try_send(Bytes::from_static(b"z")).unwrap();
        drop(uploads.next());
        let body = text(second.await.unwrap().body.collect(1 << 20).await.unwrap());
        assert_eq!((body.len(), body.ends_with("xyz")), ((64 << 10) + 1, true));
        drop(answers);
        host.stop().await;
    }
}

#[tokio::test]
async fn an_upload_that_is_slow_while_others_wait_loses_its_place_and_is_told_so() {
    for program in programs(&[]) {
        let host = host().transfer_rate_min(1 << 10);
        let hosted = host.add(program, patient(1));
        let begun = |path| {
            let (send, call) = upload(path);
            send.try_send(vec![b'x'; 64 << 10].into()).unwrap();
            let hosted = hosted.clone();
            (send, tokio::spawn(async move { hosted.call(call).await }))
        };
        let (slow, told) = begun("/whole");
        until(|| hosted.status().calls == 1).await;
        // While nobody waits it may take its time.
        for _ in 0..10 {
            some_time_passes(Duration::from_hours(1)).await;
            comes(&slow, b"x").await;
        }
        assert!(!told.is_finished());
        let other = calls_back(&hosted, "/other");
        while !told.is_finished() {
            some_time_passes(Duration::from_secs(1)).await;
        }
        let error = told.await.unwrap().unwrap_err();
        assert_eq!(error.http_status(), StatusCode::REQUEST_TIMEOUT, "{error}");
        assert_eq!(error.code(), Code::DeadlineExceeded);
        let text = "the request body came slower than limits.transfer_rate_min = 1024 bytes a second \
                    while others waited for test";
        assert_eq!(error.message(), text);
        assert_eq!(other.await.unwrap(), "/other");
        // One that is fast enough keeps it.
        let (fast, answered) = begun("/whole");
        until(|| hosted.status().calls == 1).await;
        let other = calls_back(&hosted, "/other");
        hosted.until(|status| status.waiting == 1).await;
        for _ in 0..100 {
            some_time_passes(Duration::from_secs(1)).await;
            comes(&fast, &[b'x'; 2 << 10]).await;
        }
        drop(fast);
        let reply = answered.await.unwrap().unwrap();
        assert_eq!(reply.body.collect(1 << 20).await.unwrap().len(), (64 << 10) + (200 << 10));
        assert_eq!(other.await.unwrap(), "/other");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_caller_with_more_places_than_whoever_waits_keeps_none_by_sending_nothing() {
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("content-type", "application/grpc-web+proto"),
        ("content-type", "application/connect+proto"),
        ("expect", "100-continue"),
    ] {
        for program in programs(&[]) {
            let host = host().transfer_rate_min(1 << 10);
            let hosted = host.add(program, patient(2));
            let by = |who, mut call: Call| {
                call.context.set_principal(Some(Principal::new("keys", who)));
                let hosted = hosted.clone();
                tokio::spawn(async move { hosted.call(call).await })
            };
            let idle = |who| {
                let (send, call) = upload("/whole");
                (send, by(who, with_header(call, name, value)))
            };
            let (first, of_first) = idle("ada");
            until(|| hosted.status().calls == 1).await;
            let (second, of_second) = idle("ada");
            until(|| hosted.status().calls == 2).await;
            // Its own calls wait for it.
            let own = by("ada", call(Method::GET, "/own", ""));
            hosted.until(|status| status.waiting == 1).await;
            some_time_passes(Duration::from_hours(1)).await;
            assert_eq!(hosted.status().calls, 2);
            let other = by("bob", call(Method::GET, "/other", ""));
            while !other.is_finished() {
                some_time_passes(Duration::from_secs(1)).await;
            }
            let reply = other.await.unwrap().unwrap();
            assert_eq!(reply.body.collect(100).await.unwrap(), "/other", "{value}");
            // One place was enough, in which its own call came next.
            assert_eq!(own.await.unwrap().unwrap().body.collect(100).await.unwrap(), "/own");
            until(|| of_first.is_finished() || of_second.is_finished()).await;
            let (lost, (kept, answer)) = match of_first.is_finished() {
                true => (of_first, (second, of_second)),
                false => (of_second, (first, of_first)),
            };
            let error = lost.await.unwrap().unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
            kept.send(Bytes::from_static(b"late")).await.unwrap();
            drop(kept);
            let reply = answer.await.unwrap().unwrap();
            assert_eq!(reply.body.collect(100).await.unwrap(), "late", "{value}");
            host.stop().await;
        }
    }
}

#[tokio::test]
async fn what_is_not_an_upload_has_its_place_from_its_head_on_and_keeps_it() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, patient(1));
        for (name, value) in [
            ("content-type", "application/grpc"),
            ("content-type", "application/grpc-web+proto"),
            ("content-type", "application/connect+json"),
            ("expect", "100-continue"),
        ] {
            let (send, call) = upload("/whole");
            let call = with_header(call, name, value);
            let mut answer = pin!(hosted.call(call));
            assert!(is_pending(&mut answer).await);
            hosted.until(|status| status.calls == 1 || status.waiting == 1).await;
            let other = calls_back(&hosted, "/other");
            for _ in 0..3 {
                some_time_passes(Duration::from_hours(1)).await;
                assert!(is_pending(&mut answer).await, "{value}");
            }
            send.try_send(Bytes::from_static(b"late")).unwrap();
            drop(send);
            assert_eq!(answer.await.unwrap().body.collect(100).await.unwrap(), "late", "{value}");
            assert_eq!(other.await.unwrap(), "/other");
        }
        host.stop().await;
    }
}

const YEAR: Duration = Duration::from_hours(24 * 365);

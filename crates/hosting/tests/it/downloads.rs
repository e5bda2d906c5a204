//! Replies that are read slowly: when they lose their place, and what becomes of them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use http::Method;
use tidewire_hosting::{HostedService, LifeLimits, Listen, Program};
use tidewire_service::{Body, Call, Code, Frame, Frames, Principal, Reply, Service};
use tokio::task::JoinHandle;

use crate::{HANG, StoppedClock, call, get, host, limits, programs, python, reply, text, until};

/// Nobody is refused for a wait.
fn patient(concurrency: usize) -> LifeLimits {
    limits(|limits| {
        limits.concurrency = concurrency;
        limits.queue_timeout = YEAR;
        limits.request_timeout = YEAR;
        limits.idle_stop = None;
    })
}

/// A page of so many bytes, of which nothing is read.
async fn page(hosted: &HostedService) -> Reply {
    let body = vec![b'x'; PAGE_BYTES];
    let reply = hosted.call(call(Method::POST, "/whole", body)).await.unwrap();
    assert_eq!(reply.body.len(), None, "it comes by and by");
    reply
}

/// The next frame of a body, which is there or comes without a step of the clock.
async fn read(frames: &mut Pin<Box<dyn Frames>>) -> usize {
    match frames.next().await.unwrap().unwrap() {
        Frame::Data(data) => data.len(),
        Frame::Trailers(_) => 0,
    }
}

fn calls(hosted: &HostedService, path: &'static str) -> JoinHandle<String> {
    let hosted = hosted.clone();
    tokio::spawn(async move { get(&hosted, path).await.unwrap() })
}

/// A second passes, and each task does what it can.
async fn step() {
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// The clock stands still, with a process that runs.
async fn stopped_clock(hosted: &HostedService) -> StoppedClock {
    get(hosted, "/pid").await.unwrap();
    StoppedClock::stop()
}

/// So many calls wait for a place, or this one, the last of them, has had its own.
async fn wait_or_had<T>(waiting: usize, last: &JoinHandle<T>, hosted: &HostedService) {
    until(|| hosted.status().waiting == waiting || last.is_finished()).await;
}

/// The clock steps on until nobody waits for a place.
async fn steps_until_placed(hosted: &HostedService) {
    let began = Instant::now();
    while hosted.status().waiting > 0 {
        assert!(began.elapsed() < HANG, "nobody gives a place up");
        step().await;
    }
}

/// Reads an event stream, and counts the events.
async fn listen(hosted: &HostedService) -> (Arc<AtomicUsize>, JoinHandle<()>) {
    let events = reply(hosted, "/events").await.unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let listener = tokio::spawn(async move {
        let mut frames = events.body.into_frames();
        while let Some(frame) = frames.next().await {
            frame.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    until(|| seen.load(Ordering::Relaxed) == 1).await;
    (seen, listener)
}

#[tokio::test]
async fn callers_who_read_nothing_lose_a_place_that_another_waits_for() {
    for program in programs(&[]) {
        let host = host().transfer_rate_min(1 << 10);
        let hosted = host.add(program, patient(2));
        let _stopped = stopped_clock(&hosted).await;
        let unread = page(&hosted).await;
        let begun = page(&hosted).await;
        let mut begun = begun.body.into_frames();
        read(&mut begun).await;
        assert_eq!(hosted.status().calls, 2);
        let other = calls(&hosted, "/other");
        wait_or_had(1, &other, &hosted).await;
        steps_until_placed(&hosted).await;
        assert_eq!(other.await.unwrap(), "/other");
        // One place was enough.
        assert_eq!(hosted.status().calls, 1);
        let bodies = [unread.body, Body::Stream(begun)];
        let mut lost = Vec::new();
        for body in bodies {
            lost.extend(body.collect(PAGE_BYTES).await.err());
        }
        let [error] = &lost[..] else { panic!("not one of two: {lost:?}") };
        assert_eq!(error.code(), Code::DeadlineExceeded);
        let expected = "the reply was read slower than limits.transfer_rate_min = 1024 bytes a second \
                        while others waited for test";
        assert_eq!(error.message(), expected);
        assert_eq!(hosted.status().calls, 0);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_body_that_lost_its_place_is_over_after_its_error() {
    let host = host();
    let hosted = host.add(python(&[]), patient(1));
    let _stopped = stopped_clock(&hosted).await;
    let mut lost = page(&hosted).await.body.into_frames();
    let other = calls(&hosted, "/other");
    wait_or_had(1, &other, &hosted).await;
    steps_until_placed(&hosted).await;
    assert_eq!(other.await.unwrap(), "/other");
    assert!(lost.next().await.unwrap().is_err());
    assert!(lost.next().await.is_none());
    // The place was given back once, and its next call has it to itself.
    let next = page(&hosted).await;
    assert_eq!(hosted.status().calls, 1);
    drop(lost);
    assert_eq!(hosted.status().calls, 1);
    drop(next);
    assert_eq!(hosted.status().calls, 0);
    host.stop().await;
}

fn by(who: &str, mut call: Call) -> Call {
    call.context.set_principal(Principal::new("keys", who));
    call
}

#[tokio::test]
async fn event_streams_of_a_caller_with_more_places_than_another_do_not_keep_it_out() {
    let host = host().transfer_rate_min(1 << 10);
    let hosted = host.add(python(&[]), patient(3));
    let _stopped = stopped_clock(&hosted).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let events = hosted.call(by("ada", call(Method::GET, "/events", ""))).await.unwrap();
        let mut frames = events.body.into_frames();
        read(&mut frames).await;
        streams.push(tokio::spawn(async move {
            while let Some(frame) = frames.next().await {
                frame?;
            }
            Ok::<_, tidewire_service::Error>(())
        }));
    }
    // Its own calls wait for it.
    let own = by("ada", call(Method::GET, "/own", ""));
    let own = tokio::spawn({
        let hosted = hosted.clone();
        async move { hosted.call(own).await }
    });
    hosted.until(|status| status.waiting == 1).await;
    for _ in 0..100 {
        step().await;
    }
    assert_eq!(hosted.status().waiting, 1);
    let other = by("bob", call(Method::GET, "/other", ""));
    let other = tokio::spawn({
        let hosted = hosted.clone();
        async move { hosted.call(other).await }
    });
    wait_or_had(2, &other, &hosted).await;
    steps_until_placed(&hosted).await;
    assert_eq!(other.await.unwrap().unwrap().body.collect(100).await.unwrap(), "/other");
    own.await.unwrap().unwrap();
    until(|| streams.iter().any(JoinHandle::is_finished)).await;
    let lost: Vec<_> = streams.extract_if(.., |stream| stream.is_finished()).collect();
    let [lost] = <[_; 1]>::try_from(lost).expect("one was enough");
    let error = lost.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    streams.iter().for_each(JoinHandle::abort);
    host.stop().await;
}

#[tokio::test]
async fn a_reader_that_is_fast_enough_and_idle_event_streams_keep_their_places() {
    let host = host().transfer_rate_min(1 << 10);
    let hosted = host.add(python(&[]), patient(3));
    let stopped = stopped_clock(&hosted).await;
    let (seen, listener) = listen(&hosted).await;
    let mut reader = page(&hosted).await.body.into_frames();
    let unread = page(&hosted).await;
    let mut bytes = 0;
    let mut reads_on = async || {
        let wanted = bytes + 1536;
        while bytes < wanted {
            bytes += read(&mut reader).await;
        }
    };
    // Of these three the one that reads nothing gives its place up.
    let first = calls(&hosted, "/other");
    wait_or_had(1, &first, &hosted).await;
    while hosted.status().waiting > 0 {
        step().await;
        reads_on().await;
    }
    assert_eq!(first.await.unwrap(), "/other");
    assert!(unread.body.collect(PAGE_BYTES).await.is_err());
    // And of these three nobody does.
    let (also_seen, also_listens) = listen(&hosted).await;
    let second = calls(&hosted, "/other");
    hosted.until(|status| status.waiting == 1).await;
    for _ in 0..100 {
        step().await;
        reads_on().await;
        assert_eq!(hosted.status().waiting, 1);
    }
    drop(stopped);
    while bytes < PAGE_BYTES {
        bytes += read(&mut reader).await;
    }
    assert!(reader.next().await.is_none());
    assert_eq!(second.await.unwrap(), "/other");
    get(&hosted, "/next").await.unwrap();
    until(|| seen.load(Ordering::Relaxed) + also_seen.load(Ordering::Relaxed) == 3).await;
    listener.abort();
    also_listens.abort();
    host.stop().await;
}

#[tokio::test]
async fn while_nobody_waits_a_reply_may_be_read_however_slowly() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, patient(2));
        let _stopped = stopped_clock(&hosted).await;
        let unread = page(&hosted).await;
        for _ in 0..3 {
            tokio::time::advance(Duration::from_hours(1)).await;
            assert_eq!(get(&hosted, "/other").await.unwrap(), "/other");
        }
        assert_eq!(hosted.status().calls, 1);
        assert_eq!(unread.body.collect(PAGE_BYTES).await.unwrap().len(), PAGE_BYTES);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_small_reply_that_nobody_reads_gives_its_place_to_whoever_waits() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, patient(1));
        // In pieces: it is open until its end is read.
        let unread = reply(&hosted, "/pid").await.unwrap();
        assert_eq!(hosted.status().calls, 1);
        assert_eq!(get(&hosted, "/other").await.unwrap(), "/other");
        assert_eq!(hosted.status().calls, 0);
        let pid = text(unread.body.collect(100).await.unwrap());
        assert_eq!(pid, get(&hosted, "/pid").await.unwrap());
        host.stop().await;
    }
}

#[tokio::test]
async fn replies_without_a_body_and_of_pipe_json_have_no_place_once_they_are_there() {
    let host = host();
    let hosted = host.add(python(&[]), patient(1));
    let head = hosted.call(call(Method::HEAD, "/other", Body::Empty)).await.unwrap();
    assert_eq!(hosted.status().calls, 0);
    assert_eq!(get(&hosted, "/other").await.unwrap(), "/other");
    drop(head);
    let worker = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pipe_json.py");
    let worker = Program::new("worker", ["python3", "-I", "-S", worker, "parse"]);
    let worker = host.add(worker.listen(Listen::PipeJson), patient(1));
    let large = vec![b'l'; PAGE_BYTES];
    let large = worker.call(call(Method::POST, "/echo", large)).await.unwrap();
    assert_eq!(worker.status().calls, 0);
    assert!(get(&worker, "/pid").await.is_ok());
    assert_eq!(large.body.collect(PAGE_BYTES).await.unwrap().len(), PAGE_BYTES);
    host.stop().await;
}

#[tokio::test]
async fn a_reply_of_the_live_protocol_that_nobody_reads_loses_its_place() {
    let host = host();
    let command = crate::native::python("threads");
    let program = Program::new("native", command).listen(Listen::Native);
    let hosted = host.add(program, patient(1));
    let body = vec![b'x'; PAGE_BYTES];
    let unread = hosted.call(call(Method::POST, "/stream", body)).await.unwrap();
    let mut frames = unread.body.into_frames();
    assert_eq!(hosted.status().calls, 1);
    let _stopped = StoppedClock::stop();
    let other = hosted.clone();
    let other = tokio::spawn(async move {
        let reply = other.call(call(Method::GET, "/a", Body::Empty)).await.unwrap();
        reply.body.collect(PAGE_BYTES).await.unwrap()
    });
    wait_or_had(1, &other, &hosted).await;
    steps_until_placed(&hosted).await;
    other.await.unwrap();
    assert_eq!(hosted.status().calls, 0);
    assert!(matches!(
        frames.as_mut().poll_next(&mut Context::from_waker(Waker::noop())),
        Poll::Ready(Some(Err(_)))
    ));
    host.stop().await;
}

/// More than is read ahead, and than the buffers of a connection hold.
const PAGE_BYTES: usize = 1 << 20;
const YEAR: Duration = Duration::from_hours(24 * 365);

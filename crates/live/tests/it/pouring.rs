//! Streams that are left or fail where they are put together: at every wait, and at the edge of a
//! frame.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use tidewire_service::{Body, Code, Error, Frame, Headers, Reply, Result, StreamKind};

use crate::pair::{pair, query, streamed, text};

fn data(item: impl Into<Bytes>) -> Result<Frame> {
    Ok(Frame::Data(item.into()))
}

/// Small items, some that fill a frame, one that goes in pieces, and none that is another.
fn mixed() -> Vec<Bytes> {
    let small = (0..300_u32).map(|n| Bytes::from(n.to_string()));
    let large = [16_380, 16_384, 100_000, 0].map(|size| Bytes::from(vec![size as u8; size]));
    small.clone().chain(large.clone()).chain(small).chain(large).collect()
}

/// How a stream ended.
type End = Result<Headers, Code>;

/// The items that a reply has, and how it ended.
async fn read(reply: Result<Reply>) -> (Vec<Bytes>, End) {
    let (mut items, mut trailers) = (Vec::new(), Headers::default());
    let mut frames = match reply {
        Ok(reply) => reply.body.into_frames(),
        Err(error) => return (items, Err(error.code())),
    };
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(Frame::Data(item)) => items.push(item),
            Ok(Frame::Trailers(late)) => trailers = late.into(),
            Err(error) => return (items, Err(error.code())),
        }
    }
    (items, Ok(trailers))
}

/// What a future gives, unless it is dropped before, after so many polls.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let (mut future, mut left) = (pin!(future), times);
    poll_fn(|cx| match left.checked_sub(1) {
        None => Poll::Ready(None),
        Some(less) => {
            left = less;
            future.as_mut().poll(cx).map(Some)
        }
    })
    .await
}

/// Items as they come, each after others had a turn, that know whether they were dropped.
fn slowly(kept: &Arc<()>) -> impl Stream<Item = Result<Frame>> + Send + use<> {
    let kept = Arc::clone(kept);
    stream::iter(mixed()).then(move |item| {
        let _kept = Arc::clone(&kept);
        async move {
            if item.len() % 3 == 0 {
                tokio::task::yield_now().await;
            }
            data(item)
        }
    })
}

#[tokio::test]
async fn a_stream_that_is_left_after_any_number_of_polls_leaves_nothing_behind() {
    for kind in [StreamKind::Server, StreamKind::Client, StreamKind::Bidi] {
        let (link, served) = pair();
        let mut is_whole = false;
        for times in 0.. {
            let kept = Arc::new(());
            let call = match kind {
                StreamKind::Server => {
                    *served.echo.given.lock().unwrap() = Some(Body::frames(slowly(&kept)));
                    streamed("Given", kind, Body::Empty)
                }
                // It is read to its first item, which is not a number.
                StreamKind::Client => streamed("Say", kind, Body::frames(slowly(&kept))),
                _ => streamed("Echo", kind, Body::frames(slowly(&kept))),
            };
            let came = polled(async { read(link.call(call).await).await }, times).await;
            served.echo.given.lock().unwrap().take();
            if let Some((items, end)) = came {
                let sent = mixed();
                let is_same = if kind == StreamKind::Client {
                    items.concat() == sent.concat()
                } else {
                    items == sent
                };
                assert!(is_same && end == Ok(Headers::default()), "{kind:?} {times}");
                is_whole = true;
            }
            // Whoever makes items is gone, on either side, and calls go on.
            while Arc::strong_count(&kept) > 1 || link.link().usage().calls_out > 0 {
                assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
            }
            assert_eq!(link.link().usage().received_bytes, 0, "{kind:?} {times}");
            if is_whole {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_query_that_is_dropped_before_it_is_written_is_cancelled_at_its_peer() {
    let (link, served) = pair();
    assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    assert!(link.call(query("Wait", Body::Empty)).now_or_never().is_none());
    while served.echo.dropped.lock().unwrap().is_empty() {
        assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    }
    assert_eq!(*served.echo.dropped.lock().unwrap(), ["Wait"]);
}

#[tokio::test]
async fn what_follows_a_frame_that_is_full_to_the_byte_comes_behind_it() {
    let (link, served) = pair();
    // Of both, a number of items with their lengths are 16 KiB.
    for (size, fill) in [(127, 128), (1022, 16), (16_382, 1), (16_381, 1), (8190, 2)] {
        for count in [fill - 1, fill, fill + 1, 2 * fill] {
            let items: Vec<_> = (0..count).map(|n| Bytes::from(vec![n as u8; size])).collect();
            let mut trailers = Headers::new();
            trailers.insert("x-count", http::HeaderValue::from(count));
            let ends: [(Option<Result<Frame>>, End); 3] = [
                (None, Ok(Headers::default())),
                (Some(Ok(Frame::Trailers(trailers.clone().into()))), Ok(trailers)),
                (Some(Err(Error::not_found("no more"))), Err(Code::NotFound)),
            ];
            for (last, end) in ends {
                let frames = stream::iter(items.clone().into_iter().map(data).chain(last.clone()));
                *served.echo.given.lock().unwrap() = Some(Body::frames(frames.clone()));
                let came =
                    read(link.call(streamed("Given", StreamKind::Server, Body::Empty)).await);
                assert!(came.await == (items.clone(), end.clone()), "{size} {count} {end:?}");
                // As a request; its error ends the call, and what came back of it before is right.
                let echoed = link.call(streamed("Echo", StreamKind::Bidi, Body::frames(frames)));
                let (came, echo_end) = read(echoed.await).await;
                assert!(items.starts_with(&came), "{size} {count} {end:?}");
                match end {
                    Ok(_) => assert_eq!((came.len(), echo_end.is_ok()), (items.len(), true)),
                    Err(code) => assert_eq!(echo_end.unwrap_err(), code, "{size} {count}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_handler_that_does_not_read_stops_who_calls_it_within_its_window() {
    let (link, served) = pair();
    let made = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&made);
    let endless = stream::iter(std::iter::repeat_with(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        data("0123456")
    }));
    let call = streamed("Wait", StreamKind::Client, Body::frames(endless));
    let waits = tokio::spawn({
        let link = link.link();
        async move { text(link.call(call).await).await }
    });
    served.echo.began.notified().await;
    // Until no more is made while others are answered.
    let mut last = usize::MAX;
    while std::mem::replace(&mut last, made.load(Ordering::SeqCst)) != last {
        for _ in 0..10 {
            text(link.call(query("Say", "x")).await).await.unwrap();
        }
    }
    let most = 2 * ((256 << 10) + 2 * (16 << 10)) / 8;
    assert!((1000..=most).contains(&last), "{last} items were made, {most} at most");
    served.echo.gate.notify_one();
    assert_eq!(waits.await.unwrap().as_deref(), Ok("waited"));
    while Arc::strong_count(&made) > 1 {
        assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    }
}

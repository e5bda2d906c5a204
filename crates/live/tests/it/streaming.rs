//! Streams of many small items, which go together, and what comes between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tidewire_service::{Body, Code, Error, Frame, Headers, Reply, StreamKind};

use crate::pair::{Served, pair, query, streamed, text};

/// The bytes of the items of a body, and how it ended.
async fn read(reply: Reply) -> (Vec<Bytes>, Result<Headers, Code>) {
    let Body::Stream(mut frames) = reply.body else { panic!("no stream") };
    let (mut items, mut trailers) = (Vec::new(), Headers::default());
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(Frame::Data(item)) => items.push(item),
            Ok(Frame::Trailers(late)) => trailers = late.into(),
            Err(error) => return (items, Err(error.code())),
        }
    }
    (items, Ok(trailers))
}

fn give(served: &Served, frames: impl Stream<Item = Result<Frame, Error>> + Send + 'static) {
    *served.echo.given.lock().unwrap() = Some(Body::frames(frames));
}

fn given() -> tidewire_service::Call {
    streamed("Given", StreamKind::Server, Body::Empty)
}

fn data(item: impl Into<Bytes>) -> Result<Frame, Error> {
    Ok(Frame::Data(item.into()))
}

/// Items of every size about a frame's, none of which is another, so that a mistake in their order
/// shows.
fn of_all_sizes() -> Vec<Bytes> {
    let sizes =
        [0, 1, 0, 0, 127, 128, 16_370, 16_376, 16_377, 16_384, 16_385, 40_000, 1, 0, 300_000, 0, 3];
    let named = sizes.iter().enumerate();
    let sized = named.map(|(n, size)| Bytes::from(vec![n as u8; *size]));
    let small = (0..5000_u32).map(|n| Bytes::from(n.to_string()));
    small.clone().chain(sized.clone()).chain(small).chain(sized.rev()).collect()
}

#[tokio::test]
async fn items_of_every_size_come_in_order_both_ways_and_then_the_trailers() {
    let (link, served) = pair();
    let items = of_all_sizes();
    let body = Body::stream(futures_util::stream::iter(items.clone().into_iter().map(Ok)));
    let echoed = link.call(streamed("Echo", StreamKind::Bidi, body)).await.unwrap();
    assert!(read(echoed).await == (items.clone(), Ok(Headers::default())));

    let mut trailers = Headers::new();
    trailers.insert("x-count", http::HeaderValue::from_static("10034"));
    let end = [Ok(Frame::Trailers(trailers.clone().into()))];
    give(&served, futures_util::stream::iter(items.clone().into_iter().map(data).chain(end)));
    let reply = link.call(given()).await.unwrap();
    assert!(read(reply).await == (items, Ok(trailers)));
}

#[tokio::test]
async fn an_error_comes_behind_all_items_before_it_and_nothing_after_it() {
    let (link, served) = pair();
    for count in [0, 1, 100, 50_000_u32] {
        let items = (0..count).map(|n| Bytes::from(n.to_string())).collect::<Vec<_>>();
        let fails = [Err(Error::not_found("no more")), data("after the error")];
        give(&served, futures_util::stream::iter(items.clone().into_iter().map(data).chain(fails)));
        let reply = link.call(given()).await.unwrap();
        assert!(read(reply).await == (items, Err(Code::NotFound)), "{count}");
    }
}

#[tokio::test]
async fn a_request_that_fails_behind_many_items_ends_its_call_with_its_error() {
    let (link, served) = pair();
    let items = (0..5000_u32).map(|n| data(n.to_string())).chain([Err(Error::not_found("torn"))]);
    let body = Body::frames(futures_util::stream::iter(items));
    let failed = link.call(streamed("Sum", StreamKind::Client, body)).await;
    assert_eq!(failed.map(|_| ()).map_err(|error| error.code()), Err(Code::NotFound));
    // What was sent before is not an answer: the handler is let go.
    while !served.echo.dropped.lock().unwrap().iter().any(|name| name == "Sum") {
        assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    }
}

#[tokio::test]
async fn an_item_over_what_the_peer_takes_ends_the_stream_behind_those_before_it() {
    let (link, served) = pair();
    let large = Bytes::from(vec![0; (4 << 20) + 1]);
    give(&served, futures_util::stream::iter([data("1"), data("2"), data(large), data("3")]));
    let reply = link.call(given()).await.unwrap();
    let (items, end) = read(reply).await;
    assert_eq!((items, end.unwrap_err()), (vec!["1".into(), "2".into()], Code::ResourceExhausted));
}

#[tokio::test]
async fn an_item_is_not_kept_back_for_one_that_is_not_there_yet() {
    let (link, served) = pair();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    give(&served, futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx)));
    for item in ["1", "", "2"] {
        sender.send(data(item)).unwrap();
    }
    let reply = link.call(given()).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("no stream") };
    for item in ["1", "", "2"] {
        assert!(matches!(frames.next().await, Some(Ok(Frame::Data(came))) if came == item));
    }
    for n in 0..100_u32 {
        sender.send(data(n.to_string())).unwrap();
        let came = frames.next().await;
        assert!(matches!(came, Some(Ok(Frame::Data(came))) if came == n.to_string()));
    }
    drop(sender);
    assert!(frames.next().await.is_none());
}

/// Counts what is made of an endless stream of small items.
fn endless(made: &Arc<AtomicUsize>) -> impl Stream<Item = Result<Frame, Error>> + Send + use<> {
    let made = Arc::clone(made);
    futures_util::stream::iter(std::iter::repeat_with(move || {
        made.fetch_add(1, Ordering::SeqCst);
        data("0123456")
    }))
}

#[tokio::test]
async fn a_reader_that_is_slow_stops_the_stream_within_its_window_and_a_frame() {
    let (link, served) = pair();
    let made = Arc::<AtomicUsize>::default();
    give(&served, endless(&made));
    let reply = link.call(given()).await.unwrap();
    // Until no more is made while others are answered.
    let mut last = usize::MAX;
    while std::mem::replace(&mut last, made.load(Ordering::SeqCst)) != last {
        for _ in 0..10 {
            text(link.call(query("Say", "x")).await).await.unwrap();
        }
    }
    // Twice, since a side sends its window and queues as much again; each item has a byte of
    // length.
    let most = 2 * ((256 << 10) + 2 * (16 << 10)) / 8;
    assert!((1000..=most).contains(&last), "{last} items were made, {most} at most");
    drop(reply);
}

#[tokio::test]
async fn a_stream_without_end_leaves_turns_to_others_and_stops_when_its_reader_goes() {
    let (link, served) = pair();
    let made = Arc::<AtomicUsize>::default();
    give(&served, endless(&made));
    let reply = link.call(given()).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("no stream") };
    for n in 0..200_000 {
        assert!(matches!(frames.next().await, Some(Ok(Frame::Data(item))) if item == "0123456"));
        if n % 20_000 == 0 {
            assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
        }
    }
    drop(frames);
    // What was made of the stream is gone with it, wherever it was.
    while Arc::strong_count(&made) > 1 {
        assert_eq!(text(link.call(query("Say", "x")).await).await.as_deref(), Ok("x"));
    }
}

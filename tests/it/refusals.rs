//! What a client makes of servers that refuse calls or say goodbye: what is served, what is sent
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidewire::client::{ClientLimits, HttpVersion, Retry, Upstream};
use tidewire::http::{Method, Uri};
use tidewire::{Body, Call, Client, Code, Context, Outcome, Service, Stream};
use tidewire_tests::proto::*;
use tokio::sync::oneshot::Sender;

use crate::hostile::{client, echo, in_time, look, one, typed};
use crate::http2_peer::{ENHANCE_YOUR_CALM, Frame, NO_ERROR, Port, REFUSED_STREAM, ROOMY};

#[tokio::test]
async fn calls_that_a_goodbye_covers_are_served_to_their_end() {
    let (port, address) = Port::open().await;
    let client = one(address);
    let server = async {
        let mut first = port.accept(&ROOMY).await;
        let (unary, stream) = (first.request().await, first.request().await);
        first.head(stream).await;
        first.message(stream).await;
        first.go_away(stream, NO_ERROR).await;
        first.settle().await;
        // A call that comes now goes elsewhere, though this connection lives on.
        let mut second = port.accept(&ROOMY).await;
        let later = second.request().await;
        second.answer(later).await;
        first.answer(unary).await;
        first.message(stream).await;
        first.end(stream).await;
        assert_eq!(first.try_request().await, None, "no call came twice");
    };
    let calls = async {
        let unary = echo(&client);
        let stream = async {
            let mut numbers = typed(&client).count(CountRequest::default()).await.unwrap().body;
            assert!(numbers.next().await.unwrap().is_some());
            look(&client).await.unwrap();
            assert!(numbers.next().await.unwrap().is_some(), "after the goodbye");
            assert!(numbers.next().await.unwrap().is_none());
        };
        let (unary, ()) = tokio::join!(biased; unary, stream);
        unary.unwrap();
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn refused_calls_leave_the_connection_to_others() {
    let (port, address) = Port::open().await;
    let client = one(address);
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        for _ in 0..20 {
            let id = peer.request().await;
            peer.reset(id, REFUSED_STREAM).await;
        }
        let id = peer.request().await;
        peer.answer(id).await;
        peer
    };
    let calls = async {
        // Each is sent twice, since the server says that it did not see it.
        for _ in 0..10 {
            let error = echo(&client).await.unwrap_err();
            assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::NotRun));
        }
        echo(&client).await.unwrap();
        assert_eq!(client.open_connections(), 1);
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

/// A server that does not take calls, and how it says so.
async fn not_taking(port: Port, goodbye: Option<u32>, seen: Arc<AtomicUsize>) {
    let Some(reason) = goodbye else { return port.refuse_all(&seen).await };
    loop {
        let mut peer = port.accept(&ROOMY).await;
        if peer.try_request().await.is_some() {
            seen.fetch_add(1, Ordering::SeqCst);
            peer.go_away(0, reason).await;
            while peer.frame().await.is_some() {}
        }
    }
}

#[tokio::test]
async fn what_was_surely_not_seen_is_sent_to_another_address() {
    for goodbye in [None, Some(NO_ERROR), Some(ENHANCE_YOUR_CALM)] {
        let (bad, bad_address) = Port::open().await;
        let (good, good_address) = Port::open().await;
        let seen = Arc::new(AtomicUsize::new(0));
        let bad = tokio::spawn(not_taking(bad, goodbye, Arc::clone(&seen)));
        let good = tokio::spawn(async move {
            let mut peer = good.accept(&ROOMY).await;
            while let Some(id) = peer.try_request().await {
                peer.answer(id).await;
            }
        });
        let client = client(&[bad_address, good_address], ClientLimits::default(), Retry::none());
        in_time(async {
            for _ in 0..10 {
                echo(&client).await.unwrap_or_else(|error| panic!("{goodbye:?}: {error}"));
            }
        })
        .await;
        assert!(seen.load(Ordering::SeqCst) > 0, "the first address was asked");
        bad.abort();
        good.abort();
    }
}

#[tokio::test]
async fn what_nobody_takes_is_unavailable_and_not_run() {
    for goodbye in [None, Some(NO_ERROR), Some(ENHANCE_YOUR_CALM)] {
        let (port, address) = Port::open().await;
        let seen = Arc::new(AtomicUsize::new(0));
        let server = tokio::spawn(not_taking(port, goodbye, Arc::clone(&seen)));
        let mut retry = Retry::default();
        retry.backoff = Duration::ZERO;
        let client = client(&[address], ClientLimits::default(), retry);
        for (is_query, sent) in [(false, 2), (true, 6)] {
            let call = async { if is_query { look(&client).await } else { echo(&client).await } };
            let error = in_time(call).await.unwrap_err();
            assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::NotRun));
            assert_eq!(seen.swap(0, Ordering::SeqCst), sent, "{goodbye:?}, {is_query}");
        }
        // A stream was read as it was sent: it is not there any more.
        let requests = Stream::from_values([SumRequest::default()]);
        let error = in_time(typed(&client).sum(requests)).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::NotRun));
        assert_eq!(seen.load(Ordering::SeqCst), 1, "{goodbye:?}");
        server.abort();
    }
}

#[tokio::test]
async fn what_a_goodbye_covers_is_not_sent_again() {
    let (port, address) = Port::open().await;
    let client = one(address);
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        let id = peer.request().await;
        peer.go_away(id, NO_ERROR).await;
        peer.settle().await;
    };
    let call = async {
        let error = echo(&client).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::Unknown));
    };
    in_time(async { tokio::join!(server, call) }).await;
}

/// What becomes of a body that is passed on to an address that refuses it, then to one that does
/// not.
async fn passed_on(body: Body, expected: Option<usize>) {
    passed_on_until(body, expected, None).await;
}

/// The same; who takes it says so once it has 1000 bytes.
async fn passed_on_until(body: Body, expected: Option<usize>, mut has: Option<Sender<()>>) {
    let (bad, bad_address) = Port::open().await;
    let (good, good_address) = Port::open().await;
    let refusing = tokio::spawn(async move {
        let mut peer = bad.accept(&ROOMY).await;
        let mut got = 0;
        // Once all came, or as much as there is for now.
        loop {
            let Some(Frame::Request { id, is_end, data }) = peer.frame().await else { continue };
            got += data;
            if is_end || (got > 0 && got % 1000 == 0) {
                peer.reset(id, REFUSED_STREAM).await;
                break;
            }
        }
        while peer.frame().await.is_some() {}
    });
    let taking = tokio::spawn(async move {
        let mut peer = good.accept(&ROOMY).await;
        let mut got = 0;
        loop {
            if let Frame::Request { id, is_end, data } = peer.frame().await? {
                got += data;
                if got == 1000
                    && let Some(has) = has.take()
                {
                    has.send(()).unwrap();
                }
                if is_end {
                    peer.answer_http(id).await;
                    return Some(got);
                }
            }
        }
    });
    let client = Client::builder(format!("http://{bad_address}"))
        .url(format!("http://{good_address}"))
        .http(HttpVersion::Http2)
        .build()
        .unwrap();
    let uri = Uri::from_static("/store/a");
    let call = Call::http(Method::PUT, uri, Context::default(), body);
    let outcome = in_time(Upstream::new(client.clone()).call(call)).await;
    match expected {
        Some(bytes) => {
            assert_eq!(outcome.unwrap().status, 200);
            assert_eq!(in_time(taking).await.unwrap(), Some(bytes));
        }
        None => {
            let error = outcome.unwrap_err();
            assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::NotRun));
            assert_eq!(client.open_connections(), 1, "the second address was not asked");
            taking.abort();
        }
    }
    refusing.abort();
}

/// Pieces of 999 bytes.
fn pieces(bytes: usize) -> impl futures_util::Stream<Item = tidewire::Result<Bytes>> {
    let whole = vec![b'x'; bytes];
    let pieces: Vec<_> = whole.chunks(999).map(|piece| Ok(piece.to_vec().into())).collect();
    futures_util::stream::iter(pieces)
}

#[tokio::test]
async fn a_body_of_http_is_sent_again_unless_more_of_it_was_read_than_is_kept() {
    const MOST: usize = 64 << 10;
    passed_on(Body::Empty, Some(0)).await;
    passed_on(vec![b'x'; MOST + 1].into(), Some(MOST + 1)).await;
    passed_on(Body::stream(pieces(MOST)), Some(MOST)).await;
    passed_on(Body::stream(pieces(MOST + 1)), None).await;
    // More of it is to come when it is refused.
    let (has, waits) = tokio::sync::oneshot::channel();
    let more = futures_util::stream::once(async {
        waits.await.unwrap();
        Ok(Bytes::from_static(b"the rest"))
    });
    let body = Body::stream(futures_util::StreamExt::chain(pieces(1000), more));
    passed_on_until(body, Some(1008), Some(has)).await;
}

#[tokio::test]
async fn a_unary_call_that_is_passed_on_is_sent_again_however_large() {
    let (bad, bad_address) = Port::open().await;
    let (good, good_address) = Port::open().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let bad = tokio::spawn(not_taking(bad, None, Arc::clone(&seen)));
    let good = tokio::spawn(async move {
        let mut peer = good.accept(&ROOMY).await;
        while let Some(id) = peer.try_request().await {
            peer.answer(id).await;
        }
    });
    let upstream = client(&[bad_address, good_address], ClientLimits::default(), Retry::none());
    let folder = tidewire_tests::program::root().join("tests/proto");
    let schema = tidewire::Schema::from_folder(folder).unwrap();
    let service = schema.serve("tidewire.test.v1.BehaviourService", Upstream::new(upstream));
    let server = tidewire::Server::builder().service(service.unwrap());
    let (_running, front) = crate::harness::start(server).await;
    let client = one(front);
    for _ in 0..4 {
        let request = EchoRequest { data: vec![7; 200_000], ..Default::default() };
        in_time(typed(&client).echo(request)).await.unwrap();
    }
    assert!(seen.load(Ordering::SeqCst) > 0, "the first address was asked");
    bad.abort();
    good.abort();
}

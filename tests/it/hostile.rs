//! What a client makes of servers and callers that stop, give up or never end, frame by frame.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tidewire::client::{ClientLimits, HttpVersion, Protocol, Retry};
use tidewire::{Client, Code, Context, Error, Outcome};
use tidewire_tests::proto::*;
use tokio::sync::{mpsc, oneshot};

use crate::http2_peer::{Frame, MAX_CONCURRENT_STREAMS, NO_ERROR, Peer, Port, ROOMY};

pub(crate) fn client(addresses: &[SocketAddr], limits: ClientLimits, retry: Retry) -> Client {
    let mut builder = Client::builder(format!("http://{}", addresses[0]));
    for address in &addresses[1..] {
        builder = builder.url(format!("http://{address}"));
    }
    builder.protocol(Protocol::Grpc).limits(limits).retry(retry).build().unwrap()
}

pub(crate) fn one(address: SocketAddr) -> Client {
    client(&[address], ClientLimits::default(), Retry::none())
}

pub(crate) fn typed(client: &Client) -> BehaviourServiceClient {
    BehaviourServiceClient::new(client.channel())
}

/// A command.
pub(crate) async fn echo(client: &Client) -> Result<(), Error> {
    typed(client).echo(EchoRequest::default()).await.map(drop)
}

/// A query.
pub(crate) async fn look(client: &Client) -> Result<(), Error> {
    typed(client).look(LookRequest::default()).await.map(drop)
}

/// Ends a test that would wait for ever; what it waits for comes long before.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("it waits for ever")
}

/// A future polled once: it is on its way and not done.
async fn begin<F: Future + Unpin>(future: &mut F) {
    let is_pending = poll_fn(|cx| Poll::Ready(pin!(&mut *future).poll(cx).is_pending())).await;
    assert!(is_pending, "it is done already");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_lost_when_connections_end_as_they_begin() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = one(listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    in_time(async {
        for _ in 0..10 {
            let calls = (0..100).map(|_| {
                let client = client.clone();
                tokio::spawn(async move { look(&client).await.unwrap_err() })
            });
            for call in calls.collect::<Vec<_>>() {
                assert_eq!(call.await.unwrap().code(), Code::Unavailable);
            }
        }
    })
    .await;
    server.abort();
}

/// Runs a future for some steps; whether it is done by then.
async fn steps(future: impl Future, mut left: usize) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(cx).map(|_| true)
    })
    .await
}

#[tokio::test]
async fn a_call_that_is_dropped_at_any_step_leaves_nothing_behind() {
    for http in [HttpVersion::Http1, HttpVersion::Http2] {
        let (server, _) = crate::harness::behaviour();
        let (_running, address) = crate::harness::start(server).await;
        let mut limits = ClientLimits::default();
        (limits.http1_connections_max, limits.http2_connections_max) = (1, 1);
        (limits.http2_streams_max, limits.waiting_max) = (1, 1);
        let mut count = 0;
        loop {
            let client = Client::builder(format!("http://{address}"))
                .http(http)
                .limits(limits.clone())
                .retry(Retry::none())
                .build()
                .unwrap();
            // Another one waits for the same connection, and is dropped or served.
            let is_done = in_time(steps(look(&client), count)).await;
            let mut waiting = Box::pin(look(&client));
            begin(&mut waiting).await;
            if count % 2 == 0 {
                drop(waiting);
            } else {
                in_time(waiting).await.unwrap();
            }
            in_time(echo(&client)).await.unwrap();
            if is_done {
                break;
            }
            count += 1;
        }
        assert!(count > 2, "{http:?}: a call has {count} steps");
    }
}

#[tokio::test]
async fn replies_that_nobody_reads_hold_no_other_call_up() {
    let (port, address) = Port::open().await;
    let mut limits = ClientLimits::default();
    (limits.stream_window_bytes, limits.connection_window_bytes) = (64 << 10, 4 * (64 << 10));
    let client = client(&[address], limits, Retry::none());
    let server = async {
        let mut full = port.accept(&ROOMY).await;
        for _ in 0..4 {
            let id = full.request().await;
            full.head(id).await;
            full.fill(id).await;
        }
        let serve = async |mut peer: Peer| {
            let id = peer.request().await;
            peer.answer(id).await;
        };
        // Wherever the next call goes, it is answered as soon as the windows allow.
        tokio::select! {
            () = serve(full) => {}
            () = async { serve(port.accept(&ROOMY).await).await } => {}
        }
    };
    let calls = async {
        let mut unread = Vec::new();
        for _ in 0..4 {
            unread.push(typed(&client).count(CountRequest::default()).await.unwrap());
        }
        echo(&client).await.unwrap();
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn many_cancellations_leave_the_calls_beside_them_alone() {
    // As many as one connection takes, before further calls go to another one.
    const CALLS: usize = 4096;
    let (port, address) = Port::open().await;
    let client = one(address);
    let (begun, mut begins) = mpsc::unbounded_channel();
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        let innocent = peer.request().await;
        begun.send(()).unwrap();
        let (mut late, mut resets) = (Vec::new(), 0);
        while resets < CALLS {
            match peer.frame().await.expect("the connection goes on") {
                Frame::Request { id, is_end: true, .. } => {
                    begun.send(()).unwrap();
                    late.push(id);
                }
                Frame::Reset(_) => resets += 1,
                _ => {}
            }
        }
        // What the server had on its way when it was told.
        for id in late {
            peer.answer(id).await;
        }
        peer.settle().await;
        let mut next = port.accept(&ROOMY).await;
        let id = next.request().await;
        next.answer(id).await;
        peer.answer(innocent).await;
        next
    };
    let calls = async {
        let mut innocent = Box::pin(echo(&client));
        tokio::select! {
            _ = &mut innocent => panic!("nobody answers"),
            begun = begins.recv() => begun.unwrap(),
        }
        for _ in 0..CALLS {
            let canceled = look(&client);
            tokio::select! {
                _ = canceled => panic!("nobody answers"),
                begun = begins.recv() => begun.unwrap(),
            }
        }
        echo(&client).await.unwrap();
        innocent.await.unwrap();
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

#[tokio::test]
async fn a_deadline_is_kept_for_replies_that_are_there_and_not_read() {
    let (port, address) = Port::open().await;
    let client = one(address);
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        let id = peer.request().await;
        peer.head(id).await;
        for _ in 0..100 {
            peer.message(id).await;
        }
        peer.end(id).await;
        peer.settle().await;
        peer
    };
    let call = async {
        let hour = Duration::from_secs(3600);
        let context = Context::default().with_deadline(Instant::now() + hour);
        let request = CountRequest::default();
        let reply = BehaviourService::count(&typed(&client), context, request).await.unwrap();
        let mut numbers = reply.body;
        assert!(numbers.next().await.unwrap().is_some());
        numbers
    };
    let (_peer, mut numbers) = in_time(async { tokio::join!(server, call) }).await;
    assert!(numbers.next().await.unwrap().is_some(), "there is time");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(7200)).await;
    assert_eq!(numbers.next().await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn whoever_gave_up_waiting_does_not_count() {
    let (port, address) = Port::open().await;
    let mut limits = ClientLimits::default();
    (limits.http2_connections_max, limits.http2_streams_max, limits.waiting_max) = (1, 1, 3);
    let client = client(&[address], limits, Retry::none());
    let (seen, is_seen) = oneshot::channel();
    let (answer, answered) = oneshot::channel::<()>();
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        let first = peer.request().await;
        seen.send(()).unwrap();
        answered.await.unwrap();
        peer.answer(first).await;
        while let Some(id) = peer.try_request().await {
            peer.answer(id).await;
        }
    };
    let calls = async {
        let mut first = Box::pin(echo(&client));
        tokio::select! {
            biased;
            seen = is_seen => seen.unwrap(),
            _ = &mut first => panic!("nobody answers"),
        }
        for _ in 0..100 {
            begin(&mut Box::pin(echo(&client))).await;
        }
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(echo(&client))).collect();
        for call in &mut waiting {
            begin(call).await;
        }
        let error = echo(&client).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "these three do wait");
        answer.send(()).unwrap();
        first.await.unwrap();
        for call in waiting {
            call.await.unwrap();
        }
    };
    in_time(async {
        tokio::select! { () = calls => {}, () = server => panic!("the connection ended") }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_allows_more_streams_gets_the_calls_that_wait() {
    let (port, address) = Port::open().await;
    let mut limits = ClientLimits::default();
    limits.http2_connections_max = 1;
    let client = client(&[address], limits, Retry::none());
    let (settled, is_settled) = oneshot::channel();
    let (wait, waits) = oneshot::channel();
    let server = async {
        let mut peer = port.accept(&[(MAX_CONCURRENT_STREAMS, 1)]).await;
        let first = peer.request().await;
        peer.settle().await;
        settled.send(()).unwrap();
        waits.await.unwrap();
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 2)]).await;
        let second = peer.request().await;
        peer.answer(second).await;
        peer.answer(first).await;
        peer
    };
    let calls = async {
        let mut first = Box::pin(echo(&client));
        tokio::select! {
            biased;
            settled = is_settled => settled.unwrap(),
            _ = &mut first => panic!("nobody answers"),
        }
        let mut second = Box::pin(echo(&client));
        begin(&mut second).await;
        wait.send(()).unwrap();
        second.await.unwrap();
        first.await.unwrap();
    };
    in_time(async { tokio::join!(server, calls) }).await;
}

/// A client that soon asks for a sign of life, which may take so long.
fn impatient(address: SocketAddr, patience: Duration) -> Client {
    let mut limits = ClientLimits::default();
    limits.keep_alive_interval = Some(Duration::from_millis(10));
    limits.keep_alive_timeout = patience;
    client(&[address], limits, Retry::none())
}

#[tokio::test]
async fn a_server_that_gives_no_sign_of_life_is_given_up() {
    let (port, address) = Port::open().await;
    let client = impatient(address, Duration::from_millis(200));
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        peer.request().await;
        // It reads nothing more, so it does not answer either.
        std::future::pending::<()>().await;
    };
    let error = in_time(async {
        tokio::select! {
            outcome = echo(&client) => outcome.unwrap_err(),
            () = server => panic!("it is for ever"),
        }
    })
    .await;
    assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::Unknown));
    assert_eq!(client.open_connections(), 0);
}

#[tokio::test]
async fn a_server_that_answers_when_asked_has_all_the_time() {
    let (port, address) = Port::open().await;
    // So long that an answer that does not count shows as a test that takes too long.
    let client = impatient(address, Duration::from_secs(60));
    let server = async {
        let mut peer = port.accept(&ROOMY).await;
        let id = peer.request().await;
        for _ in 0..5 {
            while peer.frame().await.expect("the connection goes on") != Frame::Ping {}
        }
        peer.answer(id).await;
        peer
    };
    in_time(async {
        let (_peer, outcome) = tokio::join!(server, echo(&client));
        outcome.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_before_the_body_was_sent_is_the_answer() {
    let (port, address) = Port::open().await;
    let server = tokio::spawn(async move {
        loop {
            let mut peer = port.accept(&ROOMY).await;
            while let Some(frame) = peer.frame().await {
                if let Frame::Request { id, is_end: false, data: 0 } = frame {
                    peer.answer(id).await;
                    peer.reset(id, NO_ERROR).await;
                    break;
                }
            }
            // Until the client is gone, so that it has seen all of it.
            while peer.frame().await.is_some() {}
        }
    });
    // On a new connection the answer overtakes the body in about one call of a hundred.
    let calls = tokio::spawn(async move {
        for _ in 0..300 {
            echo(&one(address)).await.unwrap();
        }
    });
    in_time(calls).await.unwrap();
    server.abort();
}

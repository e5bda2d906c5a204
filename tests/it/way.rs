//! One way of a request: gates, observers, deadlines, panics and scripts, over every protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use tidewire::client::{HttpVersion, Protocol, Retry};
use tidewire::service::{End, EndReason, Fault, Observation, Observer, Phase, Script};
use tidewire::{
    Body, Builder, Call, Client, Code, Context, Error, Head, Limits, Reply, Result, Service, Stream,
};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::harness::{SERVICE, at_last, behaviour, late, send, start, until};

const A_DAY: Duration = Duration::from_secs(86_400);
const PROTOCOLS: [Protocol; 3] = [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb];

fn client(address: std::net::SocketAddr, protocol: Protocol) -> Client {
    let client = Client::builder(format!("http://{address}")).retry(Retry::none());
    client.protocol(protocol).http(HttpVersion::Http2).build().unwrap()
}

/// A layer that makes what `change` says of every reply of a method with this name.
fn changing(
    method: &'static str,
    change: impl Fn(Reply) -> Reply + Clone + Send + Sync + 'static,
) -> impl Fn(Arc<dyn Service>) -> Arc<dyn Service> + Send + Sync + 'static {
    move |inner| {
        let change = change.clone();
        Arc::new(move |call: Call| {
            let is_it = call.spec().is_some_and(|spec| spec.method == method);
            let (answer, change) = (inner.call(call), change.clone());
            async move {
                let reply = answer.await?;
                Ok(if is_it { change(reply) } else { reply })
            }
        })
    }
}

/// The reply with a panic after its first frame.
fn panicking(reply: Reply) -> Reply {
    let frames = |body| match body {
        Body::Stream(frames) => frames.boxed(),
        _ => futures_util::stream::empty().boxed(),
    };
    reply.map(|body| {
        let first = frames(body).take(1);
        Body::frames(first.chain(futures_util::stream::poll_fn(|_| panic!("in the middle"))))
    })
}

/// The numbers that `Count` gives, and how it ends.
async fn counted(client: &Client, context: Context, n: i32) -> (usize, Result<()>) {
    let typed = BehaviourServiceClient::new(client.channel());
    let request = CountRequest { n, ..Default::default() };
    let mut replies = match BehaviourService::count(&typed, context, request).await {
        Ok(reply) => reply.body,
        Err(error) => return (0, Err(error)),
    };
    let mut count = 0;
    loop {
        match replies.next().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, Ok(())),
            Err(error) => return (count, Err(error)),
        }
    }
}

async fn chatted(client: &Client) -> (usize, Result<()>) {
    let typed = BehaviourServiceClient::new(client.channel());
    let requests = Stream::from_values((0..3).map(|_| ChatRequest::default()));
    let mut replies = match BehaviourService::chat(&typed, Context::default(), requests).await {
        Ok(reply) => reply.body,
        Err(error) => return (0, Err(error)),
    };
    let mut count = 0;
    loop {
        match replies.next().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, Ok(())),
            Err(error) => return (count, Err(error)),
        }
    }
}

async fn echoed(client: &Client) -> Result<String> {
    let typed = BehaviourServiceClient::new(client.channel());
    let request = EchoRequest { text: "hello".into(), ..Default::default() };
    BehaviourService::echo(&typed, Context::default(), request).await.map(|reply| reply.body.text)
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_stream_leaves_its_neighbours_on_the_connection_alone() {
    let (builder, _) = behaviour();
    let builder = builder.layer(changing("Count", panicking)).layer(changing("Chat", panicking));
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let typed = BehaviourServiceClient::new(client.channel());
        let (values, sent) = mpsc::channel(1);
        let sent = futures_util::stream::unfold(sent, async |mut sent| {
            Some((Ok(sent.recv().await?), sent))
        });
        let neighbour = BehaviourService::sum(&typed, Context::default(), Stream::new(sent));
        let panics = async {
            // The second has room once the first is on its way.
            for value in [1, 2] {
                values.send(SumRequest { value, ..Default::default() }).await.unwrap();
            }
            for (count, end) in
                [counted(&client, Context::default(), 3).await, chatted(&client).await]
            {
                let error = end.unwrap_err();
                assert_eq!((count, error.code()), (1, Code::Internal), "{protocol:?}: {error}");
                assert!(error.message().contains("panicked"), "{protocol:?}: {error}");
            }
            drop(values);
        };
        let (summed, ()) = tokio::join!(neighbour, panics);
        assert_eq!(summed.unwrap().body.total, 3, "{protocol:?}");
        assert_eq!(echoed(&client).await.unwrap(), "hello", "{protocol:?}");
    }
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_stream_of_requests_is_one_failed_call() {
    let panics = |inner: Arc<dyn Service>| -> Arc<dyn Service> {
        Arc::new(move |mut call: Call| {
            let is_it = call.spec().is_some_and(|spec| spec.method == "Sum");
            let body = if is_it { std::mem::take(&mut call.body) } else { Body::Empty };
            let answer = (!is_it).then(|| inner.call(call));
            async move {
                match (answer, body) {
                    (Some(answer), _) => answer.await,
                    (None, Body::Stream(mut frames)) => {
                        frames.next().await.unwrap().unwrap();
                        panic!("in the middle")
                    }
                    (None, _) => unreachable!("it is a stream"),
                }
            }
        })
    };
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.layer(panics)).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let typed = BehaviourServiceClient::new(client.channel());
        // Open on the same connection, and answered after the panic.
        let (texts, sent) = mpsc::channel(1);
        let sent = futures_util::stream::unfold(sent, async |mut sent| {
            Some((Ok(sent.recv().await?), sent))
        });
        let neighbour = BehaviourService::chat(&typed, Context::default(), Stream::new(sent));
        texts.send(ChatRequest::default()).await.unwrap();
        let mut replies = neighbour.await.unwrap().body;
        replies.next().await.unwrap().unwrap();
        let requests = Stream::from_values((0..3).map(|_| SumRequest::default()));
        let error = BehaviourService::sum(&typed, Context::default(), requests).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{protocol:?}: {error}");
        assert!(error.message().contains("panicked"), "{protocol:?}: {error}");
        texts.send(ChatRequest::default()).await.unwrap();
        replies.next().await.unwrap().unwrap();
        assert_eq!(client.open_connections(), 1);
    }
}

#[tokio::test]
async fn a_deadline_ends_a_stream_of_replies() {
    let waits = Arc::new(Notify::new());
    let tells = Arc::clone(&waits);
    let endless = move |reply: Reply| {
        let tells = Arc::clone(&tells);
        let rest = futures_util::stream::poll_fn(move |_| {
            tells.notify_one();
            Poll::Pending
        });
        reply.map(|body| match body {
            Body::Stream(frames) => Body::frames(frames.take(1).chain(rest)),
            whole => whole,
        })
    };
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.layer(changing("Count", endless))).await;
    let asks = async |head: &str, body: &[u8]| {
        late(send(address, &format!("POST {SERVICE}/Count\n{head}"), body), waits.notified()).await
    };
    // By hand, so that it is the server that ends the stream.
    let message = br#"{"n":3}"#;
    let body = [&[0, 0, 0, 0, message.len() as u8][..], message].concat();
    let head = "content-type: application/connect+json\nconnect-timeout-ms: 5000";
    asks(head, &body).await.check(200, &[r#""number":1"#, "deadline_exceeded"]);
    let head = "content-type: application/grpc-web+json\ngrpc-timeout: 5S";
    asks(head, &body).await.check(200, &[r#""number":1"#, "grpc-status: 4"]);
}

/// Tells of the end of every request, and counts the handlers that began.
struct Ends(mpsc::UnboundedSender<End>, Arc<AtomicUsize>);

struct EndOf(mpsc::UnboundedSender<End>, Arc<AtomicUsize>);

impl Observer for Ends {
    fn begin(&self, _: &Head) -> Arc<dyn Observation> {
        Arc::new(EndOf(self.0.clone(), Arc::clone(&self.1)))
    }
}

impl Observation for EndOf {
    fn phase(&self, phase: Phase) {
        self.1.fetch_add(usize::from(phase == Phase::Handler), Ordering::SeqCst);
    }

    fn end(&self, end: &End) {
        self.0.send(end.clone()).unwrap();
    }
}

#[tokio::test]
async fn every_request_of_every_protocol_has_one_end() {
    let (ends, mut told) = mpsc::unbounded_channel();
    let (builder, _) = behaviour();
    let begun = Arc::<AtomicUsize>::default();
    let builder = builder.observer(Ends(ends, Arc::clone(&begun)));
    let builder = builder.layer(changing("Chat", panicking));
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        echoed(&client).await.unwrap();
        let end = told.recv().await.unwrap();
        assert_eq!((end.how, end.code), (EndReason::Answered, None), "{protocol:?}");
        assert!(end.bytes_in > 0 && end.bytes_out > 0, "{protocol:?}: {end:?}");

        let typed = BehaviourServiceClient::new(client.channel());
        let fail = FailRequest { code: 5, ..Default::default() };
        BehaviourService::fail(&typed, Context::default(), fail).await.unwrap_err();
        let end = told.recv().await.unwrap();
        assert_eq!(
            (end.how, end.code),
            (EndReason::Answered, Some(Code::NotFound)),
            "{protocol:?}"
        );

        counted(&client, Context::default(), 3).await.1.unwrap();
        let end = told.recv().await.unwrap();
        assert_eq!((end.how, end.code), (EndReason::Answered, None), "{protocol:?}");

        chatted(&client).await.1.unwrap_err();
        let end = told.recv().await.unwrap();
        assert_eq!(
            (end.how, end.code),
            (EndReason::Panicked, Some(Code::Internal)),
            "{protocol:?}"
        );

        let slow = SlowRequest { millis: 60_000, ..Default::default() };
        let context = Context::default().with_deadline(at_last());
        let before = begun.load(Ordering::SeqCst);
        let begins = until(|| begun.load(Ordering::SeqCst) > before);
        late(BehaviourService::slow(&typed, context, slow), begins).await.unwrap_err();
        let end = told.recv().await.unwrap();
        assert!(
            matches!(end.how, EndReason::Deadline | EndReason::Canceled),
            "{protocol:?}: {end:?}"
        );
    }
    let unknown = "POST /no.Such/Method\ncontent-type: application/json";
    send(address, unknown, b"{}").await.check(404, &["unimplemented"]);
    let end = told.recv().await.unwrap();
    assert_eq!((end.how, end.code), (EndReason::Answered, Some(Code::Unimplemented)));
    let refused = format!("POST {SERVICE}/Echo\ncontent-type: text/xml");
    send(address, &refused, b"<a/>").await.check(415, &[]);
    assert_eq!(told.recv().await.unwrap().status.unwrap().as_u16(), 415);
    assert!(told.try_recv().is_err(), "one end a request");
}

#[tokio::test]
async fn a_gate_sees_every_request_and_refuses_in_the_callers_protocol() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let gate = move |head: &mut Head| {
        sees.lock().unwrap().push((head.context.protocol().unwrap(), head.target.describe()));
        Err(Error::unauthenticated("who are you?"))
    };
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.gate(gate)).await;
    for protocol in PROTOCOLS {
        let error = echoed(&client(address, protocol)).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{protocol:?}: {error}");
    }
    for (head, status) in [
        (format!("POST {SERVICE}/Echo\ncontent-type: application/json"), 401),
        ("POST /no.Such/Method\ncontent-type: application/json".into(), 401),
        (format!("POST {SERVICE}/Echo\ncontent-type: text/xml"), 401),
        ("GET /nowhere".into(), 401),
    ] {
        send(address, &head, b"").await.check(status, &["unauthenticated", "who are you?"]);
    }
    assert_eq!(seen.lock().unwrap().len(), PROTOCOLS.len() + 4);
}

#[tokio::test]
async fn a_declared_length_over_the_limit_is_refused_before_a_byte_is_read() {
    let (builder, _) = behaviour();
    let sink = async |call: Call| Ok(call.body.collect(usize::MAX).await?.len().to_string());
    let builder = builder.route(tidewire::http::Method::POST, "/sink", sink);
    let (_running, address) = start(builder).await;
    let length = 1_u64 << 40;
    for (path, content_type, part) in [
        (format!("{SERVICE}/Echo"), "application/json", "resource_exhausted"),
        (format!("{SERVICE}/Echo"), "application/proto", "resource_exhausted"),
        (format!("{SERVICE}/Echo"), "application/grpc-web+proto", "grpc-status: 8"),
        (format!("{SERVICE}/Count"), "application/connect+proto", "resource_exhausted"),
        ("/sink".into(), "text/plain", "resource_exhausted"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(part), "{path} {content_type}: {answer}");
    }
}

#[tokio::test]
async fn over_the_bound_of_commands_none_runs() {
    let mut limits = Limits::default();
    limits.commands_max = 0;
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.limits(limits)).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let error = echoed(&client).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
        assert!(error.message().contains("limits.commands_max = 0"), "{protocol:?}: {error}");
        let typed = BehaviourServiceClient::new(client.channel());
        BehaviourService::look(&typed, Context::default(), LookRequest::default()).await.unwrap();
    }
}

async fn scripted(fault: Fault, on: bool) -> (tidewire::RunningServer, std::net::SocketAddr) {
    let with = move |reply: Reply| reply.with_script(Script::new(fault.clone()));
    let (builder, _): (Builder, _) = behaviour();
    start(builder.faults(on).layer(changing("Echo", with.clone())).layer(changing("Count", with)))
        .await
}

#[tokio::test]
async fn scripts_are_played_where_faults_are_allowed_and_only_there() {
    for fault in [
        Fault::LoseTrailers,
        Fault::TruncateAfter(3),
        Fault::ResetAfter(0),
        Fault::ContentType(tidewire::http::HeaderValue::from_static("text/html")),
    ] {
        for protocol in PROTOCOLS {
            let (_running, address) = scripted(fault.clone(), false).await;
            assert_eq!(echoed(&client(address, protocol)).await.unwrap(), "hello");
            if protocol == Protocol::Connect && fault == Fault::LoseTrailers {
                continue; // A unary reply of Connect has none.
            }
            let (_running, address) = scripted(fault.clone(), true).await;
            echoed(&client(address, protocol)).await.expect_err(&format!("{protocol:?} {fault:?}"));
        }
    }
    for fault in [
        Fault::Dribble { bytes: 1, every: Duration::from_millis(5) },
        Fault::GoAwayAfter(0),
        Fault::HeadDelay(Duration::from_millis(5)),
        Fault::FrameDelay(Duration::from_millis(5)),
    ] {
        for protocol in PROTOCOLS {
            let (_running, address) = scripted(fault.clone(), true).await;
            let echoed = echoed(&client(address, protocol)).await;
            assert_eq!(echoed.unwrap(), "hello", "{protocol:?} {fault:?}");
        }
    }
    for fault in [Fault::HeadDelay(A_DAY), Fault::FrameDelay(A_DAY)] {
        for protocol in PROTOCOLS {
            let (_running, address) = scripted(fault.clone(), true).await;
            let client = client(address, protocol);
            let typed = BehaviourServiceClient::new(client.channel());
            // Other calls, with replies that have no script, overtake it.
            let others = async {
                for _ in 0..10 {
                    typed.look(LookRequest::default()).await.unwrap();
                }
            };
            tokio::select! {
                echoed = echoed(&client) => panic!("{protocol:?} {fault:?}: {echoed:?}"),
                () = others => {}
            }
        }
    }
    let (_running, address) = scripted(Fault::LoseTrailers, true).await;
    for protocol in PROTOCOLS {
        let (count, end) = counted(&client(address, protocol), Context::default(), 3).await;
        assert_eq!(count, 3, "{protocol:?}");
        end.unwrap_err();
    }
}

/// `Count` has all its messages ready at once, so several leave in one frame.
#[tokio::test]
async fn a_stream_is_reset_after_so_many_messages_whatever_frames_carry_them() {
    for after in [0, 1, 2] {
        let (_running, address) = scripted(Fault::ResetAfter(after), true).await;
        for (protocol, http) in [
            (Protocol::Connect, HttpVersion::Http2),
            (Protocol::Grpc, HttpVersion::Http2),
            (Protocol::GrpcWeb, HttpVersion::Http2),
            (Protocol::Connect, HttpVersion::Http1),
            (Protocol::GrpcWeb, HttpVersion::Http1),
        ] {
            let client = Client::builder(format!("http://{address}")).retry(Retry::none());
            let client = client.protocol(protocol).http(http).build().unwrap();
            let (count, end) = counted(&client, Context::default(), 5).await;
            assert_eq!(count, after, "{protocol:?} {http:?}");
            end.unwrap_err();
        }
    }
    let (_running, address) = scripted(Fault::ResetAfter(6), true).await;
    let (count, end) = counted(&client(address, Protocol::Grpc), Context::default(), 5).await;
    assert_eq!(count, 5);
    end.unwrap();
}

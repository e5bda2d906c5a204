//! Layers and bodies: `Layer`, `Call::message`, `Call::buffered`, `Body`, `Reply`, the order of
//! layers, services of run-time schemas.

use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use tidewire::client::Protocol;
use tidewire::http::{HeaderValue, Method};
use tidewire::server::StartError;
use tidewire::service::{Channel, Frame, Freshness};
use tidewire::{
    Body, Call, Code, Codec, Context, Error, Implementation, Reply, RpcService, Schema, Server,
    Service,
};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::*;

use super::{PROTOCOLS, answering, client, stage, told};
use crate::harness::{SERVICE, behaviour, post_json, send, start};

fn is(call: &Call, method: &str) -> bool {
    call.spec().is_some_and(|spec| spec.method == method)
}

#[tokio::test]
async fn a_body_that_fails_in_the_middle_is_an_error_with_its_code_on_each_protocol() {
    let failing = answering(async |call: Call, inner: Arc<dyn Service>| {
        let counts = is(&call, "Count");
        let reply = inner.call(call).await?;
        Ok(reply.map(|body| match body {
            Body::Stream(frames) if counts => {
                let error = Error::data_loss("lost on the way");
                Body::frames(frames.take(1).chain(stream::iter([Err(error)])))
            }
            body => body,
        }))
    });
    let (builder, mut heard) = told(stage().layer(failing));
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let request = CountRequest { n: 3, ..Default::default() };
        let mut replies = client.count(request).await.unwrap().body;
        assert_eq!(replies.next().await.unwrap().unwrap().number, 1);
        let error = replies.next().await.unwrap_err();
        let seen = (error.code(), error.message());
        assert_eq!(seen, (Code::DataLoss, "lost on the way"), "{protocol:?}");
        assert!(replies.next().await.unwrap().is_none(), "nothing follows an error");
        assert_eq!(heard.one().await.end.code, Some(Code::DataLoss), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_unary_reply_that_turns_out_to_be_none_or_many_messages_is_an_error() {
    // `Body`: RPC, unary side: the encoded message. A reply of no message, or of several, is a
    // fault.
    for messages in [0, 1, 2] {
        let layer = answering(move |call: Call, inner: Arc<dyn Service>| async move {
            let echoes = is(&call, "Echo");
            let reply = inner.call(call).await?;
            if !echoes {
                return Ok(reply);
            }
            let message = reply.body.collect(1 << 20).await?;
            Ok(Reply::new(Body::stream(stream::iter(vec![Ok(message); messages]))))
        });
        let (builder, _) = behaviour();
        let (_running, address) = start(builder.layer(layer)).await;
        for protocol in PROTOCOLS {
            let request = EchoRequest { text: "a".into(), ..Default::default() };
            let outcome = client(address, protocol).echo(request).await;
            match messages {
                1 => assert_eq!(outcome.unwrap().body.text, "a", "{protocol:?}"),
                _ => {
                    let error = outcome.expect_err(&format!("{protocol:?}: {messages} messages"));
                    assert!(
                        matches!(error.code(), Code::Internal | Code::Unimplemented),
                        "{protocol:?}: {messages} messages: {error}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_unary_reply_of_none_or_many_messages_is_an_error_over_rest_too() {
    for (messages, status, said) in [
        (0, 500, "the service sent no message"),
        (1, 200, ""),
        (2, 500, "the service sent several messages for one"),
    ] {
        let layer = answering(move |call: Call, inner: Arc<dyn Service>| async move {
            let message = inner.call(call).await?.body.collect(1 << 20).await?;
            Ok(Reply::new(Body::stream(stream::iter(vec![Ok(message); messages]))))
        });
        let (_running, address) = start(stage().layer(layer)).await;
        send(address, "GET /things/a", b"").await.check(status, &[said]);
    }
}

#[tokio::test]
async fn a_unary_body_that_fails_while_it_is_read_is_an_error_and_no_half_an_answer() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        let reply = inner.call(call).await?;
        let error = Error::unavailable("gone in the middle");
        Ok(reply.map(|_| Body::stream(stream::iter([Ok("\n\u{1}a".into()), Err(error)]))))
    });
    let (builder, mut heard) = told(stage().layer(layer));
    let (_running, address) = start(builder).await;
    for protocol in PROTOCOLS {
        let error = client(address, protocol).echo(EchoRequest::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{protocol:?}: {error}");
        let told = heard.one().await;
        assert_eq!(told.end.code, Some(Code::Unavailable), "{protocol:?} {told:?}");
    }
    send(address, "GET /things/a", b"").await.check(503, &["gone in the middle"]);
    assert_eq!(heard.one().await.end.code, Some(Code::Unavailable));
}

#[tokio::test]
async fn trailers_that_end_a_unary_body_reach_the_caller_as_those_of_the_reply_do() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        let reply = inner.call(call).await?;
        let message = reply.body.collect(1 << 20).await?;
        let mut trailers = tidewire::Headers::new();
        trailers.insert("x-end", HeaderValue::from_static("1"));
        let frames = [Ok(Frame::Data(message)), Ok(Frame::Trailers(trailers.into()))];
        Ok(Reply::new(Body::frames(stream::iter(frames))))
    });
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.layer(layer)).await;
    for protocol in PROTOCOLS {
        let reply = client(address, protocol).echo(EchoRequest::default()).await.unwrap();
        assert_eq!(reply.trailers.get("x-end").unwrap(), "1", "{protocol:?}");
    }
}

#[tokio::test]
async fn a_layer_may_answer_without_reading_the_body_and_the_connection_goes_on() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        if call.context.header("x-short").is_some() {
            drop(call);
            return Err(Error::aborted("not read"));
        }
        inner.call(call).await
    });
    let (builder, mut heard) = told(stage().layer(layer));
    let (_running, address) = start(builder).await;
    let body = vec![b'x'; 2_000_000];
    send(address, "POST /sink\nx-short: 1", &body[..10]).await.check(409, &["not read"]);
    assert_eq!(heard.one().await.end.code, Some(Code::Aborted));
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let mut context = Context::default();
        context.headers_mut().insert("x-short", HeaderValue::from_static("1"));
        let request = EchoRequest { data: body.clone(), ..Default::default() };
        let error = BehaviourService::echo(&client, context, request).await.unwrap_err();
        assert_eq!(error.code(), Code::Aborted, "{protocol:?}");
        client.look(LookRequest::default()).await.unwrap();
        heard.one().await;
        heard.one().await;
    }
}

#[tokio::test]
async fn the_message_of_a_stream_is_its_only_one_and_none_or_two_are_refused_each_time() {
    let layer = answering(async |mut call: Call, inner: Arc<dyn Service>| {
        if is(&call, "Sum") {
            let first = call.message().await;
            let second = call.message().await;
            match (first, second) {
                (Ok(one), Ok(two)) => assert_eq!(one, two),
                (Err(one), Err(two)) => assert_eq!(
                    (one.code(), one.message(), Code::Unimplemented),
                    (two.code(), two.message(), two.code())
                ),
                _ => panic!("the second question is answered as the first is"),
            }
        }
        inner.call(call).await
    });
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.layer(layer)).await;
    for protocol in PROTOCOLS {
        for count in 0..3 {
            let requests = (0..count).map(|_| SumRequest { value: 7, ..Default::default() });
            let requests = tidewire::Stream::from_values(requests.collect::<Vec<_>>());
            let outcome = client(address, protocol).sum(requests).await;
            match count {
                1 => assert_eq!(outcome.unwrap().body.total, 7, "{protocol:?}"),
                _ => {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.code(), Code::Unimplemented, "{protocol:?} {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_buffered_call_is_made_again_and_one_beyond_the_limits_is_refused() {
    let layer = answering(async |call: Call, inner: Arc<dyn Service>| {
        let query = call.buffered().await?;
        let first = inner.call(query.clone().into_call()).await?.body.collect(1 << 22).await?;
        let second = inner.call(query.clone().into_call()).await?.body.collect(1 << 22).await?;
        assert_eq!(first, second);
        inner.call(query.into_call().buffered().await?.into_call()).await
    });
    let mut limits = tidewire::Limits::default();
    limits.body_bytes_max = 1000;
    limits.message_bytes_max = 1000;
    let (_running, address) = start(stage().limits(limits).layer(layer)).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let echo = |len| EchoRequest { text: "a".repeat(len), ..Default::default() };
        assert_eq!(client.echo(echo(900)).await.unwrap().body.text.len(), 900);
        let error = client.echo(echo(1001)).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
    }
    send(address, "POST /sink", &[b'x'; 1000]).await.check(200, &["1000"]);
    let chunks = [&b"3e9\r\n"[..], &[b'x'; 1001], b"\r\n0\r\n\r\n"].concat();
    send(address, "POST /sink\ntransfer-encoding: chunked", &chunks).await.check(413, &[]);
}

#[tokio::test]
async fn a_body_is_bounded_where_it_was_bounded() {
    let body = || Body::stream(stream::iter([Ok("abc".into()), Ok("def".into()), Ok("".into())]));
    assert_eq!(body().limit(6).unwrap().collect(usize::MAX).await.unwrap(), "abcdef");
    let error = body().limit(5).unwrap().collect(usize::MAX).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(error.http_status().as_u16(), 413);
    assert_eq!(body().collect(6).await.unwrap(), "abcdef");
    assert_eq!(body().collect(5).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(Body::from("abc").limit(2).unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(Body::from("abc").collect(2).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(Body::from("abc").limit(3).unwrap().collect(3).await.unwrap(), "abc");
    assert_eq!((Body::Empty.len(), Body::from("").len(), body().len()), (Some(0), Some(0), None));
    let mut frames = Box::pin(body().limit(4).unwrap());
    let mut seen = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| poll(frames.as_mut(), cx)).await {
        seen.push(frame.map(|_| ()).map_err(|error| error.code()));
    }
    // Who asks on after the error is told again that it is too much.
    assert_eq!(seen, [Ok(()), Err(Code::ResourceExhausted), Err(Code::ResourceExhausted)]);
}

type Polled = std::task::Poll<Option<Result<Frame, Error>>>;

fn poll(body: std::pin::Pin<&mut Body>, cx: &mut std::task::Context<'_>) -> Polled {
    match body.get_mut() {
        Body::Stream(frames) => frames.poll_next_unpin(cx),
        _ => panic!("it is a stream"),
    }
}

#[tokio::test]
async fn layers_see_a_call_in_the_order_that_is_written_down() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let named = |name: &'static str| {
        let seen = Arc::clone(&seen);
        answering(move |call: Call, inner: Arc<dyn Service>| {
            seen.lock().unwrap().push(name);
            inner.call(call)
        })
    };
    let gate = {
        let seen = Arc::clone(&seen);
        move |_: &mut tidewire::Head| {
            seen.lock().unwrap().push("gate");
            Ok(())
        }
    };
    let service = BehaviourServiceServer::new(Behaviour::default());
    let service = service.layer(named("innermost")).layer(named("own"));
    let builder = Server::builder()
        .inner_layer(named("inner 1"))
        .layer(named("outer 1"))
        .service(service)
        .inner_layer(named("inner 2"))
        .layer(named("outer 2"))
        .gate(gate)
        .route(Method::GET, "/plain", async |_: Call| Ok("well"));
    let (_running, address) = start(builder).await;
    let around = ["gate", "outer 1", "outer 2", "inner 1", "inner 2", "own", "innermost"];
    post_json(address, "Echo", "{}").await.check(200, &[]);
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), around);
    send(address, "GET /plain", b"").await.check(200, &["well"]);
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), around[..5]);
}

#[tokio::test]
async fn an_error_keeps_its_freshness_through_generated_code_and_layers() {
    struct DefaultReply;
    impl BehaviourServicePartial for DefaultReply {
        async fn look(&self, _: Context, _: LookRequest) -> tidewire::Result<Reply<LookReply>> {
            Err(Error::not_found("nothing").with_freshness(Freshness::immutable()))
        }
    }
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    let layer = answering(move |call: Call, inner: Arc<dyn Service>| {
        let sees = Arc::clone(&sees);
        async move {
            let outcome = inner.call(call).await;
            *sees.lock().unwrap() = outcome.as_ref().err().map(|error| error.freshness().clone());
            outcome
        }
    });
    let service = BehaviourServiceServer::new(DefaultReply);
    let channel = Channel::new(tidewire::Layer::layer(&layer, Arc::new(service.clone())));
    let client = BehaviourServiceClient::new(channel);
    let error = client.look(LookRequest::default()).await.unwrap_err();
    assert!(error.freshness().is_known());
    assert!(seen.lock().unwrap().take().unwrap().is_known());
    let (_running, address) = start(Server::builder().service(service).layer(layer)).await;
    post_json(address, "Look", "{}").await.check(404, &["nothing"]);
    assert!(seen.lock().unwrap().take().unwrap().is_known());
}

struct Nothing;

impl BehaviourServicePartial for Nothing {}

impl Implementation for Nothing {}

#[tokio::test]
async fn every_kind_of_method_that_is_left_out_is_unimplemented_on_every_protocol() {
    let schema = Schema::from_folder(tidewire_tests::program::root().join("tests/proto")).unwrap();
    let name = "tidewire.test.v1.BehaviourService";
    let run_time = schema.implement(name, Nothing).unwrap();
    let generated = start(Server::builder().service(BehaviourServiceServer::new(Nothing))).await;
    let run_time = start(Server::builder().service(run_time)).await;
    for (_, address) in [&generated, &run_time] {
        for protocol in PROTOCOLS {
            let client = client(*address, protocol);
            let unary = client.echo(EchoRequest::default()).await.unwrap_err();
            let sum = client.sum(tidewire::Stream::from_values([])).await.unwrap_err();
            let count = match client.count(CountRequest::default()).await {
                Err(error) => error,
                Ok(mut reply) => reply.body.next().await.unwrap_err(),
            };
            let chat = match client.chat(tidewire::Stream::from_values([])).await {
                Err(error) => error,
                Ok(mut reply) => reply.body.next().await.unwrap_err(),
            };
            for (method, error) in [("Echo", unary), ("Sum", sum), ("Count", count), ("Chat", chat)]
            {
                assert_eq!(error.code(), Code::Unimplemented, "{protocol:?}: {error}");
                let message = format!("/{name}/{method} is not implemented");
                assert_eq!(error.message(), message, "{protocol:?}");
            }
        }
    }
}

#[tokio::test]
async fn two_services_of_one_name_and_two_routes_of_one_path_do_not_start() {
    let (builder, other) = behaviour();
    let outcome = builder.service(BehaviourServiceServer::new(other)).start().await;
    let error = outcome.expect_err("it does not start");
    assert!(matches!(error, StartError::DuplicateMethod(_)), "{error}");
    assert!(error.to_string().contains(SERVICE), "{error}");
    let builder = Server::builder().route(Method::GET, "/a/{b}", async |_: Call| Ok("1")).route(
        Method::GET,
        "/a/{c}",
        async |_: Call| Ok("2"),
    );
    assert!(matches!(builder.start().await.err(), Some(StartError::Route(_))));
}

#[tokio::test]
async fn a_backend_of_bytes_serves_every_protocol_in_the_codec_that_it_is_asked_in() {
    let schema = Schema::from_folder(tidewire_tests::program::root().join("tests/proto")).unwrap();
    let backend = async |mut call: Call| {
        assert!(call.spec().is_some());
        let bytes = call.message().await?;
        assert_eq!(call.codec, call.accept);
        let codec = match call.codec {
            Codec::Proto => "proto",
            Codec::Json => "json",
        };
        Reply::new(Body::from(bytes)).with_trailer("x-codec", codec)
    };
    let served = schema.serve("tidewire.test.v1.BehaviourService", backend).unwrap();
    assert!(schema.serve("no.Such", async |_: Call| Ok("")).is_err());
    let (_running, address) = start(Server::builder().service(served)).await;
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        let request = EchoRequest { text: "same".into(), ..Default::default() };
        let reply = client(address, protocol).echo(request).await.unwrap();
        assert_eq!(reply.body.text, "same");
        assert_eq!(reply.trailers.get("x-codec").unwrap(), "proto");
    }
    post_json(address, "Echo", "{\"text\":\"as it is\"}").await.check(200, &["as it is"]);
}

#[tokio::test]
async fn nothing_follows_an_error_of_a_stream_within_a_process_either() {
    // `Stream`: an error ends the stream.
    struct Failing;
    impl BehaviourServicePartial for Failing {
        async fn count(
            &self,
            _: Context,
            _: CountRequest,
        ) -> tidewire::Result<Reply<tidewire::Stream<CountReply>>> {
            let reply = |number| Ok(CountReply { number, ..Default::default() });
            let results = [reply(1), Err(Error::aborted("enough")), reply(3)];
            Ok(tidewire::Stream::from_results(results).into())
        }
    }
    let client = BehaviourServiceClient::new(Channel::new(BehaviourServiceServer::new(Failing)));
    let mut replies = client.count(CountRequest::default()).await.unwrap().body;
    assert_eq!(replies.next().await.unwrap().unwrap().number, 1);
    assert_eq!(replies.next().await.unwrap_err().code(), Code::Aborted);
    for _ in 0..3 {
        assert!(replies.next().await.unwrap().is_none());
    }
    // With trailers, and a source that is open for ever after its error.
    let open = stream::iter([Err::<u8, _>(Error::aborted("enough"))]).chain(stream::pending());
    let mut open = tidewire::Stream::new(open).with_trailers(tidewire::Headers::new);
    assert!(open.next().await.is_err());
    assert!(futures_util::FutureExt::now_or_never(open.next()).unwrap().unwrap().is_none());
}

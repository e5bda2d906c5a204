//! The client against our own server, over every protocol, with real sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidewire::client::{ClientLimits, HttpVersion, Protocol, Step, Trace};
use tidewire::{Body, Call, Client, Code, Codec, Context, Reply, Server, Service, Stream};
use tidewire_tests::proto::*;

use crate::harness::{behaviour, start};

/// Every way in which a client can speak to a plain TCP port.
pub(crate) fn ways(address: SocketAddr) -> Vec<(String, Client)> {
    let mut ways = http_ways(address);
    for scheme in ["ws", "tcp"] {
        for codec in [Codec::Proto, Codec::Json] {
            let client = Client::builder(format!("{scheme}://{address}")).codec(codec).build();
            ways.push((format!("{scheme} {codec:?}"), client.unwrap()));
        }
    }
    ways
}

/// Those of them that are requests of HTTP.
fn http_ways(address: SocketAddr) -> Vec<(String, Client)> {
    let mut ways = Vec::new();
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            for codec in [Codec::Proto, Codec::Json] {
                if protocol == Protocol::Grpc && http == HttpVersion::Http1 {
                    continue;
                }
                let client = Client::builder(format!("http://{address}"))
                    .protocol(protocol)
                    .http(http)
                    .codec(codec)
                    .build()
                    .unwrap();
                ways.push((format!("{protocol:?} {http:?} {codec:?}"), client));
            }
        }
    }
    ways
}

fn typed(client: &Client) -> BehaviourServiceClient {
    BehaviourServiceClient::new(client.channel())
}

#[tokio::test]
async fn all_four_stream_kinds_work_over_every_protocol() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in ways(address) {
        let client = typed(&client);
        let request = EchoRequest { text: "a".into(), number: i64::MAX, ..Default::default() };
        let reply = client.echo(request).await.unwrap_or_else(|e| panic!("{way}: {e:?}"));
        assert_eq!((reply.body.text.as_str(), reply.body.number), ("a", i64::MAX), "{way}");

        let request = CountRequest { n: 3, ..Default::default() };
        let mut numbers = client.count(request).await.unwrap().body;
        let mut sum = 0;
        while let Some(number) = numbers.next().await.unwrap() {
            sum += number.number;
        }
        assert_eq!(sum, 6, "{way}");
        assert_eq!(numbers.trailers()["x-counted"], "3", "{way}: known at the end only");

        let values =
            Stream::from_values((1..=4).map(|value| SumRequest { value, ..Default::default() }));
        let sum = client.sum(values).await.unwrap().body;
        assert_eq!((sum.total, sum.messages), (10, 4), "{way}");

        let texts =
            ["a", "b"].map(|text| ChatRequest { text: text.to_owned(), ..Default::default() });
        let mut replies = client.chat(Stream::from_values(texts)).await.unwrap().body;
        assert_eq!(replies.next().await.unwrap().unwrap().text, "a", "{way}");
        assert_eq!(replies.next().await.unwrap().unwrap().text, "b", "{way}");
        assert!(replies.next().await.unwrap().is_none(), "{way}");
    }
}

#[tokio::test]
async fn an_error_keeps_code_message_details_and_headers_over_every_protocol() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in ways(address) {
        let request = FailRequest {
            code: 5,
            message: "gone – for good".into(),
            with_detail: true,
            ..Default::default()
        };
        let error = typed(&client).fail(request).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::NotFound, "gone – for good"), "{way}");
        let details: Vec<_> = error.details().iter().map(|d| d.type_name.as_str()).collect();
        assert_eq!(details, ["tidewire.test.v1.FailDetail"], "{way}");
        let known = error.headers().get("x-fail").or_else(|| error.trailers().get("x-fail"));
        assert_eq!(known.unwrap(), "yes", "{way}");

        let request = CountRequest { n: 3, fail_after: 2, ..Default::default() };
        let mut numbers = typed(&client).count(request).await.unwrap().body;
        assert_eq!(numbers.next().await.unwrap().unwrap().number, 1, "{way}");
        assert_eq!(numbers.next().await.unwrap().unwrap().number, 2, "{way}");
        let error = numbers.next().await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Aborted, "stopped after 2"), "{way}");
        assert!(!error.trailers().contains_key("x-counted"), "{way}: it did not end well");
        assert!(numbers.trailers().is_empty(), "{way}");
    }
}

#[tokio::test]
async fn headers_and_trailers_go_both_ways() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in ways(address) {
        let mut context = Context::default();
        context.headers_mut().insert("x-ping", "there".parse().unwrap());
        let reply =
            BehaviourService::echo(&typed(&client), context, EchoRequest::default()).await.unwrap();
        assert_eq!(reply.headers["x-pong"], "there", "{way}");
        assert_eq!(reply.trailers["x-pong-trailer"], "there", "{way}");
        assert!(!reply.headers.contains_key("content-type"), "{way}");
    }
}

#[tokio::test]
async fn a_deadline_reaches_the_server_and_is_kept_without_it() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in ways(address) {
        let context = Context::default().with_deadline(Instant::now() + Duration::from_millis(50));
        let request = SlowRequest { millis: 60_000, ..Default::default() };
        let error = BehaviourService::slow(&typed(&client), context, request).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded, "{way}: {error}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in ways(address) {
        for _ in 0..5 {
            typed(&client).look(LookRequest::default()).await.unwrap();
        }
        assert_eq!(client.open_connections(), 1, "{way}");
    }
}

#[tokio::test]
async fn calls_past_the_bound_wait_for_a_connection() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let mut limits = ClientLimits::default();
    limits.http1_connections_max = 3;
    let client = Client::builder(format!("http://{address}")).limits(limits).build().unwrap();
    let calls = (0..50).map(|_| async {
        typed(&client).slow(SlowRequest { millis: 1, ..Default::default() }).await.unwrap();
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(client.open_connections(), 3);
}

#[tokio::test]
async fn http2_opens_another_connection_when_the_streams_are_taken() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let mut limits = ClientLimits::default();
    limits.http2_streams_max = 10;
    let client = Client::builder(format!("http://{address}"))
        .http(HttpVersion::Http2)
        .limits(limits)
        .build()
        .unwrap();
    let calls = (0..35).map(|_| async {
        typed(&client).slow(SlowRequest { millis: 200, ..Default::default() }).await.unwrap();
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(client.open_connections(), 4);
}

#[tokio::test]
async fn plain_http_passes_through() {
    let server = Server::builder().route(
        tidewire::http::Method::PUT,
        "/store/{key}",
        |call: Call| async move {
            let key = call.param::<String>("key")?;
            let query = call.http_target().unwrap().uri.query().unwrap_or_default().to_owned();
            let sent = call.context.header("x-sent").cloned();
            let body = call.body.collect(1 << 20).await?;
            let text = format!("{key} {query} {}", String::from_utf8_lossy(&body));
            Reply::text(text)
                .with_status(tidewire::http::StatusCode::CREATED)
                .with_header("x-got", sent.unwrap())
        },
    );
    let (_running, address) = start(server).await;
    for (way, client) in ways(address) {
        let mut context = Context::default();
        context.headers_mut().insert("x-sent", "1".parse().unwrap());
        let uri = "/store/a%20b?c=d".parse().unwrap();
        let call = Call::http(tidewire::http::Method::PUT, uri, context, "body");
        let reply = client.call(call).await.unwrap();
        assert_eq!(reply.status.as_u16(), 201, "{way}");
        assert_eq!(reply.headers["x-got"], "1", "{way}");
        assert_eq!(reply.body.collect(100).await.unwrap(), "a b c=d body", "{way}");
    }
}

#[tokio::test]
async fn a_trace_sees_every_step_with_raw_headers() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (way, client) in http_ways(address) {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&steps);
        let trace = Trace::new(move |event| {
            let text = match &event.step {
                Step::Connecting { .. } => "connecting",
                Step::Connected { .. } => "connected",
                Step::Reused { .. } => "reused",
                Step::Request { headers, .. } => {
                    assert!(headers.contains_key("content-type"));
                    "request"
                }
                Step::MessageSent { .. } => "sent",
                Step::RequestSent => "request sent",
                Step::Response { headers, .. } => {
                    assert!(headers.contains_key("content-type"));
                    "response"
                }
                Step::MessageReceived { .. } => "received",
                Step::Trailers { .. } => return,
                Step::Done => "done",
                other => panic!("{other:?}"),
            };
            seen.lock().unwrap().push(text);
        });
        for first in [&["connecting", "connected"][..], &["reused"]] {
            let mut context = Context::default();
            context.extensions_mut().insert(trace.clone());
            let request = LookRequest { key: "k".into(), ..Default::default() };
            BehaviourService::look(&typed(&client), context, request).await.unwrap();
            let rest = ["request", "sent", "request sent", "response", "received", "done"];
            let seen = std::mem::take(&mut *steps.lock().unwrap());
            assert_eq!(seen, [first, &rest].concat(), "{way}");
        }
    }
}

#[tokio::test]
async fn a_call_by_name_takes_bytes_or_json() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let method = tidewire::service::Spec::dynamic(
        "tidewire.test.v1.BehaviourService",
        "Look",
        tidewire::service::StreamKind::Unary,
        ["tidewire.test.v1.LookRequest", "tidewire.test.v1.LookReply"],
    );
    let method = Arc::new(method);
    for (way, client) in ways(address) {
        let json = r#"{"key":"k"}"#;
        let call = Call::method(Arc::clone(&method), Context::default(), Codec::Json, json);
        let reply = client.call(call).await.unwrap();
        let Body::Full(bytes) = reply.body else { panic!("{way}: one message is a full body") };
        assert_eq!(bytes, r#"{"value":"value of k"}"#, "{way}");
    }
}

#[test]
fn a_client_refuses_a_protocol_that_it_does_not_speak_by_name() {
    let refused = Client::builder("http://127.0.0.1:1").protocol(Protocol::Rest).build();
    let message = refused.expect_err("REST is not spoken by a client").to_string();
    assert_eq!(message, "a client does not speak rest; use connect, grpc, grpc-web or live");
}

//! `tidewire.live.v1.Freshness/Watch`: over every protocol, and for a client of gRPC in Go.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tidewire::client::Upstream;
use tidewire::service::{Frame, Idempotency, Protocol, Spec, StreamKind};
use tidewire::{Body, Call, Client, Code, Codec, Context, Error, Limits, Service};
use tidewire_tests::program::tool;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::{may_read, set};
use crate::harness::start;
use crate::memoized::{built, served};

pub(crate) const EVERY: [Protocol; 4] =
    [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live];

/// The answers of a query, as they come.
pub(crate) struct Watching {
    body: Body,
    /// A session ends with the last who has it.
    _client: Client,
}

impl Watching {
    pub(crate) async fn begin(address: SocketAddr, protocol: Protocol, request: Value) -> Self {
        let client = Client::builder(format!("http://{address}")).protocol(protocol).build();
        let client = client.unwrap();
        let names = ["tidewire.live.v1.WatchRequest", "tidewire.live.v1.WatchReply"];
        let spec = Spec::dynamic("tidewire.live.v1.Freshness", "Watch", StreamKind::Server, names)
            .idempotency(Idempotency::NoSideEffects);
        let request = request.to_string();
        let call = Call::method(Arc::new(spec), Context::default(), Codec::Json, request);
        let body = match Upstream::new(client.clone()).call(call).await {
            Ok(reply) => reply.body,
            Err(error) => Body::stream(futures_util::stream::iter([Err(error)])),
        };
        Self { body, _client: client }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Value, Error>> {
        let Body::Stream(frames) = &mut self.body else { panic!("a stream") };
        loop {
            match frames.next().await? {
                Ok(Frame::Data(message)) => {
                    return Some(Ok(serde_json::from_slice(&message).unwrap()));
                }
                Ok(Frame::Trailers(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The value of the row in the next answer.
    async fn value(&mut self) -> u32 {
        let answer = self.next().await.expect("it goes on").unwrap();
        let row: Value = serde_json::from_str(answer["json"].as_str().unwrap()).unwrap();
        row["value"].as_str().map_or(0, |value| value.parse().unwrap())
    }

    async fn error(&mut self) -> Error {
        self.next().await.expect("an error").unwrap_err()
    }
}

fn row(id: u32) -> Value {
    json!({ "method": "test.v1.Rows/Get", "json": format!(r#"{{"id":"{id}"}}"#) })
}

#[tokio::test]
async fn each_new_value_of_a_query_is_told_over_every_protocol_and_no_other() {
    let (_running, address, _) = served().await;
    for (at, protocol) in (1..).zip(EVERY) {
        set(address, 7, at * 100).await;
        let mut watching = Watching::begin(address, protocol, row(7)).await;
        assert_eq!(watching.value().await, at * 100, "{protocol}");
        for value in [at * 100 + 1, at * 100 + 2] {
            // Another row, and one that is written again: neither is told.
            set(address, 8, 1).await;
            set(address, 7, value).await;
            assert_eq!(watching.value().await, value, "{protocol}");
            set(address, 7, value).await;
        }
    }
}

#[tokio::test]
async fn who_comes_back_with_a_validator_is_told_what_changed_since() {
    let (_running, address, _) = served().await;
    set(address, 7, 41).await;
    let mut first = Watching::begin(address, Protocol::Connect, row(7)).await;
    let answer = first.next().await.unwrap().unwrap();
    drop(first);
    let mut request = row(7);
    request["validator"] = answer["validator"].clone();
    let mut again = Watching::begin(address, Protocol::Grpc, request).await;
    set(address, 7, 42).await;
    assert_eq!(again.value().await, 42, "41 is not told again");
}

#[tokio::test]
async fn a_query_that_finds_nothing_is_followed_and_its_failure_is_an_answer() {
    let (_running, address, _) = served().await;
    let mut watching = Watching::begin(address, Protocol::Grpc, row(100)).await;
    let answer = watching.next().await.unwrap().unwrap();
    assert_eq!(answer["failure"]["code"], Code::NotFound.number());
    assert_eq!(answer["failure"]["message"], "no row has this id");
    set(address, 100, 1).await;
    assert!(watching.next().await.unwrap().is_ok(), "it is asked again");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_with_the_reason() {
    let (_running, address, _) = served().await;
    for (request, code, text) in [
        (json!({ "method": "test.v1.Rows/Set" }), Code::FailedPrecondition, "not a query"),
        (json!({ "method": "test.v1.Rows/None" }), Code::Unimplemented, "test.v1.Rows has"),
        (
            json!({ "method": "/test.v1.Rows/Get", "validator": "YQ==" }),
            Code::InvalidArgument,
            "16 bytes",
        ),
        (json!({ "method": "test.v1.Rows/Get", "json": "[]" }), Code::InvalidArgument, ""),
        (
            json!({ "method": "tidewire.live.v1.Freshness/Watch" }),
            Code::FailedPrecondition,
            "not a query",
        ),
    ] {
        let mut watching = Watching::begin(address, Protocol::Connect, request.clone()).await;
        let error = watching.error().await;
        assert_eq!(error.code(), code, "{request}: {error}");
        assert!(error.message().contains(text), "{request}: {error}");
    }
}

#[tokio::test]
async fn rights_that_are_taken_away_end_the_stream_with_the_next_answer() {
    let allowed = Arc::new(AtomicBool::new(true));
    let (builder, _) = built();
    let (_running, address) = start(builder.gate(may_read(&allowed))).await;
    let mut watching = Watching::begin(address, Protocol::Grpc, row(7)).await;
    assert_eq!(watching.value().await, 0);
    allowed.store(false, Ordering::SeqCst);
    set(address, 7, 41).await;
    let error = watching.error().await;
    assert_eq!((error.code(), error.message()), (Code::PermissionDenied, "not any more"));
    let mut late = Watching::begin(address, Protocol::Grpc, row(7)).await;
    assert_eq!(late.error().await.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn only_so_many_queries_are_followed_at_once_and_a_drain_ends_them() {
    let mut limits = Limits::default();
    limits.followers_max = 1;
    let (builder, _) = built();
    let (running, address) = start(builder.limits(limits)).await;
    let mut first = Watching::begin(address, Protocol::Grpc, row(7)).await;
    assert_eq!(first.value().await, 0);
    let error = Watching::begin(address, Protocol::Connect, row(7)).await.error().await;
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("limits.followers_max = 1"), "{error}");
    let (drained, error) = tokio::join!(running.drain(), first.error());
    assert!(drained, "nothing was cut off");
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_finds_the_service_by_reflection_and_is_told_each_new_value() {
    let (_running, address, _) = served().await;
    let mut grpcurl = Command::new(tool("grpcurl"))
        .args(["-plaintext", "-d", &row(7).to_string(), &address.to_string()])
        .arg("tidewire.live.v1.Freshness/Watch")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(grpcurl.stdout.take().unwrap()).lines();
    let mut told = async || loop {
        let line = lines.next_line().await.unwrap().expect("it goes on");
        if line.contains("\"json\"") {
            return line;
        }
    };
    told().await;
    for value in [41, 42, 43] {
        set(address, 7, value).await;
        let line = told().await;
        assert!(line.contains(&value.to_string()), "{line}");
    }
    grpcurl.kill().await.unwrap();
}

//! `Connect-Timeout-Ms` over REST.

use std::future::pending;

use tidewire_server::{Address, RunningServer, Server};
use tidewire_service::{Body, Call, Reply};

use super::service::{in_json, schema, start};
use crate::http::send;

/// A server whose calls never end: streams after their first message, others without an answer.
async fn endless() -> RunningServer {
    let backend = |call: Call| async move {
        assert!(call.context.deadline().is_some(), "the handler may look at it");
        if &*call.spec().unwrap().method == "Count" {
            use futures_util::StreamExt as _;
            let first = futures_util::stream::iter([Ok(bytes::Bytes::from(r#"{"text":"1"}"#))]);
            return Ok(Reply::new(Body::stream(first.chain(futures_util::stream::pending()))));
        }
        pending::<()>().await;
        Ok(Reply::new("{}".into()))
    };
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    Server::builder().listen(any).service(service).start().await.unwrap()
}

#[tokio::test]
async fn a_call_ends_when_its_client_has_waited_long_enough() {
    let server = endless().await;
    for (verb, target) in [("GET", "/query"), ("POST", "/whole")] {
        let answer = send(&server, verb, target, "connect-timeout-ms: 20\r\n", b"").await;
        assert_eq!(answer.status, 504, "{verb} {target}");
        assert_eq!(
            answer.text(),
            r#"{"code":"deadline_exceeded","message":"the deadline that the caller set has passed"}"#
        );
    }
}

#[tokio::test]
async fn a_stream_ends_there_too() {
    let server = endless().await;
    let array = send(&server, "GET", "/count/2", "connect-timeout-ms: 20\r\n", b"").await;
    assert!(array.status == 200 && !array.complete, "an open array shows that it is broken off");
    let lines = "connect-timeout-ms: 20\r\naccept: application/x-ndjson\r\n";
    let lines = send(&server, "GET", "/count/2", lines, b"").await;
    assert!(lines.complete && lines.text().contains(r#"{"error":{"code":"deadline_exceeded""#));
}

#[tokio::test]
async fn a_deadline_that_is_no_number_is_refused_and_one_far_away_changes_nothing() {
    let server = start().await;
    for value in ["soon", "", "-1", "1.5", "99999999999"] {
        let header = format!("connect-timeout-ms: {value}\r\n");
        let answer = send(&server, "GET", "/query?text=x", &header, b"").await;
        assert_eq!(answer.status, 400, "{value}");
        assert!(answer.text().contains("header connect-timeout-ms is"), "{}", answer.text());
    }
    let header = "connect-timeout-ms: 9999999999\r\n";
    let answer = send(&server, "GET", "/query?text=x", header, b"").await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"text":"x"}"#));
}

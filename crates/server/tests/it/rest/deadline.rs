//! `Connect-Timeout-Ms` over REST.

use std::future::pending;
use std::time::Duration;

use tidewire_server::{Address, Limits, RunningServer, Server};
use tidewire_service::{Body, Call, Reply};

use super::service::{in_json, schema, start};
use crate::http::send;

/// A server whose calls never end: streams after their first message, others without an answer.
async fn endless() -> RunningServer {
    endless_with(Limits::default()).await
}

async fn endless_with(limits: Limits) -> RunningServer {
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
    Server::builder().listen(any).limits(limits).service(service).start().await.unwrap()
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
async fn a_caller_is_told_whose_deadline_has_passed() {
    let [short, long] = [Duration::from_millis(20), Duration::from_secs(600)];
    for (default, most, header, says) in [
        (Some(short), None, "", "limits.deadline_default of the server"),
        (Some(short), Some(long), "", "limits.deadline_default of the server"),
        (Some(long), Some(short), "", "limits.deadline_max of the server"),
        (None, Some(short), "", "limits.deadline_max of the server"),
        (None, Some(short), "connect-timeout-ms: 600000\r\n", "limits.deadline_max of the server"),
        (Some(long), Some(long), "connect-timeout-ms: 20\r\n", "that the caller set has passed"),
    ] {
        let mut limits = Limits::default();
        (limits.deadline_default, limits.deadline_max) = (default, most);
        let server = endless_with(limits).await;
        let answer = send(&server, "GET", "/query", header, b"").await;
        assert_eq!(answer.status, 504, "{says}");
        assert!(answer.text().contains(says), "{}", answer.text());
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

//! Streams over REST.

use super::service::start;
use crate::http::{get, send};

const NDJSON: &str = "content-type: application/x-ndjson\r\n";
const ACCEPT: &str = "accept: text/html, application/x-ndjson;q=0.9\r\n";

#[tokio::test]
async fn a_server_stream_is_one_json_array() {
    let server = start().await;
    for (n, expected) in [
        (0, "[]"),
        (1, r#"[{"text":"1","i32":1}]"#),
        (2, r#"[{"text":"1","i32":1},{"text":"2","i32":2}]"#),
    ] {
        let answer = get(&server, &format!("/count/{n}")).await;
        assert_eq!((answer.status, answer.text()), (200, expected));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!(get(&server, "/texts/3").await.text(), r#"["1","2","3"]"#);
}

#[tokio::test]
async fn a_long_server_stream_comes_in_chunks_and_is_complete() {
    let server = start().await;
    let answer = get(&server, "/count/100000").await;
    assert_eq!((answer.header("transfer-encoding"), answer.complete), (Some("chunked"), true));
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((rows.len(), &rows[99_999]["text"]), (100_000, &"100000".into()));
}

#[tokio::test]
async fn a_server_stream_is_lines_where_lines_are_accepted() {
    let server = start().await;
    let answer = send(&server, "GET", "/count/2", ACCEPT, b"").await;
    assert_eq!(answer.text(), "{\"text\":\"1\",\"i32\":1}\n{\"text\":\"2\",\"i32\":2}\n");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(send(&server, "GET", "/count/0", ACCEPT, b"").await.text(), "");
}

#[tokio::test]
async fn an_error_before_the_first_chunk_is_an_error_response() {
    let server = start().await;
    let answer = get(&server, "/count/0?text=why").await;
    assert_eq!((answer.status, answer.text()), (409, r#"{"code":"aborted","message":"why"}"#));
}

#[tokio::test]
async fn an_error_in_the_middle_is_the_last_of_the_lines() {
    let server = start().await;
    let answer = send(&server, "GET", "/count/1?text=why", ACCEPT, b"").await;
    let expected =
        "{\"text\":\"1\",\"i32\":1}\n{\"error\":{\"code\":\"aborted\",\"message\":\"why\"}}\n";
    assert_eq!((answer.text(), answer.complete), (expected, true));
}

#[tokio::test]
async fn a_client_stream_is_lines() {
    let server = start().await;
    let body = b"{\"i32\":1,\"text\":\"a\"}\r\n\n{\"i32\":2,\"text\":\"b\"}\n{\"i32\":3}";
    let answer = send(&server, "POST", "/sum", NDJSON, body).await;
    assert_eq!(answer.text(), r#"{"text":"ab","i32":6}"#);
    assert_eq!(send(&server, "POST", "/sum", NDJSON, b"").await.text(), r#"{"text":"","i32":0}"#);
    let answer =
        send(&server, "POST", "/sum/x?i32=5", NDJSON, b"{\"text\":\"a\"}\n{\"text\":\"b\"}").await;
    assert_eq!(answer.text(), r#"{"text":"xaxb","i32":10}"#);
}

#[tokio::test]
async fn bidirectional_streams_are_lines_both_ways() {
    let server = start().await;
    let answer =
        send(&server, "POST", "/chat", NDJSON, b"{\"text\":\"a\"}\n{\"text\":\"b\"}\n").await;
    assert_eq!(answer.text(), "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
}

#[tokio::test]
async fn a_wrong_line_is_an_error_with_its_number() {
    let server = start().await;
    let answer = send(&server, "POST", "/sum/x", NDJSON, b"{\"text\":\"a\"}\n{\"text\"\n").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("line 2: request body is not valid JSON"), "{}", answer.text());
    let long = format!("{{}}\n{{\"text\":\"{}\"}}", "x".repeat(5 << 20));
    let answer = send(&server, "POST", "/sum", NDJSON, long.as_bytes()).await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.text().contains("line 2 of the request is over limits.message_bytes_max"),
        "{}",
        answer.text()
    );
    let answer = send(&server, "POST", "/sum", "content-type: text/csv\r\n", b"1").await;
    assert_eq!(answer.status, 415);
}

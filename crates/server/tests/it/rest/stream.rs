//! Streams over REST.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tidewire_server::{Address, Server};
use tidewire_service::{Body, Call, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::service::{in_json, schema, start};
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
async fn an_error_in_the_middle_leaves_an_array_open_and_is_the_last_of_the_lines() {
    let server = start().await;
    let answer = get(&server, "/count/100000?text=why").await;
    assert_eq!((answer.status, answer.complete), (200, false));
    assert!(!answer.text().ends_with(']'));
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
    assert_eq!(send(&server, "POST", "/sum", NDJSON, b"").await.text(), "{}");
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
    assert!(answer.text().contains("line 2: request is not valid JSON"), "{}", answer.text());
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

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_stream_rather_than_filling_memory() {
    const ROWS: usize = 10_000_000;
    let produced = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&produced);
    let backend = move |_: Call| {
        let counter = Arc::clone(&counter);
        let rows = (0..ROWS).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::from_static(b"{\"text\":\"a row of a long list\"}"))
        });
        std::future::ready(Ok(Reply::new(Body::stream(futures_util::stream::iter(rows)))))
    };
    let service = schema().serve("rest.v1.Echo", in_json(backend)).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(any).service(service).start().await.unwrap();
    let address = server.url();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    stream.write_all(b"GET /count/1 HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let mut start = vec![0; 1 << 16];
    stream.read_exact(&mut start).await.unwrap();
    let produced = produced.load(Ordering::Relaxed);
    assert!(produced < ROWS / 10, "{produced} rows were made for a client that read a few");
}

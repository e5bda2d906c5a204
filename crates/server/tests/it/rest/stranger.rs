//! What the guide promises, asked by a stranger with raw requests.

use std::fmt::Write as _;

use tidewire_server::RunningServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::service::start;
use crate::http::{get, json, send};

/// The status of the answer to bytes as they are.
async fn status(server: &RunningServer, request: &str) -> u16 {
    let address = server.url();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default()
}

#[tokio::test]
async fn a_path_means_what_it_says_however_it_is_spelt() {
    let server = start().await;
    for (target, expected, text) in [
        ("/items/%37", 200, r#"{"text":"7"}"#),
        ("/%69tems/7", 200, r#"{"text":"7"}"#),
        ("/items/a%2fb", 200, r#"{"text":"a/b"}"#),
        ("/items/%00", 200, r#"{"text":"\u0000"}"#),
        ("/items/.", 200, r#"{"text":"."}"#),
        ("/items/..", 200, r#"{"text":".."}"#),
        ("/files/..%2f..%2fetc", 200, r#"{"text":"..%2f..%2fetc"}"#),
        ("/items/7#fragment", 200, r#"{"text":"7"}"#),
        ("/items/7?", 200, r#"{"text":"7"}"#),
        ("/items/7?&&", 200, r#"{"text":"7"}"#),
        ("/items/7;v=1", 200, r#"{"text":"7;v=1"}"#),
    ] {
        let answer = get(&server, target).await;
        assert_eq!((answer.status, answer.text()), (expected, text), "{target}");
    }
    for (target, expected) in [
        ("/items/7/", 404),
        ("//items/7", 404),
        ("/items//7", 404),
        ("/ITEMS/7", 404),
        ("/items%2f7", 404),
        ("/items/%", 400),
        ("/items/%f", 400),
        ("/items/%c0%af", 400),
        ("/items/%ed%a0%80", 400),
        ("/query?%", 400),
        ("/query?te%xt=1", 400),
        ("/query?=1", 400),
        ("/query?text=%f0%28", 400),
        ("/query?nested..text=1", 400),
        ("/query?.text=1", 400),
        ("/query?text.=1", 400),
        ("/query?[0]=1", 400),
        ("/query?tags[0]=1", 400),
    ] {
        let answer = get(&server, target).await;
        assert_eq!(answer.status, expected, "{target}: {}", answer.text());
        let error: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(error["code"].is_string() && error["message"].is_string(), "{target}");
    }
}

#[tokio::test]
async fn parameters_in_any_number_are_taken_or_refused_with_the_limit() {
    let server = start().await;
    let tags = |count: usize| {
        let mut target = "/query?".to_owned();
        (0..count).for_each(|n| write!(target, "tags={n}&").unwrap());
        target
    };
    assert_eq!(get(&server, &tags(256)).await.status, 200);
    let over = get(&server, &tags(257)).await;
    assert!(over.status == 400 && over.text().contains("query_parameters_max = 256"));
    assert_eq!(get(&server, &format!("/query?{}", "&".repeat(5000))).await.status, 200);
    for query in ["text=a&text=a", "nested.text=a&nested.text=b", "i32=1&i32=1", "at=1&at=1"] {
        let answer = get(&server, &format!("/query?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains("given more than once"), "{query}: {}", answer.text());
    }
    let long = format!("/query?text={}", "x".repeat(60_000));
    let answer = get(&server, &long).await;
    assert!(matches!(answer.status, 200 | 414 | 431), "{}", answer.status);
    let deep = format!("/query?{}text=1", "nested.".repeat(2000));
    assert_eq!(get(&server, &deep).await.status, 400);
}

#[tokio::test]
async fn verbs_that_a_path_does_not_have_are_405_with_those_that_it_has() {
    let server = start().await;
    for verb in ["PUT", "POST", "PATCH", "OPTIONS", "TRACE", "LINK", "get"] {
        let answer = send(&server, verb, "/items/7", "", b"").await;
        let allowed = answer.header("allow");
        assert_eq!((answer.status, allowed), (405, Some("DELETE, GET, PURGE")), "{verb}");
    }
    for (verb, target, expected) in
        [("HEAD", "/whole", 405), ("HEAD", "/items/7", 200), ("HEAD", "/nowhere", 404)]
    {
        let answer = send(&server, verb, target, "", b"").await;
        assert_eq!((answer.status, answer.body.len()), (expected, 0), "{verb} {target}");
    }
    let ranged = send(&server, "GET", "/items/7", "range: bytes=0-1\r\n", b"").await;
    assert_eq!((ranged.status, ranged.text()), (200, r#"{"text":"7"}"#), "ranges are not served");
}

#[tokio::test]
async fn a_body_is_read_by_its_content_type_and_only_where_one_is_wanted() {
    let server = start().await;
    for (headers, expected) in [
        ("content-type: application/json;charset=utf-8\r\n", 200),
        ("content-type: application/json ; charset=\"utf-8\"\r\n", 200),
        ("content-type: APPLICATION/JSON\r\n", 200),
        ("content-type: application/vnd.api+json\r\n", 200),
        ("content-type: application/json\r\ncontent-encoding: identity\r\n", 200),
        ("content-type: application/jsonx\r\n", 415),
        ("content-type: json\r\n", 415),
        ("content-type: \r\n", 415),
        ("content-type: multipart/form-data; boundary=x\r\n", 415),
        ("content-type: application/x-ndjson\r\n", 415),
        ("content-type: application/json\r\ncontent-encoding: br\r\n", 415),
        ("content-type: application/json\r\ncontent-encoding: identity, gzip\r\n", 415),
    ] {
        let answer = send(&server, "POST", "/whole", headers, br#"{"i32":1}"#).await;
        assert_eq!(answer.status, expected, "{headers}: {}", answer.text());
    }
    for (verb, target, body, expected) in [
        ("GET", "/items/7", "{}", 400),
        ("DELETE", "/items/7", "x", 400),
        ("POST", "/items/7:archive", "", 200),
        ("POST", "/whole", "null", 400),
        ("POST", "/whole", "\u{feff}{}", 400),
        ("POST", "/whole", "{}{}", 400),
        ("POST", "/whole", "{\"text\":\"\u{0}\"}", 400),
        ("POST", "/whole", r#"{"text":"a","text":"b"}"#, 400),
        ("POST", "/whole", r#"{"snakeCaseName":"a","snake_case_name":"b"}"#, 400),
        ("POST", "/whole", r#"{"text":"\ud800"}"#, 400),
        ("POST", "/whole", r#"{"i32":1.5}"#, 400),
        ("POST", "/whole", r#"{"i32":1.0}"#, 200),
        ("POST", "/whole", r#"{"i64":9223372036854775808}"#, 400),
        ("POST", "/whole", r#"{"data":"!"}"#, 400),
    ] {
        let answer = json(&server, verb, target, body).await;
        assert_eq!(answer.status, expected, "{verb} {target} {body}: {}", answer.text());
    }
    let wide = format!(r#"{{"children":[{}{{}}]}}"#, "{},".repeat(300_000));
    let answer = json(&server, "POST", "/whole", &wide).await;
    assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
}

#[tokio::test]
async fn a_body_in_chunks_of_any_size_is_the_same_body() {
    let server = start().await;
    let body = r#"{"text":"é","i32":7}"#.as_bytes();
    for size in 1..=body.len() {
        let mut chunked = Vec::new();
        for chunk in body.chunks(size) {
            chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        let head = "PUT /whole/a/b HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                    content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let address = server.url();
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        for piece in chunked.chunks(size) {
            stream.write_all(piece).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let expected = r#"{"text":"a","i32":7,"nested":{"text":"b"}}"#;
        assert!(answer.ends_with(expected), "{size}: {answer}");
    }
}

#[tokio::test]
async fn a_connection_goes_on_after_a_body_of_trailers_alone() {
    let server = start().await;
    let first = "POST /whole HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n";
    let second = "GET /items/8 HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    let address = server.url();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    stream.write_all([first, second].concat().as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(answer.ends_with(r#"{"text":"8"}"#), "{answer}");
}

#[tokio::test]
async fn what_is_no_http_is_refused_before_it_is_rest() {
    let server = start().await;
    for (request, expected) in [
        ("GET /items/7 HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", 400),
        ("POST /whole HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n", 413),
        ("GET /items/a b HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        ("GET /items/\u{1} HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    ] {
        assert_eq!(status(&server, request).await, expected, "{request:?}");
    }
}

#[tokio::test]
async fn a_content_type_from_a_caller_cannot_add_headers() {
    let server = start().await;
    let headers = "content-type: text/html\tx\r\n";
    let answer = send(&server, "POST", "/upload/x", headers, b"hi").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

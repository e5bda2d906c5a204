//! HTTP/1.1 as its specification has it (RFC 9110, RFC 9112), on every kind of route.

use std::net::SocketAddr;

use tidewire::http::Method;
use tidewire::{Call, RunningServer, Server};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::BehaviourServiceServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{SERVICE, start};

/// RPC, REST and a plain route; the REST route is of a schema that is read at run time.
async fn server() -> (RunningServer, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("things.proto"), PROTO).unwrap();
    let schema = tidewire::Schema::from_folder(folder.path()).unwrap();
    let echo = schema.implement("test.v1.Things", tidewire::Echo::new(&schema)).unwrap();
    let sink = async |call: Call| Ok(call.body.collect(usize::MAX).await?.len().to_string());
    let builder = Server::builder()
        .service(BehaviourServiceServer::new(Behaviour::default()))
        .service(echo)
        .route(Method::POST, "/sink", sink);
    start(builder).await
}

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";

service Things {
  rpc Put(Thing) returns (Thing) {
    option (google.api.http) = { post: "/things" body: "*" };
  }
}
message Thing { string name = 1; }
"#;

/// Sends bytes, closes the sending half, and reads the answer to its end.
async fn answer(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[track_caller]
fn check(answer: &str, status: u16, what: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
}

/// Every route that takes a body, by path and content type.
fn routes() -> [(String, &'static str); 5] {
    [
        (format!("{SERVICE}/Echo"), "application/json"),
        (format!("{SERVICE}/Echo"), "application/proto"),
        ("/things".into(), "application/json"),
        ("/sink".into(), "application/json"),
        ("/nowhere".into(), "application/json"),
    ]
}

#[tokio::test]
async fn a_request_has_one_host_that_is_valid() {
    let (_running, address) = server().await;
    for (hosts, status) in [
        ("host: test\r\n", 200),
        ("Host: [::1]:80\r\n", 200),
        ("host:\r\n", 200),
        ("", 400),
        ("host: a\r\nhost: a\r\n", 400),
        ("host: a, b\r\n", 400),
        ("host: a b\r\n", 400),
        ("host: a/b\r\n", 400),
        ("host: a:80:80\r\n", 400),
        ("host: user@a\r\n", 400),
    ] {
        let request = |version: &str| {
            format!(
                "POST /sink HTTP/{version}\r\n{hosts}connection: close\r\ncontent-length: 0\r\n\r\n"
            )
        };
        check(&answer(address, request("1.1").as_bytes()).await, status, hosts);
        if hosts.is_empty() {
            let answer = answer(address, request("1.0").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
        }
    }
    // What follows such a request is not answered.
    let twice = "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = answer(address, twice.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn a_bad_chunk_is_the_callers_mistake_on_every_route() {
    let (_running, address) = server().await;
    for (path, content_type) in routes() {
        let status = if path == "/nowhere" { 404 } else { 400 };
        for chunks in ["xyz\r\n", "2\r\n{}zz\r\n", "-1\r\n", "fffffffffffffffff\r\n{}"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {content_type}\r\n\
                 transfer-encoding: chunked\r\n\r\n{chunks}"
            );
            check(&answer(address, request.as_bytes()).await, status, &format!("{path} {chunks}"));
        }
    }
    for content_type in ["application/connect+json", "application/grpc-web+proto"] {
        let request = format!(
            "POST {SERVICE}/Sum HTTP/1.1\r\nhost: test\r\ncontent-type: {content_type}\r\n\
             transfer-encoding: chunked\r\n\r\nxyz\r\n"
        );
        let answer = answer(address, request.as_bytes()).await;
        let is_told = answer.contains("invalid_argument") || answer.contains("grpc-status: 3");
        assert!(is_told, "{content_type}: {answer}");
    }
}

#[tokio::test]
async fn a_transfer_coding_is_chunked_once_and_no_other() {
    let (_running, address) = server().await;
    for (path, content_type) in routes() {
        for (coding, status) in [
            ("chunked", if path == "/nowhere" { 404 } else { 200 }),
            ("Chunked", if path == "/nowhere" { 404 } else { 200 }),
            ("gzip, chunked", 501),
            ("chunked, chunked", 400),
            ("chunked\r\ntransfer-encoding: chunked", 400),
            ("identity, chunked", 501),
        ] {
            let body = if content_type == "application/proto" {
                "0\r\n\r\n"
            } else {
                "2\r\n{}\r\n0\r\n\r\n"
            };
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                 content-type: {content_type}\r\ntransfer-encoding: {coding}\r\n\r\n{body}"
            );
            let what = format!("{path} {coding}");
            check(&answer(address, request.as_bytes()).await, status, &what);
        }
    }
}

#[tokio::test]
async fn lengths_that_do_not_agree_or_are_none_are_refused() {
    let (_running, address) = server().await;
    for (lengths, statuses) in [
        ("content-length: 2\r\ncontent-length: 3\r\n", &[400][..]),
        ("content-length: 2, 3\r\n", &[400]),
        ("content-length: -1\r\n", &[400]),
        ("content-length: +2\r\n", &[400]),
        ("content-length: 0x2\r\n", &[400]),
        ("content-length: 99999999999999999999999\r\n", &[400]),
        // Too large for the HTTP library to count, which answers by itself.
        ("content-length: 18446744073709551615\r\n", &[413, 431]),
        ("content-length: 18446744073709551613\r\n", &[413]),
    ] {
        let request = format!("POST /sink HTTP/1.1\r\nhost: test\r\n{lengths}\r\n{{}}");
        let answer = answer(address, request.as_bytes()).await;
        let is_one = statuses.iter().any(|s| answer.starts_with(&format!("HTTP/1.1 {s} ")));
        assert!(is_one, "{lengths}: {answer}");
    }
    // A length beside chunks does not count, and the connection ends.
    let both = "POST /sink HTTP/1.1\r\nhost: test\r\ncontent-length: 50\r\n\
                transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n";
    let answer = answer(address, both.as_bytes()).await;
    check(&answer, 200, "both");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn heads_that_are_none_are_refused() {
    let (_running, address) = server().await;
    for head in [
        "GET / HTTP/1.1\nhost: a\r\n x: folded\r\n\r\n",
        "GET / HTTP/1.1\r\nhost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx\0: b\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/3.0\r\nhost: a\r\n\r\n",
        "G\x7fT / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        check(&answer(address, head.as_bytes()).await, 400, head);
    }
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(200));
    check(&answer(address, many.as_bytes()).await, 431, "200 headers");
}

#[tokio::test]
async fn media_types_are_read_without_regard_to_case() {
    let (_running, address) = server().await;
    for (path, _) in
        routes().iter().filter(|(path, kind)| path != "/nowhere" && *kind != "application/proto")
    {
        for content_type in ["APPLICATION/JSON", "Application/Json; Charset=UTF-8"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                 content-type: {content_type}\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            let what = format!("{path} {content_type}");
            check(&answer(address, request.as_bytes()).await, 200, &what);
        }
    }
}

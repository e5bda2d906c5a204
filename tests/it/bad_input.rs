//! Wrong input: the right protocol-level error and a message that says what to do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidewire::client::{HttpVersion, Protocol};
use tidewire::service::{Spec, StreamKind};
use tidewire::{Body, Call, Client, Code, Codec, Context, Limits, Server, Service};

use crate::harness::{Response, SERVICE, behaviour, post_json, send, start};

async fn server() -> (tidewire::RunningServer, SocketAddr) {
    let (builder, _) = behaviour();
    start(builder).await
}

#[tokio::test]
async fn malformed_json_names_the_field() {
    let (_running, address) = server().await;
    let check = async |body: &str, parts: &[&str]| {
        post_json(address, "Echo", body).await.check(400, parts);
    };
    check(r#"{"text":5}"#, &["invalid_argument", "field text"]).await;
    check(r#"{"nested":{"children":[{"name":1}]}}"#, &["field nested.children[0].name"]).await;
    check(r#"{"counts":{"a":"x"}}"#, &["field counts"]).await;
    check(r#"{"text":"#, &["invalid_argument", "EOF"]).await;
    check("", &["invalid_argument", "request body is empty"]).await;
    check("[]", &["invalid_argument"]).await;
}

#[tokio::test]
async fn malformed_protobuf_is_refused() {
    let (_running, address) = server().await;
    let head = format!("POST {SERVICE}/Echo\ncontent-type: application/proto");
    send(address, &head, b"\x0a\xff\x01abc")
        .await
        .check(400, &["invalid_argument", "not a valid message"]);
}

#[tokio::test]
async fn a_truncated_envelope_is_refused() {
    let (_running, address) = server().await;
    // An envelope that announces ten bytes and brings three.
    let truncated = b"\x00\x00\x00\x00\x0aabc";
    let head = format!("POST {SERVICE}/Echo\ncontent-type: application/grpc-web+proto");
    let response = send(address, &head, truncated).await;
    assert_eq!(response.status, 200);
    let trailers = format!("{}{}", response.head, response.text());
    assert!(
        trailers.contains("grpc-status: 3") || trailers.contains("grpc-status:3"),
        "{trailers}"
    );

    let head = format!("POST {SERVICE}/Count\ncontent-type: application/connect+json");
    send(address, &head, truncated).await.check(200, &["invalid_argument"]);
}

#[tokio::test]
async fn an_unknown_method_gets_the_names_of_those_that_exist() {
    let (_running, address) = server().await;
    post_json(address, "Ecko", "{}")
        .await
        .check(404, &["unimplemented", "no method", "Chat, Count, Echo"]);
    let head = "POST /tidewire.test.v1.Behaviour/Echo\ncontent-type: application/json";
    send(address, head, b"{}")
        .await
        .check(404, &["no service", "tidewire.test.v1.BehaviourService"]);
    let head = format!("POST {SERVICE}/Ecko\ncontent-type: application/grpc-web+proto");
    let response = send(address, &head, b"\0\0\0\0\0").await;
    let all = format!("{}{}", response.head, response.text());
    assert!(all.contains("grpc-status: 12") || all.contains("grpc-status:12"), "{all}");
}

/// A caller that sends no more until it hears something: the answer may not wait for its end.
#[tokio::test]
async fn an_unknown_method_is_answered_over_http2_while_the_caller_may_still_send() {
    let (builder, _) = behaviour();
    let a_day = Duration::from_secs(86_400);
    let mut limits = Limits::default();
    limits.header_read_timeout = a_day;
    let (_running, address) = start(builder.limits(limits)).await;
    let url = format!("http://{address}");
    for protocol in [Protocol::Grpc, Protocol::Connect] {
        let client = Client::builder(url.as_str()).protocol(protocol).http(HttpVersion::Http2);
        let method =
            Spec::dynamic(SERVICE.trim_start_matches('/'), "Ecko", StreamKind::Bidi, ["", ""]);
        let requests = Body::stream(futures_util::stream::pending());
        let call = Call::method(Arc::new(method), Context::default(), Codec::Proto, requests);
        let error = match client.build().unwrap().call(call).await {
            Err(error) => error,
            Ok(reply) => reply.body.collect(1024).await.unwrap_err(),
        };
        assert_eq!(error.code(), Code::Unimplemented, "{protocol:?} {error}");
        assert!(error.message().contains("no method"), "{protocol:?} {error}");
    }
}

#[tokio::test]
async fn a_wrong_content_type_gets_the_right_ones() {
    let (_running, address) = server().await;
    let head = format!("POST {SERVICE}/Echo\ncontent-type: text/xml");
    let response = send(address, &head, b"<a/>").await;
    assert_eq!(response.status, 415);
    assert!(
        response.head.contains("accept-post: application/json, application/proto"),
        "{}",
        response.head
    );
}

#[tokio::test]
async fn a_unary_content_type_on_a_streaming_method_is_refused() {
    let (_running, address) = server().await;
    for method in ["Count", "Sum", "Chat"] {
        let response = post_json(address, method, r#"{"n":3}"#).await;
        assert_eq!(response.status, 415, "{method}: {}", response.text());
        let right = "accept-post: application/connect+json, application/connect+proto";
        assert!(response.head.contains(right), "{method}: {}", response.head);
    }
}

#[tokio::test]
async fn an_unsupported_compression_gets_the_supported_ones() {
    let (_running, address) = server().await;
    let head = format!("POST {SERVICE}/Echo\ncontent-type: application/json\ncontent-encoding: br");
    send(address, &head, b"{}").await.check(501, &["unimplemented", "br", "gzip"]);
}

#[tokio::test]
async fn an_expired_deadline_is_deadline_exceeded() {
    let (_running, address) = server().await;
    let head =
        format!("POST {SERVICE}/Slow\ncontent-type: application/json\nconnect-timeout-ms: 20");
    send(address, &head, br#"{"millis":60000}"#).await.check(504, &["deadline_exceeded"]);
}

#[tokio::test]
async fn an_oversized_body_is_refused_with_the_limit() {
    let mut limits = Limits::default();
    limits.body_bytes_max = 1000;
    limits.message_bytes_max = 1000;
    let (builder, _) = behaviour();
    let sink = async |call: Call| {
        let body = call.body.collect(usize::MAX).await?;
        Ok(tidewire::Reply::text(body.len().to_string()))
    };
    let builder = builder.limits(limits).route(tidewire::http::Method::POST, "/sink", sink);
    let (_running, address) = start(builder).await;

    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(2000));
    post_json(address, "Echo", &large).await.check(429, &["resource_exhausted", "1000"]);
    send(address, "POST /sink", &[0; 1000]).await.check(200, &["1000"]);
    send(address, "POST /sink", &[0; 1001])
        .await
        .check(413, &["resource_exhausted", "limits.body_bytes_max = 1000"]);
    let mut chunked = format!("{:x}\r\n", 1001).into_bytes();
    chunked.extend([0; 1001]);
    chunked.extend(b"\r\n0\r\n\r\n");
    send(address, "POST /sink\ntransfer-encoding: chunked", &chunked)
        .await
        .check(413, &["limits.body_bytes_max = 1000"]);
}

#[tokio::test]
async fn a_panic_is_one_failed_call() {
    let (_running, address) = server().await;
    let response = post_json(address, "Panic", "{}").await;
    response.check(500, &["internal", "panicked"]);
    assert!(!response.text().contains("asked for"), "the cause stays in the log");
    post_json(address, "Look", r#"{"key":"a"}"#).await.check(200, &["value of a"]);
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let (_running, address) = server().await;
    let error = Server::builder().listen(address).start().await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
}

#[tokio::test]
async fn get_of_a_command_and_unknown_paths_are_refused() {
    let (_running, address) = server().await;
    let refused: Response = send(address, &format!("GET {SERVICE}/Echo"), b"").await;
    assert_eq!(refused.status, 405, "{}", refused.text());
    send(address, "GET /nowhere", b"").await.check(404, &["not_found", "nothing is at /nowhere"]);
    send(address, "POST /nowhere", &[0; 100_000]).await.check(404, &["not_found"]);
}

/// A route and its protocol, on which the deadline is its own header.
fn ways() -> [(String, &'static str, &'static str); 4] {
    [
        (
            format!("POST {SERVICE}/Look\ncontent-type: application/json"),
            "connect-timeout-ms",
            "{}",
        ),
        (
            format!("POST {SERVICE}/Look\ncontent-type: application/grpc-web+json"),
            "grpc-timeout",
            "\0\0\0\0\x02{}",
        ),
        ("GET /slow".into(), "connect-timeout-ms", ""),
        (format!("GET {SERVICE}/Look?encoding=json&message=%7B%7D"), "connect-timeout-ms", ""),
    ]
}

#[tokio::test]
async fn deadlines_of_nothing_and_of_a_year_are_kept_and_those_that_are_none_refused() {
    let (builder, _) = behaviour();
    let slow = async |_: Call| Ok("answered");
    let (_running, address) =
        start(builder.route(tidewire::http::Method::GET, "/slow", slow)).await;
    for (head, header, body) in ways() {
        let is_grpc = header == "grpc-timeout";
        let unit = |digits: &str, unit: &str| match is_grpc {
            true => format!("{digits}{unit}"),
            false => digits.to_owned(),
        };
        for (value, code) in [
            (unit("0", "S"), Some(("deadline_exceeded", "grpc-status: 4"))),
            (unit("9999", "H"), None),
            (unit("9999999", "H"), None),
            ("abc".to_owned(), Some(("invalid_argument", "grpc-status: 3"))),
            (unit("-1", "S"), Some(("invalid_argument", "grpc-status: 3"))),
            (unit("99999999999", "m"), Some(("invalid_argument", "grpc-status: 3"))),
            (
                format!("{}\n{header}: {}", unit("1", "H"), unit("1", "H")),
                Some(("invalid_argument", "grpc-status: 3")),
            ),
        ] {
            let head = format!("{head}\n{header}: {value}");
            let response = send(address, &head, body.as_bytes()).await;
            let all = format!("{}{}", response.head, response.text());
            let expected = match (code, is_grpc) {
                (None, true) => "grpc-status: 0",
                (None, false) => "200",
                (Some((_, of_grpc)), true) => of_grpc,
                (Some((code, _)), false) => code,
            };
            assert!(all.contains(expected), "{head}: {all}");
        }
    }
}

#[tokio::test]
async fn envelopes_that_cannot_be_are_refused_in_their_protocol() {
    let (_running, address) = server().await;
    for (content_type, body, parts) in [
        ("grpc-web+proto", &[0, 255, 255, 255, 255][..], ["grpc-status: 8", "message_bytes_max"]),
        ("connect+proto", &[0, 255, 255, 255, 255], ["resource_exhausted", "message_bytes_max"]),
        ("grpc-web+proto", &[1, 0, 0, 0, 1, 0], ["grpc-status: 13", "grpc-message"]),
        ("connect+proto", &[1, 0, 0, 0, 1, 0], ["internal", "compressed"]),
        ("grpc-web+proto", &[2, 0, 0, 0, 0], ["grpc-status: 13", "0x02"]),
        ("connect+proto", &[2, 0, 0, 0, 0], ["internal", "0x02"]),
    ] {
        let head = format!("POST {SERVICE}/Count\ncontent-type: application/{content_type}");
        let response = send(address, &head, body).await;
        let all = format!("{}{}", response.head, response.text());
        for part in parts {
            assert!(all.contains(part), "{content_type} {body:?}: {all}");
        }
    }
}

#[tokio::test]
async fn text_of_grpc_web_is_read_with_padding_in_the_middle() {
    let (_running, address) = server().await;
    // The head of the envelope and its three bytes, each padded: `text` is "a".
    let head = format!("POST {SERVICE}/Echo\ncontent-type: application/grpc-web-text");
    let response = send(address, &head, b"AAAAAAM=CgFh").await;
    assert_eq!(response.status, 200);
    assert!(response.text().starts_with("AAAAAAMKAWE"), "{}", response.text());
}

#[tokio::test]
async fn unchanged_to_a_caller_that_holds_nothing_is_the_services_mistake() {
    let unchanged =
        async |_: Call| Ok(tidewire::Reply::unchanged(tidewire::service::Validator::new([7; 16])));
    let all = move |_: Arc<dyn Service>| -> Arc<dyn Service> { Arc::new(unchanged) };
    let (builder, _) = behaviour();
    let plain = async |_: Call| Ok("never");
    let builder = builder.route(tidewire::http::Method::GET, "/slow", plain).layer(all);
    let (_running, address) = start(builder).await;
    for (head, _, body) in ways() {
        let response = send(address, &head, body.as_bytes()).await;
        let all = format!("{}{}", response.head, response.text());
        let is_told = all.contains("internal") || all.contains("grpc-status: 13");
        assert!(is_told && all.contains("does not hold it"), "{head}: {all}");
    }
}

//! Paths, query strings, JSON, headers, trailers and limits: `Call::param`, `Call::query`,
//! `Call::json`, `Reply`, `Headers`, `Limits`.

use std::collections::BTreeMap;

use tidewire::client::Protocol;
use tidewire::http::{HeaderValue, Method};
use tidewire::server::tower;
use tidewire::{Body, Call, Code, Context, Reply, Server};
use tidewire_tests::proto::*;

use super::{PROTOCOLS, client, stage};
use crate::harness::{SERVICE, behaviour, post_json, send, start};

#[tokio::test]
async fn parts_of_a_path_are_percent_decoded_and_what_is_no_text_is_refused() {
    let rest = async |call: Call| call.param::<String>("rest").map(|rest| format!("[{rest}]"));
    let one = async |call: Call| call.param::<String>("one").map(|one| format!("[{one}]"));
    let builder = Server::builder()
        .route(Method::GET, "/one/{one}", one)
        .route(Method::GET, "/rest/{*rest}", rest)
        .route(Method::GET, "/int/{n}", async |call: Call| Ok(call.param::<i8>("n")?.to_string()))
        .route(Method::GET, "/no", async |call: Call| call.param::<String>("none"));
    let (_running, address) = start(builder).await;
    for (path, status, text) in [
        ("/one/a%2Fb", 200, "[a/b]"),
        ("/one/a+b", 200, "[a+b]"),
        ("/one/%20", 200, "[ ]"),
        ("/one/%25", 200, "[%]"),
        ("/one/%2525", 200, "[%25]"),
        ("/one/%C3%A9", 200, "[é]"),
        ("/one/%00", 200, "[\0]"),
        ("/one/.", 200, "[.]"),
        ("/one/a;b=c", 200, "[a;b=c]"),
        ("/one/%FF", 400, "invalid_argument"),
        ("/one/%C3", 400, "invalid_argument"),
        ("/one/a/b", 404, "not_found"),
        ("/one/", 404, "not_found"),
        ("/one/a?x=%2F", 200, "[a]"),
        ("/rest/a/b%2Fc", 200, "[a/b/c]"),
        ("/rest/a//b/", 200, "[a//b/]"),
        ("/rest/%FF", 400, "invalid_argument"),
        ("/int/127", 200, "127"),
        ("/int/%31", 200, "1"),
        ("/int/128", 400, "n in the path is \\\"128\\\""),
        ("/int/+1", 200, "1"),
        ("/int/%2B1", 200, "1"),
        ("/no", 500, "internal"),
    ] {
        let answer = send(address, &format!("GET {path}"), b"").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(text), "{path}: {}", answer.text());
    }
}

fn get(uri: &str) -> Call {
    Call::http(Method::GET, uri.parse().unwrap(), Context::default(), "")
}

#[test]
fn odd_query_strings_are_values_or_refused_and_never_half_a_value() {
    type Pairs = Vec<(String, String)>;
    let pairs = |uri: &str| get(uri).query::<Pairs>().map_err(|error| error.code());
    let of = |pairs: &[(&str, &str)]| -> Result<Pairs, Code> {
        Ok(pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect())
    };
    assert_eq!(pairs("/a"), of(&[]));
    assert_eq!(pairs("/a?"), of(&[]));
    assert_eq!(pairs("/a?&&"), of(&[]));
    assert_eq!(pairs("/a?x=1+2&x=%2B"), of(&[("x", "1 2"), ("x", "+")]));
    assert_eq!(pairs("/a?x"), of(&[("x", "")]));
    assert_eq!(pairs("/a?x=a=b"), of(&[("x", "a=b")]));
    assert_eq!(pairs("/a?x=%zz"), of(&[("x", "%zz")]));
    assert_eq!(pairs("/a?x=%C3%A9"), of(&[("x", "é")]));
    type Numbers = BTreeMap<String, u8>;
    for bad in ["/a?x=256", "/a?x=", "/a?x=-1", "/a?x=1.0"] {
        assert_eq!(get(bad).query::<Numbers>().unwrap_err().code(), Code::InvalidArgument, "{bad}");
    }
    let lists = get("/a?t=a&t=b&n=1").query::<BTreeMap<String, Vec<String>>>().unwrap();
    assert_eq!(lists["t"], ["a", "b"]);
    let twice = get("/a?x=1&x=2").query::<Numbers>();
    assert_eq!(twice.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn bytes_that_are_no_text_in_a_query_string_are_refused_and_not_replaced() {
    // `Call::query`: `InvalidArgument` that says what does not fit; `Call::param` refuses them.
    let outcome = get("/a?x=%FF").query::<BTreeMap<String, String>>();
    assert_eq!(outcome.map_err(|error| error.code()), Err(Code::InvalidArgument));
}

#[tokio::test]
async fn a_value_without_a_json_form_is_an_internal_error_and_no_half_a_reply() {
    let map = BTreeMap::from([(vec![1_u8], 1)]);
    assert_eq!(Reply::json(&map).unwrap_err().code(), Code::Internal);
    let odd = BTreeMap::from([((1, 2), 3)]);
    assert_eq!(Reply::json(&odd).unwrap_err().code(), Code::Internal);
    let number = Reply::json(&u128::MAX).unwrap().body.collect(100).await.unwrap();
    assert_eq!(number, u128::MAX.to_string());
    let not = Reply::json(&f64::NAN).unwrap().body.collect(100).await.unwrap();
    assert_eq!(not, "null");
    let (builder, _) = behaviour();
    let builder = builder.route(Method::GET, "/odd", move |_: Call| {
        let reply = Reply::json(&odd);
        async move { reply }
    });
    let (_running, address) = start(builder).await;
    send(address, "GET /odd", b"").await.check(500, &["internal"]);
}

#[tokio::test]
async fn json_bodies_that_are_odd_are_refused_and_named() {
    let read = async |mut call: Call| {
        let map: BTreeMap<String, Vec<u8>> = call.json().await?;
        Ok(format!("{map:?}"))
    };
    let builder = Server::builder().route(Method::POST, "/json", read);
    let (_running, address) = start(builder).await;
    let post = async |content_type: &str, body: &[u8]| {
        send(address, &format!("POST /json\n{content_type}"), body).await
    };
    for (content_type, body, status) in [
        ("content-type: application/json", &b"{\"a\":[1]}"[..], 200),
        ("content-type: application/json; charset=utf-8", b"{\"a\":[1]}", 200),
        ("content-type: APPLICATION/JSON", b"{\"a\":[1]}", 200),
        ("content-type: application/vnd.shop+json", b"{\"a\":[1]}", 200),
        ("content-type: text/json", b"{\"a\":[1]}", 415),
        ("content-type: application/jsonp", b"{\"a\":[1]}", 415),
        ("", b"{\"a\":[1]}", 415),
        ("content-type: \u{fc}", b"{\"a\":[1]}", 415),
        ("content-type: application/json", b"", 400),
        ("content-type: application/json", b"{\"a\":[256]}", 400),
        ("content-type: application/json", b"{\"a\":[1]} x", 400),
        ("content-type: application/json", b"\xff", 400),
        ("content-type: application/json", b"{\"a\":[1],\"b\":[\"x\"]}", 400),
    ] {
        let answer = post(content_type, body).await;
        assert_eq!(answer.status, status, "{content_type} {body:?} {}", answer.text());
    }
    let answer = post("content-type: application/json", b"{\"a\":[1],\"b\":[0,\"x\"]}").await;
    answer.check(400, &["b[1]"]);
}

#[tokio::test]
async fn header_values_beyond_ascii_come_back_as_they_were_sent() {
    let (_running, address) = start(stage()).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let mut context = Context::default();
        let value = HeaderValue::from_bytes(b"a\xffb\xc3\xa9").unwrap();
        context.headers_mut().insert("x-ping", value.clone());
        let reply = BehaviourService::echo(&client, context, EchoRequest::default()).await;
        let reply = reply.unwrap_or_else(|error| panic!("{protocol:?}: {error}"));
        assert_eq!(reply.headers.get("x-pong"), Some(&value), "{protocol:?}");
        assert_eq!(reply.trailers.get("x-pong-trailer"), Some(&value), "{protocol:?}");
    }
}

#[tokio::test]
async fn trailers_beyond_ascii_of_a_stream_do_not_break_it() {
    let value = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
    let layer =
        super::answering(move |call: Call, inner: std::sync::Arc<dyn tidewire::Service>| {
            let value = value.clone();
            async move { inner.call(call).await?.with_trailer("x-odd", value) }
        });
    let (_running, address) = start(stage().layer(layer)).await;
    for protocol in PROTOCOLS {
        let requests =
            ["a", "b"].map(|text| ChatRequest { text: text.into(), ..Default::default() });
        let requests = tidewire::Stream::from_values(requests);
        let mut replies = client(address, protocol).chat(requests).await.unwrap().body;
        for text in ["a", "b"] {
            let reply = replies.next().await.unwrap_or_else(|e| panic!("{protocol:?} {e}"));
            assert_eq!(reply.unwrap().text, text);
        }
        let end = replies.next().await.unwrap_or_else(|e| panic!("{protocol:?} {e}"));
        assert!(end.is_none(), "{protocol:?}");
        // Connect has trailers as JSON, which has no room for what is not text.
        let is_there = replies.trailers().contains_key("x-odd");
        assert_eq!(is_there, protocol != Protocol::Connect, "{protocol:?}");
    }
}

#[tokio::test]
async fn trailers_of_a_plain_reply_come_over_http_1_where_the_caller_takes_them() {
    let streamed = async |_: Call| {
        let body = futures_util::stream::iter([Ok("a".into()), Ok("b".into())]);
        Reply::new(Body::stream(body)).with_trailer("x-sum", 7)
    };
    let whole = async |_: Call| Reply::text("ab").with_trailer("x-sum", 7);
    let builder = Server::builder().route(Method::GET, "/streamed", streamed).route(
        Method::GET,
        "/whole",
        whole,
    );
    let (_running, address) = start(builder).await;
    for path in ["/streamed", "/whole"] {
        let answer = send(address, &format!("GET {path}"), b"").await;
        answer.check(200, &["ab"]);
        let raw = raw(
            address,
            &format!("GET {path} HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: close\r\n\r\n"),
        )
        .await;
        assert!(raw.contains("x-sum: 7"), "{path}: {raw}");
    }
}

async fn raw(address: std::net::SocketAddr, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_message_of_exactly_the_limit_passes_on_every_protocol_and_one_more_byte_does_not() {
    let mut limits = tidewire::Limits::default();
    limits.message_bytes_max = 1000;
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.limits(limits)).await;
    // Field 1, and two bytes of length: 3 bytes beside the text.
    let echo = |len: usize| EchoRequest { text: "a".repeat(len - 3), ..Default::default() };
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        assert_eq!(client.echo(echo(1000)).await.unwrap().body.text.len(), 997, "{protocol:?}");
        let error = client.echo(echo(1001)).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
        let chat = |len: usize| ChatRequest { text: "a".repeat(len - 3), ..Default::default() };
        let requests = tidewire::Stream::from_values([chat(1000), chat(1001)]);
        let mut replies = client.chat(requests).await.unwrap().body;
        assert_eq!(replies.next().await.unwrap().unwrap().text.len(), 997, "{protocol:?}");
        let error = replies.next().await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{protocol:?}: {error}");
    }
    let json = |len: usize| format!("{{\"text\":\"{}\"}}", "a".repeat(len - 11));
    post_json(address, "Echo", &json(1000)).await.check(200, &[]);
    post_json(address, "Echo", &json(1001)).await.check(429, &["resource_exhausted"]);
    let get = |len: usize| {
        let message = format!("{{\"key\":\"{}\"}}", "a".repeat(len - 10));
        let message = message.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        format!("GET {SERVICE}/Look?encoding=json&message={message}")
    };
    send(address, &get(1000), b"").await.check(200, &[]);
    send(address, &get(1001), b"").await.check(429, &["resource_exhausted"]);
}

#[tokio::test]
async fn a_mounted_service_sees_its_path_and_the_query() {
    let seen = async |call: Call| {
        let target = call.http_target().unwrap();
        Ok(format!("{} {}", target.method, target.uri))
    };
    let router = axum::Router::new().fallback(async |uri: axum::http::Uri| uri.to_string());
    let builder = Server::builder().mount("/below", seen).mount("/axum", tower(router));
    let (_running, address) = start(builder).await;
    for (path, text) in [
        ("/below", "GET /"),
        ("/below/", "GET /"),
        ("/below?x=1", "GET /?x=1"),
        ("/below/a%2Fb/?x=1&y", "GET /a%2Fb/?x=1&y"),
        ("/below//a", "GET //a"),
    ] {
        let answer = send(address, &format!("GET {path}"), b"").await;
        assert_eq!((answer.status, answer.text().as_str()), (200, text), "{path}");
    }
    send(address, "GET /belowx", b"").await.check(404, &[]);
    send(address, "GET /axum/a?b", b"").await.check(200, &["/a?b"]);
}

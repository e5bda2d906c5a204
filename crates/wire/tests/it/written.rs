//! Replies as they are written, byte for byte.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tidewire_service::{Detail, Error, StreamKind};
use tidewire_wire::{Coders, Exchange};

use crate::harness::{asked, headers, method, post, shown};

const JSON: &str = "content-type: application/json";
const STREAM: &str = "content-type: application/connect+json";
const GRPC: &str = "content-type: application/grpc";
const WEB: &str = "content-type: application/grpc-web";
const TEXT: &str = "content-type: application/grpc-web-text";

fn unary(line: &str) -> Exchange {
    post(StreamKind::Unary, &[line]).unwrap()
}

fn reply(exchange: &Exchange, headers: HeaderMap, trailers: HeaderMap) -> String {
    shown(exchange.reply(headers, Bytes::from_static(b"abc"), trailers, &Coders::default()))
}

#[test]
fn a_reply_of_one_message_is_written_in_each_form() {
    let check = |line: &str, expected: &str| {
        let (own, trailers) = (headers(&["x-h: 1"]), headers(&["x-t: 2"]));
        assert_eq!(reply(&unary(line), own, trailers), expected);
    };
    check(JSON, "200 [content-type: application/json | trailer-x-t: 2 | x-h: 1] abc");
    check(
        GRPC,
        r"200 [content-type: application/grpc+proto | x-h: 1] \x00\x00\x00\x00\x03abc + grpc-status: 0 | x-t: 2",
    );
    check(
        WEB,
        r"200 [content-type: application/grpc-web+proto | x-h: 1] \x00\x00\x00\x00\x03abc\x80\x00\x00\x00\x18x-t: 2\r\ngrpc-status: 0\r\n",
    );
    check(
        TEXT,
        "200 [content-type: application/grpc-web-text+proto | x-h: 1] AAAAAANhYmM=gAAAABh4LXQ6IDINCmdycGMtc3RhdHVzOiAwDQo=",
    );
}

#[test]
fn a_success_of_grpc_to_which_the_service_adds_nothing_has_its_status_once() {
    for own in [&[][..], &["grpc-status: 7", "connection: x"]] {
        let mut end = unary(GRPC).end(headers(own));
        assert!(!end.trailers.is_none(), "{own:?}");
        assert_eq!(end.trailers.take().unwrap(), headers(&["grpc-status: 0"]), "{own:?}");
        assert!(end.trailers.is_none() && end.trailers.take().is_none(), "{own:?}");
    }
    assert!(unary(WEB).end(HeaderMap::new()).trailers.is_none(), "they are in its body");
}

#[test]
fn a_stream_is_written_in_each_form() {
    let check = |line: &str, expected: [&str; 3]| {
        let exchange = post(StreamKind::Server, &[line]).unwrap();
        assert_eq!(exchange.head(HeaderMap::new()).len(), 1);
        let message = exchange.message(Bytes::from_static(b"abc"), &Coders::default()).unwrap();
        assert_eq!(message.concat().escape_ascii().to_string(), expected[0]);
        let end = exchange.end(headers(&["x-t: 2"]));
        let failed = exchange.end_failed(Error::aborted("no %"));
        for (mut closing, expected) in [(end, expected[1]), (failed, expected[2])] {
            let trailers = closing.trailers.take().unwrap_or_default();
            let mut lines: Vec<_> = trailers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            lines.sort_unstable();
            let shown = format!("{}{}", closing.data.escape_ascii(), lines.join(" | "));
            assert_eq!(shown, expected, "{line}");
        }
    };
    check(
        STREAM,
        [
            r"\x00\x00\x00\x00\x03abc",
            r#"\x02\x00\x00\x00\x1a{\"metadata\":{\"x-t\":[\"2\"]}}"#,
            r#"\x02\x00\x00\x00-{\"error\":{\"code\":\"aborted\",\"message\":\"no %\"}}"#,
        ],
    );
    check(
        GRPC,
        [
            r"\x00\x00\x00\x00\x03abc",
            "grpc-status: 0 | x-t: 2",
            "grpc-message: no %25 | grpc-status: 10",
        ],
    );
    check(
        WEB,
        [
            r"\x00\x00\x00\x00\x03abc",
            r"\x80\x00\x00\x00\x18x-t: 2\r\ngrpc-status: 0\r\n",
            r"\x80\x00\x00\x00\'grpc-status: 10\r\ngrpc-message: no %25\r\n",
        ],
    );
    check(
        TEXT,
        [
            "AAAAAANhYmM=",
            "gAAAABh4LXQ6IDINCmdycGMtc3RhdHVzOiAwDQo=",
            "gAAAACdncnBjLXN0YXR1czogMTANCmdycGMtbWVzc2FnZTogbm8gJTI1DQo=",
        ],
    );
}

#[test]
fn a_failure_before_anything_is_a_response_of_its_own() {
    let failure = || {
        let detail = Detail { type_name: "t.T".to_owned(), value: Bytes::from_static(b"\x01") };
        let mut error = Error::not_found("m").with_detail(detail);
        error.trailers_mut().extend(headers(&["x-t: 2", "grpc-status: 0"]));
        error
    };
    let check = |line: &str, kind, own: &[&str], expected: &str| {
        let mut error = failure();
        error.headers_mut().extend(headers(own));
        assert_eq!(shown(post(kind, &[line]).unwrap().failed(error)), expected);
    };
    let details = "grpc-status-details-bin: CAUSAW0aHAoXdHlwZS5nb29nbGVhcGlzLmNvbS90LlQSAQE";
    let json = r#"{\"code\":\"not_found\",\"details\":[{\"type\":\"t.T\",\"value\":\"AQ\"}],\"message\":\"m\"}"#;
    check(
        JSON,
        StreamKind::Unary,
        &["x-h: 1", "content-length: 7", "transfer-encoding: chunked"],
        &format!("404 [content-type: application/json | trailer-x-t: 2 | x-h: 1] {json}"),
    );
    check(
        STREAM,
        StreamKind::Server,
        &["x-h: 1"],
        &format!(
            r#"200 [content-type: application/connect+json | x-h: 1] \x02\x00\x00\x00m{{\"error\":{json},\"metadata\":{{\"x-t\":[\"2\"]}}}}"#
        ),
    );
    // Headers only, when there is nothing to keep apart.
    check(
        GRPC,
        StreamKind::Unary,
        &[],
        &format!(
            "200 [content-type: application/grpc+proto | grpc-message: m | {details} | grpc-status: 5 | x-t: 2] "
        ),
    );
    check(
        GRPC,
        StreamKind::Unary,
        &["x-h: 1"],
        &format!(
            "200 [content-type: application/grpc+proto | x-h: 1]  + grpc-message: m | {details} | grpc-status: 5 | x-t: 2"
        ),
    );
    let shown = shown(unary(WEB).failed(Error::not_found("m")));
    assert_eq!(
        shown,
        r"200 [content-type: application/grpc-web+proto] \x80\x00\x00\x00!grpc-status: 5\r\ngrpc-message: m\r\n"
    );
}

#[test]
fn an_own_http_status_of_an_error_is_that_of_connect_only() {
    let failed = |line| {
        let error = Error::unimplemented("no method").with_http_status(StatusCode::NOT_FOUND);
        unary(line).failed(error).status
    };
    assert_eq!(
        (failed(JSON), failed(GRPC), failed(WEB)),
        (StatusCode::NOT_FOUND, StatusCode::OK, StatusCode::OK)
    );
}

#[test]
fn reserved_names_of_a_service_are_left_out() {
    let reserved = || {
        headers(&[
            "grpc-status: 5",
            "grpc-message: x",
            "content-length: 7",
            "content-encoding: gzip",
            "transfer-encoding: chunked",
            "connection: x-named",
            "x-named: 1",
            "trailer-x: 1",
            "content-type: text/html",
        ])
    };
    let json = reply(&unary(JSON), reserved(), reserved());
    assert_eq!(json, "200 [content-type: application/json] abc");
    let grpc = reply(&unary(GRPC), reserved(), reserved());
    assert_eq!(
        grpc,
        r"200 [content-type: application/grpc+proto] \x00\x00\x00\x00\x03abc + grpc-status: 0"
    );
    let end = post(StreamKind::Server, &[STREAM]).unwrap().end(reserved());
    assert_eq!(&end.data[..], b"\x02\0\0\0\x02{}");
}

#[test]
fn a_reply_is_compressed_when_asked_and_from_a_kilobyte_on() {
    let check = |lines: &[&str], length: usize, header: &str, is_compressed: bool| {
        let exchange = post(StreamKind::Unary, lines).unwrap();
        let message = Bytes::from(vec![b'a'; length]);
        let none = HeaderMap::new;
        let response = exchange.reply(none(), message, none(), &Coders::default());
        assert_eq!(response.headers.contains_key(header), is_compressed, "{lines:?} {length}");
        assert_eq!(response.body.len() < 200, is_compressed || length < 200);
    };
    for (line, accept, header) in [
        (JSON, "accept-encoding: br, gzip", "content-encoding"),
        (GRPC, "grpc-accept-encoding: zstd", "grpc-encoding"),
        (WEB, "grpc-accept-encoding: gzip", "grpc-encoding"),
    ] {
        check(&[line, accept], 1024, header, true);
        check(&[line, accept], 1023, header, false);
        check(&[line], 1024, header, false);
        check(&[line, &accept.replace("gzip", "br").replace("zstd", "br")], 1024, header, false);
    }
    // Who sends compressed and says nothing takes it too.
    check(&[GRPC, "grpc-encoding: gzip"], 1024, "grpc-encoding", true);
    check(
        &[GRPC, "grpc-encoding: gzip", "grpc-accept-encoding: identity"],
        1024,
        "grpc-encoding",
        false,
    );
}

#[test]
fn the_answer_to_a_get_varies_by_what_is_accepted() {
    let spec = method(StreamKind::Unary);
    let query = Some("encoding=json&message={}");
    let exchange = asked("GET", query, http::Version::HTTP_11, Some(&spec), &[]).unwrap();
    let shown = reply(&exchange, HeaderMap::new(), HeaderMap::new());
    assert_eq!(shown, "200 [content-type: application/json | vary: accept-encoding] abc");
}

#[test]
fn a_message_behind_room_for_its_head_is_written_the_same() {
    for line in [JSON, GRPC, WEB, TEXT] {
        let message = tidewire_wire::Message::reserved(bytes::BytesMut::from(&b".....abc"[..]));
        let none = HeaderMap::new;
        let response = unary(line).reply(none(), message, none(), &Coders::default());
        assert_eq!(shown(response), reply(&unary(line), none(), none()));
    }
}

#[test]
fn a_large_message_is_not_copied() {
    let message = Bytes::from(vec![7; 1 << 20]);
    let response =
        unary(WEB).reply(HeaderMap::new(), message.clone(), HeaderMap::new(), &Coders::default());
    let pieces: Vec<_> = response.body.collect();
    assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [5, 1 << 20, 21]);
    assert_eq!(pieces[1].as_ptr(), message.as_ptr());
}

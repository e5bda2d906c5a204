//! What heads mean, and what is refused and how.

use std::time::Duration;

use http::{Method, Version};
use tidewire_service::{Code, Codec, StreamKind};
use tidewire_wire::{Dialect, Head, speaks};

use crate::harness::{KINDS, asked, headers, method, post, said, shown};

const HTTP: [Version; 3] = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2];

#[test]
fn every_content_type_is_taken_for_the_methods_it_is_for() {
    let check = |content_type: &str, dialect, codec, for_unary: bool, for_streams: bool| {
        for kind in KINDS {
            let is_taken = if kind == StreamKind::Unary { for_unary } else { for_streams };
            let line = format!("content-type: {content_type}");
            match post(kind, &[&line]) {
                Ok(exchange) => {
                    assert!(is_taken, "{content_type} {kind:?}");
                    let found = (exchange.dialect(), exchange.codec(), exchange.kind());
                    assert_eq!(found, (dialect, codec, kind));
                }
                Err(refusal) => {
                    assert!(!is_taken, "{content_type} {kind:?} {refusal:?}");
                    let response = refusal.into_response();
                    assert_eq!(response.status, 415);
                    let accepted = response.headers["accept-post"].to_str().unwrap().to_owned();
                    assert_eq!(
                        accepted.contains("application/json"),
                        kind == StreamKind::Unary,
                        "{accepted}"
                    );
                    assert_eq!(accepted.contains("connect+"), kind != StreamKind::Unary);
                    assert!(accepted.contains("application/grpc-web-text"));
                }
            }
        }
    };
    check("application/json", Dialect::Connect, Codec::Json, true, false);
    check("APPLICATION/JSON; charset=UTF-8", Dialect::Connect, Codec::Json, true, false);
    check("application/proto", Dialect::Connect, Codec::Proto, true, false);
    check("application/connect+json", Dialect::Connect, Codec::Json, false, true);
    check("application/connect+proto", Dialect::Connect, Codec::Proto, false, true);
    check("application/grpc", Dialect::Grpc, Codec::Proto, true, true);
    check("application/grpc+json", Dialect::Grpc, Codec::Json, true, true);
    check("application/grpc-web+proto", Dialect::GrpcWeb, Codec::Proto, true, true);
    check("application/grpc-web-text", Dialect::GrpcWeb, Codec::Proto, true, true);
    for unknown in ["text/xml", "application/grpc+thrift", "application/json; charset=latin1"] {
        check(unknown, Dialect::Connect, Codec::Json, false, false);
    }
    let none = post(StreamKind::Unary, &[]).unwrap_err();
    let code = none.error().code();
    assert_eq!(code, Code::InvalidArgument, "figures count it as the caller's fault");
    assert_eq!(none.into_response().status, 415);
}

#[test]
fn verbs_that_a_method_does_not_have_are_refused_with_those_it_has() {
    let check = |verb, spec, expected: Option<&str>| {
        let query = Some("encoding=json&message={}");
        let lines = ["content-type: application/json"];
        match asked(verb, query, Version::HTTP_11, Some(&spec), &lines) {
            Ok(exchange) => {
                assert_eq!(expected, None, "{verb}");
                assert_eq!(exchange.is_get(), verb == "GET");
            }
            Err(refusal) => {
                let code = refusal.error().code();
                let response = refusal.into_response();
                let allow = response.headers.get("allow").map(|value| value.to_str().unwrap());
                assert_eq!((response.status.as_u16(), allow), (405, expected), "{verb}");
                assert_eq!(code, Code::Unimplemented);
            }
        }
    };
    let command = method(StreamKind::Unary).idempotency(tidewire_service::Idempotency::Idempotent);
    check("GET", method(StreamKind::Unary), None);
    check("POST", method(StreamKind::Unary), None);
    for verb in ["HEAD", "PUT", "OPTIONS", "PRI"] {
        check(verb, method(StreamKind::Unary), Some("GET, POST"));
        check(verb, command.clone(), Some("POST"));
    }
    check("GET", command, Some("POST"));
    check("GET", method(StreamKind::Server), Some("POST"));
}

#[test]
fn grpc_needs_http_2_and_the_others_do_not() {
    for (content_type, needs_http2) in [
        ("application/grpc", true),
        ("application/grpc-web", false),
        ("application/connect+proto", false),
    ] {
        for version in HTTP {
            let line = format!("content-type: {content_type}");
            let spec = method(StreamKind::Bidi);
            let outcome = asked("POST", None, version, Some(&spec), &[&line]);
            if needs_http2 && version < Version::HTTP_2 {
                assert_eq!(outcome.unwrap_err().into_response().status, 505);
            } else {
                assert!(outcome.is_ok(), "{content_type} {version:?}");
            }
        }
    }
}

/// Each protocol with a content type, a header for its deadline, those of its compression.
const SPOKEN: [(&str, &str, &str, &str); 5] = [
    ("application/json", "connect-timeout-ms", "content-encoding", "accept-encoding"),
    (
        "application/connect+proto",
        "connect-timeout-ms",
        "connect-content-encoding",
        "connect-accept-encoding",
    ),
    ("application/grpc", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"),
    ("application/grpc-web", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"),
    ("application/grpc-web-text", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"),
];

fn kind_for(content_type: &str) -> StreamKind {
    if content_type.contains("connect+") { StreamKind::Server } else { StreamKind::Unary }
}

#[test]
fn deadlines_that_are_not_as_specified_are_refused_on_every_protocol_alike() {
    for (content_type, name, ..) in SPOKEN {
        let asked = |values: &[&str]| {
            let mut lines = vec![format!("content-type: {content_type}")];
            lines.extend(values.iter().map(|value| format!("{name}: {value}")));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            post(kind_for(content_type), &lines)
        };
        let wrong: &[&[&str]] =
            &[&["99999999999"], &["abc"], &["-1"], &["1X"], &["-1S"], &["1S", "1S"], &["+1"]];
        for values in wrong {
            let refusal = asked(values).unwrap_err();
            assert_eq!(refusal.error().code(), Code::InvalidArgument, "{name}: {values:?}");
            let shown = said(refusal.into_response());
            assert!(shown.contains(name), "{shown}");
            assert!(
                shown.contains("invalid_argument") || shown.contains("grpc-status: 3"),
                "{shown}"
            );
        }
        let (zero, some) = if name == "grpc-timeout" { ("0S", "2S") } else { ("0", "2000") };
        assert_eq!(asked(&[zero]).unwrap().timeout(), Some(Duration::ZERO));
        assert_eq!(asked(&[some]).unwrap().timeout(), Some(Duration::from_secs(2)));
        assert_eq!(asked(&[]).unwrap().timeout(), None);
    }
}

#[test]
fn a_compression_that_is_not_known_is_refused_with_those_that_are() {
    for (content_type, _, encoding, accepted) in SPOKEN {
        let content_type = format!("content-type: {content_type}");
        let kind = kind_for(&content_type);
        for known in ["gzip", "zstd", "identity", "GZIP"] {
            let line = format!("{encoding}: {known}");
            assert!(post(kind, &[&content_type, &line]).is_ok(), "{line}");
        }
        let unknown: &[&[&str]] = &[&["br"], &["gzip, gzip"], &["gzip", "zstd"]];
        for values in unknown {
            let mut lines = vec![content_type.clone()];
            lines.extend(values.iter().map(|value| format!("{encoding}: {value}")));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let refusal = post(kind, &lines).unwrap_err();
            assert_eq!(refusal.error().code(), Code::Unimplemented);
            assert!(refusal.error().message().contains("gzip, zstd, identity"));
            let response = refusal.into_response();
            assert_eq!(response.headers[accepted], "gzip,zstd", "{lines:?}");
        }
        if encoding != "content-encoding" {
            let whole = post(kind, &[&content_type, "content-encoding: gzip"]);
            assert_eq!(whole.unwrap_err().error().code(), Code::Unimplemented);
        }
    }
}

#[test]
fn a_version_of_connect_that_is_not_known_is_refused() {
    for (content_type, ..) in &SPOKEN[..2] {
        let content_type = format!("content-type: {content_type}");
        let kind = kind_for(&content_type);
        assert!(post(kind, &[&content_type, "connect-protocol-version: 1"]).is_ok());
        let refusal = post(kind, &[&content_type, "connect-protocol-version: 2"]).unwrap_err();
        assert_eq!(refusal.error().code(), Code::InvalidArgument);
    }
    assert!(
        post(StreamKind::Bidi, &["content-type: application/grpc", "connect-protocol-version: 9"])
            .is_ok()
    );
}

#[test]
fn a_get_is_refused_in_connect_with_what_is_wrong() {
    let check = |query: Option<&str>, lines: &[&str], status: u16, part: &str| {
        let spec = method(StreamKind::Unary);
        let refusal = asked("GET", query, Version::HTTP_11, Some(&spec), lines).unwrap_err();
        let shown = shown(refusal.into_response());
        assert!(shown.starts_with(&status.to_string()) && shown.contains(part), "{shown}");
    };
    check(None, &[], 400, "needs the parameter encoding");
    check(Some("encoding=xml"), &[], 415, "no encoding xml");
    check(Some("encoding=json&compression=br"), &[], 501, "gzip, zstd, identity");
    check(Some("encoding=json&connect=v2"), &[], 400, "no version v2");
    check(Some("encoding=json"), &["connect-timeout-ms: x"], 400, "connect-timeout-ms");
}

#[test]
fn a_method_that_is_not_there_is_negotiated_all_the_same() {
    for (content_type, ..) in SPOKEN {
        let line = format!("content-type: {content_type}");
        let exchange = asked("POST", None, Version::HTTP_2, None, &[&line]).unwrap();
        let error = tidewire_service::Error::unimplemented("no method");
        let shown = said(exchange.failed(error));
        assert!(shown.contains("no method"), "{shown}");
    }
}

#[test]
fn a_request_for_no_method_shows_which_protocol_it_is_in() {
    let check = |verb: Method, lines: &[&str], expected| {
        let headers = headers(lines);
        let head = Head { verb: &verb, query: None, version: Version::HTTP_11, headers: &headers };
        assert_eq!(speaks(&head), expected, "{verb} {lines:?}");
    };
    let post = Method::POST;
    check(post.clone(), &["content-type: application/grpc"], Some(Dialect::Grpc));
    check(post.clone(), &["content-type: application/grpc-web-text"], Some(Dialect::GrpcWeb));
    check(post.clone(), &["content-type: application/proto"], Some(Dialect::Connect));
    check(post.clone(), &["content-type: application/connect+json"], Some(Dialect::Connect));
    check(post.clone(), &["content-type: application/json"], None);
    let versioned = ["content-type: application/json", "connect-protocol-version: 1"];
    check(post.clone(), &versioned, Some(Dialect::Connect));
    check(post, &["content-type: text/html"], None);
    check(Method::GET, &["content-type: application/grpc"], None);
}

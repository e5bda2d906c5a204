//! Answers read in pieces of every size, requests written to the letter.

use super::*;
use crate::verdict::AnyStatus;

const KEEP: Expectation =
    Expectation { dialect: Dialect::Plain, keep: Keep::Everything, any_status: AnyStatus::No };
const COUNT: Expectation = Expectation { keep: Keep::Nothing, ..KEEP };

/// Feeds `wire` in parts of every size and returns status and failure of each answer.
#[track_caller]
fn check(wire: &str, requests: u32, expected: &[(u16, Option<Failure>)]) {
    for expectation in [KEEP, COUNT] {
        for size in [1, 2, 3, 7, 40, 4096] {
            let mut codec = Http1::new(expectation, 64);
            let mut out = Vec::new();
            for flight in 0..requests {
                codec.start(flight, b"GET / HTTP/1.1\r\n\r\n", &mut out);
            }
            let mut answers = Vec::new();
            for part in wire.as_bytes().chunks(size) {
                let mut input = part;
                while let Some(answer) = codec.receive(&mut input) {
                    assert_eq!(answer.flight as usize, answers.len());
                    answers.push((answer.status, answer.failure));
                }
                assert!(input.is_empty());
            }
            if let Some(answer) = codec.end_of_input() {
                answers.push((answer.status, answer.failure));
            }
            assert_eq!(answers, expected, "in parts of {size}: {wire:?}");
        }
    }
}

#[test]
fn answers_end_where_their_framing_says() {
    let ok = (200, None);
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1, std::slice::from_ref(&ok));
    check("HTTP/1.1 204 No Content\r\n\r\n", 1, &[(204, None)]);
    check("HTTP/1.0 200 OK\r\n\r\nuntil the end", 1, std::slice::from_ref(&ok));
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                   5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nserver-timing: x\r\n\r\n";
    check(chunked, 1, std::slice::from_ref(&ok));
    check(&chunked.repeat(3), 3, &[ok.clone(), ok.clone(), ok]);
}

#[test]
fn pipelined_answers_with_and_without_equal_heads_come_in_order() {
    let one = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
    let other = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx: y\r\n\r\nhey";
    let wire = format!("{one}{one}{other}{one}{one}");
    check(&wire, 5, &vec![(200, None); 5]);
}

#[test]
fn an_interim_answer_is_skipped() {
    let wire = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    check(wire, 1, &[(201, None)]);
}

#[test]
fn other_statuses_and_redirects_are_failures() {
    let with = |status| format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
    check(&with(500), 1, &[(500, Some(Failure::Status(500)))]);
    check(&with(302), 1, &[(302, Some(Failure::Redirect(302)))]);
}

#[test]
fn bytes_that_are_not_http_are_a_protocol_failure() {
    let failed = |status, what| (status, Some(Failure::Protocol(what)));
    check("SSH-2.0-OpenSSH\r\n\r\n", 1, &[failed(0, "not an HTTP/1.1 answer")]);
    let bad = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    check(bad, 1, &[failed(200, "a bad chunk size")]);
}

#[test]
fn a_body_cut_short_completes_nothing() {
    check("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello", 1, &[]);
}

#[test]
fn kept_headers_and_body_are_whole() {
    let mut codec = Http1::new(KEEP, 1);
    codec.start(0, b"GET / HTTP/1.1\r\n\r\n", &mut Vec::new());
    let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nLocation: /1\r\ncontent-length: 2\r\n\r\nhi";
    assert!(codec.receive(&mut input).is_some());
    assert_eq!(codec.reply_parts().body, b"hi");
    assert_eq!(codec.reply_parts().headers, b"Location: /1\r\ncontent-length: 2\r\n");
}

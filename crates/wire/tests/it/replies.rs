//! Replies of hostile and of honest servers, as a client reads them.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tidewire_service::{Code, Codec, Error, StreamKind};
use tidewire_wire::{Caller, Coders, Compression, Dialect, Event, Replies};

use crate::harness::headers;

pub(crate) fn caller(dialect: Dialect) -> Caller {
    Caller {
        dialect,
        compression: Compression::default(),
        queries_by_get: false,
        message_bytes_max: 1000,
        coders: Arc::new(Coders::default()),
    }
}

/// The messages and trailers of a reply, read to its end.
pub(crate) fn read(
    dialect: Dialect,
    kind: StreamKind,
    (status, lines): (u16, &[&str]),
    pieces: impl IntoIterator<Item = Bytes>,
    trailers: Option<HeaderMap>,
) -> Result<(Vec<Bytes>, HeaderMap), Error> {
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status = http::StatusCode::from_u16(status).unwrap();
    head.headers = headers(lines);
    let mut replies = caller(dialect).replies(kind, Codec::Proto, head, &Arc::from("host"))?;
    let mut messages = Vec::new();
    let mut drain = |replies: &mut Replies| loop {
        match replies.read()? {
            Event::Message { data, .. } => messages.push(data),
            Event::EndSeen => assert!(replies.end_trailers().is_some()),
            Event::More => return Ok(None),
            Event::End(trailers) => return Ok(Some(trailers)),
        }
    };
    for piece in pieces {
        replies.push(piece);
        assert_eq!(drain(&mut replies)?, None, "the end comes last");
    }
    if let Some(trailers) = trailers {
        replies.trailers(trailers);
        assert_eq!(drain(&mut replies)?, None, "the end comes last");
    }
    replies.finish();
    let trailers = drain(&mut replies)?.expect("after the last byte there is an end");
    Ok((messages, trailers))
}

struct Case<'a> {
    dialect: Dialect,
    kind: StreamKind,
    head: (u16, &'a [&'a str]),
    body: &'a [u8],
    trailers: Option<&'a [&'a str]>,
}

impl Case<'_> {
    /// The same outcome however the body is cut.
    #[track_caller]
    fn gives(&self, expected: Result<(&[&[u8]], &[&str]), Code>) {
        let expected = expected.map(|(messages, trailers)| {
            let messages = messages.iter().map(|message| Bytes::copy_from_slice(message));
            (messages.collect::<Vec<_>>(), headers(trailers))
        });
        for length in 1..=self.body.len().max(1) {
            let pieces = self.body.chunks(length).map(Bytes::copy_from_slice);
            let trailers = self.trailers.map(headers);
            let outcome = read(self.dialect, self.kind, self.head, pieces, trailers);
            let outcome = outcome.map_err(|error| error.code());
            assert_eq!(outcome, expected, "{:?} by {length}", self.dialect);
        }
    }
}

const PROTO: &[&str] = &["content-type: application/proto"];

fn unary<'a>(head: (u16, &'a [&'a str]), body: &'a [u8]) -> Case<'a> {
    Case { dialect: Dialect::Connect, kind: StreamKind::Unary, head, body, trailers: None }
}

#[test]
fn unary_replies_of_connect() {
    unary((200, PROTO), b"abc").gives(Ok((&[b"abc"], &[])));
    unary((200, PROTO), b"").gives(Ok((&[b""], &[])));
    unary((200, &["content-type: Application/Proto;a=b"]), b"a").gives(Ok((&[b"a"], &[])));
    let trailers = &["content-type: application/proto", "trailer-x: 1", "trailer-grpc-status: 5"];
    unary((200, trailers), b"").gives(Ok((&[b""], &["x: 1"])));
    unary((200, PROTO), &[0; 1001]).gives(Err(Code::ResourceExhausted));
    unary((200, &["content-type: application/json"]), b"{}").gives(Err(Code::Internal));
    unary((200, &["content-type: text/html"]), b"").gives(Err(Code::Unknown));
    unary((200, &["content-type: application/proto", "content-encoding: br"]), b"")
        .gives(Err(Code::Internal));
    let json = &["content-type: application/json"];
    unary((404, json), br#"{"code":"aborted"}"#).gives(Err(Code::Aborted));
    unary((404, json), br#"{"code":"aborted","message":"m","details":null}"#)
        .gives(Err(Code::Aborted));
    unary((503, json), b"nonsense").gives(Err(Code::Unavailable));
    unary((503, PROTO), b"abc").gives(Err(Code::Unavailable));
    unary((502, &["content-type: text/html"]), b"<html>").gives(Err(Code::Unavailable));
}

fn stream(body: &[u8]) -> Case<'_> {
    let head: &[&str] = &["content-type: application/connect+proto"];
    let kind = StreamKind::Server;
    Case { dialect: Dialect::Connect, kind, head: (200, head), body, trailers: None }
}

#[test]
fn streams_of_connect() {
    stream(b"\0\0\0\0\x01a\x02\0\0\0\x02{}").gives(Ok((&[b"a"], &[])));
    stream(b"\x02\0\0\0\x1a{\"metadata\":{\"x-t\":[\"2\"]}}").gives(Ok((&[], &["x-t: 2"])));
    stream(b"\x02\0\0\0\x1c{\"error\":{\"code\":\"aborted\"}}").gives(Err(Code::Aborted));
    // No end, an end twice, more after it, cut, flags of others, and a length of 4 GiB.
    stream(b"\0\0\0\0\x01a").gives(Err(Code::Internal));
    stream(b"\x02\0\0\0\x02{}\x02\0\0\0\x02{}").gives(Err(Code::Internal));
    stream(b"\x02\0\0\0\x02{}a").gives(Err(Code::Internal));
    stream(b"\x02\0\0\0\x02{").gives(Err(Code::Internal));
    stream(b"\x80\0\0\0\0").gives(Err(Code::Internal));
    stream(b"\x01\0\0\0\x01a").gives(Err(Code::Internal));
    stream(b"\0\xff\xff\xff\xff").gives(Err(Code::ResourceExhausted));
}

fn grpc<'a>(head: &'a [&'a str], body: &'a [u8], trailers: Option<&'a [&'a str]>) -> Case<'a> {
    let kind = StreamKind::Server;
    Case { dialect: Dialect::Grpc, kind, head: (200, head), body, trailers }
}

#[test]
fn replies_of_grpc() {
    let head: &[&str] = &["content-type: application/grpc"];
    let ok = Some(&["grpc-status: 0", "x-t: 2"][..]);
    grpc(head, b"\0\0\0\0\x01a", ok).gives(Ok((&[b"a"], &["x-t: 2"])));
    grpc(head, b"", ok).gives(Ok((&[], &["x-t: 2"])));
    grpc(head, b"", Some(&["grpc-status: 10"])).gives(Err(Code::Aborted));
    grpc(head, b"\0\0\0\0\x01", Some(&["grpc-status: 10"])).gives(Err(Code::Aborted));
    grpc(head, b"\0\0\0\0\x01", ok).gives(Err(Code::Internal));
    grpc(head, b"\x02\0\0\0\0", ok).gives(Err(Code::Internal));
    grpc(head, b"", None).gives(Err(Code::Internal));
    grpc(head, b"", Some(&["x-t: 2"])).gives(Err(Code::Internal));
    grpc(head, b"", Some(&["grpc-status: +0"])).gives(Err(Code::Internal));
    grpc(head, b"", Some(&["grpc-status: 0", "grpc-status: 5"])).gives(Err(Code::Internal));
    let only: &[&str] = &["content-type: application/grpc", "grpc-status: 10", "x: 1"];
    grpc(only, b"", None).gives(Err(Code::Aborted));
    grpc(only, b"", ok).gives(Ok((&[], &["x-t: 2"])));
    grpc(only, b"\0\0\0\0\0", None).gives(Err(Code::Internal));
    let ok_only: &[&str] = &["content-type: application/grpc+proto", "grpc-status: 0", "x: 1"];
    grpc(ok_only, b"", None).gives(Ok((&[], &["x: 1"])));
    grpc(&["content-type: application/grpc+json"], b"", ok).gives(Err(Code::Internal));
    grpc(&["content-type: text/html"], b"", ok).gives(Err(Code::Unknown));
}

#[test]
fn replies_of_grpc_web() {
    let check = |body: &[u8], expected| {
        let head: (u16, &[&str]) = (200, &["content-type: application/grpc-web"]);
        let (dialect, kind) = (Dialect::GrpcWeb, StreamKind::Server);
        Case { dialect, kind, head, body, trailers: None }.gives(expected);
    };
    let end = b"\x80\0\0\0\x10grpc-status: 0\r\n";
    check(&[&b"\0\0\0\0\x01a"[..], end].concat(), Ok((&[b"a"], &[])));
    check(b"\x80\0\0\0\x0fGRPC-Status:10\n", Err(Code::Aborted));
    check(&[&end[..], b"\0\0\0\0\x01a"].concat(), Err(Code::Internal));
    check(b"\x80\0\0\0\x05x: 1\n", Err(Code::Internal));
    check(b"\0\0\0\0\x01a", Err(Code::Internal));
    check(b"\x02\0\0\0\x02{}", Err(Code::Internal));
}

#[test]
fn what_the_end_said_counts_though_the_connection_broke_after_it() {
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.headers = headers(&["content-type: application/grpc-web"]);
    let replies = || {
        let (kind, host) = (StreamKind::Server, Arc::from("host"));
        caller(Dialect::GrpcWeb).replies(kind, Codec::Proto, head.clone(), &host).unwrap()
    };
    let broken = || Error::unavailable("the connection broke");
    let mut before = replies();
    assert_eq!(before.broke(broken()).unwrap_err().code(), Code::Unavailable);
    let mut after = replies();
    after.push(Bytes::from_static(b"\x80\0\0\0\x10grpc-status: 0\r\n"));
    assert_eq!(after.read().unwrap(), Event::EndSeen);
    assert_eq!(after.broke(broken()).unwrap(), Event::End(HeaderMap::new()));
}

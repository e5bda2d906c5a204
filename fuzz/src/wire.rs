//! Both sides of Connect, gRPC and gRPC-Web under arbitrary input: nothing panics, what is read
//! does not depend on how the bytes are cut, and what one side writes the other reads.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use tidewire_service::{Code, Codec, Idempotency, Spec, StreamKind};
use tidewire_wire::{
    Caller, Coders, Compression, Dialect, Encoding, Event, Exchange, Head, ReadStep, Replies,
    negotiate, speaks,
};

const LIMIT: usize = 1 << 12;

/// The head of a request: a byte of choices, then lines of headers, then a query after a NUL.
pub fn head(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let headers = lines(parts.next().unwrap_or_default());
    let query = parts.next().and_then(|query| std::str::from_utf8(query).ok());
    let verb = if choice & 1 == 0 { Method::POST } else { Method::GET };
    let version = if choice & 2 == 0 { Version::HTTP_2 } else { Version::HTTP_11 };
    let head = Head { verb: &verb, query, version, headers: &headers };
    let spec = method(kind(choice >> 2));
    let method = (choice & 16 == 0).then_some(&spec);
    let _ = speaks(&head);
    match negotiate(&head, method) {
        Err(refusal) => {
            let (code, response) = (refusal.error().code(), refusal.into_response());
            assert!(response.status != 500, "{code}: a refusal is the caller's fault");
        }
        Ok(exchange) if exchange.is_get() => {
            let message = exchange.message_of_get(query, &Coders::default(), LIMIT);
            assert!(message.is_ok_and(|message| message.len() <= LIMIT) || query.is_some());
        }
        Ok(exchange) => {
            let _ = exchange.requests(LIMIT).map(|mut requests| {
                requests.finish();
                requests.read(&Coders::default())
            });
        }
    }
}

/// The body of a request: two bytes of choices, then bytes that are read in two ways.
pub fn request(data: &[u8]) {
    let Some((&[choice, cut], body)) = data.split_first_chunk::<2>() else { return };
    let exchange = exchange(choice);
    let whole = read_request(&exchange, body, body.len().max(1));
    assert_eq!(whole, read_request(&exchange, body, usize::from(cut) + 1), "cut by {cut}");
    if let Ok(messages) = whole {
        assert!(messages.iter().all(|message| message.len() <= LIMIT));
        assert!(exchange.kind().client_streams() || messages.len() == 1);
    }
}

/// A response: two bytes of choices, lines of headers, a NUL, then a body that is read in two ways.
pub fn reply(data: &[u8]) {
    let Some((&[choice, cut], rest)) = data.split_first_chunk::<2>() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let mut headers = lines(parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or_default();
    let (caller, kind, codec) = (caller(choice), kind(choice >> 2), codec(choice >> 4));
    if choice & 32 != 0 {
        let right = content_type(caller.dialect, kind, codec);
        headers.insert("content-type", HeaderValue::from_static(right));
    }
    let (mut head, ()) = http::Response::new(()).into_parts();
    head.status =
        http::StatusCode::from_u16(if choice & 64 == 0 { 200 } else { 503 }).expect("known");
    head.headers = headers.clone();
    let read = |by: usize| {
        let mut replies = caller
            .replies(kind, codec, head.clone(), &Arc::from("host"))
            .map_err(|error| error.code())?;
        let mut messages = Vec::new();
        for piece in body.chunks(by) {
            replies.push(Bytes::copy_from_slice(piece));
            drain(&mut replies, &mut messages)?;
        }
        if choice & 128 != 0 {
            replies.trailers(headers.clone());
        }
        replies.finish();
        let trailers = drain(&mut replies, &mut messages)?;
        let trailers = trailers.expect("after the last byte there is an end");
        assert!(!trailers.contains_key("grpc-status"), "a status is not a trailer of a service");
        Ok::<_, Code>((messages, trailers))
    };
    let whole = read(body.len().max(1));
    assert_eq!(whole, read(usize::from(cut) + 1), "cut by {cut}");
}

/// Messages there and back: two bytes of choices, then messages of a length byte each.
pub fn both_sides(data: &[u8]) {
    let Some((&[choice, cut], mut rest)) = data.split_first_chunk::<2>() else { return };
    let mut messages = Vec::new();
    while let Some((&length, tail)) = rest.split_first() {
        let (message, tail) = tail.split_at(usize::from(length).min(tail.len()));
        // Some are long enough to be compressed.
        messages.push(Bytes::from(message.repeat(if length & 1 == 0 { 1 } else { 8 })));
        rest = tail;
    }
    let (caller, kind, codec) = (caller(choice), kind(choice >> 2), codec(choice >> 4));
    if messages.is_empty() || !(kind.client_streams() && kind.server_streams()) {
        messages.resize(1, Bytes::from_static(b"m"));
    }
    let one = (!kind.client_streams()).then(|| messages[0].clone());
    let request = caller.request(&method(kind), codec, HeaderMap::new(), one).expect("it is small");
    let verb = &request.verb;
    let (query, version) = (request.path.query(), Version::HTTP_2);
    let head = Head { verb, query, version, headers: &request.headers };
    let exchange = negotiate(&head, Some(&method(kind))).expect("what we write is right");
    let body = match kind.client_streams() {
        false => request.body.concat(),
        true => {
            let seal = |message: &Bytes| caller.message(message.clone()).expect("it is small");
            messages.iter().flat_map(seal).collect::<Vec<_>>().concat()
        }
    };
    let read = read_request(&exchange, &body, usize::from(cut) + 1);
    assert_eq!(read.expect("what we write is right"), messages);

    let coders = Coders::default();
    let (mut head, ()) = http::Response::new(()).into_parts();
    let (mut out, trailers) = (Vec::new(), HeaderMap::new());
    let mut http_trailers = if exchange.is_single_reply() {
        let response = exchange.reply(HeaderMap::new(), messages[0].clone(), trailers, &coders);
        head.headers = response.headers;
        response.body.for_each(|piece| out.extend_from_slice(&piece));
        messages.truncate(1);
        response.trailers
    } else {
        head.headers = exchange.head(HeaderMap::new());
        for message in &messages {
            let pieces = exchange.message(message.clone(), &coders).expect("it is small");
            pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        }
        let closing = exchange.end(trailers);
        out.extend_from_slice(&closing.data);
        closing.trailers
    };
    let host = Arc::from("host");
    let mut replies = caller.replies(kind, codec, head, &host).expect("what we write is right");
    let mut read = Vec::new();
    for piece in out.chunks(usize::from(cut) + 1) {
        replies.push(Bytes::copy_from_slice(piece));
        drain(&mut replies, &mut read).expect("what we write is right");
    }
    if let Some(trailers) = http_trailers.take() {
        replies.trailers(trailers);
    }
    replies.finish();
    let end = drain(&mut replies, &mut read).expect("what we write is right");
    assert_eq!((read, end), (messages, Some(HeaderMap::new())));
}

fn read_request(exchange: &Exchange, body: &[u8], by: usize) -> Result<Vec<Bytes>, Code> {
    let coders = Coders::default();
    let mut requests = exchange.requests(LIMIT).map_err(|error| error.code())?;
    let mut messages = Vec::new();
    for piece in body.chunks(by) {
        requests.push(Bytes::copy_from_slice(piece));
        while let ReadStep::Message(message) = requests.read(&coders).map_err(|e| e.code())? {
            messages.push(message);
        }
    }
    requests.finish();
    loop {
        match requests.read(&coders).map_err(|error| error.code())? {
            ReadStep::Message(message) => messages.push(message),
            ReadStep::End => return Ok(messages),
            ReadStep::More => panic!("after the last byte there is nothing to wait for"),
        }
    }
}

fn drain(replies: &mut Replies, messages: &mut Vec<Bytes>) -> Result<Option<HeaderMap>, Code> {
    loop {
        match replies.read().map_err(|error| error.code())? {
            Event::Message { data, .. } => {
                assert!(data.len() <= LIMIT);
                messages.push(data);
            }
            Event::EndSeen => {}
            Event::More => return Ok(None),
            Event::End(trailers) => return Ok(Some(trailers)),
        }
    }
}

/// What is agreed for the choices in a byte: dialect, kind, codec, compression.
fn exchange(choice: u8) -> Exchange {
    let (dialect, kind) = (dialect(choice), kind(choice >> 2));
    let mut headers = HeaderMap::new();
    let is_text = dialect == Dialect::GrpcWeb && choice & 64 != 0;
    let right = match is_text {
        true => "application/grpc-web-text",
        false => content_type(dialect, kind, codec(choice >> 4)),
    };
    headers.insert("content-type", HeaderValue::from_static(right));
    let name = match dialect {
        Dialect::Connect if kind == StreamKind::Unary => "content-encoding",
        Dialect::Connect => "connect-content-encoding",
        _ => "grpc-encoding",
    };
    let encoding = ["identity", "gzip", "zstd", "identity"][usize::from(choice >> 5 & 3)];
    headers.insert(name, HeaderValue::from_static(encoding));
    let (verb, version) = (Method::POST, Version::HTTP_2);
    let head = Head { verb: &verb, query: None, version, headers: &headers };
    negotiate(&head, Some(&method(kind))).expect("the head is right")
}

fn caller(choice: u8) -> Caller {
    let compression = match choice >> 5 & 3 {
        0 => Compression::none(),
        1 => Compression::requests(Encoding::Gzip),
        2 => Compression::requests(Encoding::Zstd).from_bytes(0),
        _ => Compression::default(),
    };
    let (queries_by_get, message_bytes_max) = (false, LIMIT);
    let coders = Arc::new(Coders::default());
    Caller { dialect: dialect(choice), compression, queries_by_get, message_bytes_max, coders }
}

fn content_type(dialect: Dialect, kind: StreamKind, codec: Codec) -> &'static str {
    match (dialect, kind, codec) {
        (Dialect::Connect, StreamKind::Unary, Codec::Proto) => "application/proto",
        (Dialect::Connect, StreamKind::Unary, Codec::Json) => "application/json",
        (Dialect::Connect, _, Codec::Proto) => "application/connect+proto",
        (Dialect::Connect, _, Codec::Json) => "application/connect+json",
        (Dialect::Grpc, _, Codec::Proto) => "application/grpc+proto",
        (Dialect::Grpc, _, Codec::Json) => "application/grpc+json",
        (Dialect::GrpcWeb, _, Codec::Proto) => "application/grpc-web+proto",
        (Dialect::GrpcWeb, _, Codec::Json) => "application/grpc-web+json",
    }
}

fn dialect(choice: u8) -> Dialect {
    [Dialect::Connect, Dialect::Grpc, Dialect::GrpcWeb, Dialect::Connect][usize::from(choice & 3)]
}

fn kind(choice: u8) -> StreamKind {
    [StreamKind::Unary, StreamKind::Client, StreamKind::Server, StreamKind::Bidi]
        [usize::from(choice & 3)]
}

fn codec(choice: u8) -> Codec {
    if choice & 1 == 0 { Codec::Proto } else { Codec::Json }
}

fn method(kind: StreamKind) -> Spec {
    Spec::new("a.B", "C", "/a.B/C", kind, ["a.Q", "a.R"]).idempotency(Idempotency::NoSideEffects)
}

/// Headers of lines `name: value`, those that are any.
fn lines(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

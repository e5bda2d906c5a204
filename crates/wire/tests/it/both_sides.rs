//! What one side writes the other reads: every protocol and kind, random messages, random splits.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version};
use tidewire_service::{Codec, Error, StreamKind};
use tidewire_wire::{
    Caller, Coders, Compression, Dialect, Encoding, Event, Exchange, Head, ReadStep, negotiate,
};

use crate::harness::{KINDS, Random, headers, method, seed};

impl Random {
    /// Some that compress, some that do not, some empty, some larger than what is copied.
    fn message(&mut self) -> Bytes {
        let length = [0, 1, 30, 1024, 5000, 40_000][self.below(6)];
        let alphabet = [2, 256][self.below(2)];
        (0..length).map(|_| self.below(alphabet) as u8).collect()
    }

    /// The bytes in pieces, some of one byte, some large, some empty.
    fn split(&mut self, mut whole: Bytes) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while !whole.is_empty() {
            let most = [1, 5, 100, 20_000][self.below(4)];
            let length = self.below(most.min(whole.len()) + 1);
            pieces.push(whole.split_to(length));
        }
        pieces
    }
}

fn callers() -> Vec<Caller> {
    let mut callers = Vec::new();
    for dialect in [Dialect::Connect, Dialect::Grpc, Dialect::GrpcWeb] {
        for compression in [
            Compression::default(),
            Compression::none(),
            Compression::requests(Encoding::Gzip),
            Compression::requests(Encoding::Zstd).from_bytes(0),
        ] {
            let coders = Arc::new(Coders::default());
            let (queries_by_get, message_bytes_max) = (compression == Compression::none(), 1 << 16);
            callers.push(Caller {
                dialect,
                compression,
                queries_by_get,
                message_bytes_max,
                coders,
            });
        }
    }
    callers
}

#[test]
fn what_one_side_writes_the_other_reads_at_any_split() {
    let mut random = Random(seed());
    for _ in 0..8 {
        for caller in callers() {
            for kind in KINDS {
                let codec = if random.below(2) == 0 { Codec::Proto } else { Codec::Json };
                let asks = if kind.client_streams() { random.below(4) } else { 1 };
                let asks: Vec<_> = (0..asks).map(|_| random.message()).collect();
                let exchange = request(&mut random, &caller, kind, codec, &asks);
                let answers = if kind.server_streams() { random.below(4) } else { 1 };
                let answers: Vec<_> = (0..answers).map(|_| random.message()).collect();
                let failure = (random.below(3) == 0).then(|| Error::aborted("no ✓ %"));
                reply(&mut random, &caller, &exchange, &answers, failure);
            }
        }
    }
}

/// Writes a request and reads it; what was agreed.
fn request(
    random: &mut Random,
    caller: &Caller,
    kind: StreamKind,
    codec: Codec,
    messages: &[Bytes],
) -> Exchange {
    let spec = method(kind);
    let one = (!kind.client_streams()).then(|| messages[0].clone());
    let own = headers(&["x-a: 1", "x-b-bin: AAE"]);
    let mut request = caller.request(&spec, codec, own, one).unwrap();
    let (name, value) = caller.timeout(std::time::Duration::from_millis(1500));
    request.headers.insert(name, value);
    let mut body: Vec<Bytes> = request.body.to_vec();
    if kind.client_streams() {
        body = messages.iter().flat_map(|m| caller.message(m.clone()).unwrap()).collect();
    }
    let head = Head {
        verb: &request.verb,
        query: request.path.query(),
        version: Version::HTTP_2,
        headers: &request.headers,
    };
    let exchange = negotiate(&head, Some(&spec)).unwrap();
    let found = (exchange.dialect(), exchange.codec(), exchange.kind());
    assert_eq!(found, (caller.dialect, codec, kind));
    assert_eq!(exchange.timeout(), Some(std::time::Duration::from_millis(1500)));
    let coders = Coders::default();
    if exchange.is_get() {
        let message = exchange.message_of_get(head.query, &coders, 1 << 16).unwrap();
        // A URL holds text: JSON is, and so are the messages of this test then.
        if codec == Codec::Proto || std::str::from_utf8(&messages[0]).is_ok() {
            assert_eq!(message, messages[0]);
        }
        return exchange;
    }
    let mut requests = exchange.requests(1 << 16).unwrap();
    let mut read = Vec::new();
    for piece in random.split(body.concat().into()) {
        requests.push(piece);
        while let ReadStep::Message(message) = requests.read(&coders).unwrap() {
            read.push(message);
        }
    }
    requests.finish();
    while let ReadStep::Message(message) = requests.read(&coders).unwrap() {
        read.push(message);
    }
    assert_eq!(requests.read(&coders).unwrap(), ReadStep::End);
    assert_eq!(read, messages, "{caller:?} {kind:?}");
    exchange
}

/// Writes a reply and reads it.
fn reply(
    random: &mut Random,
    caller: &Caller,
    exchange: &Exchange,
    messages: &[Bytes],
    failure: Option<Error>,
) {
    let (kind, coders) = (exchange.kind(), Coders::default());
    let own = headers(&["x-h: 1"]);
    let trailers = headers(&["x-t: 2", "x-t: 3"]);
    let (mut head, ()) = http::Response::new(()).into_parts();
    let (body, mut http_trailers);
    let mut expected = messages;
    if kind.server_streams() {
        head.headers = exchange.head(own);
        let mut all: Vec<_> = messages
            .iter()
            .flat_map(|message| exchange.message(message.clone(), &coders).unwrap())
            .collect();
        let closing = match &failure {
            None => exchange.end(trailers.clone()),
            Some(error) => exchange.end_failed(error.clone()),
        };
        all.push(closing.data);
        (body, http_trailers) = (all.concat(), closing.trailers);
    } else {
        let response = match &failure {
            None => exchange.reply(own, messages[0].clone(), trailers.clone(), &coders),
            Some(error) => exchange.failed(error.clone()),
        };
        (head.status, head.headers) = (response.status, response.headers);
        (body, http_trailers) = (response.body.collect::<Vec<_>>().concat(), response.trailers);
        if failure.is_some() {
            expected = &[];
        }
    }
    let host = Arc::from("host");
    let mut replies = caller.replies(kind, exchange.codec(), head, &host).unwrap();
    if failure.is_none() {
        assert_eq!(replies.take_headers()["x-h"], "1");
    }
    let pieces = random.split(body.into());
    let (read, outcome) = drain(&mut replies, pieces, http_trailers.take());
    assert_eq!(read, expected, "{caller:?} {kind:?}");
    match failure {
        None => assert_eq!(outcome.unwrap(), trailers),
        Some(error) => {
            let found = outcome.unwrap_err();
            assert_eq!((found.code(), found.message()), (error.code(), error.message()));
        }
    }
}

fn drain(
    replies: &mut tidewire_wire::Replies,
    pieces: Vec<Bytes>,
    trailers: Option<HeaderMap>,
) -> (Vec<Bytes>, Result<HeaderMap, Error>) {
    let mut read = Vec::new();
    let mut pieces = pieces.into_iter();
    let mut trailers = trailers;
    loop {
        match replies.read() {
            Ok(Event::Message { data, .. }) => read.push(data),
            Ok(Event::EndSeen) => {}
            Ok(Event::End(trailers)) => return (read, Ok(trailers)),
            Err(error) => return (read, Err(error)),
            Ok(Event::More) => match (pieces.next(), trailers.take()) {
                (Some(piece), kept) => {
                    replies.push(piece);
                    trailers = kept;
                }
                (None, Some(trailers)) => replies.trailers(trailers),
                (None, None) => replies.finish(),
            },
        }
    }
}

#[test]
fn a_header_of_bytes_is_the_same_on_both_sides() {
    let value = tidewire_wire::binary_value(&[0, 255, 1]);
    assert_eq!(value, HeaderValue::from_static("AP8B"));
    assert_eq!(tidewire_wire::binary(&value).as_deref(), Some(&[0, 255, 1][..]));
}

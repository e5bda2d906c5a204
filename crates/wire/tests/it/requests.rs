//! Requests as bytes: what is read, what is refused with which code, whatever the pieces.

use bytes::Bytes;
use tidewire_service::{Code, StreamKind};
use tidewire_wire::{Coders, Exchange, ReadStep, Requests};

use crate::harness::post;

pub(crate) const LIMIT: usize = 100;

/// All messages of a request that comes in pieces.
pub(crate) fn read(
    exchange: &Exchange,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Result<Vec<Bytes>, Code> {
    let coders = Coders::default();
    let mut requests = exchange.requests(LIMIT).map_err(|error| error.code())?;
    let mut messages = Vec::new();
    let mut drain = |requests: &mut Requests| loop {
        match requests.read(&coders).map_err(|error| error.code())? {
            ReadStep::Message(message) => messages.push(message),
            ReadStep::More => return Ok(false),
            ReadStep::End => return Ok(true),
        }
    };
    for piece in pieces {
        requests.push(piece);
        drain(&mut requests)?;
    }
    requests.finish();
    let is_over = drain(&mut requests)?;
    assert!(is_over, "after the last byte there is nothing to wait for");
    Ok(messages)
}

/// The same outcome for every way to cut the bytes in pieces of one length, and in two.
#[track_caller]
fn check(kind: StreamKind, lines: &[&str], body: &[u8], expected: Result<&[&[u8]], Code>) {
    let exchange = post(kind, lines).unwrap();
    let expected = expected.map(|messages| {
        messages.iter().map(|message| Bytes::copy_from_slice(message)).collect::<Vec<_>>()
    });
    for length in 1..=body.len().max(1) {
        let pieces = body.chunks(length).map(Bytes::copy_from_slice);
        assert_eq!(read(&exchange, pieces), expected, "{kind:?} {lines:?} by {length}");
        let (head, rest) = body.split_at(length.min(body.len()));
        let pieces = [head, rest].map(Bytes::copy_from_slice);
        assert_eq!(read(&exchange, pieces), expected, "{kind:?} {lines:?} at {length}");
    }
}

const GRPC: &str = "content-type: application/grpc";
const STREAM: &str = "content-type: application/connect+proto";
const TEXT: &str = "content-type: application/grpc-web-text";
const JSON: &str = "content-type: application/json";

const ONE: StreamKind = StreamKind::Unary;
const MANY: StreamKind = StreamKind::Bidi;

#[test]
fn messages_are_read() {
    check(ONE, &[GRPC], b"\0\0\0\0\x03abc", Ok(&[b"abc"]));
    check(ONE, &[GRPC], b"\0\0\0\0\0", Ok(&[b""]));
    check(StreamKind::Server, &[STREAM], b"\0\0\0\0\x03abc", Ok(&[b"abc"]));
    check(MANY, &[GRPC], b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01d", Ok(&[b"abc", b"", b"d"]));
    check(MANY, &[STREAM], b"", Ok(&[]));
    check(ONE, &[JSON], b"{}", Ok(&[b"{}"]));
    check(ONE, &[JSON], b"", Ok(&[b""]));
    // Padding in the middle: the head of the envelope was sent apart.
    check(ONE, &[TEXT], b"AAAAAAM=YWJj", Ok(&[b"abc"]));
    check(MANY, &[TEXT], b"AAAAAAE=YQ==AAAAAAE=Yg==", Ok(&[b"a", b"b"]));
}

#[test]
fn what_is_not_a_request_is_refused() {
    let cut = Err(Code::InvalidArgument);
    check(ONE, &[GRPC], b"\0\0\0\0\x03ab", cut);
    check(MANY, &[STREAM], b"\0\0\0\0\x03abc\0\0", cut);
    check(MANY, &[TEXT], b"AAAAAAM=YWJ", cut);
    check(MANY, &[TEXT], b"AAAA AAM=YWJj", cut);
    check(MANY, &[TEXT], b"AAAAAAM=YW==", cut);
    let miscounted = Err(Code::Unimplemented);
    check(ONE, &[GRPC], b"", miscounted);
    check(ONE, &[GRPC], b"\0\0\0\0\x01a\0\0\0\0\x01b", miscounted);
    check(StreamKind::Server, &[STREAM], b"\0\0\0\0\x01a\0\0\0\0\x01b", miscounted);
    for flags in [2, 0x80, 4, 0xff] {
        for (kind, line) in [(ONE, GRPC), (MANY, GRPC), (MANY, STREAM)] {
            check(kind, &[line], &[flags, 0, 0, 0, 0], Err(Code::Internal));
        }
    }
}

#[test]
fn what_is_too_large_is_refused_by_what_it_announces() {
    let large = Err(Code::ResourceExhausted);
    check(ONE, &[GRPC], b"\0\xff\xff\xff\xff", large);
    check(ONE, &[GRPC], b"\0\0\0\0\x65", large);
    check(ONE, &[GRPC], &[&b"\0\0\0\0\x64"[..], &[7; 100]].concat(), Ok(&[&[7; 100]]));
    check(ONE, &[JSON], &[b'1'; 100], Ok(&[&[b'1'; 100]]));
    check(ONE, &[JSON], &[b'1'; 101], large);
    check(ONE, &[JSON, "content-length: 101"], b"", large);
    check(ONE, &[GRPC, "content-length: 106"], b"", large);
    check(ONE, &[GRPC, "content-length: 8"], b"\0\0\0\0\x03abc", Ok(&[b"abc"]));
    // A stream of many may be as long as it is, each message being within the limit.
    check(MANY, &[GRPC, "content-length: 9999"], b"\0\0\0\0\x01a", Ok(&[b"a"]));
}

#[test]
fn what_is_compressed_is_unfolded_within_the_limit() {
    // `printf %099d 0 | gzip -n`, and the same of 101 zeros.
    let zeros = |count: usize| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut gz, &vec![b'0'; count]).unwrap();
        gz.finish().unwrap()
    };
    let sealed = |flags: u8, data: &[u8]| [&[flags, 0, 0, 0, data.len() as u8], data].concat();
    let (fits, bomb) = (zeros(99), zeros(101));
    let plain: &[&[u8]] = &[&[b'0'; 99]];
    check(ONE, &[GRPC, "grpc-encoding: gzip"], &sealed(1, &fits), Ok(plain));
    check(ONE, &[GRPC, "grpc-encoding: gzip"], &sealed(0, b"as it is"), Ok(&[b"as it is"]));
    check(ONE, &[GRPC, "grpc-encoding: gzip"], &sealed(1, b""), Ok(&[b""]));
    check(ONE, &[JSON, "content-encoding: gzip"], &fits, Ok(plain));
    let large = Err(Code::ResourceExhausted);
    check(ONE, &[GRPC, "grpc-encoding: gzip"], &sealed(1, &bomb), large);
    check(ONE, &[JSON, "content-encoding: gzip"], &bomb, large);
    // Both members count, and so does what follows the last.
    let twice = [&zeros(40)[..], &zeros(59)].concat();
    check(ONE, &[JSON, "content-encoding: gzip"], &twice, Ok(plain));
    let twice = [&fits[..], &zeros(2)].concat();
    check(ONE, &[JSON, "content-encoding: gzip"], &twice, large);
    let invalid = Err(Code::InvalidArgument);
    let garbage = [&fits[..], b"garbage"].concat();
    check(ONE, &[JSON, "content-encoding: gzip"], &garbage, invalid);
    check(ONE, &[GRPC, "grpc-encoding: zstd"], &sealed(1, b"no zstd"), invalid);
    // Nobody said how it is compressed.
    check(ONE, &[GRPC], &sealed(1, &fits), Err(Code::Internal));
    check(ONE, &[GRPC, "grpc-encoding: identity"], &sealed(1, &fits), Err(Code::Internal));
    check(MANY, &[STREAM], &sealed(1, &fits), Err(Code::Internal));
}

#[test]
fn the_one_message_of_a_get_is_in_its_url() {
    let query = Some("encoding=json&message=%7B%7D");
    let spec = crate::harness::method(ONE);
    let version = http::Version::HTTP_11;
    let exchange = crate::harness::asked("GET", query, version, Some(&spec), &[]).unwrap();
    let message = exchange.message_of_get(query, &Coders::default(), LIMIT).unwrap();
    assert_eq!(message, "{}");
}

#[test]
fn a_message_in_one_piece_is_not_copied() {
    for (line, body, start) in [(GRPC, &b"\0\0\0\0\x03abc"[..], 5), (JSON, b"abc", 0)] {
        let body = Bytes::copy_from_slice(body);
        let messages = read(&post(ONE, &[line]).unwrap(), [body.clone()]).unwrap();
        assert_eq!(messages[0].as_ptr(), body[start..].as_ptr());
    }
}

//! Bad input, field by field: absent, twice, in another order, too large or cut off; and what goes
//! in pieces: without end, mixed with others.

use bytes::Bytes;
use tidewire_live_proto::fields::Fields;
use tidewire_live_proto::frame::{self, Kind, PAYLOAD_BYTES_MAX, flag};
use tidewire_live_proto::metadata::{put_entry, tag};
use tidewire_live_proto::{Config, Hello, Reason, Session, feature};
use tidewire_service::{Code, Outcome};

use crate::heard::Event;
use crate::pair::Pair;

/// A tag, whether it may repeat, a good value, and bad ones.
type Field = (u8, bool, &'static [u8], &'static [&'static [u8]]);

/// 2^53, and a number of nine bytes.
const OVER: &[u8] = &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
const LONG: &[u8] = &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
/// What no number is: nothing, two numbers, one cut off, one too large.
const NUMBER: &[&[u8]] = &[b"", &[1, 1], &[0x80], OVER, LONG];
const OLD: [u8; 17] = [7; 17];

const FIELDS: [Field; 21] = [
    (tag::METHOD, false, &[5], NUMBER),
    (tag::NAME, false, b"\0/a.B/C", &[b""]),
    (tag::COMMAND, false, &[2, 1], &[b"", &[1], &[1, 1, 1], &[1, 0x80], OVER]),
    (tag::VALIDATOR, false, &[7; 16], &[b"", &[7; 15], &[7; 17]]),
    (tag::MAX_AGE, false, &[5], NUMBER),
    (tag::TOKEN, true, b"token", &[&[7; 257]]),
    (tag::TRAILERS, false, b"", &[b"x"]),
    (tag::CODE, false, &[5], NUMBER),
    (tag::MESSAGE, false, "na, ä".as_bytes(), &[b"\xff", b"\xc3"]),
    (tag::DETAIL, true, b"\x01xrest", &[b"", b"\x09x", b"\x01\xff"]),
    (tag::OUTCOME, false, &[3], NUMBER),
    (tag::HTTP_METHOD, false, b"GET", &[]),
    (tag::TARGET, false, b"/", &[]),
    (tag::STATUS, false, &[0xc8, 1], &[b"", &[1, 1], &[0x80, 0x80, 4], OVER]),
    (tag::DEPENDS, true, b"\x01a\x01b", &[b"\x02a", b"\x01a\x02b", b"\x01a\x01bc"]),
    (tag::REASON, false, &[3], NUMBER),
    (tag::LEVEL, false, &[3], NUMBER),
    (tag::KEY, false, &OLD, &[b"", &[7; 16], &[7; 18], &[7; 15]]),
    (tag::PARENT, false, &[3], NUMBER),
    (tag::AFTER, false, &[3], NUMBER),
    (tag::EXPIRES, false, &[3], NUMBER),
];

fn block(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in fields {
        put_entry(&mut out, *tag, value);
    }
    out
}

#[test]
fn every_field_is_refused_when_it_does_not_fit_or_comes_twice() {
    for (tag, repeats, good, bad) in FIELDS {
        assert!(Fields::read(&block(&[(tag, good)])).is_ok(), "field {tag}");
        let twice = Fields::read(&block(&[(tag, good), (tag, good)]));
        assert_eq!(twice.is_ok(), repeats, "field {tag} twice");
        for value in bad {
            let violation = Fields::read(&block(&[(tag, value)])).expect_err("it does not fit");
            assert_eq!(violation.reason, Reason::Malformed, "field {tag}: {value:?}");
        }
        let whole = block(&[(tag, good)]);
        for end in 1..whole.len() {
            assert!(Fields::read(&whole[..end]).is_err(), "field {tag} cut off at {end}");
        }
    }
    assert!(Fields::read(&[]).is_ok(), "all of them absent");
}

#[test]
fn fields_are_read_in_any_order() {
    let mut all: Vec<_> = FIELDS.map(|(tag, _, good, _)| (tag, good)).into();
    for turn in 0..all.len() {
        all.rotate_left(turn);
        assert!(Fields::read(&block(&all)).is_ok());
        all.reverse();
        assert!(Fields::read(&block(&all)).is_ok());
    }
}

/// A tag of a hello, a good value, and bad ones.
type HelloField = (u8, &'static [u8], &'static [&'static [u8]]);

/// What no limit of 32 bits is.
const LIMIT: &[&[u8]] = &[b"", &[1, 1], &[0x80], &[0x80, 0x80, 0x80, 0x80, 0x10], OVER, LONG];

const HELLO: [HelloField; 21] = [
    (1, &[1, 0, 1, 0], &[b"", &[1, 0, 1], &[1, 0, 1, 0, 0]]),
    (2, &[30], NUMBER),
    (3, &[2], NUMBER),
    (4, &[0x80, 0x80, 4], &[b"", &[0xff, 0xff, 3], OVER]),
    (5, &[3], &[&[0], b"", OVER]),
    (6, &[3], LIMIT),
    (7, &[3], LIMIT),
    (8, &[3], &[&[0], b"", OVER, LONG]),
    (9, &[3], &[&[0], b"", OVER, LONG]),
    (10, &[0x80, 2], &[&[0xff, 1], &[0x80, 0x80, 4], b"", OVER]),
    (11, &[7; 16], &[b"", &[7; 15], &[7; 17]]),
    (12, &[7; 16], &[b"", &[7; 15], &[7; 17]]),
    (13, &[7; 32], &[b"", &[7; 31], &[7; 33]]),
    (14, &[1], &[b"", &[2], &[1, 1]]),
    (15, &[3], NUMBER),
    (16, "ä/1".as_bytes(), &[b"\xff"]),
    (17, &[3], NUMBER),
    (18, &[3], LIMIT),
    (19, b"wss://a/", &[b"\xff"]),
    (20, &[7; 16], &[b"", &[7; 15], &[7; 17]]),
    (21, &[3], NUMBER),
];

fn hello(fields: &[(u8, &[u8])]) -> Result<Hello, Reason> {
    let payload = Bytes::from(block(fields));
    Hello::decode(&Bytes::new(), &payload).map_err(|violation| violation.reason)
}

#[test]
fn every_field_of_a_hello_is_refused_when_it_does_not_fit_or_comes_twice() {
    let versions: (u8, &[u8]) = (1, HELLO[0].1);
    assert_eq!(hello(&[versions]), Ok(Hello::default()), "all others absent");
    assert_eq!(hello(&[(2, &[30])]), Err(Reason::Malformed), "without versions");
    for (tag, good, bad) in HELLO {
        let with = |value| {
            if tag == 1 { hello(&[(tag, value)]) } else { hello(&[versions, (tag, value)]) }
        };
        assert!(with(good).is_ok(), "field {tag}");
        assert_eq!(hello(&[versions, (tag, good), (tag, good)]), Err(Reason::Malformed));
        for value in bad {
            assert_eq!(with(value), Err(Reason::Malformed), "field {tag}: {value:?}");
        }
    }
}

/// Hellos that are malformed, by name: each is one of `fields` beside good versions.
pub(crate) fn bad_hellos() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut put = |name: String, fields: &[(u8, &[u8])]| {
        let mut frame = Vec::new();
        let open = frame::open(&mut frame, Kind::Hello, 0, 0).deadline_ms(frame::MAGIC);
        frame.extend_from_slice(&block(fields));
        open.finish(&mut frame);
        all.push((name, frame));
    };
    put("no versions".to_owned(), &[(2, &[30])]);
    for (tag, good, bad) in HELLO {
        let versions: &[(u8, &[u8])] = if tag == 1 { &[] } else { &[(1, HELLO[0].1)] };
        put(format!("field {tag} twice"), &[versions, &[(tag, good), (tag, good)]].concat());
        for value in bad {
            let text: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            put(format!("field {tag}: {text:?}"), &[versions, &[(tag, value)]].concat());
        }
    }
    all
}

#[test]
fn a_hello_is_the_same_in_any_order() {
    let mut all: Vec<_> = HELLO.map(|(tag, good, _)| (tag, good)).into();
    let whole = hello(&all).unwrap();
    all.push((40, b"of the future"));
    for turn in 0..all.len() {
        all.rotate_left(turn);
        assert_eq!(hello(&all).as_ref(), Ok(&whole));
    }
}

fn put(session: &mut Session, kind: Kind, stream: u32, flags: u8, payload: &[u8]) {
    let mut out = Vec::new();
    frame::put(&mut out, kind, stream, flags, payload);
    session.input().extend_from_slice(&out);
}

#[test]
fn pieces_stay_with_their_stream_and_a_part_of_an_item_is_dropped_at_the_end() {
    let mut pair = Pair::new();
    let method = pair.method();
    for _ in 0..2 {
        pair.call(tidewire_live_proto::Request::command(method, &b""[..]).streaming());
    }
    pair.at_server.clear();
    put(&mut pair.server, Kind::Items, 1, flag::MORE, b"one, ");
    put(&mut pair.server, Kind::Items, 3, flag::MORE, b"three, ");
    put(&mut pair.server, Kind::Items, 1, 0, b"whole");
    put(&mut pair.server, Kind::Items, 1, 0, b"\x04item");
    put(&mut pair.server, Kind::End, 3, 0, b"");
    pair.run();
    let heard: Vec<_> = pair
        .at_server
        .iter()
        .map(|event| match event {
            Event::Piece { call, bytes, last } => (call.stream(), bytes.to_vec(), *last),
            Event::Items { call, items } => {
                (call.stream(), items.iter().next().unwrap().to_vec(), true)
            }
            Event::End { call, .. } => (call.stream(), Vec::new(), true),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: [(u32, &[u8], bool); 5] = [
        (1, b"one, ", false),
        (3, b"three, ", false),
        (1, b"whole", true),
        (1, b"item", true),
        (3, b"", true),
    ];
    assert_eq!(heard, expected.map(|(stream, bytes, last)| (stream, bytes.to_vec(), last)));
}

fn hosted() -> Pair {
    let config = || Config { features: feature::USUAL | feature::HOSTED, ..Config::default() };
    Pair::with(config(), config())
}

fn closed(events: &[Event]) -> Option<Reason> {
    events.iter().find_map(|event| match event {
        Event::Closed(violation) => Some(violation.reason),
        _ => None,
    })
}

#[test]
fn what_goes_in_parts_has_an_end_and_one_kind() {
    let mut pair = hosted();
    put(&mut pair.server, Kind::Descriptors, 0, flag::MORE, b"one, ");
    put(&mut pair.server, Kind::Ping, 0, 0, b"between");
    put(&mut pair.server, Kind::Descriptors, 0, 0, b"two");
    pair.run();
    let whole = pair.at_server.iter().find_map(|event| match event {
        Event::Descriptors(whole) => Some(whole.clone()),
        _ => None,
    });
    assert_eq!(whole.as_deref(), Some(&b"one, two"[..]), "a ping may come between");

    let mut pair = hosted();
    let part = vec![0; PAYLOAD_BYTES_MAX];
    let mut parts = 0;
    while closed(&pair.at_server).is_none() {
        parts += 1;
        put(&mut pair.server, Kind::Descriptors, 0, flag::MORE, &part);
        pair.run();
        assert!(parts < 400 && pair.server.usage().input_bytes <= 2 * PAYLOAD_BYTES_MAX);
    }
    assert_eq!(closed(&pair.at_server), Some(Reason::TooLarge), "no end");

    let mut pair = hosted();
    pair.server.connection_lost(0);
    pair.client.connection_lost(0);
    pair.client.connect(0);
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    let mut acceptor = tidewire_live_proto::Acceptor::new(Config::default(), 0);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    acceptor.resume(&mut pair.server, hello, 0);
    put(&mut pair.server, Kind::Resume, 0, flag::MORE, &[0]);
    put(&mut pair.server, Kind::Resumed, 0, 0, &[]);
    pair.at_server.clear();
    while let Some(event) = crate::heard::hear(&mut pair.server, 0) {
        pair.at_server.push(event);
    }
    assert_eq!(closed(&pair.at_server), Some(Reason::Malformed), "another kind");
}

#[test]
fn what_means_nothing_where_it_stands_is_ignored() {
    let mut pair = hosted();
    let method = pair.method();
    let call = pair.call(tidewire_live_proto::Request::command(method, &b""[..]).streaming());
    pair.at_server.clear();
    let mut wire = Vec::new();
    // Fields and flags of other kinds, payloads where none is named.
    for (kind, stream, flags) in [
        (Kind::Pong, 0, 0xff),
        (Kind::Ready, 0, 0xff),
        (Kind::End, call.stream(), 0xff),
        (Kind::Cancel, call.stream(), 0xff),
    ] {
        let frame = frame::open(&mut wire, kind, stream, flags).deadline_ms(9);
        wire.extend_from_slice(&block(&[(tag::OUTCOME, &[1]), (tag::STATUS, &[99])]));
        let frame = frame.metadata_ends(&wire);
        wire.extend_from_slice(b"nothing");
        frame.finish(&mut wire);
    }
    pair.server.input().extend_from_slice(&wire);
    pair.run();
    let heard = &pair.at_server[..];
    assert!(
        matches!(heard, [Event::Ready, Event::End { .. }, Event::Cancelled { .. }]),
        "{heard:?}"
    );
}

#[test]
fn a_code_of_the_future_is_unknown() {
    for (code, expected) in
        [(&[17][..], Code::Unknown), (&[0], Code::Unknown), (&[5], Code::NotFound)]
    {
        let mut pair = Pair::new();
        let method = pair.method();
        let call = pair.call(tidewire_live_proto::Request::query(method, &b""[..]));
        let mut wire = Vec::new();
        let frame = frame::open(&mut wire, Kind::Error, call.stream(), 0);
        wire.extend_from_slice(&block(&[(tag::CODE, code), (tag::OUTCOME, &[77])]));
        let frame = frame.metadata_ends(&wire);
        frame.finish(&mut wire);
        pair.client.input().extend_from_slice(&wire);
        pair.run();
        let Some(Event::Failed { error, .. }) = pair.at_client.pop() else { panic!("it failed") };
        assert_eq!((error.code(), error.outcome()), (expected, Outcome::Unknown));
    }
}

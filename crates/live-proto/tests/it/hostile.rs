//! Bad input: each rule that a peer can break ends the connection with the reason that names it.

use std::ops::RangeInclusive;

use tidewire_live_proto::frame::{self, Head, Kind, flag};
use tidewire_live_proto::metadata::{put_command, put_entry, put_number, tag};
use tidewire_live_proto::{
    Acceptor, CallRefusal, Config, Hello, Limits, OutgoingReply, Reason, Request, Session, feature,
    varint,
};
use tidewire_service::Codec;

use crate::heard::{Event, hear};
use crate::pair::{ID, Pair};

pub(crate) fn config() -> Config {
    let limits = Limits {
        body_max: 64 << 10,
        calls_max: 3,
        watches_max: 2,
        methods_max: 2,
        stream_credit: 100,
        connection_credit: 200,
        metadata_max: 300,
        replies_kept_max: 2,
    };
    Config { limits, ..Config::default() }
}

/// A server that has the hello of a peer offering everything.
fn server() -> Session {
    let mut acceptor = Acceptor::new(config(), 0);
    let hello = Hello { features: feature::USUAL, ..Hello::default() };
    let mut wire = Vec::new();
    hello.encode(&mut wire);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    acceptor.accept(hello, ID, 0)
}

/// A client that has a server's hello, and one open query on stream 1.
fn client() -> Session {
    let mut client = Session::dialer(config());
    client.connect(0);
    let mut wire = Vec::new();
    let hello = Hello {
        features: feature::USUAL,
        session: Some(ID.id),
        secret: Some(ID.secret),
        ..Hello::default()
    };
    hello.encode(&mut wire);
    client.input().extend_from_slice(&wire);
    while hear(&mut client, 0).is_some() {}
    let method = client.method("/a.B/C", Codec::Proto);
    client.call(Request::query(method, &b""[..]), 0).unwrap();
    client
}

pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// A name, what is sent after a good hello, and the reason that must follow.
pub(crate) type Case = (&'static str, Bytes, Reason);

impl Bytes {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn frame(mut self, kind: Kind, stream: u32, flags: u8, meta: &[u8], payload: &[u8]) -> Self {
        let frame = frame::open(&mut self.0, kind, stream, flags);
        self.0.extend_from_slice(meta);
        let frame = frame.metadata_ends(&self.0);
        self.0.extend_from_slice(payload);
        frame.finish(&mut self.0);
        self
    }

    fn request(self, stream: u32, flags: u8) -> Self {
        let number = u8::from(stream != 1);
        let meta = if stream == 1 { named(0) } else { vec![tag::METHOD, 1, 0] };
        let _ = number;
        self.frame(Kind::Request, stream, flags, &meta, &[])
    }
}

fn named(number: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    put_number(&mut meta, tag::METHOD, number);
    put_entry(&mut meta, tag::NAME, b"\0/a.B/C");
    meta
}

/// What the session says when it reads these bytes, and that it said it to the peer.
fn reason(mut session: Session, bytes: Bytes) -> Reason {
    session.input().extend_from_slice(&bytes.0);
    let mut seen = None;
    while let Some(event) = hear(&mut session, 0) {
        if let Event::Closed(violation) = event {
            assert!(seen.replace(violation).is_none(), "it ends once");
        }
    }
    let violation = seen.expect("the session ended");
    assert!(!violation.message.is_empty() && session.is_closed() && !session.is_connected());
    let mut out = Vec::new();
    session.poll_output(0, &mut out);
    let goaway = [&[tag::REASON, 1, violation.reason.number()][..]].concat();
    assert!(
        out.windows(goaway.len()).any(|window| window == goaway),
        "{violation} was not said: {out:?}"
    );
    violation.reason
}

#[allow(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn cases_at_a_server() -> Vec<Case> {
    let end = flag::END;
    let b = Bytes::new;
    let item = |len: usize| {
        let mut payload = Vec::new();
        varint::put_string(&mut payload, &vec![0; len]);
        payload
    };
    let items = |stream, len| b().request(1, 0).frame(Kind::Items, stream, 0, &[], &item(len));
    let command = |id| {
        let mut meta = named(0);
        put_command(&mut meta, id, 1);
        b().frame(Kind::Request, 1, end, &meta, &[])
    };
    let mut large = b();
    large.0.extend(
        Head { len: 65_537, stream: 1, kind: 3, flags: 0, meta_len: 0, deadline_ms: 0 }.encode(),
    );
    let mut meta_over = b();
    meta_over.0.extend(
        Head { len: 9, stream: 1, kind: 3, flags: 0, meta_len: 10, deadline_ms: 0 }.encode(),
    );
    meta_over.0.extend([0; 9]);
    let auth = |name| {
        let mut meta = vec![0, 1, name];
        varint::put_string(&mut meta, &[b'v'; 200]);
        b().frame(Kind::Auth, 0, 0, &meta, &[])
    };
    let mut double = named(0);
    double.extend_from_slice(&[tag::METHOD, 1, 0]);
    let hello = || {
        let mut out = Vec::new();
        Hello::default().encode(&mut out);
        Bytes(out)
    };
    let cases = [
        ("a frame over the limit", large, Reason::TooLarge),
        ("metadata longer than the frame", meta_over, Reason::Malformed),
        (
            "metadata over the limit",
            b().frame(Kind::Request, 1, end, &[0; 301], &[]),
            Reason::MetadataMax,
        ),
        (
            "default headers that grow over the limit",
            Bytes([auth(b'a').0, auth(b'b').0].concat()),
            Reason::MetadataMax,
        ),
        ("broken metadata", b().frame(Kind::Request, 1, end, &[1, 9], &[]), Reason::Malformed),
        ("a field twice", b().frame(Kind::Request, 1, end, &double, &[]), Reason::Malformed),
        ("no method", b().frame(Kind::Request, 1, end, &[], &[]), Reason::Malformed),
        (
            "an unknown method",
            b().frame(Kind::Request, 1, end, &[1, 1, 0], &[]),
            Reason::UnknownMethod,
        ),
        (
            "a method out of turn",
            b().frame(Kind::Request, 1, end, &named(1), &[]),
            Reason::MethodsMax,
        ),
        ("wrong parity", b().request(2, end), Reason::StreamNumber),
        ("a slot over the bound", b().request(11, end), Reason::StreamNumber),
        ("a stream twice", b().request(1, end).request(1, end), Reason::StreamInUse),
        (
            "a call too many",
            b().request(1, end).request(3, end).request(5, end).request(7, end),
            Reason::CallsMax,
        ),
        ("a request on stream 0", b().request(0, end), Reason::Malformed),
        (
            "a payload before items",
            b().frame(Kind::Request, 1, 0, &named(0), b"x"),
            Reason::Malformed,
        ),
        ("a reply to nothing", b().frame(Kind::Reply, 2, end, &[], &[]), Reason::UnknownStream),
        (
            "an error to nothing",
            b().frame(Kind::Error, 2, 0, &[8, 1, 5], &[]),
            Reason::UnknownStream,
        ),
        (
            "a reply on its own number",
            b().frame(Kind::Reply, 1, end, &[], &[]),
            Reason::StreamNumber,
        ),
        ("items to nothing", items(2, 1), Reason::UnknownStream),
        ("items on stream 0", b().frame(Kind::Items, 0, 0, &[], &item(1)), Reason::Malformed),
        (
            "items over stream credit",
            items(1, 150).frame(Kind::Items, 1, 0, &[], &[1, 0]),
            Reason::Credit,
        ),
        (
            "items over connection credit",
            b().request(1, 0)
                .request(3, 0)
                .request(5, 0)
                .frame(Kind::Items, 1, 0, &[], &item(150))
                .frame(Kind::Items, 3, 0, &[], &item(100))
                .frame(Kind::Items, 5, 0, &[], &item(1)),
            Reason::Credit,
        ),
        (
            "items that are none",
            b().request(1, 0).frame(Kind::Items, 1, 0, &[], &[9, 0]),
            Reason::Malformed,
        ),
        (
            "items without stream",
            b().request(1, end).frame(Kind::Items, 1, 0, &[], &[1, 0]),
            Reason::Unexpected,
        ),
        (
            "items after the end",
            b().request(1, 0).frame(Kind::End, 1, 0, &[], &[]).frame(
                Kind::Items,
                1,
                0,
                &[],
                &[1, 0],
            ),
            Reason::Unexpected,
        ),
        (
            "two ends",
            b().request(1, 0).frame(Kind::End, 1, 0, &[], &[]).frame(Kind::End, 1, 0, &[], &[]),
            Reason::Unexpected,
        ),
        ("credit for nothing", b().frame(Kind::Credit, 0, 0, &[], &[1]), Reason::Credit),
        (
            "stream credit for nothing",
            b().request(1, 0).frame(Kind::Credit, 1, 0, &[], &[1]),
            Reason::Credit,
        ),
        (
            "an end seen that was not sent",
            b().request(1, 0).frame(Kind::Credit, 1, flag::END, &[], &[0]),
            Reason::Unexpected,
        ),
        ("command id zero", command(0), Reason::CommandId),
        ("a command id far ahead", command(7), Reason::CommandId),
        ("a second hello", hello(), Reason::Unexpected),
        ("stale of nothing", b().frame(Kind::Stale, 0, 0, &[], &[2]), Reason::UnknownStream),
        ("stale of the wrong side", b().frame(Kind::Stale, 0, 0, &[], &[1]), Reason::Malformed),
        ("a list with repeats", b().frame(Kind::Cancel, 0, 0, &[], &[1, 0]), Reason::Malformed),
        ("resume out of place", b().frame(Kind::Resume, 0, 0, &[], &[0, 0]), Reason::Unexpected),
        ("resumed out of place", b().frame(Kind::Resumed, 0, 0, &[], &[]), Reason::Unexpected),
        (
            "a broken payload",
            b().frame(Kind::Request, 1, end | flag::ZSTD, &named(0), b"no"),
            Reason::Compression,
        ),
        (
            "HTTP without target",
            b().frame(Kind::Request, 1, end | flag::HTTP, &named(0), &[]),
            Reason::Malformed,
        ),
        ("a process that is not hosted", b().frame(Kind::Ready, 0, 0, &[], &[]), Reason::Feature),
        ("changes from anybody", b().frame(Kind::Changed, 0, 0, &[], &[]), Reason::Feature),
        ("descriptors from anybody", b().frame(Kind::Descriptors, 0, 0, &[], &[]), Reason::Feature),
        ("a key without the feature", with_field(tag::KEY, &[7; 17]), Reason::Feature),
        ("a key cut off", with_field(tag::KEY, &[7; 15]), Reason::Malformed),
        ("a parent without the feature", with_field(tag::PARENT, &[2]), Reason::Feature),
        ("a token too long", with_field(tag::TOKEN, &[7; 257]), Reason::Malformed),
        ("a command that runs, again", commands_twice(), Reason::CommandId),
        (
            "an empty piece",
            b().request(1, 0).frame(Kind::Items, 1, flag::MORE, &[], &[]),
            Reason::Malformed,
        ),
        (
            "items without an item",
            b().request(1, 0).frame(Kind::Items, 1, 0, &[], &[]),
            Reason::Malformed,
        ),
        ("an item without end", endless_item(), Reason::TooLarge),
        ("seen of the wrong side", b().frame(Kind::Seen, 0, 0, &[], &[2]), Reason::Malformed),
        (
            "a number over 53 bits",
            b().frame(Kind::Credit, 0, 0, &[], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]),
            Reason::Malformed,
        ),
        (
            "a method neither named nor numbered",
            b().frame(
                Kind::Request,
                1,
                end,
                &[tag::VALIDATOR, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &[],
            ),
            Reason::Malformed,
        ),
        ("a long ping", b().frame(Kind::Ping, 0, 0, &[], &[0; 65]), Reason::Malformed),
        ("a ping on a call", b().frame(Kind::Ping, 1, 0, &[], &[]), Reason::Malformed),
    ];
    cases.into()
}

/// A request with one more field.
fn with_field(tag: u8, value: &[u8]) -> Bytes {
    let mut meta = named(0);
    put_entry(&mut meta, tag, value);
    Bytes::new().frame(Kind::Request, 1, flag::END, &meta, &[])
}

fn commands_twice() -> Bytes {
    let mut meta = named(0);
    put_command(&mut meta, 1, 1);
    let bytes = Bytes::new().frame(Kind::Request, 1, flag::END, &meta, &[]);
    let mut meta = vec![tag::METHOD, 1, 0];
    put_command(&mut meta, 1, 1);
    bytes.frame(Kind::Request, 3, flag::END, &meta, &[])
}

/// Pieces on a stream of which the callee takes nothing: on a free slot they are ignored, so the
/// credit comes back for ever, but on an open one they end at its largest body.
fn endless_item() -> Bytes {
    let bytes = Bytes::new().request(1, 0).frame(Kind::Items, 1, flag::MORE, &[], &[1; 1]);
    bytes.frame(Kind::Items, 1, flag::MORE, &[], &vec![1; 65_536])
}

#[test]
fn what_breaks_a_rule_at_a_server_ends_the_connection_with_its_name() {
    for (name, bytes, expected) in cases_at_a_server() {
        assert_eq!(reason(server(), bytes), expected, "{name}");
    }
}

pub(crate) fn cases_at_a_client() -> Vec<Case> {
    let b = Bytes::new;
    let validator = [&[tag::VALIDATOR, 16][..], &[7; 16]].concat();
    let cases = [
        (
            "a watch that was not requested",
            b().frame(Kind::Reply, 1, flag::WATCHED, &validator, &[]),
            Reason::Unexpected,
        ),
        (
            "END and WATCHED",
            b().frame(Kind::Reply, 1, flag::WATCHED | flag::END, &validator, &[]),
            Reason::Malformed,
        ),
        (
            "unchanged from what",
            b().frame(Kind::Reply, 1, flag::UNCHANGED | flag::END, &validator, &[]),
            Reason::Malformed,
        ),
        (
            "two heads",
            b().frame(Kind::Reply, 1, 0, &[], &[]).frame(Kind::Reply, 1, 0, &[], &[]),
            Reason::Unexpected,
        ),
        (
            "two replies",
            b().frame(Kind::Reply, 1, flag::END, &[], &[]).frame(
                Kind::Reply,
                1,
                flag::END,
                &[],
                &[],
            ),
            Reason::UnknownStream,
        ),
        ("a head with payload", b().frame(Kind::Reply, 1, 0, &[], b"x"), Reason::Malformed),
        ("items before the head", b().frame(Kind::Items, 1, 0, &[], &[1, 0]), Reason::Unexpected),
        ("an end before the head", b().frame(Kind::End, 1, 0, &[], &[]), Reason::Unexpected),
        (
            "an answer that read a source, from anybody",
            b().frame(Kind::Reply, 1, flag::END, &[tag::DEPENDS, 2, 0, 0], &[]),
            Reason::Feature,
        ),
        (
            "an error watched that nobody asked for",
            b().frame(Kind::Error, 1, flag::WATCHED, &[&validator[..], &[8, 1, 5]].concat(), &[]),
            Reason::Unexpected,
        ),
        ("an error without code", b().frame(Kind::Error, 1, 0, &[], &[]), Reason::Malformed),
        (
            "stale that is not a watch",
            b().frame(Kind::Stale, 0, 0, &[], &[1]),
            Reason::UnknownStream,
        ),
        ("a stop on a free slot", b().frame(Kind::Cancel, 3, 0, &[], &[]), Reason::UnknownStream),
    ];
    cases.into()
}

#[test]
fn what_breaks_a_rule_at_a_client_ends_the_connection_with_its_name() {
    for (name, bytes, expected) in cases_at_a_client() {
        assert_eq!(reason(client(), bytes), expected, "{name}");
    }
}

#[test]
fn a_feature_that_is_not_in_force_may_not_be_used() {
    for (flags, features) in [
        (flag::ZSTD, feature::USUAL & !feature::ZSTD),
        (flag::HTTP, feature::USUAL & !feature::HTTP),
    ] {
        let mut acceptor = Acceptor::new(config(), 0);
        let mut wire = Vec::new();
        Hello { features, ..Hello::default() }.encode(&mut wire);
        acceptor.input().extend_from_slice(&wire);
        let hello = acceptor.poll(0).unwrap().unwrap();
        let session = acceptor.accept(hello, ID, 0);
        let bytes = Bytes::new().frame(Kind::Request, 1, flags | flag::END, &named(0), b"x");
        assert_eq!(reason(session, bytes), Reason::Feature);
    }
}

#[test]
fn a_bad_hello_is_refused_with_its_reason() {
    let mut good = Vec::new();
    Hello::default().encode(&mut good);
    let mut wrong_magic = good.clone();
    wrong_magic[12] = b'X';
    let encode = |hello: Hello| {
        let mut out = Vec::new();
        hello.encode(&mut out);
        out
    };
    let mut huge = good.clone();
    huge[..4].copy_from_slice(&2_000_000u32.to_le_bytes());
    let cases = [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), Reason::Magic),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Reason::Magic),
        (wrong_magic, Reason::Magic),
        (huge, Reason::TooLarge),
        (encode(Hello { versions: 2..=9, ..Hello::default() }), Reason::Version),
        (
            encode(Hello { versions: RangeInclusive::new(3, 1), ..Hello::default() }),
            Reason::Version,
        ),
        (encode(Hello { required: 1 << 40, ..Hello::default() }), Reason::Feature),
    ];
    for (bytes, expected) in cases {
        let mut acceptor = Acceptor::new(config(), 0);
        acceptor.input().extend_from_slice(&bytes);
        let violation = acceptor.poll(0).unwrap_err();
        assert_eq!(violation.reason, expected, "{violation}");
        let refusal = Acceptor::refuse(&violation);
        let mut dialer = Session::dialer(Config::default());
        dialer.connect(0);
        dialer.input().extend_from_slice(&refusal);
        assert!(matches!(hear(&mut dialer, 0), Some(Event::Closed(heard))
            if heard.reason == expected));
    }
    let mut acceptor = Acceptor::new(Config { required: feature::HTTP, ..config() }, 0);
    acceptor.input().extend_from_slice(&good);
    assert_eq!(acceptor.poll(0).unwrap_err().reason, Reason::Feature);
    let mut silent = Acceptor::new(config(), 0);
    assert!(silent.poll(9_999_999).unwrap().is_none());
    assert_eq!(silent.poll(10_000_000).unwrap_err().reason, Reason::HandshakeTimeout);
}

#[test]
fn kinds_flags_and_fields_of_the_future_are_skipped() {
    let mut session = server();
    let mut meta = named(0);
    put_entry(&mut meta, 50, b"future");
    put_entry(&mut meta, 250, b"future");
    let mut bytes = Bytes::new().frame(Kind::Pong, 0, 0xff, &[], b"future").0;
    let unknown = Head { len: 3, stream: 9, kind: 77, flags: 255, meta_len: 1, deadline_ms: 9 };
    bytes.extend(unknown.encode());
    bytes.extend([1, 2, 3]);
    bytes.extend(Bytes::new().frame(Kind::Request, 1, flag::END | 0xc8, &meta, b"x").0);
    session.input().extend_from_slice(&bytes);
    let events: Vec<_> = std::iter::from_fn(|| hear(&mut session, 0)).collect();
    assert!(matches!(&events[..], [Event::Connected { .. }, Event::Request(_)]));
}

#[test]
fn callers_frames_on_a_number_over_the_bound_end_the_connection() {
    let frames = [
        Bytes::new().frame(Kind::Items, 11, 0, &[], &[1, 0]),
        Bytes::new().frame(Kind::End, 11, 0, &[], &[]),
        Bytes::new().frame(Kind::Credit, 11, 0, &[], &[1]),
        Bytes::new().frame(Kind::Cancel, 11, 0, &[], &[]),
    ];
    for frame in frames {
        assert_eq!(reason(server(), frame), Reason::StreamNumber);
    }
}

#[test]
fn callers_frames_on_a_free_slot_are_ignored_and_their_credit_returned() {
    let mut session = server();
    let mut bytes = Bytes::new();
    for _ in 0..100 {
        bytes = bytes.frame(Kind::Items, 3, 0, &[], &[&[49][..], &[0; 49]].concat());
        bytes = bytes.frame(Kind::Cancel, 3, 0, &[], &[]).frame(Kind::End, 3, 0, &[], &[]);
        bytes = bytes.frame(Kind::Credit, 3, 0, &[], &[9]);
    }
    session.input().extend_from_slice(&bytes.0);
    while hear(&mut session, 0).is_some() {}
    assert!(session.is_connected());
    assert_eq!(session.usage().received_bytes, 0);
}

#[test]
fn a_peer_that_opens_calls_and_never_reads_does_not_grow_memory() {
    let features = feature::USUAL & !feature::ZSTD;
    let config =
        Config { features, output_soft_max: 10_000, output_hard_max: 50_000, ..Config::default() };
    let mut pair = Pair::with(Config::default(), config);
    let method = pair.method();
    let mut opened = 0;
    let mut most = 0;
    for round in 0..2000u64 {
        // The peer frees its slots as if it had read, so that it never runs out of them.
        if pair.client.call(Request::query(method, vec![1; 100]), 0).is_ok() {
            opened += 1;
        }
        let mut wire = Vec::new();
        pair.client.poll_output(round, &mut wire);
        if pair.server.wants_read() {
            pair.server.input().extend_from_slice(&wire);
        }
        while let Some(event) = hear(&mut pair.server, round) {
            if let Event::Request(incoming) = event {
                pair.server.reply(incoming.call, OutgoingReply::new(&[2; 5_000]));
            }
        }
        most = most.max(pair.server.usage().output_bytes);
    }
    assert!(opened > 1000, "{opened}");
    assert!(most < 20_000, "answers stopped at the soft limit: {most}");
    assert!(!pair.server.wants_read());
}

#[test]
fn answers_over_the_hard_limit_become_errors() {
    let features = feature::USUAL & !feature::ZSTD;
    let config = Config {
        features,
        output_soft_max: usize::MAX,
        output_hard_max: 50_000,
        ..Config::default()
    };
    let mut pair = Pair::with(Config::default(), config);
    let method = pair.method();
    for _ in 0..100 {
        pair.client.call(Request::query(method, &b""[..]), 0).unwrap();
    }
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    pair.server.input().extend_from_slice(&wire);
    while let Some(event) = hear(&mut pair.server, 0) {
        if let Event::Request(incoming) = event {
            pair.server.reply(incoming.call, OutgoingReply::new(&[2; 5_000]));
        }
    }
    assert!(pair.server.usage().output_bytes < 70_000);
    pair.run();
    let failed = pair
        .at_client
        .iter()
        .filter(|event| {
            matches!(event, Event::Failed { error, .. }
        if error.message().contains("output_hard_max"))
        })
        .count();
    assert!(failed > 80, "{failed}");
}

#[test]
fn a_peer_that_pings_and_never_reads_gets_one_pong() {
    let mut session = server();
    let mut bytes = Bytes::new();
    for _ in 0..1000 {
        bytes = bytes.frame(Kind::Ping, 0, 0, &[], b"x");
    }
    session.input().extend_from_slice(&bytes.0);
    let before = session.usage().output_bytes;
    while hear(&mut session, 0).is_some() {}
    assert_eq!(session.usage().output_bytes, before + 17);
}

#[test]
fn commands_that_nobody_waits_for_count_until_they_have_run() {
    let mut pair = Pair::with(Config::default(), config());
    let method = pair.method();
    for _ in 0..3 {
        let call = pair.call(Request::command(method, &b""[..]));
        pair.client.cancel(call);
        pair.run();
    }
    let refused = pair.client.call(Request::command(method, &b""[..]), 0);
    assert_eq!(refused, Err(CallRefusal::Full { calls_max: 3 }), "a good caller waits");
    // A bad one forgets its calls, with a connection.
    let mut session = server();
    session.input().extend_from_slice(&commands(0..3).0);
    while hear(&mut session, 0).is_some() {}
    session.connection_lost(0);
    let mut acceptor = Acceptor::new(config(), 0);
    let mut wire = Vec::new();
    Hello { features: feature::USUAL, ..Hello::default() }.encode(&mut wire);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    acceptor.resume(&mut session, hello, 0);
    let forgets = Bytes::new().frame(Kind::Resume, 0, 0, &[], &[0, 3, 0]);
    session.input().extend_from_slice(&forgets.0);
    while hear(&mut session, 0).is_some() {}
    assert_eq!(session.usage().orphans, 3);
    session.poll_output(0, &mut Vec::new());
    session.input().extend_from_slice(&commands(3..4).0);
    while let Some(event) = hear(&mut session, 0) {
        assert!(!matches!(event, Event::Request(_)), "a fourth would run");
    }
    let mut out = Vec::new();
    session.poll_output(0, &mut out);
    let not_run = [tag::OUTCOME, 1, 1];
    assert!(out.windows(3).any(|window| window == not_run));
}

/// Commands with ids from 1, on a stream each.
fn commands(range: std::ops::Range<u32>) -> Bytes {
    let first = range.start;
    range.fold(Bytes::new(), |bytes, index| {
        let mut meta = if index == first { named(0) } else { vec![tag::METHOD, 1, 0] };
        put_command(&mut meta, u64::from(index) + 1, 1);
        bytes.frame(Kind::Request, index % 3 * 2 + 1, flag::END, &meta, &[])
    })
}

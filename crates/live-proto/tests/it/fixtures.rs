//! The golden bytes in `tests/fixtures/live/`: they are what this implementation writes and reads.
//!
//! `LIVE_FIXTURES=write cargo test -p tidewire-live-proto fixtures` writes them anew; within a
//! version they are only ever added to.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidewire_live_proto::frame::{self, HEAD_BYTES, Head, Kind, MAGIC, flag};
use tidewire_live_proto::metadata::{self, entries, put_command, put_entry, put_number, tag};
use tidewire_live_proto::{CommandOrigin, Hello, Limits, Metadata, Reason, feature, varint};
use tidewire_service::Code;

use crate::{bad_fields, hostile};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/live")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares with the file, or writes it.
pub(crate) fn check(name: &str, content: &Value) {
    let path = folder().join(name);
    let mut text = serde_json::to_string_pretty(content).unwrap();
    text.push('\n');
    if std::env::var("LIVE_FIXTURES").as_deref() == Ok("write") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(golden == text, "{} differs; a change of bytes is a new version", path.display());
}

/// A payload in hex; a long one by its length only.
fn shown(payload: &[u8]) -> String {
    if payload.len() > 256 { format!("{} bytes", payload.len()) } else { hex(payload) }
}

/// Describes whole frames as the specification's section 1 decodes them.
pub(crate) fn describe(mut bytes: &[u8]) -> Vec<Value> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let head = Head::decode(head);
        let (body, rest) = rest.split_at(head.len as usize);
        bytes = rest;
        let (meta, payload) = body.split_at(head.meta_len.into());
        let entries: Vec<Value> = entries(meta)
            .map(|entry| {
                let entry = entry.unwrap();
                let name = std::str::from_utf8(entry.name).unwrap();
                json!({ "tag": entry.tag, "name": name, "value": hex(entry.value) })
            })
            .collect();
        let kind = Kind::from_number(head.kind).map_or("unknown", Kind::as_str);
        frames.push(json!({
            "kind": kind, "number": head.kind, "stream": head.stream, "flags": head.flags,
            "deadline_ms": head.deadline_ms, "metadata": entries, "payload": shown(payload),
        }));
    }
    assert!(bytes.is_empty(), "whole frames");
    frames
}

struct Frames(Vec<Value>);

impl Frames {
    fn add(&mut self, name: &str, head: (Kind, u32, u8, u32), meta: &[u8], payload: &[u8]) {
        let (kind, stream, flags, deadline_ms) = head;
        let mut out = Vec::new();
        let frame = frame::open(&mut out, kind, stream, flags).deadline_ms(deadline_ms);
        out.extend_from_slice(meta);
        let frame = frame.metadata_ends(&out);
        out.extend_from_slice(payload);
        frame.finish(&mut out);
        self.raw(name, &out);
    }

    fn raw(&mut self, name: &str, bytes: &[u8]) {
        let frame = describe(bytes).remove(0);
        self.0.push(json!({ "name": name, "hex": hex(bytes), "frame": frame }));
    }
}

fn meta(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    build(&mut out);
    out
}

fn numbers(list: &[u32]) -> Vec<u8> {
    meta(|out| varint::put_numbers(out, list))
}

fn hellos(frames: &mut Frames) {
    let mut put = |name: &str, hello: Hello| {
        let mut out = Vec::new();
        hello.encode(&mut out);
        frames.raw(name, &out);
    };
    put("hello with defaults", Hello::default());
    let limits = Limits {
        body_max: 1 << 20,
        calls_max: 100,
        watches_max: 100_000,
        methods_max: 50,
        stream_credit: 1000,
        connection_credit: 5000,
        metadata_max: 8000,
        replies_kept_max: 64,
    };
    let full = Hello {
        features: feature::USUAL,
        required: feature::WATCH,
        limits,
        boot: Some([0xb0; 16]),
        session: Some([0x5e; 16]),
        secret: Some([0x5c; 32]),
        resumed: true,
        retain_ms: 120_000,
        agent: "example/1".to_owned(),
        keys_ms: 3_600_000,
        home: "wss://b.example/tidewire/live".to_owned(),
        schema: Some([0x5a; 16]),
        expires_ms: 900_000,
        metadata: Metadata::builder().header("authorization", "Bearer x").build(),
        ..Hello::default()
    };
    put("hello with every field", full);
}

fn requests(frames: &mut Frames) {
    let first = meta(|out| {
        put_number(out, tag::METHOD, 0);
        put_entry(out, tag::NAME, b"\0/hello.v1.Greeter/SayHello");
    });
    let later = meta(|out| put_number(out, tag::METHOD, 0));
    let json = meta(|out| {
        put_number(out, tag::METHOD, 1);
        put_entry(out, tag::NAME, b"\x01/hello.v1.Greeter/SayHello");
    });
    let command = meta(|out| {
        put_number(out, tag::METHOD, 300);
        put_command(out, 1000, 999);
    });
    let validator = meta(|out| {
        put_number(out, tag::METHOD, 0);
        put_entry(out, tag::VALIDATOR, &[0xab; 16]);
        put_entry(out, tag::TOKEN, b"token");
        metadata::put_header(out, "x-own", b"\xff\x80");
        metadata::put_header(out, "cookie", b"a=1");
        metadata::put_header(out, "cookie", b"b=2");
    });
    let http = meta(|out| {
        put_entry(out, tag::HTTP_METHOD, b"POST");
        put_entry(out, tag::TARGET, b"/a/b?c=d");
        metadata::put_header(out, "host", b"shop.example");
    });
    let end = flag::END;
    frames.add("request that names its method", (Kind::Request, 1, end, 0), &first, b"Ada");
    frames.add("request with deadline", (Kind::Request, 3, end, 1500), &later, b"Ada");
    frames.add("request in JSON", (Kind::Request, 5, end, 0), &json, b"{\"name\":\"Ada\"}");
    frames.add("request of a command", (Kind::Request, 7, end, 0), &command, b"x");
    let flags = end | flag::NOTIFY;
    frames.add("request to be notified", (Kind::Request, 9, flags, 0), &validator, b"k");
    let flags = end | flag::VALUES;
    frames.add("request for values", (Kind::Request, 11, flags, 0), &later, b"k");
    frames.add("request before items", (Kind::Request, 13, 0, 0), &later, b"");
    let unnumbered = meta(|out| put_entry(out, tag::NAME, b"\0/hello.v1.Greeter/SayHello"));
    frames.add("request without a number", (Kind::Request, 17, end, 0), &unnumbered, b"Ada");
    let again = meta(|out| {
        put_number(out, tag::METHOD, 0);
        put_command(out, 1, 1);
        metadata::put_key(out, &CommandOrigin { session: [0x5e; 16], id: 300 });
    });
    frames.add("request of a command sent before", (Kind::Request, 19, end, 0), &again, b"x");
    let back = meta(|out| {
        put_number(out, tag::METHOD, 0);
        put_number(out, tag::PARENT, 7);
    });
    frames.add("request within a call", (Kind::Request, 4, end, 0), &back, b"x");
    let flags = end | flag::HTTP;
    frames.add("request over HTTP", (Kind::Request, 2, flags, 0), &http, b"body");
    let stored = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x29, 0, 0][..], b"hello"].concat();
    let flags = end | flag::ZSTD;
    frames.add("request compressed", (Kind::Request, 15, flags, 0), &later, &stored);
}

fn replies(frames: &mut Frames) {
    let plain = meta(|out| {
        put_entry(out, tag::VALIDATOR, &[0xcd; 16]);
        put_number(out, tag::MAX_AGE, varint::MAX);
        put_entry(out, tag::TOKEN, b"token");
    });
    let rich = meta(|out| {
        put_number(out, tag::STATUS, 201);
        metadata::put_header(out, "set-cookie", b"a=1");
        metadata::put_header(out, "set-cookie", b"b=2");
        put_entry(out, tag::DEPENDS, b"\x08contacts\x017");
        put_entry(out, tag::TRAILERS, b"");
        metadata::put_header(out, "x-sum", b"9");
    });
    frames.add("reply", (Kind::Reply, 1, flag::END, 0), &[], b"Hello, Ada");
    let flags = flag::END | flag::HTTP;
    frames.add("reply over HTTP", (Kind::Reply, 2, flags, 0), &rich, b"made");
    frames.add("reply watched", (Kind::Reply, 9, flag::WATCHED, 0), &plain, b"v");
    let flags = flag::WATCHED | flag::UNCHANGED;
    frames.add("reply watched, unchanged", (Kind::Reply, 11, flags, 0), &plain, b"");
    let flags = flag::END | flag::UNCHANGED;
    frames.add("reply unchanged", (Kind::Reply, 3, flags, 0), &plain, b"");
    let flags = flag::WATCHED | flag::SUSPECT;
    frames.add("reply watched, stale already", (Kind::Reply, 9, flags, 0), &plain, b"v");
    let flags = flag::WATCHED | flag::MORE;
    frames.add("reply watched, too large", (Kind::Reply, 9, flags, 0), &plain, b"");
    frames.add("reply before items", (Kind::Reply, 5, 0, 0), &[], b"");
    let watched = meta(|out| {
        put_entry(out, tag::VALIDATOR, &[0xee; 16]);
        put_number(out, tag::CODE, 5);
        put_entry(out, tag::MESSAGE, b"nobody");
    });
    frames.add("error watched", (Kind::Error, 9, flag::WATCHED, 0), &watched, b"");
    for code in Code::ALL {
        let error = meta(|out| {
            put_number(out, tag::CODE, code.number().into());
            put_entry(out, tag::MESSAGE, code.as_str().as_bytes());
        });
        frames.add(&format!("error {code}"), (Kind::Error, 1, 0, 0), &error, b"");
    }
    let detailed = meta(|out| {
        put_number(out, tag::CODE, 14);
        put_entry(out, tag::DETAIL, b"\x14google.rpc.RetryInfo\x0a\x00");
        put_number(out, tag::OUTCOME, 1);
    });
    frames.add("error with detail, not run", (Kind::Error, 1, 0, 0), &detailed, b"");
}

fn others(frames: &mut Frames) {
    let header = meta(|out| metadata::put_header(out, "authorization", b"Bearer y"));
    let trailer = meta(|out| metadata::put_header(out, "x-count", b"3"));
    let log = meta(|out| {
        put_number(out, tag::LEVEL, 4);
        metadata::put_header(out, "job", b"7");
    });
    frames.add("auth", (Kind::Auth, 0, 0, 0), &header, b"");
    frames.add("items", (Kind::Items, 5, 0, 0), &[], b"\x01a\x00\x03bcd");
    frames.add("items, a piece", (Kind::Items, 5, flag::MORE, 0), &[], b"begin");
    frames.add("end of a request", (Kind::End, 13, 0, 0), &[], b"");
    frames.add("end of a reply", (Kind::End, 5, 0, 0), &trailer, b"");
    frames.add("cancel", (Kind::Cancel, 1, 0, 0), &[], b"");
    frames.add("cancel of watches", (Kind::Cancel, 0, 0, 0), &[], &numbers(&[1, 3, 300]));
    frames.add("credit of the connection", (Kind::Credit, 0, 0, 0), &[], &[0x80, 0x80, 4]);
    frames.add("credit of a stream", (Kind::Credit, 5, 0, 0), &[], &[0xac, 2]);
    frames.add("credit that ends", (Kind::Credit, 5, flag::END, 0), &[], &[0]);
    frames.add("ping", (Kind::Ping, 0, 0, 0), &[], b"12345678");
    frames.add("pong", (Kind::Pong, 0, 0, 0), &[], b"12345678");
    for reason in Reason::ALL {
        let grace = if *reason == Reason::Drain { 30_000 } else { 0 };
        let goaway = meta(|out| {
            put_entry(out, tag::MESSAGE, reason.as_str().as_bytes());
            put_number(out, tag::REASON, reason.number().into());
            if *reason == Reason::Drain {
                put_number(out, tag::AFTER, 2000);
            }
        });
        frames.add(&format!("goaway {reason}"), (Kind::Goaway, 0, 0, grace), &goaway, b"");
    }
    frames.add("stale", (Kind::Stale, 0, 0, 0), &[], &numbers(&[9, 11, 1_000_001]));
    frames.add("stale, kept", (Kind::Stale, 0, flag::KEEP, 0), &[], &numbers(&[11]));
    let resume = [&[5, 7, 3, 1, 0, 4, 2, 1][..], &[0xcd; 16], &[2, 2, 6, 1, 100, 50]].concat();
    frames.add("resume", (Kind::Resume, 0, 0, 0), &[], &resume);
    frames.add("resumed", (Kind::Resumed, 0, 0, 0), &[], &[0b101, 2, 30, 20]);
    frames.add("seen", (Kind::Seen, 0, 0, 0), &[], &numbers(&[9, 11]));
    let expires = meta(|out| put_number(out, tag::EXPIRES, 900_000));
    frames.add("auth, accepted", (Kind::Auth, 0, 0, 0), &expires, b"");
    frames.add("descriptors", (Kind::Descriptors, 0, 0, 0), &[], b"\x0a\x00");
    frames.add("ready", (Kind::Ready, 0, 0, 0), &[], b"");
    frames.add("busy", (Kind::Busy, 0, 0, 0), &[], &[2]);
    frames.add("log", (Kind::Log, 0, 0, 0), &log, b"careful");
    frames.add("changed", (Kind::Changed, 0, 0, 0), &[], b"\x08contacts\x017\x05lists\x00");
}

#[test]
fn every_kind_flag_and_error_has_its_golden_bytes() {
    let mut frames = Frames(Vec::new());
    hellos(&mut frames);
    requests(&mut frames);
    replies(&mut frames);
    others(&mut frames);
    for kind in Kind::ALL {
        assert!(
            frames.0.iter().any(|frame| frame["frame"]["kind"] == kind.as_str()),
            "no fixture of {kind:?}"
        );
    }
    check("frames.json", &Value::Array(frames.0));
}

#[test]
fn every_broken_rule_has_its_golden_bytes() {
    let list = |cases: Vec<hostile::Case>| -> Vec<Value> {
        let case = |(name, bytes, reason): hostile::Case| json!({ "name": name, "hex": hex(&bytes.0), "reason": reason.as_str(), "number": reason.number() });
        cases.into_iter().map(case).collect()
    };
    let limits = hostile::config().limits;
    let content = json!({
        "about": "What a peer that offers all features sends after a good hello, and the reason of the goaway that must follow. The limits are those of the reader. At a dialer one query (method 0, no watch, no validator) is open on stream 1. `hellos` come in place of the good one. They are refused by an acceptor and by a dialer. In force is what the reader offers too: ZSTD, HTTP, WATCH and RESUME.",
        "limits": {
            "body_max": limits.body_max, "calls_max": limits.calls_max,
            "watches_max": limits.watches_max, "methods_max": limits.methods_max,
            "stream_credit": limits.stream_credit, "connection_credit": limits.connection_credit,
            "metadata_max": limits.metadata_max, "replies_kept_max": limits.replies_kept_max,
        },
        "at_acceptor": list(hostile::cases_at_a_server()),
        "at_dialer": list(hostile::cases_at_a_client()),
        "hellos": bad_fields::bad_hellos().into_iter().map(|(name, bytes)| json!({ "name": name, "hex": hex(&bytes), "reason": "malformed" })).collect::<Vec<_>>(),
    });
    check("errors.json", &content);
}

/// The worked example of the specification is exactly the start of the conversation.
pub(crate) fn check_example(bytes: &[u8]) {
    if std::env::var("LIVE_FIXTURES").as_deref() == Ok("write") {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/live-protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("<!-- example -->").unwrap();
    let (block, _) = rest.split_once("<!-- /example -->").unwrap();
    let digits: String = block
        .lines()
        .filter_map(|line| line.split_once('|'))
        .flat_map(|(hex, _)| hex.chars())
        .filter(char::is_ascii_hexdigit)
        .collect();
    assert_eq!(digits, hex(bytes), "docs/live-protocol.md, section 11");
    assert_eq!(MAGIC.to_le_bytes(), *b"TWLV");
}

//! The golden bytes in `tests/fixtures/live/`: they are what this implementation writes and reads.
//!
//! `LIVE_FIXTURES=write cargo test -p tidewire-live fixtures` writes them anew; within a version they
//! are only ever added to.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidewire_live::frame::{self, HEAD_BYTES, Head, Kind, MAGIC, flag};
use tidewire_live::metadata::{self, entries, put_command, put_entry, put_number, tag};
use tidewire_live::{
    CallId, Config, Hello, Limits, Metadata, Push, Reason, Refresh, Reply, Request, Session, Watch,
    feature, varint,
};
use tidewire_service::{Code, Codec, Detail, Error};

use crate::freshness::{named, value};
use crate::heard::{Event, hear};
use crate::hostile;
use crate::pair::{ID, Pair};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/live")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares with the file, or writes it.
fn check(name: &str, content: &Value) {
    let path = folder().join(name);
    let mut text = serde_json::to_string_pretty(content).unwrap();
    text.push('\n');
    if std::env::var("LIVE_FIXTURES").as_deref() == Ok("write") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(golden, text, "{} differs; a change of bytes is a new version", path.display());
}

/// Describes whole frames as the specification's section 1 decodes them.
fn describe(mut bytes: &[u8]) -> Vec<Value> {
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
            "deadline_ms": head.deadline_ms, "metadata": entries, "payload": hex(payload),
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
        frame_max: 1 << 20,
        calls_max: 100,
        watches_max: 100_000,
        methods_max: 50,
        stream_credit: 1000,
        connection_credit: 5000,
        metadata_max: 8000,
        commands_max: 64,
    };
    let full = Hello {
        features: feature::ALL,
        required: feature::WATCH,
        limits,
        boot: Some([0xb0; 16]),
        session: Some([0x5e; 16]),
        secret: Some([0x5c; 32]),
        resumed: true,
        retain_ms: 120_000,
        agent: "example/1".to_owned(),
        descriptors: (&b"\x0a\x00"[..]).into(),
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
    let flags = end | flag::HTTP;
    frames.add("request over HTTP", (Kind::Request, 2, flags, 0), &http, b"body");
    let stored = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x29, 0, 0][..], b"hello"].concat();
    let flags = end | flag::ZSTD;
    frames.add("request compressed", (Kind::Request, 15, flags, 0), &later, &stored);
}

fn replies(frames: &mut Frames) {
    let plain = meta(|out| {
        put_entry(out, tag::VALIDATOR, &[0xcd; 16]);
        put_number(out, tag::MAX_AGE, u64::MAX);
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
    frames.add("reply before items", (Kind::Reply, 5, 0, 0), &[], b"");
    for code in Code::ALL {
        let error = meta(|out| {
            put_number(out, tag::CODE, code.number().into());
            put_entry(out, tag::MESSAGE, code.as_str().as_bytes());
        });
        frames.add(&format!("error {code}"), (Kind::Error, 1, 0, 0), &error, b"");
    }
    let detailed = meta(|out| {
        put_number(out, tag::CODE, 14);
        put_entry(out, tag::UNPROCESSED, b"");
        put_entry(out, tag::DETAIL, b"\x14google.rpc.RetryInfo\x0a\x00");
    });
    frames.add("error with detail, unprocessed", (Kind::Error, 1, 0, 0), &detailed, b"");
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
            put_number(out, tag::REASON, reason.number().into());
            put_entry(out, tag::MESSAGE, reason.as_str().as_bytes());
        });
        frames.add(&format!("goaway {reason}"), (Kind::Goaway, 0, 0, grace), &goaway, b"");
    }
    frames.add("stale", (Kind::Stale, 0, 0, 0), &[], &numbers(&[9, 11, 1_000_001]));
    frames.add("stale, kept", (Kind::Stale, 0, flag::KEEP, 0), &[], &numbers(&[11]));
    let resume = [&[5, 7, 3, 1, 0, 4, 2, 1][..], &[0xcd; 16], &[2, 2, 6, 1, 100, 50]].concat();
    frames.add("resume", (Kind::Resume, 0, 0, 0), &[], &resume);
    frames.add("resumed", (Kind::Resumed, 0, 0, 0), &[], &[0b101, 2, 30, 20]);
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
        "about": "What a peer that offers all features sends after a good hello, and the reason of the goaway that must follow. The limits are those of the reader. At a dialer one query (method 0, no watch, no validator) is open on stream 1.",
        "limits": {
            "frame_max": limits.frame_max, "calls_max": limits.calls_max,
            "watches_max": limits.watches_max, "methods_max": limits.methods_max,
            "stream_credit": limits.stream_credit, "connection_credit": limits.connection_credit,
            "metadata_max": limits.metadata_max, "commands_max": limits.commands_max,
        },
        "at_acceptor": list(hostile::cases_at_a_server()),
        "at_dialer": list(hostile::cases_at_a_client()),
    });
    check("errors.json", &content);
}

/// A conversation as it was written: who, and which bytes.
struct Recorder {
    pair: Pair,
    steps: Vec<Value>,
    example: Vec<u8>,
}

impl Recorder {
    fn new() -> Self {
        let config = || Config {
            features: feature::ALL & !feature::ZSTD,
            agent: "example/1".to_owned(),
            boot: Some([0xb0; 16]),
            ..Config::default()
        };
        let client = Session::dialer(config());
        let server = Session::dialer(config());
        let pair = Pair { client, server, now: 0, at_client: vec![], at_server: vec![] };
        let mut recorder = Self { pair, steps: Vec::new(), example: Vec::new() };
        recorder.pair.client.connect(0);
        recorder.act("connect", json!({}));
        let hello = recorder.take_client();
        let mut acceptor = tidewire_live::Acceptor::new(config(), 0);
        acceptor.input().extend_from_slice(&hello);
        let hello = acceptor.poll(0).unwrap().unwrap();
        recorder.pair.server = acceptor.accept(hello, ID, 0);
        recorder.settle();
        recorder
    }

    fn act(&mut self, action: &str, details: Value) {
        self.steps.push(json!({ "client": action, "details": details }));
    }

    fn take_client(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.pair.client.poll_output(0, &mut out) {
            self.steps.push(json!({ "client_writes": hex(&out), "frames": describe(&out) }));
            self.example.extend_from_slice(&out);
        }
        out
    }

    /// Carries bytes until both are quiet.
    fn settle(&mut self) {
        loop {
            let out = self.take_client();
            self.pair.server.input().extend_from_slice(&out);
            while let Some(event) = hear(&mut self.pair.server, 0) {
                self.pair.at_server.push(event);
            }
            let mut back = Vec::new();
            let moved = self.pair.server.poll_output(0, &mut back);
            if moved {
                self.steps.push(json!({ "server_writes": hex(&back), "frames": describe(&back) }));
                self.example.extend_from_slice(&back);
            }
            self.pair.client.input().extend_from_slice(&back);
            while let Some(event) = hear(&mut self.pair.client, 0) {
                if let Event::Items { call, items } = &event {
                    self.pair.client.consumed(*call, items.bytes());
                }
                self.pair.at_client.push(event);
            }
            if out.is_empty() && !moved {
                return;
            }
        }
    }

    fn call(&mut self, request: Request, kind: &str) -> CallId {
        let payload = hex(&request.payload);
        let call = self.pair.client.call(request, 0).unwrap();
        self.act("call", json!({ "kind": kind, "payload": payload, "stream": call.stream() }));
        self.settle();
        call
    }
}

#[test]
fn a_whole_conversation_has_its_golden_bytes() {
    let mut talk = Recorder::new();
    let hello = talk.pair.client.method("/hello.v1.Greeter/SayHello", Codec::Proto);
    talk.call(Request::query(hello, &b"Ada"[..]), "query");
    let asked = talk.pair.incoming();
    talk.pair.server.reply(asked.call, Reply::new(&b"Hello, Ada"[..]));
    talk.settle();
    check_example(&talk.example);
    talk.call(Request::command(hello, &b"write"[..]), "command");
    let asked = talk.pair.incoming();
    let detail = Detail { type_name: "a.B".into(), value: (&b"x"[..]).into() };
    talk.pair.server.fail(asked.call, &Error::not_found("nobody").with_detail(detail));
    talk.settle();
    let kept = talk.call(Request::query(hello, &b"k"[..]).watch(Watch::Values), "values");
    let watched = talk.pair.incoming();
    talk.pair.server.reply(watched.call, value(b"one"));
    talk.settle();
    talk.pair.server.stale(watched.call);
    talk.pair.server.refresh(watched.call, Refresh::Value(value(b"two")));
    talk.settle();
    let stream = talk.call(Request::query(hello, &b""[..]).streaming(), "stream");
    let streamed = talk.pair.incoming();
    assert_eq!(talk.pair.client.push(stream, b"up"), Push::Queued);
    talk.act("push", json!({ "stream": stream.stream(), "item": hex(b"up") }));
    talk.pair.server.reply_stream(streamed.call, &Reply::default());
    assert_eq!(talk.pair.server.push(streamed.call, b"down"), Push::Queued);
    talk.settle();
    // The command is received and answered, and the answer is lost with the connection.
    talk.call(Request::command(hello, &b"pay"[..]), "command");
    let asked = talk.pair.incoming();
    talk.pair.client.connection_lost(0);
    talk.pair.server.connection_lost(0);
    talk.act("lose", json!({}));
    talk.pair.server.reply(asked.call, Reply::new(&b"paid"[..]));
    talk.pair.client.connect(0);
    talk.act("connect", json!({}));
    let again = talk.take_client();
    let mut acceptor = tidewire_live::Acceptor::new(Config::default(), 0);
    acceptor.input().extend_from_slice(&again);
    let again = acceptor.poll(0).unwrap().unwrap();
    let parked = std::mem::replace(&mut talk.pair.server, Session::dialer(Config::default()));
    talk.pair.server = acceptor.resume(parked, again, 0);
    talk.settle();
    assert_eq!(talk.pair.answers().last(), Some(&b"paid".to_vec()));
    talk.pair.client.cancel(kept);
    talk.act("cancel", json!({ "stream": kept.stream() }));
    talk.settle();
    talk.pair.client.finish(stream, &Metadata::default());
    talk.act("finish", json!({ "stream": stream.stream() }));
    talk.pair.server.finish(streamed.call, &Metadata::default());
    talk.settle();
    assert!(matches!(talk.pair.at_client.last(), Some(Event::End { .. })));
    assert_eq!(named(b"two").bytes()[..3], *b"two");
    let steps = talk.steps;
    check(
        "conversation.json",
        &json!({
            "about": "A client's actions and all bytes of both sides, in order. An implementation of the dialing side that does the same actions and reads what the server writes must write the same bytes.",
            "method": "/hello.v1.Greeter/SayHello",
            "boot": hex(&[0xb0; 16]),
            "agent": "example/1",
            "steps": steps,
        }),
    );
}

/// The worked example of the specification is exactly the start of the conversation.
fn check_example(bytes: &[u8]) {
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

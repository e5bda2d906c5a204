//! The conversation of `tests/fixtures/live/hosted.json`: what a process that a gateway hosts
//! reads, does and writes, for implementations that are nothing but that.

use serde_json::{Value, json};
use tidewire_live_proto::{
    Acceptor, CallId, Config, Depends, Extra, Limits, Metadata, OutgoingReply, Push, Request,
    Session, feature,
};
use tidewire_service::{Codec, Detail, Error};

use crate::conversation::PATH;
use crate::fixtures::{check, describe, hex};
use crate::heard::{Event, hear};
use crate::pair::ID;

struct Stage {
    process: Session,
    host: Session,
    steps: Vec<Value>,
    now: u64,
}

fn config(agent: &str) -> Config {
    Config {
        limits: Limits { body_max: 64 << 20, ..Limits::default() },
        features: feature::HTTP | feature::HOSTED,
        required: feature::HOSTED,
        agent: agent.to_owned(),
        ..Config::default()
    }
}

/// Reads all there is; items are taken at once.
fn read(session: &mut Session, bytes: &[u8], now: u64) -> Option<CallId> {
    session.input().extend_from_slice(bytes);
    let mut asked = None;
    while let Some(event) = hear(session, now) {
        match event {
            Event::Items { call, items } => session.consumed(call, items.bytes()),
            Event::Piece { call, bytes, .. } => session.consumed(call, bytes.len() as u64),
            Event::Request(incoming) => asked = Some(incoming.call),
            Event::Closed(violation) => panic!("{violation}"),
            _ => {}
        }
    }
    asked
}

impl Stage {
    fn new() -> Self {
        let mut process = Session::dialer(config("process/1"));
        process.connect(0);
        let mut hello = Vec::new();
        process.poll_output(0, &mut hello);
        let mut acceptor = Acceptor::new(config("host/1"), 0);
        acceptor.input().extend_from_slice(&hello);
        let said = acceptor.poll(0).unwrap().unwrap();
        let host = acceptor.accept(said, ID, 0);
        let mut stage = Self { process, host, steps: Vec::new(), now: 0 };
        stage.writes("process_writes", &hello);
        stage.host(|_| ());
        stage.process("ready", json!({}), Session::ready);
        stage
    }

    fn writes(&mut self, who: &str, bytes: &[u8]) {
        let kinds: Value = describe(bytes).iter().map(|frame| frame["kind"].clone()).collect();
        self.steps.push(json!({ who: hex(bytes), "kinds": kinds }));
    }

    /// The host does something, and the process reads it: the call that it is asked, if it is.
    fn host<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> (T, Option<CallId>) {
        let done = act(&mut self.host);
        let mut out = Vec::new();
        while self.host.poll_output(self.now, &mut out) {}
        self.writes("host_writes", &out);
        let asked = read(&mut self.process, &out, self.now);
        self.flush();
        (done, asked)
    }

    /// The process does something, and the host reads it.
    fn process<T>(&mut self, what: &str, details: Value, act: impl FnOnce(&mut Session) -> T) -> T {
        self.steps.push(json!({ "process": what, "details": details }));
        let done = act(&mut self.process);
        self.flush();
        done
    }

    fn flush(&mut self) {
        let mut out = Vec::new();
        while self.process.poll_output(self.now, &mut out) {}
        if !out.is_empty() {
            self.writes("process_writes", &out);
            read(&mut self.host, &out, self.now);
        }
    }

    /// A call of the process, asked by the host.
    fn asked(&mut self, request: impl FnOnce(&mut Session) -> Request) -> (CallId, CallId) {
        let (ours, theirs) = self.host(|host| {
            let request = request(host);
            host.call(request, 0).unwrap()
        });
        (ours, theirs.unwrap())
    }

    fn reply(&mut self, call: CallId, payload: &[u8], metadata: Metadata, said: Value) {
        let mut details = json!({ "stream": call.stream(), "payload": hex(payload) });
        details.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        self.process("reply", details, |process| {
            let reply = OutgoingReply::new(&[]).metadata(metadata);
            process.reply_body(call, &reply, &payload.to_vec().into());
        });
    }
}

fn query(payload: &[u8]) -> impl FnOnce(&mut Session) -> Request {
    move |session| Request::query(session.method(PATH, Codec::Proto), payload.to_vec())
}

fn command(payload: &[u8]) -> impl FnOnce(&mut Session) -> Request {
    move |session| Request::command(session.method(PATH, Codec::Proto), payload.to_vec())
}

fn unary_calls(stage: &mut Stage) {
    let (_, call) = stage.asked(query(b"a"));
    let made_of =
        Metadata::builder().header("x-own", "1").depends(&Depends::Key("items", "7/a%2Fb")).build();
    let said = json!({ "headers": [["x-own", "1"]], "depends": [["items", "7/a%2Fb"]] });
    stage.reply(call, b"A", made_of, said);
    let (_, call) = stage.asked(command(b"write"));
    stage.process("changed", json!({ "source": "items", "key": "7" }), |process| {
        process.changed([(&b"items"[..], &b"7"[..])]);
    });
    let trailers = Metadata::builder().trailers().header("x-sum", "9").build();
    stage.reply(call, b"written", trailers, json!({ "trailers": [["x-sum", "9"]] }));
    let (_, call) = stage.asked(query(b"none"));
    let detail = Detail { type_name: "a.Bx".to_owned(), value: vec![10, 1].into() };
    let details = json!({ "stream": call.stream(), "code": "not_found", "message": "nobody", "detail": ["a.Bx", "0a01"] });
    stage.process("fail", details, |process| {
        process.fail(call, &Error::not_found("nobody").with_detail(detail));
    });
}

fn streams(stage: &mut Stage) {
    let (_, call) = stage.asked(query(b"count"));
    stage.process("begin", json!({ "stream": call.stream() }), |process| {
        process.reply_stream(call, &OutgoingReply::default());
    });
    let long = vec![b'x'; 16_500];
    for item in [&b"one"[..], b"", &long, &long[..16_384], b"end"] {
        let details = json!({ "stream": call.stream(), "item": hex(item) });
        stage.process("push", details, |process| {
            assert_eq!(process.push(call, item), Push::Queued);
        });
    }
    stage.process("finish", json!({ "stream": call.stream() }), |process| {
        process.finish(call, &Metadata::default());
    });
    let (ours, call) = stage.asked(|session| query(b"")(session).streaming());
    for item in [&b"1"[..], b"22"] {
        stage.host(|host| assert_eq!(host.push(ours, item), Push::Queued));
    }
    stage.host(|host| host.finish(ours, &Metadata::default()));
    stage.reply(call, b"3", Metadata::default(), json!({}));
    let (_, call) = stage.asked(query(&long));
    stage.reply(call, &long, Metadata::default(), json!({}));
}

fn pages(stage: &mut Stage) {
    let (_, call) = stage.asked(|_| {
        let headers = Metadata::builder().header("host", "a.example").build();
        Request::http("POST", "/a?b=c", &b"body"[..]).metadata(headers)
    });
    let details = json!({ "stream": call.stream(), "payload": hex(b"page"), "status": 201, "headers": [["content-type", "text/plain"]] });
    stage.process("reply", details, |process| {
        let headers = Metadata::builder().header("content-type", "text/plain").build();
        process.reply(call, OutgoingReply::new(b"page").status(201).metadata(headers));
    });
}

fn cancels(stage: &mut Stage) {
    let (ours, _) = stage.asked(query(b"slow"));
    stage.host(|host| host.cancel(ours));
    let (ours, call) = stage.asked(command(b"pay"));
    stage.host(|host| host.cancel(ours));
    stage.reply(call, b"paid", Metadata::default(), json!({}));
}

fn calls_back(stage: &mut Stage) {
    let (_, outer) = stage.asked(query(b"outer"));
    let path = "/hello.v1.Greeter/Inner";
    for (payload, is_query) in [(&b"in"[..], true), (b"in 2", false)] {
        let details = json!({ "path": path, "payload": hex(payload), "query": is_query, "parent": outer.stream() });
        stage.process("call", details, |process| {
            let method = process.method(path, Codec::Proto);
            let request = match is_query {
                true => Request::query(method, payload.to_vec()),
                false => Request::command(method, payload.to_vec()),
            };
            let extra = Extra { parent: Some(outer), ..Extra::default() };
            process.call(request.extra(extra), 0).unwrap();
        });
    }
    let inner = stage.host.usage().calls_in;
    assert_eq!(inner, 2);
    stage.reply(outer, b"out", Metadata::default(), json!({}));
}

fn what_cannot_be_named(stage: &mut Stage) {
    let (_, call) = stage.asked(query(b"all"));
    let made_of = Metadata::builder().depends(&Depends::Source("items"));
    let made_of = made_of.depends(&Depends::<&str>::Untold).build();
    stage.reply(call, b"A", made_of, json!({ "depends": [["items"], []] }));
}

#[test]
fn what_a_hosted_process_writes_has_its_golden_bytes() {
    let mut stage = Stage::new();
    unary_calls(&mut stage);
    streams(&mut stage);
    pages(&mut stage);
    cancels(&mut stage);
    stage.process("busy", json!({ "jobs": 2 }), |process| process.busy(2));
    stage.process("log", json!({ "level": "warn", "text": "tea", "fields": [["n", "1"]] }), |p| {
        p.log(4, "tea", &Metadata::builder().header("n", "1").build());
    });
    calls_back(&mut stage);
    what_cannot_be_named(&mut stage);
    check(
        "hosted.json",
        &json!({
            "about": "What a process that a gateway hosts does (process), and must then write (process_writes), also when it reads what the gateway writes (host_writes): items are taken as they come, and nothing else is done by itself but `ready`. Streams are numbers of the protocol. Methods are names only: any answer may be a stream. The process offers HTTP and HOSTED and requires HOSTED, with `body_max` 67,108,864, `watches_max` 0 and the defaults for the rest. Messages of errors are compared too; that of what the gateway cancels is `the caller gave up`.",
            "agent": "process/1",
            "steps": stage.steps,
        }),
    );
}

//! Plays one conversation and keeps what was done, written and heard, as a fixture.
//!
//! A conversation is about the dialing side: another implementation of it that does the same
//! (`client`) and reads what the server wrote (`server_writes`) must write the same bytes
//! (`client_writes`) and hear the same (`client_hears`). What the server's application does is in
//! `server`, for the reader.

use serde_json::{Value, json};
use tidewire_live_proto::{
    Acceptor, CallId, CallKind, Config, Limits, OutgoingReply, Reason, Request, Session, feature,
};
use tidewire_live_proto::{Continuation, Watch};
use tidewire_service::{Codec, Outcome};

use crate::fixtures::{describe, hex};
use crate::heard::{Answer, Event, Incoming, hear};
use crate::pair::ID;

pub(crate) struct Talk {
    pub(crate) client: Session,
    pub(crate) server: Session,
    pub(crate) config: Config,
    pub(crate) now: u64,
    pub(crate) at_server: Vec<Event>,
    pub(crate) steps: Vec<Value>,
    /// All bytes, in order.
    pub(crate) bytes: Vec<u8>,
    sessions: u8,
    /// What the client holds and may keep: how often it had written when it asked.
    kept: Vec<u64>,
    asked: Vec<(CallId, u64)>,
}

pub(crate) const PATH: &str = "/hello.v1.Greeter/SayHello";

pub(crate) fn config() -> Config {
    Config {
        features: (feature::USUAL | feature::DURABLE) & !feature::ZSTD,
        agent: "example/1".to_owned(),
        boot: Some([0xb0; 16]),
        ..Config::default()
    }
}

/// That of a process and its host: an inherited socket has no watches and is never resumed.
pub(crate) fn hosted() -> Config {
    let features = feature::HTTP | feature::HOSTED;
    Config { features, boot: None, ..config() }
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    /// Both sides have this configuration.
    pub(crate) fn with(config: Config) -> Self {
        let client = Session::dialer(config.clone());
        let server = Session::dialer(config.clone());
        let mut talk = Self {
            client,
            server,
            config,
            now: 0,
            at_server: Vec::new(),
            steps: Vec::new(),
            bytes: Vec::new(),
            sessions: 0,
            kept: Vec::new(),
            asked: Vec::new(),
        };
        talk.connect(None);
        if talk.config.features & feature::HOSTED != 0 {
            talk.settle();
            talk.client.ready();
            talk.act("ready", json!({}));
            talk.settle();
        }
        talk
    }

    /// The client dials; the server goes on with a parked session, or opens a new one.
    fn connect(&mut self, parked: Option<Session>) {
        self.client.connect(self.now);
        self.act("connect", json!({}));
        let hello = self.take_client();
        let mut acceptor = Acceptor::new(self.config.clone(), self.now);
        acceptor.input().extend_from_slice(&hello);
        let hello = acceptor.poll(self.now).unwrap().unwrap();
        self.server = match parked {
            Some(mut parked) => {
                acceptor.resume(&mut parked, hello, self.now);
                parked
            }
            None => {
                self.sessions += 1;
                let id = tidewire_live_proto::SessionId { id: [self.sessions; 16], ..ID };
                acceptor.accept(hello, id, self.now)
            }
        };
    }

    fn act(&mut self, action: &str, details: Value) {
        self.steps.push(json!({ "client": action, "details": details }));
    }

    pub(crate) fn note(&mut self, what: &str) {
        self.steps.push(json!({ "server": what }));
    }

    fn take_client(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.client.poll_output(self.now, &mut out) {
            self.steps.push(json!({ "client_writes": hex(&out), "kinds": kinds(&out) }));
            self.bytes.extend_from_slice(&out);
        }
        out
    }

    fn take_server(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.server.poll_output(self.now, &mut out) {
            self.steps.push(json!({ "server_writes": hex(&out), "kinds": kinds(&out) }));
            self.bytes.extend_from_slice(&out);
        }
        out
    }

    /// Carries bytes until both are quiet.
    pub(crate) fn settle(&mut self) {
        loop {
            let out = self.take_client();
            let moved = self.deliver(&out);
            let back = self.take_server();
            self.hear(&back);
            if !moved && back.is_empty() {
                return;
            }
        }
    }

    fn deliver(&mut self, out: &[u8]) -> bool {
        self.server.input().extend_from_slice(out);
        while let Some(event) = hear(&mut self.server, self.now) {
            let done = match &event {
                Event::Items { call, items } => Some((*call, items.bytes())),
                Event::Piece { call, bytes, .. } => Some((*call, bytes.len() as u64)),
                _ => None,
            };
            if let Some((call, bytes)) = done {
                self.server.consumed(call, bytes);
            }
            self.at_server.push(event);
        }
        !out.is_empty()
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.client.input().extend_from_slice(bytes);
        let mut heard = Vec::new();
        while let Some(event) = hear(&mut self.client, self.now) {
            match &event {
                Event::Items { call, items } => self.client.consumed(*call, items.bytes()),
                Event::Piece { call, bytes, .. } => {
                    self.client.consumed(*call, bytes.len() as u64);
                }
                Event::Reply(answer) if answer.max_age_ms.is_some() => {
                    let asked = self.asked.iter().find(|(call, _)| *call == answer.call);
                    self.kept.extend(asked.map(|(_, writes)| *writes));
                }
                _ => {}
            }
            heard.extend(said(&event));
        }
        if !heard.is_empty() {
            self.steps.push(json!({ "client_hears": heard }));
        }
    }

    /// The client reads what the server wrote last on a connection that it gave up, or what no good
    /// server writes.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        self.steps.push(json!({ "server_writes": hex(bytes), "kinds": kinds(bytes) }));
        self.hear(bytes);
    }

    /// The client ends the connection for a reason; what it says of it beside is its own.
    pub(crate) fn client_ends(&mut self, reason: Reason) {
        let mut out = Vec::new();
        assert!(self.client.poll_output(self.now, &mut out));
        let frames = describe(&out);
        let [frame] = &frames[..] else { panic!("one goaway: {frames:?}") };
        let says = frame["metadata"].as_array().unwrap().iter().find(|entry| entry["tag"] == 16);
        assert_eq!(says.unwrap()["value"], hex(&[reason.number()]));
        self.steps.push(json!({ "client_ends": reason.as_str() }));
    }

    /// Both lose the connection, with all that is on the way.
    pub(crate) fn lose(&mut self) {
        self.server.poll_output(self.now, &mut Vec::new());
        self.client.connection_lost(self.now);
        self.server.connection_lost(self.now);
        self.act("lose", json!({}));
        self.hear(&[]);
    }

    pub(crate) fn resume(&mut self) {
        let empty = Session::dialer(self.config.clone());
        let parked = std::mem::replace(&mut self.server, empty);
        self.connect(Some(parked));
    }

    /// The server is another process now, which knows nothing.
    pub(crate) fn restart(&mut self) {
        self.note("is restarted");
        self.connect(None);
        self.settle();
    }

    /// Time passes: what waits for a random moment is sent.
    pub(crate) fn wait(&mut self) {
        self.now += 5_000_000;
        self.client.handle_timeout(self.now);
        self.act("wait", json!({}));
        self.hear(&[]);
        self.settle();
    }

    pub(crate) fn wake(&mut self) {
        self.client.wake(self.now);
        self.act("wake", json!({}));
        self.hear(&[]);
    }

    pub(crate) fn query(&mut self, payload: &[u8]) -> CallId {
        let method = self.client.method(PATH, Codec::Proto);
        self.call(Request::query(method, payload.to_vec()))
    }

    pub(crate) fn command(&mut self, payload: &[u8]) -> CallId {
        let method = self.client.method(PATH, Codec::Proto);
        self.call(Request::command(method, payload.to_vec()))
    }

    /// Calls, and lets the server hear of it.
    pub(crate) fn call(&mut self, request: Request) -> CallId {
        let call = self.ask(request);
        self.settle();
        call
    }

    /// Calls; what is written is lost on its way.
    pub(crate) fn call_in_vain(&mut self, request: Request) -> CallId {
        let call = self.ask(request);
        self.take_client();
        call
    }

    fn ask(&mut self, request: Request) -> CallId {
        let kind = match (request.kind, request.watch) {
            (CallKind::Command, _) => "command",
            (CallKind::Idempotent, _) => "idempotent",
            (_, Watch::Notify) => "notify",
            (_, Watch::Values) => "values",
            _ => "query",
        };
        let streaming = request.body == tidewire_live_proto::RequestBody::Stream;
        let mut details = json!({
            "kind": kind, "payload": hex(&request.payload), "streaming": streaming,
        });
        let numbered = self.client.method(PATH, Codec::Proto);
        if request.destination != tidewire_live_proto::Destination::Method(numbered) {
            details["path"] = "/hello.v1.Greeter/SayBye".into();
        }
        if let Some(validator) = request.validator {
            details["validator"] = hex(&validator.bytes()).into();
        }
        if let Some(parent) = request.extra.as_ref().and_then(|extra| extra.parent) {
            details["parent"] = parent.stream().into();
        }
        if let Some(origin) = request.extra.as_ref().and_then(|extra| extra.origin) {
            details["key"] = json!({ "session": hex(&origin.session), "id": origin.id });
        }
        let writes = self.client.writes();
        let call = self.client.call(request, self.now).unwrap();
        self.asked.push((call, writes));
        details["stream"] = call.stream().into();
        self.act("call", details);
        call
    }

    pub(crate) fn push(&mut self, call: CallId, item: &[u8]) {
        assert_eq!(self.client.push(call, item), tidewire_live_proto::Push::Queued);
        self.act("push", json!({ "stream": call.stream(), "item": hex(item) }));
    }

    pub(crate) fn finish(&mut self, call: CallId) {
        self.client.finish(call, &tidewire_live_proto::Metadata::default());
        self.act("finish", json!({ "stream": call.stream() }));
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        self.client.cancel(call);
        self.act("cancel", json!({ "stream": call.stream() }));
    }

    pub(crate) fn reply_to(&mut self, call: CallId, payload: &[u8]) {
        self.client.reply(call, OutgoingReply::new(payload));
        self.act("reply", json!({ "stream": call.stream(), "payload": hex(payload) }));
        self.settle();
    }

    /// How many answers that the client keeps it may still use.
    pub(crate) fn count_kept(&mut self) -> usize {
        let writes = self.client.writes();
        let count = self.kept.iter().filter(|at| **at == writes).count();
        self.act("count_kept", json!({ "usable": count }));
        count
    }

    /// The call that the server received last.
    pub(crate) fn incoming(&mut self) -> Incoming {
        let found = self.at_server.iter().rposition(|event| matches!(event, Event::Request(_)));
        match self.at_server.remove(found.expect("a request arrived")) {
            Event::Request(incoming) => incoming,
            _ => unreachable!("the position is that of a request"),
        }
    }

    /// The calls that the server received, in order.
    pub(crate) fn requests(&mut self) -> Vec<Incoming> {
        let of = |event| if let Event::Request(incoming) = event { Some(incoming) } else { None };
        std::mem::take(&mut self.at_server).into_iter().filter_map(of).collect()
    }

    /// What the client heard, in the words of the fixture.
    pub(crate) fn heard(&self) -> Vec<Value> {
        let steps = self.steps.iter().filter_map(|step| step["client_hears"].as_array());
        steps.flatten().cloned().collect()
    }

    pub(crate) fn into_fixture(self, name: &str, hosted: bool) -> Value {
        let limits = &self.config.limits;
        json!({
            "name": name,
            "hosted": hosted,
            "method": PATH,
            "boot": self.config.boot.map(|boot| hex(&boot)),
            "agent": "example/1",
            "features": self.config.features,
            "limits": limits_of(limits),
            "steps": self.steps,
        })
    }
}

fn limits_of(limits: &Limits) -> Value {
    json!({
        "body_max": limits.body_max, "calls_max": limits.calls_max,
        "watches_max": limits.watches_max, "methods_max": limits.methods_max,
        "stream_credit": limits.stream_credit, "connection_credit": limits.connection_credit,
        "metadata_max": limits.metadata_max, "replies_kept_max": limits.replies_kept_max,
    })
}

/// The kinds of whole frames, for the reader.
fn kinds(bytes: &[u8]) -> Value {
    describe(bytes).iter().map(|frame| frame["kind"].clone()).collect()
}

/// An event in the words of the fixture.
fn said(event: &Event) -> Option<Value> {
    let of = |name: &str, call: &CallId| json!({ "event": name, "stream": call.stream() });
    Some(match event {
        Event::Connected { resumed } => json!({ "event": "connected", "resumed": resumed }),
        Event::Lost => json!({ "event": "lost" }),
        Event::Closed(violation) => json!({
            "event": "closed", "reason": violation.reason.as_str(),
        }),
        Event::Draining { grace_ms, after_ms } => json!({
            "event": "draining", "grace_ms": grace_ms, "after_ms": after_ms,
        }),
        Event::Reply(answer) => reply(answer),
        Event::Items { call, items } => {
            let items: Vec<String> = items.iter().map(hex).collect();
            json!({ "event": "items", "stream": call.stream(), "items": items })
        }
        Event::Piece { call, bytes, last } => json!({
            "event": "piece", "stream": call.stream(), "bytes": bytes.len(), "last": last,
        }),
        Event::End { call, .. } => of("end", call),
        Event::Failed { call, error, watched } => json!({
            "event": "failed", "stream": call.stream(), "code": error.code().number(),
            "outcome": outcome(error.outcome()), "watched": watched.is_some(),
        }),
        Event::StopSending { call } => of("stop", call),
        Event::Stale { call } => of("stale", call),
        Event::Suspect { call } => of("suspect", call),
        Event::Confirmed { call } => of("confirmed", call),
        Event::Unsure => json!({ "event": "unsure" }),
        Event::Sure => json!({ "event": "sure" }),
        Event::Request(incoming) => json!({
            "event": "request", "stream": incoming.call.stream(),
            "payload": hex(&incoming.payload),
        }),
        Event::Credential { expires_ms, refused } => json!({
            "event": "credential", "expires_ms": expires_ms,
            "refused": refused.as_ref().map(|error| error.code().number()),
        }),
        _ => return None,
    })
}

fn reply(answer: &Answer) -> Value {
    let then = match answer.then {
        Continuation::Nothing => "nothing",
        Continuation::Items => "items",
        Continuation::Watch => "watch",
    };
    json!({
        "event": "reply", "stream": answer.call.stream(), "payload": hex(&answer.payload),
        "then": then, "unchanged": answer.unchanged, "suspect": answer.suspect,
        "large": answer.large,
    })
}

/// The number of an outcome in the text; nothing for the callee's own answer.
fn outcome(outcome: Outcome) -> Option<u8> {
    match outcome {
        Outcome::Answered => None,
        Outcome::NotRun => Some(1),
        Outcome::Unknown => Some(2),
        Outcome::ReplyLost => Some(3),
        Outcome::Behind => Some(4),
        other => panic!("{other:?} is not in the text"),
    }
}

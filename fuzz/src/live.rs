//! Decoders and whole sessions of the live protocol under arbitrary input: nothing panics, memory
//! stays within the limits, and a session that ended says so once.

use bytes::Bytes;
use tidewire_live_proto::fields::Fields;
use tidewire_live_proto::metadata::{Metadata, entries};
use tidewire_live_proto::{
    Acceptor, CallId, Change, Config, Continuation, Event, Hello, Limits, OutgoingReply, Push,
    Refresh, Request, Session, SessionId, Watch, feature, frame, varint,
};
use tidewire_service::{Codec, Error, Outcome, Validator};

/// Metadata blocks, number lists and varints.
pub fn metadata(data: &[u8]) {
    let whole = entries(data).all(|entry| entry.is_ok());
    if Fields::read(data).is_ok() {
        assert!(whole, "fields were read from a block that does not decode");
    }
    let mut builder = Metadata::builder();
    for entry in entries(data).map_while(Result::ok) {
        if let Some(name) = entry.header_name() {
            builder = builder.header(name, entry.value);
        }
    }
    let built = builder.build();
    assert!(Fields::read(built.raw()).is_ok(), "what is built can be read");
    let maps = built.to_maps();
    let _ =
        (maps.headers.len(), maps.trailers.len(), built.depends().count(), built.tokens().count());
    let numbers: Option<Vec<u32>> = varint::take_numbers(data).collect();
    if let Some(numbers) = numbers {
        let mut out = Vec::new();
        varint::put_numbers(&mut out, &numbers);
        let back: Option<Vec<u32>> = varint::take_numbers(&out).collect();
        assert_eq!(back.as_ref(), Some(&numbers));
    }
    let mut input = data;
    if let Some(value) = varint::take(&mut input) {
        let mut out = Vec::new();
        varint::put(&mut out, value);
        assert_eq!(varint::take(&mut &out[..]), Some(value));
    }
}

/// Hellos: the first byte splits metadata from payload.
pub fn hello(data: &[u8]) {
    let Some((&split, rest)) = data.split_first() else { return };
    let all = Bytes::copy_from_slice(rest);
    let at = usize::from(split).min(all.len());
    if let Ok(hello) = Hello::decode(&all.slice(..at), &all.slice(at..)) {
        let mut out = Vec::new();
        hello.encode(&mut out);
        let head = frame::Head::decode(out[..16].try_into().expect("sixteen bytes"));
        let out = Bytes::from(out);
        let end = 16 + usize::from(head.meta_len);
        assert_eq!(Hello::decode(&out.slice(16..end), &out.slice(end..)), Ok(hello));
    }
}

/// An acceptor that reads anything.
pub fn acceptor(data: &[u8]) {
    let mut acceptor = Acceptor::new(config(), 0);
    for chunk in data.chunks(7) {
        acceptor.input().extend_from_slice(chunk);
        match acceptor.poll(1) {
            Ok(Some(hello)) => {
                let mut session = acceptor.accept(hello, ID, 1);
                App::default().run(&mut session, 2);
                return;
            }
            Ok(None) => {}
            Err(violation) => {
                assert!(!Acceptor::refuse(&violation).is_empty());
                return;
            }
        }
    }
}

/// An open session of either side that reads anything after the hello.
pub fn session_bytes(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let (mut session, mut app) = open(choice & 1 == 0);
    for chunk in rest.chunks(usize::from(choice >> 1) + 1) {
        session.input().extend_from_slice(chunk);
        app.run(&mut session, 10);
    }
    app.lose(&mut session);
}

/// An open session that reads whole frames with plausible fields.
///
/// Each frame is taken from the input as: kind, flags, stream, metadata length, payload length,
/// then the bytes. A kind over 32 does something else: time passes, the connection is lost.
pub fn session_frames(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let (mut session, mut app) = open(choice & 1 == 0);
    let mut now = 10;
    while let Some((&[kind, flags, stream, meta_len, len], tail)) = rest.split_first_chunk::<5>() {
        rest = tail;
        let meta_len = usize::from(meta_len).min(rest.len());
        let whole = (meta_len + usize::from(len)).min(rest.len());
        let (body, tail) = rest.split_at(whole);
        rest = tail;
        match kind % 40 {
            33 => now += 1_000_000,
            36 => session.wake(now),
            37 => session.take_over(now, &mut Vec::new()),
            34 => app.lose(&mut session),
            35 => session.drain(5, 0),
            kind => {
                let head = frame::Head {
                    len: whole as u32,
                    stream: u32::from(stream % 16),
                    kind,
                    flags,
                    meta_len: meta_len as u16,
                    deadline_ms: u32::from(flags),
                };
                session.input().extend_from_slice(&head.encode());
                session.input().extend_from_slice(body);
            }
        }
        session.handle_timeout(now);
        app.run(&mut session, now);
    }
}

const ID: SessionId = SessionId { id: [1; 16], secret: [2; 32] };

fn config() -> Config {
    let limits = Limits {
        body_max: 64 << 10,
        calls_max: 4,
        watches_max: 3,
        methods_max: 3,
        stream_credit: 64,
        connection_credit: 128,
        metadata_max: 256,
        replies_kept_max: 3,
    };
    let features = feature::USUAL | feature::DURABLE | feature::HOSTED;
    let boot = Some([3; 16]);
    Config {
        limits,
        features,
        boot,
        command_bytes_max: 256,
        output_hard_max: 1 << 16,
        ..Config::default()
    }
}

/// A session after the handshake, with a few its own calls open.
fn open(dials: bool) -> (Session, App) {
    let mut dialer = Session::dialer(config());
    dialer.connect(0);
    let mut wire = Vec::new();
    dialer.poll_output(0, &mut wire);
    let mut acceptor = Acceptor::new(config(), 0);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).expect("a good hello").expect("a whole hello");
    let mut accepted = acceptor.accept(hello, ID, 0);
    wire.clear();
    accepted.poll_output(0, &mut wire);
    dialer.input().extend_from_slice(&wire);
    while dialer.poll_event(0).is_some() {}
    let mut session = if dials { dialer } else { accepted };
    let method = session.method("/a.B/C", Codec::Proto);
    let mut app = App::default();
    let requests = [
        Request::query(method, &b"q"[..]).validator(Validator::new([7; 16])),
        Request::query(method, &b"w"[..]).watch(Watch::Values),
        Request::command(method, &b"c"[..]),
        Request::query(method, Bytes::new()).streaming(),
    ];
    for request in requests {
        app.own.push(session.call(request, 0).expect("there is room"));
    }
    (session, app)
}

/// An application that does something with everything.
#[derive(Default)]
struct App {
    own: Vec<CallId>,
    peers: Vec<CallId>,
    turn: usize,
    change: Change,
    ended: bool,
}

impl App {
    fn run(&mut self, session: &mut Session, now: u64) {
        while let Some(event) = session.poll_event(now) {
            assert!(!self.ended, "an event after Closed: {event:?}");
            self.turn += 1;
            match event {
                Event::Closed(_) => self.ended = true,
                Event::Request(request) => {
                    assert_eq!(request.share_payload(), request.payload());
                    let _ = (request.metadata().headers().count(), request.http());
                    let _ = (
                        request.peer_method(),
                        request.deadline(),
                        request.origin(),
                        request.tokens(),
                    );
                    let call = request.call;
                    self.answer(session, call);
                    self.peers.push(call);
                }
                Event::Items { call, items } => {
                    let all = items.bytes();
                    let bytes: usize = items.iter().map(<[u8]>::len).sum();
                    assert_eq!(items.keep().map(|item| item.len()).sum::<usize>(), bytes);
                    assert!(bytes as u64 <= all);
                    if !self.turn.is_multiple_of(3) {
                        session.consumed(call, all);
                    }
                }
                Event::Piece { call, piece } => {
                    let bytes = piece.bytes.len() as u64;
                    if !self.turn.is_multiple_of(3) {
                        session.consumed(call, bytes);
                    }
                }
                Event::Recompute { change, .. } => self.change = change,
                Event::Reply(answer) => {
                    assert_eq!(answer.share_payload(), answer.payload());
                    let _ = (answer.metadata().headers().count(), answer.is_unchanged());
                    if answer.then() == Continuation::Watch && self.turn.is_multiple_of(5) {
                        let call = answer.call;
                        session.cancel(call);
                    }
                }
                _ => {}
            }
        }
        self.act(session);
        let mut out = Vec::new();
        session.poll_output(now, &mut out);
        let usage = session.usage();
        assert!(usage.calls_in <= 4 && usage.watches_in <= 3, "{usage:?}");
        assert!(usage.orphans <= 4 + 4, "{usage:?}");
        assert!(usage.command_bytes <= 256, "{usage:?}");
        assert!(usage.output_bytes <= (1 << 16) + 8192, "{usage:?}");
        assert!(usage.received_bytes <= 128 + (64 << 10), "{usage:?}");
    }

    fn answer(&self, session: &mut Session, call: CallId) {
        let payload = [b'x'; 40];
        match self.turn % 9 {
            0 => session.fail(call, &Error::not_found("nothing")),
            1 => session.reply_stream(call, &OutgoingReply::default()),
            2 => {}
            3 => session.reply(call, OutgoingReply::new(&[7; 20_000])),
            4 => session.reply_error(call, &Error::not_found("nothing"), Validator::new([5; 16])),
            5 => session.refuse(call, &Error::aborted("unknown"), Outcome::Unknown),
            turn => {
                let validator = Validator::new([turn as u8; 16]);
                session.reply(call, OutgoingReply::new(&payload).validator(validator).watched());
            }
        }
    }

    fn act(&mut self, session: &mut Session) {
        self.turn += 1;
        let Some(&call) = self.peers.get(self.turn % self.peers.len().max(1)) else { return };
        match self.turn % 9 {
            0 => self.change = session.stale(call).unwrap_or_default(),
            1 => session.refresh(call, self.change, Refresh::Unchanged),
            2 => {
                let reply = OutgoingReply::new(&b"new"[..]).validator(Validator::new([9; 16]));
                session.refresh(call, self.change, Refresh::Value(reply));
            }
            3 => session.finish(call, &Metadata::default()),
            4 => session.reply(call, OutgoingReply::default()),
            5 => session.stop(call),
            6 => session.consumed(call, 10),
            _ => {
                let _: Push = session.push(call, b"item");
                if let Some(&own) = self.own.last() {
                    let _: Push = session.push(own, b"item");
                }
            }
        }
        if self.peers.len() > 64 {
            self.peers.clear();
        }
    }

    fn lose(&mut self, session: &mut Session) {
        session.connection_lost(20);
        self.run(session, 20);
        session.connect(20);
        self.run(session, 20);
    }
}

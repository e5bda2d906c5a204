//! The two hellos: version, features, limits, session (specification 2).
//!
//! The dialer's half is here; the acceptor's, which needs the owner's word on identity, is in
//! `acceptor.rs`.

use crate::caller::{OwnCall, SentIn, State};
use crate::config::{Config, Micros, SessionId, micros};
use crate::credit::{ReceiveWindow, SendWindow};
use crate::event::Event;
use crate::hello::{Hello, VERSIONS, feature};
use crate::message::{CallKind, RequestBody};
use crate::metadata::CommandOrigin;
use crate::pending_calls::PendingCall;
use crate::reason::{Reason, Violation};
use crate::receive::FrameOutcome;
use crate::session::{Phase, Session};

impl Session {
    /// A connection is there: says hello, and asks to resume if there is something to resume.
    pub fn connect(&mut self, now: Micros) {
        self.now = self.now.max(now);
        if self.phase != Phase::Idle || !self.dialer {
            return;
        }
        self.phase = Phase::Greeting;
        self.reader.reset();
        self.greeting_due = self.now.saturating_add(micros(self.config.handshake_timeout));
        let mut hello = self.own_hello();
        hello.session = self.id.map(|session| session.id);
        hello.secret = self.id.map(|session| session.secret);
        hello.metadata = hello.metadata.with_token(&self.token);
        hello.encode(&mut self.output.control);
    }

    pub(crate) fn own_hello(&self) -> Hello {
        own_hello(&self.config)
    }

    /// The acceptor's hello.
    pub(crate) fn receive_hello(&mut self) -> FrameOutcome {
        let hello = Hello::decode(&self.reader.share_metadata(), &self.reader.share_payload())?;
        if hello.versions != (*VERSIONS.end()..=*VERSIONS.end()) {
            return Err(wrong_version(&hello));
        }
        check_features(&hello, &self.config)?;
        let session = match (hello.session, hello.secret) {
            (Some(id), Some(secret)) => Some(SessionId { id, secret }),
            _ => None,
        };
        let is_same = self.id.map(|known| known.id) == session.map(|new| new.id);
        if hello.resumed && !(is_same && session.is_some()) {
            return Err(Violation::malformed("a session is resumed that was not asked for"));
        }
        let before = std::mem::replace(&mut self.id, session);
        let resumed = hello.resumed;
        if let (Some(before), false) = (before, resumed) {
            self.lose_session(&before, hello.features & self.config.features);
        }
        self.open(hello, resumed);
        Ok(None)
    }

    /// Both hellos are there.
    pub(crate) fn open(&mut self, mut hello: Hello, resumed: bool) {
        self.features = self.config.features & hello.features;
        let zstd = self.features & feature::ZSTD != 0;
        self.compress_min = if zstd { self.config.compress_min } else { usize::MAX };
        self.greet_headers(&hello.metadata);
        if resumed {
            // What is open was opened under them.
            hello.limits = self.peer.limits.clone();
        }
        self.slots_out = hello.limits.slots();
        // Keys that were made at an earlier peer count for the least of all times.
        hello.keys_ms = hello.keys_ms.min(self.peer.keys_ms);
        self.peer = hello;
        self.phase = Phase::Open;
        self.last_received = self.now;
        self.pinged = false;
        self.heard = 0;
        self.greeting_due = Micros::MAX;
        let window = self.peer.limits.connection_credit;
        if resumed {
            self.send_window = SendWindow::new(window, window);
            self.send_resume();
        } else {
            self.send_window = SendWindow::new(window, 0);
            self.receive_window = ReceiveWindow::new(self.config.limits.connection_credit);
            self.requests_in = 0;
            self.requests_out = 0;
            self.incoming_live = true;
            self.outgoing_live = true;
            self.events.push_back(Event::Connected { resumed: false });
            self.send_waiting();
        }
    }

    /// The peer knows nothing of the session: what may be repeated is, the rest ends.
    fn lose_session(&mut self, before: &SessionId, features: u64) {
        self.end_all_incoming();
        self.orphans.clear();
        self.window = Self::new_window(&self.config);
        let mut repeated = Vec::new();
        for index in self.outgoing.indexes().collect::<Vec<_>>() {
            let Some(call) = self.outgoing.get_mut(index) else { continue };
            if call.state == State::Cancelled {
                self.free_outgoing(index);
                continue;
            }
            if call.sent == SentIn::Never {
                continue;
            }
            let first_sent = self.commands.sent_after(call.command);
            if !call.may_repeat(before.id, features, first_sent) {
                self.give_up(index, Reason::Drain, "its session was lost");
                continue;
            }
            let was_watching = call.state == State::Watching;
            if std::mem::take(&mut call.counted) {
                self.calls_out -= 1;
            }
            (call.state, call.command, call.sent) = (State::Waiting, 0, SentIn::Before);
            self.load_body(index);
            let generation = self.outgoing.generation(index);
            repeated.push(PendingCall { index, generation });
            if was_watching {
                self.suspect(index);
            }
        }
        self.commands = crate::command_ids::CommandIds::default();
        self.again.spread(self.now, &repeated);
    }
}

impl OwnCall {
    /// Whether a call that was sent in a lost session is sent again; a command goes under its key.
    fn may_repeat(&mut self, session: [u8; 16], features: u64, first_sent: Micros) -> bool {
        let begun = self.stream.as_ref().is_some_and(|stream| stream.head.is_some());
        if begun || self.request.body == RequestBody::Stream {
            return false;
        }
        if self.request.kind == CallKind::Query {
            return true;
        }
        let extra = self.request.extra.get_or_insert_default();
        if let (None, id @ 1..) = (extra.origin, self.command) {
            extra.origin = Some(CommandOrigin { session, id });
            extra.first_sent = Some(first_sent);
        }
        let is_keyed = features & feature::DURABLE != 0 && extra.origin.is_some();
        is_keyed || self.request.kind == CallKind::Idempotent
    }
}

pub(crate) fn wrong_version(hello: &Hello) -> Violation {
    let theirs = &hello.versions;
    Violation::new(Reason::Version, format!("the peer speaks {theirs:?}, this side {VERSIONS:?}"))
}

/// Whether each side offers what the other requires.
pub(crate) fn check_features(hello: &Hello, config: &Config) -> Result<(), Violation> {
    let missing = (hello.required & !config.features) | (config.required & !hello.features);
    if missing != 0 {
        return Err(Violation::new(
            Reason::Feature,
            format!("required features {missing:#x} are not offered by both sides"),
        ));
    }
    Ok(())
}

/// Whether a session with this hello can be resumed later.
pub(crate) fn may_resume(hello: &Hello, config: &Config) -> bool {
    hello.features & config.features & feature::RESUME != 0
}

/// What a side says of itself.
pub(crate) fn own_hello(config: &Config) -> Hello {
    Hello {
        versions: VERSIONS,
        features: config.features,
        required: config.required,
        limits: config.limits.clone(),
        boot: config.boot,
        session: None,
        secret: None,
        resumed: false,
        retain_ms: 0,
        agent: config.agent.clone(),
        schema: config.schema,
        metadata: config.metadata.clone(),
        ..Hello::default()
    }
}

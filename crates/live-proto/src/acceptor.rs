//! The accepting side before it is a session: reads the hello and lets the owner decide who it is.
//!
//! Like a session, it is given bytes and time. Once the hello is there the owner authenticates
//! [`Hello::metadata`], then takes one of three ways: [`accept`](Acceptor::accept) a new session,
//! [`resume`](Acceptor::resume) a parked one, or [`refuse`](Acceptor::refuse).

use bytes::BytesMut;

use crate::config::{Config, Micros, SessionId, micros};
use crate::frame::Kind;
use crate::handshake::{check_features, may_resume, own_hello, wrong_version};
use crate::hello::{Hello, VERSIONS, feature};
use crate::identity;
use crate::metadata::Metadata;
use crate::output::put_goaway;
use crate::reader::Reader;
use crate::reason::{Reason, Violation};
use crate::session::{Phase, Session};

/// A connection that has not said who it is.
#[derive(Debug)]
pub struct Acceptor {
    config: Config,
    reader: Reader,
    due: Micros,
    upgrade: Metadata,
    expires_ms: u64,
    /// The peer was greeted before it said hello.
    greeted: bool,
}

impl Acceptor {
    /// Waits for a hello.
    pub fn new(config: Config, now: Micros) -> Self {
        let reader = Reader::new(config.limits.metadata_max);
        let due = now.saturating_add(micros(config.handshake_timeout));
        Self { config, reader, due, upgrade: Metadata::default(), expires_ms: 0, greeted: false }
    }

    /// What the connection itself says of the peer, such as the headers of a WebSocket's upgrade.
    pub fn upgraded_with(&mut self, headers: Metadata) {
        self.upgrade = headers;
    }

    /// For how many milliseconds the credential of this connection is good; 0 is not said.
    pub fn expires(&mut self, expires_ms: u64) {
        self.expires_ms = expires_ms;
    }

    /// Greets a process that the owner started, before it says hello: what to write. Nothing of it
    /// depends on the process, with which no session is resumed.
    pub fn greet_first(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.own_hello().encode(&mut out);
        self.greeted = true;
        out
    }

    /// Where the owner puts the bytes that it read.
    pub fn input(&mut self) -> &mut BytesMut {
        self.reader.input()
    }

    /// When [`poll`](Self::poll) fails for want of a hello.
    pub fn poll_timeout(&self) -> Micros {
        self.due
    }

    /// The hello, once it is complete.
    ///
    /// # Errors
    /// What is wrong with it; the owner writes [`refuse`](Self::refuse) and closes.
    pub fn poll(&mut self, now: Micros) -> Result<Option<Hello>, Violation> {
        if !self.reader.fill()? {
            if now >= self.due {
                let message = "no hello within the handshake time";
                return Err(Violation::new(Reason::HandshakeTimeout, message));
            }
            return Ok(None);
        }
        self.reader.next();
        if self.reader.head().kind != Kind::Hello as u8 {
            return Err(Violation::new(Reason::Unexpected, "the first frame is not a hello"));
        }
        let metadata = self.reader.share_metadata();
        let payload = self.reader.share_payload();
        let hello = Hello::decode(&metadata, &payload)?;
        let low = *hello.versions.start();
        let high = *hello.versions.end();
        if low > high || high < *VERSIONS.start() || low > *VERSIONS.end() {
            return Err(wrong_version(&hello));
        }
        check_features(&hello, &self.config)?;
        Ok(Some(hello))
    }

    /// The headers of the connection, as its calls will have them: who it is is found out by these.
    pub fn headers_of(&self, hello: &Hello) -> Metadata {
        identity::defaults(&self.upgrade, &hello.metadata)
    }

    /// What to write before closing.
    pub fn refuse(violation: &Violation) -> Vec<u8> {
        let mut out = Vec::new();
        put_goaway(&mut out, violation, 0);
        out
    }

    /// Opens a new session. `id` is random, and unused when the peer does not offer to resume.
    pub fn accept(self, hello: Hello, id: SessionId, now: Micros) -> Session {
        // Who was greeted already was told of none.
        let id = (!self.greeted && may_resume(&hello, &self.config)).then_some(id);
        let mut session = Session::new(self.config.clone(), false);
        session.id = id;
        self.greet(&mut session, hello, now, false);
        session
    }

    /// Goes on with a parked session, whose secret and principal the owner has checked (see
    /// [`Sessions::take`](crate::Sessions::take)).
    pub fn resume(self, session: &mut Session, hello: Hello, now: Micros) {
        self.greet(session, hello, now, true);
    }

    fn greet(self, session: &mut Session, hello: Hello, now: Micros, resumed: bool) {
        session.now = session.now.max(now);
        session.phase = Phase::Greeting;
        let mut own = self.own_hello();
        own.resumed = resumed;
        if let Some(id) = session.id {
            own.session = Some(id.id);
            own.secret = Some(id.secret);
            own.retain_ms = micros(session.config.retain) / 1000;
        }
        session.reader = self.reader;
        session.upgrade = self.upgrade;
        if !self.greeted {
            own.encode(&mut session.output.control);
        }
        session.open(hello, resumed);
    }

    /// What it says of itself, but for the session.
    fn own_hello(&self) -> Hello {
        let mut own = own_hello(&self.config);
        own.versions = *VERSIONS.end()..=*VERSIONS.end();
        own.expires_ms = self.expires_ms;
        own.home.clone_from(&self.config.home);
        if self.config.features & feature::DURABLE != 0 {
            own.keys_ms = micros(self.config.keys_kept) / 1000;
        }
        own
    }
}

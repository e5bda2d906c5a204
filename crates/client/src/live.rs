//! Calls over the live protocol: one session to one server, connected again as often as it is lost.
//!
//! | URL | over |
//! |---|---|
//! | `ws://`, `wss://`; `http://`, `https://` with `Protocol::Live` | a WebSocket |
//! | `tcp://`; `unix:` with `Protocol::Live` | frames as they are |
//!
//! Large payloads are compressed on a WebSocket, which may lead anywhere, and not where frames go
//! as they are.
//!
//! The session begins with the first call and ends, with word to the server, when the last clone of
//! the client is dropped. What becomes of calls while there is no connection is in
//! `tidewire_live::Remote`; a session that is over is followed by a new one with the next call.

mod dial;

use std::sync::Arc;
use std::time::Duration;

use tidewire_live::{CallFuture, Config, Limits, Remote, feature, random_boot};
use tidewire_service::{Answer, Call, Codec, Error, Outcome, Result};
use tokio_util::task::TaskTracker;

pub(crate) use self::dial::Server;
use crate::deadline::earlier;
use crate::endpoint::Opening;
use crate::limits::ClientLimits;
use crate::replica::{BorrowedKey, ReplicaSet};
use crate::trace::now;

/// What all clones of a client share.
pub(crate) struct Live {
    pub(crate) remote: Remote<Server>,
    pub(crate) codec: Codec,
    pub(crate) timeout: Option<Duration>,
    /// Whether answers to queries are watched.
    pub(crate) watches: bool,
    /// Answers to queries that are kept here.
    pub(crate) shelf: Option<ReplicaSet>,
}

impl Live {
    /// A server that is not connected yet.
    pub(crate) fn remote(server: Server, limits: &ClientLimits) -> Remote<Server> {
        let features = match server.speaks() {
            // Within one network, or one machine, compressing takes longer than sending.
            Opening::Frames => feature::USUAL & !feature::ZSTD,
            Opening::Http => feature::USUAL,
        } | feature::DURABLE;
        let config = Config { features, ..config(limits) };
        Remote::new(server, config, None, TaskTracker::new())
    }

    /// Answers a call, from what is kept here if it is.
    pub(crate) fn answer(self: Arc<Self>, call: Call) -> Answer {
        if let Some(shelf) = &self.shelf
            && let Some(asked) = BorrowedKey::of(&call)
        {
            if let Some(reply) = shelf.hit(&asked, &call) {
                return Answer::ready(Ok(reply));
            }
            let key = asked.to_key();
            return shelf.answer(key, call);
        }
        let is_command = match call.spec() {
            Some(method) => !method.is_query(),
            None => true,
        };
        Answer::pending(async move {
            let outcome = match self.begin(call) {
                Ok(calling) => calling.await,
                Err(error) => Err(error),
            };
            if let Some(shelf) = self.shelf.as_ref().filter(|_| is_command) {
                shelf.command_ended();
            }
            outcome
        })
    }

    /// Where answers are kept.
    pub(crate) fn shelf(&self) -> Option<&ReplicaSet> {
        self.shelf.as_ref()
    }

    /// Makes a call.
    fn begin(&self, mut call: Call) -> Result<CallFuture> {
        if let Some(at) = earlier(call.context.deadline(), self.timeout) {
            if at <= now() {
                let text = "the deadline passed before the call was sent";
                return Err(Error::deadline_exceeded(text).with_outcome(Outcome::NotRun));
            }
            call.context.set_deadline(at);
        }
        let link = self.remote.link();
        Ok(if self.watches { link.call_fresh(call) } else { link.call(call) })
    }

    /// How many connections are open now.
    pub(crate) fn open_connections(&self) -> usize {
        usize::from(self.remote.is_connected())
    }
}

/// The protocol's settings.
fn config(limits: &ClientLimits) -> Config {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let usual = Config::default();
    Config {
        limits: Limits {
            body_max: number(limits.message_bytes_max).max(BODY_MAX_FLOOR),
            stream_credit: limits.stream_window_bytes.into(),
            connection_credit: limits.connection_window_bytes.into(),
            ..usual.limits
        },
        boot: Some(random_boot()),
        agent: concat!("tidewire/", env!("CARGO_PKG_VERSION")).to_owned(),
        handshake_timeout: limits.connect_timeout,
        ..usual
    }
}

/// The least that a side may say it takes.
const BODY_MAX_FLOOR: u32 = 65_536;

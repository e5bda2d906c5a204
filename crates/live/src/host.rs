//! Who answers the calls of peers, and what it is given.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidewire_live_proto::{CallId, ChangedSources, PeerMethod, Violation};
use tidewire_service::{Body, Context, Error, Headers, Outcome, Peer, Reply};

/// Answers the calls of peers.
pub trait Host: Send + Sync + 'static {
    /// Answers one call. Dropping the future cancels it, which is not done to what
    /// [runs on](Self::runs_on): that is awaited whatever its caller does.
    fn answer(&self, call: IncomingCall) -> AnswerFuture;

    /// Whether a call runs on although its caller gave up, as a command with one reply does: one
    /// whose request came whole, unless the host knows its methods, and that a larger one is not a
    /// stream.
    fn runs_on(&self, call: &IncomingCall) -> bool {
        call.is_command && !matches!(call.body, Body::Stream(_))
    }

    /// Whether there is a method at this path. The connection keeps the names of those only: a peer
    /// may name thousands.
    fn knows(&self, path: &str) -> bool {
        let _ = path;
        true
    }

    /// Whose a connection is, by its default headers; a session belongs to one principal. `None`
    /// where nobody has to be known: what takes the place of these headers is not answered then.
    ///
    /// # Errors
    /// Why its credential is refused.
    fn identify(&self, headers: Headers, peer: Option<Arc<Peer>>) -> Option<IdentityFuture> {
        let _ = (headers, peer);
        None
    }

    /// A hosted process says something beside its calls, in the order in which it does: what comes
    /// from it after this is heard later. It must not wait, nor use the link, whose lock is held.
    fn hear(&self, said: ProcessMessage) {
        let _ = said;
    }
}

/// Whose a connection is, once that is known.
pub type IdentityFuture = Pin<Box<dyn Future<Output = Result<Identity, Violation>> + Send>>;

/// Whose a connection is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The principal, in any form that is equal for equal ones.
    pub principal: Bytes,
    /// For how long its credential is good from now on, where that is known.
    pub expires_in: Option<Duration>,
}

/// What a hosted process says of itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessMessage {
    /// It takes calls from now on.
    Ready,
    /// It has so many jobs that are not calls.
    Busy(u64),
    /// A line for the log.
    Log {
        /// 1 trace, 2 debug, 3 info, 4 warn, 5 error.
        level: u64,
        /// The text.
        text: String,
        /// The fields, as headers.
        fields: Headers,
    },
    /// Sources changed.
    Changed(ChangedSources),
    /// Its encoded `FileDescriptorSet`.
    Descriptors(Bytes),
    /// It takes no more calls, and ends with those that it has.
    Leaves,
}

/// The future of an answer.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<Reply, CallFailure>> + Send>>;

/// A call that arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct IncomingCall {
    /// What is called.
    pub target: CallTarget,
    /// Headers, deadline, the other side, what the caller holds and has seen, the key of a command.
    pub context: Context,
    /// The message or whole body, or a stream of them.
    pub body: Body,
    /// Whether it came as a command, so that it is known when it comes again.
    pub is_command: bool,
    /// Whether it is a command of an earlier session, under the key that it had there.
    pub is_sent_again: bool,
    /// The call of this side that it is part of, whether that is open or not.
    pub parent: Option<CallId>,
}

/// What a call is for.
#[derive(Debug, Clone)]
pub enum CallTarget {
    /// A method.
    Method(PeerMethod),
    /// A plain HTTP request.
    Http(http::Method, http::Uri),
    /// What is not HTTP request.
    Nothing(&'static str),
}

/// A call that has no answer.
#[derive(Debug)]
pub struct CallFailure {
    /// What its caller is told.
    pub error: Error,
    /// [`Outcome::Answered`] when the error is the handler's answer, else what became of the
    /// call.
    pub outcome: Outcome,
}

impl CallFailure {
    /// The call never reached a handler.
    pub fn not_run(error: Error) -> Self {
        Self { error, outcome: Outcome::NotRun }
    }

    /// The call may have run, and nobody knows how it ended.
    pub fn unknown(error: Error) -> Self {
        Self { error, outcome: Outcome::Unknown }
    }
}

impl From<Error> for CallFailure {
    /// What the handler answered.
    fn from(error: Error) -> Self {
        Self { error, outcome: Outcome::Answered }
    }
}

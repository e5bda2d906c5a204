//! What a caller will get: the outcome of a selection, with nothing left to decide.
//!
//! A plan is data. A preview shows it, a test compares it, [`play`](crate::select::play) plays it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidewire_service::{Error, Fault, Headers, Script, Signal};

use crate::compile::file_of;
use crate::random::Random;
use crate::rule::{FaultRule, MethodRule, Response};

/// What a caller will get.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// What decided; `None` where the schema alone did.
    pub rule: Option<Decision>,
    /// Nothing happens for this long.
    pub delay: Duration,
    /// Headers of the reply, or of the error.
    pub headers: Headers,
    /// Trailers of the reply, or of the error.
    pub trailers: Headers,
    /// The messages, encoded as the caller wants them.
    pub outcome: Outcome,
    /// What goes wrong when it is sent.
    pub script: Script,
    /// Fires when what was read of the session is another.
    pub(crate) state: Option<Signal>,
}

/// The response of a rule file that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The file.
    pub file: Arc<str>,
    /// The line of the response, from 1.
    pub line: u32,
    /// What the response is called.
    pub name: Option<String>,
    /// Whether it answers some calls only: by its `when`, or by its `times`. That a stub is for one
    /// session does not count.
    pub(crate) is_conditional: bool,
}

/// Messages or an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// One message.
    Message(Bytes),
    /// Messages of a stream.
    Stream(Frames),
    /// No message.
    Error(Error),
    /// What the real service answers.
    Upstream,
}

/// The messages of a stream, and when they come.
#[derive(Debug)]
#[non_exhaustive]
pub struct Frames {
    /// Before the very first message.
    pub first_delay: Duration,
    /// Each message after a delay; one that the schema cannot hold ends the stream.
    pub list: Vec<(Duration, Result<Bytes, Error>)>,
    /// How often the list is sent; `None` for ever.
    pub rounds: Option<u64>,
    /// In which order the messages of each round come, if not in theirs.
    pub(crate) shuffle: Option<Random>,
    /// What it ends with after the last round.
    pub error: Option<Error>,
    /// Before that.
    pub error_delay: Duration,
}

impl Decision {
    /// A response of a rule.
    pub(crate) fn of(rule: &MethodRule, response: &Response) -> Self {
        let line = response.place.line;
        let name = response.name.clone();
        let file = file_of(&rule.file, &rule.included, response.place);
        Self { file: Arc::clone(file), line, name, is_conditional: response.is_conditional() }
    }
}

/// How much an answer is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    pub(crate) messages: u64,
    /// Those of the messages and of what is in front of each.
    pub(crate) bytes: u64,
}

impl Extent {
    pub(crate) const NOTHING: Self = Self { messages: 0, bytes: 0 };
    const ENVELOPE_HEAD: u64 = 5;

    /// With one more message.
    pub(crate) fn and(self, message: &Bytes) -> Self {
        let bytes = self.bytes.saturating_add(message.len() as u64 + Self::ENVELOPE_HEAD);
        Self { messages: self.messages + 1, bytes }
    }

    /// The fault of a script that keeps an answer that is so much from its end.
    pub(crate) fn broken_by(self, script: &Script) -> Option<&'static str> {
        script.faults().iter().find_map(|fault| match fault {
            Fault::ResetAfter(after) if *after as u64 <= self.messages => Some("reset"),
            Fault::TruncateAfter(after) if *after <= self.bytes => Some("truncate"),
            Fault::LoseTrailers => Some(LOST_TRAILERS),
            _ => None,
        })
    }

    /// The same of an answer that broke off after so much: its trailers were not to come.
    pub(crate) fn cut_by(self, script: &Script) -> Option<&'static str> {
        self.broken_by(script).filter(|fault| *fault != LOST_TRAILERS)
    }
}

const LOST_TRAILERS: &str = "drop_trailers";

impl Plan {
    /// A plan of an outcome and nothing else.
    pub(crate) fn of(outcome: Outcome) -> Self {
        let headers = Headers::new();
        let trailers = Headers::new();
        let delay = Duration::ZERO;
        let script = Script::default();
        Self { rule: None, delay, headers, trailers, outcome, script, state: None }
    }

    /// Adds what goes wrong this time.
    pub(crate) fn add_faults(&mut self, faults: &[FaultRule], random: &mut Random) {
        for fault in faults.iter().filter_map(|fault| fault.sample(random)) {
            self.script = std::mem::take(&mut self.script).then(fault);
        }
    }
}

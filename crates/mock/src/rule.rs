//! The rules of a method, ready to be applied: what a rule file means once it is compiled.
//!
//! ```text
//! rule ─▶ gate (match) ─▶ responses, each with conditions (when) ─▶ answers (one, or a sequence)
//!                                                                     └▶ message | items | error
//! ```
//!
//! [`compile`](crate::compile) makes them, [`select`](crate::select) chooses between them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tidewire_schema::Message;
use tidewire_service::{Code, Codec, Detail, Fault, Result};

use crate::body::BodyFault;
use crate::condition::Condition;
use crate::condition::index::Ranking;
use crate::random::Random;
use crate::template::Template;
use crate::template::value_template::ValueTemplate;
use crate::value::node::{Node, Position};

/// The rules of one method.
#[derive(Debug)]
pub(crate) struct MethodRule {
    /// The file that they are from.
    pub(crate) file: Arc<str>,
    /// Those that it includes.
    pub(crate) included: Arc<[Arc<str>]>,
    /// What has to hold for conditional responses to be looked at.
    pub(crate) gate: Vec<Condition>,
    /// In the order of the file.
    pub(crate) responses: Vec<Response>,
    /// The conditional ones, by priority.
    pub(crate) ranking: Ranking,
    /// The others, by priority.
    pub(crate) fallbacks: Vec<usize>,
    /// The variables of the file.
    pub(crate) vars: Option<Node>,
    /// Whether anything depends on what was called before, or changes what is remembered.
    pub(crate) is_stateful: bool,
    /// Whether it reads what responses have set, or the number of the call.
    pub(crate) reads_state: bool,
}

/// One response.
#[derive(Debug)]
pub(crate) struct Response {
    /// Where it stands.
    pub(crate) place: Position,
    /// What it is called, for logs.
    pub(crate) name: Option<String>,
    /// What has to hold; `None` for a fallback.
    pub(crate) when: Option<Vec<Condition>>,
    pub(crate) priority: f64,
    /// How often it answers in a session.
    pub(crate) times: Option<u64>,
    /// One answer, or several in turn, of which the last one stays.
    pub(crate) answers: Vec<Answer>,
    /// Whether after the last answer the first one comes again.
    pub(crate) cycles: bool,
    /// What it lets the session remember.
    pub(crate) set_state: Vec<(String, ValueTemplate)>,
    /// What its uses are counted under, among all responses of its method.
    pub(crate) counter: u64,
}

/// What a caller gets.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) delay: Option<Delay>,
    pub(crate) headers: Vec<(HeaderName, Line)>,
    pub(crate) trailers: Vec<(HeaderName, Line)>,
    /// The one message; of a stream the only one, where there are no items.
    pub(crate) body: Option<Content>,
    pub(crate) items: Option<Items>,
    /// In place of messages.
    pub(crate) failure: Option<Failure>,
    /// What is answered to each message of a bidirectional stream as it comes.
    pub(crate) reactions: Vec<Reaction>,
    /// What goes wrong when it is sent.
    pub(crate) faults: Vec<FaultRule>,
    /// Whether the real service answers.
    pub(crate) is_upstream: bool,
    /// Where the form of the answer depends on the call: all of it but a single message and the
    /// reactions, to be rendered first and compiled then.
    pub(crate) late: Option<ValueTemplate>,
}

/// One message of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// The same for each call.
    Fixed(EncodedMessage),
    /// Made for each call.
    Template(ValueTemplate),
    /// Made from the schema, with this over it.
    Generated { over: Option<Box<ValueTemplate>>, violate: f64, seed: Option<u64> },
    /// What the schema cannot hold.
    Broken(BodyFault),
}

/// A message and its bytes in each codec.
#[derive(Debug)]
pub(crate) struct EncodedMessage {
    message: Message,
    proto: OnceLock<Bytes>,
    json: OnceLock<Bytes>,
}

/// The messages of a stream.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) list: Vec<Item>,
    /// How often the list is sent.
    pub(crate) rounds: Option<u64>,
    pub(crate) is_shuffled: bool,
    /// Between two messages.
    pub(crate) pause: Delay,
    /// What it ends with, after the last round.
    pub(crate) failure: Option<Failure>,
    /// Before that.
    pub(crate) failure_delay: Option<Delay>,
}

/// A message of a stream.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) content: Content,
    /// Before it, in place of the pause between messages.
    pub(crate) delay: Option<Delay>,
}

/// What a bidirectional rule does when a message comes.
#[derive(Debug)]
pub(crate) struct Reaction {
    pub(crate) when: Vec<Condition>,
    pub(crate) send: Vec<Item>,
    pub(crate) failure: Option<Failure>,
    /// Whether the stream ends with it.
    pub(crate) ends: bool,
    /// Where its form depends on the call: all of it but `when`.
    pub(crate) late: Option<ValueTemplate>,
}

/// An error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: Text,
    pub(crate) details: Vec<Detail>,
}

/// What goes wrong with an answer, and how often.
#[derive(Debug)]
pub(crate) struct FaultRule {
    pub(crate) kind: FaultKind,
    /// From 0 to 1.
    pub(crate) probability: f64,
}

/// What goes wrong with an answer.
#[derive(Debug)]
pub(crate) enum FaultKind {
    /// After so many messages.
    Reset(usize),
    /// After so many messages.
    GoAway(usize),
    /// After so many bytes.
    Truncate(usize),
    /// Pieces of so many bytes, and the pause between them.
    Dribble(usize, Delay),
    /// The pause before each message.
    Slow(Delay),
    DropTrailers,
    ContentType(HeaderValue),
}

/// Text of an answer.
#[derive(Debug)]
pub(crate) enum Text {
    Fixed(String),
    Template(Template),
}

/// The value of a header or a trailer.
#[derive(Debug)]
pub(crate) enum Line {
    Fixed(HeaderValue),
    Template(Template),
}

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Delay {
    Fixed(Duration),
    Uniform(Duration, Duration),
    /// Half of them are below the median; the larger sigma, the longer the tail.
    Lognormal {
        median: Duration,
        sigma: f64,
    },
}

/// What no delay exceeds.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Delay {
    /// One delay.
    pub(crate) fn sample(self, random: &mut Random) -> Duration {
        let seconds = match self {
            Self::Fixed(delay) => return delay.min(DELAY_MAX),
            Self::Uniform(from, to) => {
                let width = to.saturating_sub(from).as_secs_f64();
                from.as_secs_f64() + random.unit() * width
            }
            Self::Lognormal { median, sigma } => {
                // Box and Muller's normal distribution.
                let a = 1.0 - random.unit();
                let b = random.unit();
                let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                median.as_secs_f64() * (sigma * normal).exp()
            }
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(DELAY_MAX).min(DELAY_MAX)
    }
}

impl FaultRule {
    /// What goes wrong this time.
    pub(crate) fn sample(&self, random: &mut Random) -> Option<Fault> {
        if self.probability < 1.0 && random.unit() >= self.probability {
            return None;
        }
        Some(match &self.kind {
            FaultKind::Reset(messages) => Fault::ResetAfter(*messages),
            FaultKind::GoAway(messages) => Fault::GoAwayAfter(*messages),
            FaultKind::Truncate(bytes) => Fault::TruncateAfter(*bytes as u64),
            FaultKind::Dribble(bytes, every) => {
                Fault::Dribble { bytes: *bytes, every: every.sample(random) }
            }
            FaultKind::Slow(every) => Fault::FrameDelay(every.sample(random)),
            FaultKind::DropTrailers => Fault::LoseTrailers,
            FaultKind::ContentType(value) => Fault::ContentType(value.clone()),
        })
    }
}

impl EncodedMessage {
    pub(crate) fn new(message: Message) -> Self {
        Self { message, proto: OnceLock::new(), json: OnceLock::new() }
    }

    /// A message whose bytes in protobuf are these.
    pub(crate) fn of_bytes(message: Message, bytes: Bytes) -> Self {
        Self { message, proto: OnceLock::from(bytes), json: OnceLock::new() }
    }

    /// Its bytes, made when they are asked for first.
    pub(crate) fn bytes(&self, codec: Codec) -> Result<Bytes> {
        let kept = match codec {
            Codec::Proto => &self.proto,
            Codec::Json => &self.json,
        };
        if let Some(bytes) = kept.get() {
            return Ok(bytes.clone());
        }
        let bytes = self.message.encode(codec)?;
        Ok(kept.get_or_init(|| bytes).clone())
    }
}

impl MethodRule {
    /// What the uses of a response are counted under.
    pub(crate) fn counter(&self, index: usize) -> u64 {
        self.responses.get(index).map_or(0, |response| response.counter)
    }
}

impl Response {
    /// The answer of its n-th use, counted from 0.
    pub(crate) fn answer(&self, use_number: u64) -> Option<&Answer> {
        let count = u64::try_from(self.answers.len()).unwrap_or(u64::MAX).max(1);
        let index = if self.cycles { use_number % count } else { use_number.min(count - 1) };
        self.answers.get(usize::try_from(index).unwrap_or(0))
    }

    /// What it wants of a call beside its session.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.when.iter().flatten().filter(|one| !one.is_of_session())
    }

    /// Whether it answers some calls of its session only.
    pub(crate) fn is_conditional(&self) -> bool {
        let is_all = self.when.as_ref().is_some_and(Vec::is_empty);
        self.times.is_some() || is_all || self.conditions().next().is_some()
    }

    /// Whether its answer depends on how often it was used.
    pub(crate) fn is_counted(&self) -> bool {
        self.times.is_some() || self.answers.len() > 1
    }
}

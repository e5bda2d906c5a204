//! An answer that can be given again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::SET_COOKIE;
use sha2::{Digest, Sha256};
use tidewire_service::{Body, Code, Error, Freshness, Headers, Lifetime, Reply, Result, Validator};

use crate::refusal::Refusal;

/// The encoded reply, or the error, of a query.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    answer: Answered,
    /// What the answer said of itself: an upstream knows when its answer ends.
    own: Freshness,
    made: Instant,
}

#[derive(Debug, Clone)]
enum Answered {
    Reply {
        status: StatusCode,
        headers: Headers,
        body: Bytes,
        trailers: Headers,
        validator: Validator,
    },
    Error(Error),
}

impl Kept {
    /// What can be given again of an answer; the answer itself and the reason where it cannot.
    pub(crate) fn of(
        outcome: Result<Reply>,
        made: Instant,
        reply_bytes_max: usize,
    ) -> Result<Self, (Result<Reply>, Refusal)> {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                let own = error.freshness().clone();
                return Ok(Self { answer: Answered::Error(error), own, made });
            }
        };
        if let Some(refusal) = refusal(&reply, reply_bytes_max) {
            return Err((Ok(reply), refusal));
        }
        // The bytes may be a view into a larger buffer, which would be kept with them.
        let body = match &reply.body {
            Body::Full(bytes) => Bytes::copy_from_slice(bytes),
            _ => Bytes::new(),
        };
        let validator = validator(&body);
        let Reply { status, headers, trailers, freshness: own, .. } = reply;
        let answer = Answered::Reply { status, headers, body, trailers, validator };
        Ok(Self { answer, own, made })
    }

    /// An error that was made here.
    pub(crate) fn error(error: Error, made: Instant) -> Self {
        Self { answer: Answered::Error(error), own: Freshness::default(), made }
    }

    /// Why the answer says nothing about the next call.
    pub(crate) fn passing_code(&self) -> Option<Code> {
        use Code::{FailedPrecondition, InvalidArgument, NotFound, OutOfRange};
        match &self.answer {
            Answered::Reply { .. } => None,
            Answered::Error(error) => {
                let code = error.code();
                let lasts =
                    matches!(code, NotFound | InvalidArgument | FailedPrecondition | OutOfRange);
                (!lasts).then_some(code)
            }
        }
    }

    /// What the answer said of itself.
    pub(crate) fn own(&self) -> &Freshness {
        &self.own
    }

    /// Whether the answer is over by what it said of itself.
    pub(crate) fn is_over(&self, now: impl FnOnce() -> Instant) -> bool {
        let ended = match self.own.lifetime() {
            Lifetime::For(life) => self.age(now()) + self.own.age() >= life,
            _ => false,
        };
        ended || self.own.is_stale()
    }

    /// How long ago the answer was made.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.made)
    }

    /// The bytes that the answer holds beside itself, about.
    pub(crate) fn bytes(&self) -> usize {
        match &self.answer {
            Answered::Reply { headers, body, trailers, .. } => {
                body.len() + bytes_of(headers) + bytes_of(trailers)
            }
            Answered::Error(error) => {
                let details = error.details().iter().map(|d| d.value.len() + d.type_name.len());
                error.message().len() + details.sum::<usize>() + ERROR_BYTES
            }
        }
    }

    /// The answer, to be given to one caller: *unchanged* to one who holds it.
    pub(crate) fn give(&self, held: &[Validator], freshness: Freshness) -> Result<Reply> {
        match &self.answer {
            Answered::Reply { validator, headers, .. } if held.contains(validator) => {
                let freshness = freshness.with_validator(*validator);
                let unchanged = Reply::unchanged(*validator).with_freshness(freshness);
                Ok(unchanged.with_headers(headers.clone()))
            }
            Answered::Reply { validator, .. } => {
                self.give_with(freshness.with_validator(*validator))
            }
            Answered::Error(_) => self.give_with(freshness),
        }
    }

    /// The answer as the service gave it.
    pub(crate) fn give_as_it_came(&self) -> Result<Reply> {
        self.give_with(self.own.clone())
    }

    fn give_with(&self, freshness: Freshness) -> Result<Reply> {
        match &self.answer {
            Answered::Error(error) => Err(error.clone().with_freshness(freshness)),
            Answered::Reply { status, headers, body, trailers, .. } => {
                let mut reply = Reply::new(Body::Full(body.clone()))
                    .with_status(*status)
                    .with_freshness(freshness);
                if !headers.is_empty() {
                    reply = reply.with_headers(headers.clone());
                }
                if !trailers.is_empty() {
                    reply = reply.with_trailers(trailers.clone());
                }
                Ok(reply)
            }
        }
    }
}

/// About what an error takes on the heap.
const ERROR_BYTES: usize = 200;

/// Equal answers leave what was made of them valid.
impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        match (&self.answer, &other.answer) {
            (
                Answered::Reply { status, headers, body, trailers, .. },
                Answered::Reply { status: s, headers: h, body: b, trailers: t, .. },
            ) => status == s && body == b && headers == h && trailers == t,
            (Answered::Error(one), Answered::Error(two)) => {
                one.code() == two.code()
                    && one.message() == two.message()
                    && one.details() == two.details()
                    && one.headers() == two.headers()
                    && one.trailers() == two.trailers()
            }
            _ => false,
        }
    }
}

fn refusal(reply: &Reply, reply_bytes_max: usize) -> Option<Refusal> {
    let bytes = match &reply.body {
        Body::Empty => 0,
        Body::Full(bytes) => bytes.len(),
        Body::Stream(_) => return Some(Refusal::Stream),
    };
    if !reply.is_ordinary() {
        return Some(Refusal::Stream);
    }
    if reply.headers.contains_key(SET_COOKIE) || reply.trailers.contains_key(SET_COOKIE) {
        return Some(Refusal::Cookie);
    }
    (bytes > reply_bytes_max).then_some(Refusal::TooLarge { bytes, reply_bytes_max })
}

fn validator(body: &[u8]) -> Validator {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(body)[..16]);
    Validator::new(half)
}

fn bytes_of(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

//! An answer that can be given again.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ::http::StatusCode;
use ::http::header::SET_COOKIE;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tidewire_service::{
    Body, CachedBody, Code, Error, Forms, FormsBudget, Freshness, Headers, Lifetime, Reply, Result,
    Staleness, ThinHeaders, Validator,
};

use crate::difference;
use crate::http::{Credentials, From};
use crate::key::Key;
use crate::method_policy::MethodPolicy;
use crate::own_headers::own;
use crate::refusal::Refusal;
use crate::staleness::VersionWatch;
use crate::weight;

/// The encoded reply, or the error, of a query.
#[derive(Clone)]
pub(crate) struct CachedReply(Arc<Entry>);

/// The answer with its key and all that is kept beside it.
pub(crate) struct Entry {
    answer: CachedOutcome,
    body: Bytes,
    /// What the answer said of itself: an upstream knows when its answer ends.
    own: Freshness,
    made: Instant,
    key: Key,
    terms: Arc<MethodPolicy>,
    forms: Forms,
}

#[derive(Debug, Clone)]
enum CachedOutcome {
    Reply {
        status: StatusCode,
        headers: ThinHeaders,
        trailers: ThinHeaders,
        validator: Validator,
    },
    Error(Error),
    /// What is known of a reply that is not cached but watched.
    Digest {
        validator: Option<Validator>,
        digest: [u8; 16],
    },
}

/// What matters of whoever asks.
pub(crate) struct CallerView {
    pub(crate) held: Vec<Validator>,
    /// Whether HTTP's rules for caches hold for the answer.
    pub(crate) is_conditional: bool,
    /// Whether any current reply will do: `If-None-Match: *` (RFC 9110, section 13.1.2).
    pub(crate) holds_any: bool,
    pub(crate) credentials: Credentials,
}

/// Of what an answer is, and when it was made.
pub(crate) struct Origin {
    pub(crate) key: Key,
    pub(crate) terms: Arc<MethodPolicy>,
    pub(crate) room: Arc<FormsBudget>,
    pub(crate) made: Instant,
}

/// What a run of a service gave, for the cache.
pub(crate) enum RunResult {
    /// What can be given again.
    Cacheable(CachedReply),
    /// What only its starter may have.
    Uncacheable(Box<UncacheableReply>),
}

/// A reply that is its starter's alone, and why.
pub(crate) struct UncacheableReply {
    pub(crate) outcome: Result<Reply>,
    pub(crate) refusal: Refusal,
}

impl RunResult {
    pub(crate) fn uncacheable(outcome: Result<Reply>, refusal: Refusal) -> Self {
        Self::Uncacheable(Box::new(UncacheableReply { outcome, refusal }))
    }
}

impl CachedReply {
    /// What can be given again of a reply; the reply itself and the reason where it cannot.
    pub(crate) fn of(outcome: Result<Reply>, origin: Origin) -> RunResult {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) if sets_cookie(error.headers(), error.trailers()) => {
                return RunResult::uncacheable(Err(error), Refusal::Cookie);
            }
            Err(error) => return RunResult::Cacheable(Self::error(error, origin)),
        };
        if let Some(refusal) = refusal(&reply, origin.terms.reply_bytes_max) {
            return RunResult::uncacheable(Ok(reply), refusal);
        }
        // The bytes may be a view into a larger buffer, which would be kept with them.
        let body = match &reply.body {
            Body::Full(bytes) => Bytes::copy_from_slice(bytes),
            _ => Bytes::new(),
        };
        let validator = validator(&reply, &body);
        let Reply { status, mut headers, mut trailers, freshness, .. } = reply;
        own(&mut headers);
        own(&mut trailers);
        let answer = CachedOutcome::Reply { status, headers, trailers, validator };
        RunResult::Cacheable(Self::new(answer, body, freshness, origin))
    }

    /// An error.
    pub(crate) fn error(mut error: Error, origin: Origin) -> Self {
        own(error.headers_mut());
        own(error.trailers_mut());
        let own = error.freshness().clone();
        Self::new(CachedOutcome::Error(error), Bytes::new(), own, origin)
    }

    fn new(answer: CachedOutcome, body: Bytes, own: Freshness, origin: Origin) -> Self {
        let Origin { key, terms, room, made } = origin;
        let forms = Forms::new(room);
        Self(Arc::new(Entry { answer, body, own, made, key, terms, forms }))
    }

    /// The same answer, of which the service said that it is unchanged.
    pub(crate) fn renewed(&self, reply: Reply) -> Reply {
        let entry = &*self.0;
        let CachedOutcome::Reply { status, headers, trailers, .. } = &entry.answer else {
            return reply;
        };
        let mut whole = Reply::new(Body::Full(entry.body.clone()))
            .with_status(*status)
            .with_headers(headers.clone())
            .with_trailers(trailers.clone())
            .with_freshness(reply.freshness);
        // What is said anew takes the place of what was said before (RFC 9111, section 3.2).
        for name in reply.headers.keys() {
            whole.headers.remove(name);
        }
        for (name, value) in &*reply.headers {
            whole.headers.append(name, value.clone());
        }
        whole
    }

    /// What it is kept under.
    pub(crate) fn key(&self) -> &Key {
        &self.0.key
    }

    pub(crate) fn downgrade(&self) -> Weak<Entry> {
        Arc::downgrade(&self.0)
    }

    /// Why the answer says nothing about the next call.
    pub(crate) fn passing_code(&self) -> Option<Code> {
        use Code::{FailedPrecondition, InvalidArgument, NotFound, OutOfRange};
        match &self.0.answer {
            CachedOutcome::Reply { .. } | CachedOutcome::Digest { .. } => None,
            CachedOutcome::Error(error) => {
                let code = error.code();
                let lasts =
                    matches!(code, NotFound | InvalidArgument | FailedPrecondition | OutOfRange);
                (!lasts).then_some(code)
            }
        }
    }

    /// What the answer said of itself.
    pub(crate) fn own(&self) -> &Freshness {
        &self.0.own
    }

    /// Whether the answer is over by what it said of itself.
    pub(crate) fn is_over(&self) -> bool {
        let own = &self.0.own;
        let ended = match own.lifetime() {
            Lifetime::For(life) => self.age() + own.age() >= life,
            _ => false,
        };
        ended || own.is_stale()
    }

    /// Whether the answer may end by what it said of itself, of which the graph is not told.
    pub(crate) fn ends_by_itself(&self) -> bool {
        let own = &self.0.own;
        matches!(own.lifetime(), Lifetime::For(_)) || own.staleness().is_some()
    }

    /// How long ago the answer was made.
    fn age(&self) -> Duration {
        self.0.terms.timer.now().saturating_duration_since(self.0.made)
    }

    /// What the answer and its key hold on the heap; forms are counted apart.
    pub(crate) fn bytes(&self) -> usize {
        let entry = &*self.0;
        let held = match &entry.answer {
            CachedOutcome::Reply { headers, trailers, .. } => {
                weight::shared(&entry.body) + weight::headers(headers) + weight::headers(trailers)
            }
            CachedOutcome::Error(error) => weight::error(error),
            CachedOutcome::Digest { .. } => 0,
        };
        held + weight::heap_bytes(entry.key.bytes()) + weight::heap_bytes(size_of::<Entry>())
    }

    /// This version of the answer, to be given to one caller: *unchanged* to one who holds it.
    pub(crate) fn give(&self, version: u64, asker: &CallerView, from: From) -> Result<Reply> {
        let freshness = self.freshness(version);
        let entry = &*self.0;
        let told = asker.is_conditional.then(|| self.cache_headers(from, asker.credentials));
        match &entry.answer {
            CachedOutcome::Reply { validator, headers, status, .. }
                if asker.held.contains(validator) || asker.holds_any && status.is_success() =>
            {
                let freshness = freshness.with_validator(*validator);
                let unchanged = Reply::unchanged(*validator).with_freshness(freshness);
                let told = told.map_or_else(|| headers.clone(), ThinHeaders::from);
                Ok(unchanged.with_headers(told))
            }
            _ => self.give_with(freshness, told),
        }
    }

    /// What the graph keeps of a reply that is not cached: enough to compare it with the next one.
    pub(crate) fn digest(&self) -> Self {
        let entry = &*self.0;
        let digest = entry.hash();
        Self(Arc::new(Entry {
            answer: CachedOutcome::Digest { validator: entry.validator(), digest },
            body: Bytes::new(),
            own: entry.own.clone(),
            made: entry.made,
            key: entry.key.clone(),
            terms: Arc::clone(&entry.terms),
            forms: Forms::new(Arc::new(FormsBudget::new(0))),
        }))
    }

    /// Whether this reply has the digest.
    pub(crate) fn has_digest(&self, of: &Self) -> bool {
        matches!(&of.0.answer, CachedOutcome::Digest { digest, .. } if *digest == self.0.hash())
    }

    /// In what a caller sees this reply and another differ; `None` where they are the same.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        use CachedOutcome::{Error, Reply};
        if self.0.hash() == other.0.hash() {
            return None;
        }
        let is_protobuf = self.0.key.is_protobuf();
        let found = match (&self.0.answer, &other.0.answer) {
            (
                Reply { status, headers, trailers, .. },
                Reply { status: status2, headers: headers2, trailers: trailers2, .. },
            ) => (status != status2)
                .then(|| format!("status {}, then {}", status.as_u16(), status2.as_u16()))
                .or_else(|| difference::bodies(&self.0.body, &other.0.body, is_protobuf))
                .or_else(|| difference::headers(headers, headers2))
                .or_else(|| difference::headers(trailers, trailers2)),
            (Error(one), Error(other)) if one.code() == other.code() => {
                Some(format!("message or details of the error {}", one.code()))
            }
            (Error(one), Error(other)) => {
                Some(format!("result: the error {}, then {}", one.code(), other.code()))
            }
            (Reply { .. }, Error(error)) => {
                Some(format!("result: a reply, then the error {}", error.code()))
            }
            (Error(error), _) => Some(format!("result: the error {}, then a reply", error.code())),
            _ => None,
        };
        Some(found.unwrap_or_else(|| "the order of headers".to_owned()))
    }

    /// This reply, whose end `digest` tells, to be given to one who watches.
    pub(crate) fn give_watched(
        &self,
        digest: &Self,
        version: u64,
        asker: &CallerView,
    ) -> Result<Reply> {
        let freshness = digest.freshness(version);
        match &self.0.answer {
            CachedOutcome::Reply { validator, headers, .. } if asker.held.contains(validator) => {
                let freshness = freshness.with_validator(*validator);
                Ok(Reply::unchanged(*validator)
                    .with_freshness(freshness)
                    .with_headers(headers.clone()))
            }
            _ => self.give_with(freshness, None),
        }
    }

    /// The answer as the service gave it.
    pub(crate) fn give_as_it_came(&self) -> Result<Reply> {
        self.give_with(self.0.own.clone(), None)
    }

    /// The answer, which changed while it was made: it is right for a caller who asked before the
    /// change, and whoever watches it is to ask again at once.
    pub(crate) fn give_over(&self) -> Result<Reply> {
        let over = Freshness::lasting(Duration::ZERO);
        self.give_with(over.with_validator(self.0.validator()), None)
    }

    fn give_with(&self, freshness: Freshness, told: Option<Headers>) -> Result<Reply> {
        match &self.0.answer {
            CachedOutcome::Error(error) => {
                let mut error = error.clone().with_freshness(freshness);
                if let Some(told) = told {
                    *error.headers_mut() = told.into();
                }
                Err(error)
            }
            CachedOutcome::Reply { status, headers, trailers, .. } => {
                let mut reply = Reply::new(Body::Full(self.0.body.clone()))
                    .with_status(*status)
                    .with_freshness(freshness);
                if let Some(told) = told {
                    reply.headers = told.into();
                } else if !headers.is_empty() {
                    reply.headers = headers.clone();
                }
                if !trailers.is_empty() {
                    reply.trailers = trailers.clone();
                }
                Ok(reply)
            }
            CachedOutcome::Digest { .. } => {
                Err(Error::internal("a digest of a reply was given in its place"))
            }
        }
    }

    fn freshness(&self, version: u64) -> Freshness {
        let own = self.own();
        let keeper: Arc<dyn CachedBody> = Arc::clone(&self.0) as _;
        let freshness = Freshness::cached(keeper, version).with_tokens(own.tokens());
        let (lifetime, age) = match own.lifetime() {
            Lifetime::Unknown => (self.0.terms.lifetime, Duration::ZERO),
            lifetime => (lifetime, own.age()),
        };
        if lifetime == Lifetime::Unknown {
            return freshness;
        }
        freshness.with_lifetime(lifetime).with_age(age + self.age())
    }

    /// The headers of the answer with what caches are told.
    fn cache_headers(&self, from: From, credentials: Credentials) -> Headers {
        let own = match &self.0.answer {
            CachedOutcome::Reply { headers, .. } => headers,
            CachedOutcome::Error(error) => error.headers(),
            CachedOutcome::Digest { .. } => &ThinHeaders::default(),
        };
        let rules = &self.0.terms.rules;
        match from {
            From::Memory => rules.cache_headers(own, Some(self.age()), credentials),
            From::Service => rules.cache_headers(own, None, credentials),
        }
    }
}

impl Entry {
    /// Whether it is kept on these terms.
    pub(crate) fn is_on(&self, terms: &Arc<MethodPolicy>) -> bool {
        Arc::ptr_eq(&self.terms, terms)
    }
}

impl std::convert::From<Arc<Entry>> for CachedReply {
    fn from(entry: Arc<Entry>) -> Self {
        Self(entry)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.own.validator().is_some() {
            self.terms.previous.forget(&self.key);
        }
    }
}

impl Entry {
    /// A hash of everything that a caller sees of the reply.
    fn hash(&self) -> [u8; 16] {
        let mut parts = Sha256::new();
        let mut part = |bytes: &[u8]| {
            parts.update((bytes.len() as u64).to_le_bytes());
            parts.update(bytes);
        };
        let fields = |part: &mut dyn FnMut(&[u8]), headers: &Headers| {
            part(&headers.len().to_le_bytes());
            for (name, value) in headers {
                part(name.as_str().as_bytes());
                part(value.as_bytes());
            }
        };
        match &self.answer {
            CachedOutcome::Digest { digest, .. } => return *digest,
            CachedOutcome::Reply { status, headers, trailers, .. } => {
                part(&status.as_u16().to_le_bytes());
                part(&self.body);
                fields(&mut part, headers);
                fields(&mut part, trailers);
            }
            CachedOutcome::Error(error) => {
                part(&error.code().number().to_le_bytes());
                part(error.message().as_bytes());
                for detail in error.details() {
                    part(detail.type_name.as_bytes());
                    part(&detail.value);
                }
                fields(&mut part, error.headers());
                fields(&mut part, error.trailers());
            }
        }
        first_half(&parts.finalize())
    }
}

impl CachedBody for Entry {
    fn validator(&self) -> Option<Validator> {
        match &self.answer {
            CachedOutcome::Reply { validator, .. } => Some(*validator),
            // A caller that watches an error holds it by this.
            CachedOutcome::Error(_) => Some(Validator::new(self.hash())),
            CachedOutcome::Digest { validator, .. } => *validator,
        }
    }

    fn is_stale(&self, version: u64) -> bool {
        !self.terms.memo().validate(&self.key, version) || self.own.is_stale()
    }

    fn staleness(&self, version: u64) -> Arc<dyn Staleness> {
        let memo = self.terms.memo();
        let own = self.own.staleness().cloned();
        Arc::new(VersionWatch::new(memo, self.key.clone(), version, own))
    }

    fn again(&self, version: u64) -> Option<Duration> {
        let found = self.terms.memo().cached(&self.key)?;
        let is_this = found.version() == version && std::ptr::eq(&raw const *found.0, self);
        (is_this && !found.is_over()).then(|| found.age())
    }

    fn body(&self) -> &Bytes {
        &self.body
    }

    fn forms(&self) -> &Forms {
        &self.forms
    }
}

/// Equal replies leave their dependants valid.
impl PartialEq for CachedReply {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0.answer, &other.0.answer) {
            (
                CachedOutcome::Reply { status, headers, trailers, .. },
                CachedOutcome::Reply { status: s, headers: h, trailers: t, .. },
            ) => status == s && self.0.body == other.0.body && headers == h && trailers == t,
            (CachedOutcome::Error(one), CachedOutcome::Error(two)) => {
                one.code() == two.code()
                    && one.message() == two.message()
                    && one.details() == two.details()
                    && one.headers() == two.headers()
                    && one.trailers() == two.trailers()
            }
            (
                CachedOutcome::Digest { digest: one, .. },
                CachedOutcome::Digest { digest: two, .. },
            ) => one == two,
            _ => false,
        }
    }
}

impl fmt::Debug for CachedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedReply").field("answer", &self.0.answer).finish_non_exhaustive()
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
    if sets_cookie(&reply.headers, &reply.trailers) {
        return Some(Refusal::Cookie);
    }
    if !speaks_of_data(reply.status) {
        return Some(Refusal::Status(reply.status));
    }
    (bytes > reply_bytes_max).then_some(Refusal::TooLarge { bytes, reply_bytes_max })
}

fn sets_cookie(headers: &Headers, trailers: &Headers) -> bool {
    headers.contains_key(SET_COOKIE) || trailers.contains_key(SET_COOKIE)
}

/// Whether an HTTP status says something of what was asked for, and not of the moment, of whoever
/// asks or of how: the statuses of the codes that are kept, and those of successes and redirections
/// as a whole.
fn speaks_of_data(status: StatusCode) -> bool {
    match status {
        StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED => false,
        _ if status.is_success() || status.is_redirection() => true,
        _ => matches!(status.as_u16(), 400 | 404 | 410 | 416 | 422),
    }
}

/// Names the content of a reply: who holds it is told *unchanged* and keeps headers and trailers,
/// too, so that others are another content.
pub(crate) fn validator(reply: &Reply, body: &[u8]) -> Validator {
    let mut hash = Sha256::new_with_prefix(body);
    for (kind, fields) in [(1, &reply.headers), (2, &reply.trailers)] {
        for (name, value) in fields.iter() {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                hash.update([kind]);
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
    }
    Validator::new(first_half(&hash.finalize()))
}

fn first_half(hash: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash[..16]);
    half
}

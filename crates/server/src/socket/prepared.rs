//! Cached replies over HTTP/1.1 that leave as they lie: the bytes of a response, by the bytes of
//! the request that it answers.
//!
//! ```text
//! bytes ─▶ connection.rs: between two requests? ─▶ the same bytes as before? ─▶ still in memory? ─▶ written
//!                           └──────── no ──────────────┴──────── no ──────────────┴──▶ the HTTP library
//! ```
//!
//! A reply from memory costs little beside reading a head into maps, finding its method, making a
//! message of its path and printing a head for the answer. Clients send the same bytes again for
//! the same question. So the second time that the cache answers these bytes, the response is
//! prepared: the next time nothing is read or printed, and only memory is asked.
//!
//! | is prepared | because |
//! |---|---|
//! | what the cache of the server answered, and nothing around it | a layer outside may want to see each call ([`Service::keeps`](tidewire_service::Service::keeps)) |
//! | where no trace looks at requests, nor anything at addresses | each may say something else of the next one |
//! | where gates and observers take part in it (`request/repeat.rs`) | they are asked each time and told |
//! | a request that came as one piece, to its last byte, of at most [`REQUEST_BYTES_MAX`] | it is compared byte by byte |
//! | one without `authorization` and `cookie` | what is prepared lies in memory with its request |
//! | a response of at most [`RESPONSE_BYTES_MAX`], after which the connection goes on | copies have to be worth it |
//!
//! Memory is asked for each request, by the look-up of a call (`CachedBody::again`): what changed,
//! expired or was evicted is not given, and what is given counts as used. Other settings of the
//! server, or other services in place of reloadable ones, are other editions: what was prepared
//! before them is not given.
//!
//! All of it takes at most `limits.prepared_bytes_max`; past it what was not used goes first.

mod connection;
mod hit;
mod progress;
mod reply;
mod sights;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use memchr::memmem::Finder;
use parking_lot::RwLock;
use tidewire_service::{Peer, ServiceSource};

pub(crate) use self::connection::PreparedConnection;
pub(crate) use self::hit::{CachedHit, HitWatch, RepeatWatch, TellRepeat};
pub(crate) use self::progress::RequestProgress;
use self::reply::PreparedReply;
use self::sights::Sights;

/// The responses of one server that are prepared.
pub(crate) struct PreparedReplies {
    shards: Box<[RwLock<Shard>]>,
    /// What one shard may take.
    shard_bytes_max: usize,
    hasher: RandomState,
    /// Requests that were answered from memory once.
    sights: Sights,
    /// Whether the cache has answered anything yet: until then connections keep no account.
    is_used: AtomicBool,
    /// The edition of the server's settings.
    edition: AtomicU64,
    source: Option<Arc<dyn ServiceSource>>,
}

#[derive(Default)]
struct Shard {
    replies: HashMap<u64, PreparedReply, BuildHasherDefault<Hashed>>,
    /// The oldest first.
    order: VecDeque<u64>,
    bytes: usize,
    answered: AtomicU64,
}

/// What became of the requests that an input begins with.
#[derive(Debug, PartialEq, Eq)]
struct AnswerCount {
    /// Of those that are answered.
    bytes: usize,
    /// The one behind them was answered from memory before.
    is_next_repeated: bool,
}

/// What became of one request.
enum LookUp {
    Answer,
    /// Perhaps one of the same bytes was answered from memory before.
    Nothing {
        is_repeated: bool,
    },
}

/// The hasher of what is a hash.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl PreparedReplies {
    /// Nothing is prepared yet; all may take so many bytes, none for 0. `source` is that of the
    /// services that may change.
    pub(crate) fn new(bytes_max: usize, source: Option<Arc<dyn ServiceSource>>) -> Self {
        let shards = if bytes_max < SHARDED_BYTES { 1 } else { SHARDS };
        Self {
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            shard_bytes_max: bytes_max / shards,
            hasher: RandomState::default(),
            sights: Sights::default(),
            is_used: AtomicBool::new(false),
            edition: AtomicU64::new(0),
            source,
        }
    }

    /// Whether anything may be prepared at all.
    pub(crate) fn is_on(&self) -> bool {
        self.shard_bytes_max > 0
    }

    /// Whether the cache has answered anything yet.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// How many requests were answered.
    pub(crate) fn answer_count(&self) -> u64 {
        self.shards.iter().map(|shard| shard.read().answered.load(Ordering::Relaxed)).sum()
    }

    /// The cache answers.
    pub(crate) fn begin(&self) {
        if self.is_on() && !self.is_used() {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// The server has other settings: nothing that was prepared before is given any more.
    pub(crate) fn set_edition(&self, edition: u64) {
        self.edition.store(edition, Ordering::Release);
    }

    /// The edition of the services that may change; 0 where there are none.
    fn source_edition(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.edition())
    }

    /// Answers requests that `input` begins with, until more than `output_max` bytes are there:
    /// appends their responses.
    fn answer(
        &self,
        input: &[u8],
        peer: &Arc<Peer>,
        output: &mut Vec<u8>,
        output_max: usize,
    ) -> AnswerCount {
        let mut answered = AnswerCount { bytes: 0, is_next_repeated: false };
        if input.len() <= REQUEST_BYTES_MAX {
            match self.answer_one(input, peer, output) {
                LookUp::Answer => return AnswerCount { bytes: input.len(), ..answered },
                LookUp::Nothing { is_repeated } => answered.is_next_repeated = is_repeated,
            }
        }
        // Pipelined: requests without a body end with their heads.
        while output.len() <= output_max
            && let Some(length) = bodiless_end(&input[answered.bytes..])
            && length <= REQUEST_BYTES_MAX
            && length < input.len()
        {
            let request = &input[answered.bytes..][..length];
            match self.answer_one(request, peer, output) {
                LookUp::Answer => answered.bytes += length,
                LookUp::Nothing { is_repeated } => {
                    answered.is_next_repeated = is_repeated;
                    break;
                }
            }
        }
        answered
    }

    fn answer_one(&self, request: &[u8], peer: &Arc<Peer>, output: &mut Vec<u8>) -> LookUp {
        let hash = self.hasher.hash_one(request);
        let shard = self.shard(hash);
        let found = shard.read();
        let nothing = || LookUp::Nothing { is_repeated: self.sights.has(hash) };
        let Some(reply) = found.replies.get(&hash).filter(|reply| reply.answers(request)) else {
            return nothing();
        };
        match &reply.hit().watched {
            HitWatch::Nobody => match self.give(&found, reply, output) {
                true => LookUp::Answer,
                false => nothing(),
            },
            HitWatch::Unknown => nothing(),
            // Nobody is asked in vain, as far as that is known.
            HitWatch::Known(_) if reply.is_over() || !self.is_of_now(reply) => nothing(),
            HitWatch::Known(before) => {
                let before = Arc::clone(before);
                // Nobody waits for what gates and observers do.
                drop(found);
                let Some(tell) = before.admit(peer) else { return nothing() };
                let found = shard.read();
                let reply = found.replies.get(&hash).filter(|reply| reply.answers(request));
                let body_bytes = reply
                    .and_then(|reply| self.give(&found, reply, output).then(|| reply.body_bytes()));
                drop(found);
                let Some(body_bytes) = body_bytes else { return nothing() };
                tell(body_bytes);
                LookUp::Answer
            }
        }
    }

    /// Appends a reply of this shard, if it would be given again now.
    fn give(&self, shard: &Shard, reply: &PreparedReply, output: &mut Vec<u8>) -> bool {
        let age = self.age(reply.hit()).filter(|_| self.is_of_now(reply));
        match age {
            Some(age) => {
                reply.write(age, output);
                shard.answered.fetch_add(1, Ordering::Relaxed);
            }
            None if reply.end() => {
                // It is prepared anew once it was answered from memory twice again.
                let hash = self.hasher.hash_one(reply.request());
                self.sights.forget(hash);
            }
            None => {}
        }
        age.is_some()
    }

    /// Whether it was prepared by the settings and the services of now.
    fn is_of_now(&self, reply: &PreparedReply) -> bool {
        reply.hit().edition == self.edition.load(Ordering::Acquire)
            && reply.source_edition() == self.source_edition()
    }

    /// How old a reply is that would be given again now; `None` where that is not sure.
    fn age(&self, hit: &CachedHit) -> Option<Duration> {
        if hit.edition != self.edition.load(Ordering::Acquire) {
            return None;
        }
        hit.kept.upgrade()?.again(hit.version)
    }

    /// The cache answered `request`, which came while this was the edition of the services, by
    /// `response`: prepares it, the second time.
    fn prepare(&self, request: &[u8], response: &[u8], hit: CachedHit, source_edition: u64) {
        if request.starts_with(b"GET ") && !reply::is_from_memory(response) {
            return;
        }
        let hash = self.hasher.hash_one(request);
        if !self.sights.add(hash) {
            return;
        }
        if matches!(hit.watched, HitWatch::Unknown) {
            return;
        }
        // It came behind others, where the library had to answer it.
        let is_there =
            |reply: &PreparedReply| reply.is_of(request, &hit, source_edition) && !reply.is_over();
        if self.shard(hash).read().replies.get(&hash).is_some_and(is_there) {
            return;
        }
        let Some(age) = self.age(&hit) else { return };
        let Some(reply) = PreparedReply::of(request, response, hit, age, source_edition) else {
            return;
        };
        if reply.bytes() <= self.shard_bytes_max {
            let gone = self.shard(hash).write().add(hash, reply, self.shard_bytes_max);
            drop(gone);
        }
    }

    /// By the upper bits; the table of a shard goes by the lower ones.
    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 32) as usize % self.shards.len()]
    }
}

impl Shard {
    /// Adds a reply; what makes room for it is dropped by the caller.
    fn add(&mut self, hash: u64, reply: PreparedReply, bytes_max: usize) -> Vec<PreparedReply> {
        self.bytes += reply.bytes();
        let mut gone: Vec<_> = self.replies.insert(hash, reply).into_iter().collect();
        if gone.is_empty() {
            self.order.push_back(hash);
        }
        self.bytes -= gone.iter().map(PreparedReply::bytes).sum::<usize>();
        while self.bytes > bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.replies.get(&oldest) {
                Some(reply) if reply.take_used() => self.order.push_back(oldest),
                Some(_) => gone.extend(self.take(oldest)),
                None => {}
            }
        }
        gone
    }

    fn take(&mut self, hash: u64) -> Option<PreparedReply> {
        let reply = self.replies.remove(&hash)?;
        self.bytes -= reply.bytes();
        Some(reply)
    }
}

impl fmt::Debug for PreparedReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedReplies").field("is_used", &self.is_used).finish_non_exhaustive()
    }
}

/// Where the first request ends, if it is one that has no body by its verb, and its head is there.
fn bodiless_end(input: &[u8]) -> Option<usize> {
    let is_bodiless = input.starts_with(b"GET ") || input.starts_with(b"HEAD ");
    if is_bodiless { head_end(input) } else { None }
}

/// Where the first head ends.
fn head_end(input: &[u8]) -> Option<usize> {
    static FINDER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(HEAD_END));
    FINDER.find(input).map(|at| at + HEAD_END.len())
}

const HEAD_END: &[u8] = b"\r\n\r\n";
/// The largest request that is compared.
const REQUEST_BYTES_MAX: usize = 4 << 10;
/// The largest response that is prepared.
const RESPONSE_BYTES_MAX: usize = 32 << 10;
/// Those who look and those who add meet seldom.
const SHARDS: usize = 16;
/// What is less than this is in one shard, so that large responses fit.
const SHARDED_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;

//! Queries that are watched and not cached: each call runs, and the graph keeps what the reply
//! depends on.
//!
//! | who calls | what runs |
//! |---|---|
//! | a caller who does not watch | the service, once for that call; nothing is kept |
//! | a watcher with its first call | the service, once for that call; if others watch the same key, the reply is compared with what they have |
//! | watchers of one key whose reply became stale | the service, once for all of them |
//! | a computation of this process | as a new watcher: what the query read becomes what the computation read |
//!
//! The value in the graph is a digest of the reply: its validator, and what it read. The reply
//! itself is held by [`Run`](crate::runs::Run) until those who wait for it have it, and the last
//! few a method for watchers who were told of the same change and ask a little later (at most
//! [`RECENT_BYTES_MAX`](crate::runs::RECENT_BYTES_MAX)).

use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Ambient, read_untracked};
use tidewire_service::{Body, Call, Freshness, Reply, Result, WatchMode};

use crate::attempt::Attempt;
use crate::cached_reply::{CallerView, RunResult, validator};
use crate::caching_service::Shared;
use crate::key::Key;
use crate::table::MethodMemo;

impl Shared {
    /// Runs the service for one who watches, and says what the reply depends on.
    pub(crate) async fn watch(&self, place: &MethodMemo, key: Key, call: Call) -> Result<Reply> {
        let asker = CallerView { is_conditional: false, ..CallerView::of(&call.context) };
        let watching = call.context.watching();
        let query = call.buffered().await?;
        let run = place.runs.join(&key);
        let attempt = || {
            let query = query.clone();
            let inner = Arc::clone(&self.inner);
            let terms = Arc::clone(&place.terms);
            let room = Arc::clone(&self.table.room);
            Attempt::new(key.clone(), query, inner, terms, room).with_run(&run)
        };
        for _ in 0..TRIES {
            let attempt = attempt();
            let ambient = Ambient::new(Ambient::current().tag()).with(Arc::clone(&attempt));
            let digest = match ambient.scope(place.memo.get(key.clone())).await {
                Ok(digest) => digest,
                Err(error) => match self.not_kept(&attempt, error) {
                    Some(reply) => return reply,
                    // The run was another caller's alone.
                    None => return self.pass(query.into_call()).await,
                },
            };
            let version = digest.version();
            if digest.ends_by_itself() {
                // The graph does not tell a computation of such an end.
                read_untracked();
            }
            // One who begins to watch never has the run of another.
            let may_share = attempt.has_run() || watching == WatchMode::Continues;
            let shared = may_share.then(|| run.of(&digest, watching)).flatten();
            if let Some(reply) = shared {
                return match version {
                    // It changed meanwhile.
                    0 => reply.give_over(),
                    _ => reply.give_watched(&digest, version, &asker),
                };
            }
            // Others were given the current reply: this caller's run is compared with it.
            let reply = match attempt.produce().await {
                RunResult::Cacheable(reply) => reply,
                RunResult::Uncacheable(reply) => {
                    read_untracked();
                    return reply.outcome;
                }
            };
            if !place.memo.validate(&key, version) {
                continue;
            }
            if reply.has_digest(&digest) {
                return reply.give_watched(&digest, version, &asker);
            }
            // The same read set and another reply: something that it depends on tells nobody.
            place.memo.invalidate(&key);
        }
        // It changes faster than it is made.
        self.pass(query.into_call()).await.map(over)
    }
}

/// A reply that its watcher has to ask for again.
fn over(reply: Reply) -> Reply {
    let validator = match &reply.body {
        Body::Full(body) => Some(validator(&reply, body)),
        Body::Empty => Some(validator(&reply, &[])),
        Body::Stream(_) => None,
    };
    reply.with_freshness(Freshness::lasting(Duration::ZERO).with_validator(validator))
}

/// How often a watcher asks again for a reply that changes meanwhile.
const TRIES: usize = 4;

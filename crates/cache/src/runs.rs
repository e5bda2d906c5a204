//! Replies that are watched and not cached (`watched_queries.rs`): who waits for one, and the last
//! few of a method.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use tidewire_service::WatchMode;

use crate::cached_reply::CachedReply;
use crate::key::Key;

/// The replies that watchers wait for now, by key.
#[derive(Default)]
pub(crate) struct Runs {
    waiting: Mutex<HashMap<Key, Weak<Run>>>,
    recent: Mutex<RecentReplies>,
}

/// The last replies of a method, the newest last.
#[derive(Default)]
struct RecentReplies {
    replies: VecDeque<CachedReply>,
    bytes: usize,
}

/// The reply of one key, while anybody waits for it.
pub(crate) struct Run {
    key: Key,
    runs: Arc<Runs>,
    reply: Mutex<Option<CachedReply>>,
}

impl Runs {
    /// Waits for the reply of a key, with whoever waits for it already.
    pub(crate) fn join(self: &Arc<Self>, key: &Key) -> Arc<Run> {
        let mut runs = self.waiting();
        if let Some(run) = runs.get(key).and_then(Weak::upgrade) {
            return run;
        }
        let run = Run { key: key.clone(), runs: Arc::clone(self), reply: Mutex::default() };
        let run = Arc::new(run);
        runs.insert(key.clone(), Arc::downgrade(&run));
        run
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Key, Weak<Run>>> {
        self.waiting.lock()
    }

    fn recent(&self) -> MutexGuard<'_, RecentReplies> {
        self.recent.lock()
    }
}

impl RecentReplies {
    /// Adds a reply in place of an older one of its key; what goes is dropped by the caller.
    fn add(&mut self, reply: CachedReply) -> Vec<CachedReply> {
        let mut gone = Vec::new();
        if let Some(at) = self.replies.iter().position(|other| other.key() == reply.key()) {
            gone.extend(self.replies.remove(at));
        }
        self.bytes += reply.bytes();
        self.replies.push_back(reply);
        self.bytes -= gone.iter().map(CachedReply::bytes).sum::<usize>();
        while self.bytes > RECENT_BYTES_MAX || self.replies.len() > RECENT_MAX {
            let Some(oldest) = self.replies.pop_front() else { break };
            self.bytes -= oldest.bytes();
            gone.push(oldest);
        }
        gone
    }
}

impl Run {
    /// The service gave this reply.
    pub(crate) fn put(&self, reply: CachedReply) {
        let gone = self.runs.recent().add(reply.clone());
        let before = self.lock().replace(reply);
        drop((gone, before));
    }

    /// The reply of this digest: the last one that was waited for, or for one who continues to
    /// watch a recent one.
    pub(crate) fn of(&self, digest: &CachedReply, watching: WatchMode) -> Option<CachedReply> {
        let last = self.lock().as_ref().filter(|reply| reply.has_digest(digest)).cloned();
        if last.is_some() || watching != WatchMode::Continues {
            return last;
        }
        let recent = self.runs.recent();
        let reply = recent.replies.iter().rev().find(|reply| *reply.key() == self.key);
        reply.filter(|reply| reply.has_digest(digest)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CachedReply>> {
        self.reply.lock()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut runs = self.runs.waiting();
        // Another may have begun since.
        if runs.get(&self.key).is_some_and(|run| run.strong_count() == 0) {
            runs.remove(&self.key);
        }
    }
}

/// The most that recent replies of a method take.
pub(crate) const RECENT_BYTES_MAX: usize = 1 << 20;
/// How many recent replies of a method there are at most.
const RECENT_MAX: usize = 64;

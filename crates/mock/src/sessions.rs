//! What calls leave behind: how often each response answered, and what rules set.
//!
//! A session is what the header `x-mock-session` names; calls without it share one. Parallel tests
//! with a session each do not see one another. At most 10,000 sessions are kept: then the one that
//! was used longest ago is forgotten.

use std::collections::HashMap;

use http::HeaderMap;

use crate::node::Node;

/// The header that names a session.
pub const SESSION_HEADER: &str = "x-mock-session";

const SESSIONS_MAX: usize = 10_000;
/// How many values one session keeps.
const VALUES_MAX: usize = 10_000;

/// The sessions of a mock.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: HashMap<String, Session>,
    /// Counts uses, to tell which session was used longest ago.
    clock: u64,
}

/// What one session remembers.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: HashMap<String, Node>,
    /// How many calls of each method it has made.
    attempts: HashMap<String, u64>,
    /// How often each response of each method has answered.
    used: HashMap<String, HashMap<usize, u64>>,
    last_used: u64,
}

/// The name of the session of a call.
pub(crate) fn name(headers: &HeaderMap) -> &str {
    headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl Sessions {
    /// The session of a name.
    pub(crate) fn session(&mut self, name: &str) -> &mut Session {
        self.clock += 1;
        if !self.all.contains_key(name) && self.all.len() >= SESSIONS_MAX {
            let oldest = self.all.iter().min_by_key(|(_, session)| session.last_used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.all.remove(&oldest);
            }
        }
        let session = self.all.entry(name.to_owned()).or_default();
        session.last_used = self.clock;
        session
    }

    /// Forgets one session, or all of them.
    pub(crate) fn reset(&mut self, name: Option<&str>) {
        match name {
            Some(name) => drop(self.all.remove(name)),
            None => self.all.clear(),
        }
    }

    /// Forgets how often the responses of a method answered: its rules are others now.
    pub(crate) fn forget_uses(&mut self, path: &str) {
        for session in self.all.values_mut() {
            session.used.remove(path);
        }
    }
}

impl Session {
    /// Counts a call of a method.
    pub(crate) fn count_attempt(&mut self, path: &str) {
        *self.attempts.entry(path.to_owned()).or_default() += 1;
    }

    /// How many calls of a method there were.
    pub(crate) fn attempts(&self, path: &str) -> u64 {
        self.attempts.get(path).copied().unwrap_or(0)
    }

    /// How often a response has answered.
    pub(crate) fn used(&self, path: &str, index: usize) -> u64 {
        self.used.get(path).and_then(|used| used.get(&index)).copied().unwrap_or(0)
    }

    /// Counts an answer of a response.
    pub(crate) fn count(&mut self, path: &str, index: usize) {
        *self.used.entry(path.to_owned()).or_default().entry(index).or_default() += 1;
    }

    /// Remembers a value; `null` forgets it.
    pub(crate) fn set(&mut self, key: String, value: Node) {
        if value.value == crate::node::Tree::Null {
            self.state.remove(&key);
        } else if self.state.len() < VALUES_MAX || self.state.contains_key(&key) {
            self.state.insert(key, value);
        }
    }
}

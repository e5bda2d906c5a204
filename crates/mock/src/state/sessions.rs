//! What calls leave behind: how often each response answered, and what rules set.
//!
//! A session is what the header `x-mock-session` names; calls without it share one. Parallel tests
//! with a session each do not see one another. At most 10,000 sessions are kept, and 64 MiB of what
//! they remember: then those that were used longest ago are forgotten.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};
use tidewire_service::{Headers, Signal};

use crate::value::eval_context::SESSION_HEADER;
use crate::value::node::Node;

const SESSIONS_MAX: usize = 10_000;
/// How many values one session keeps.
const VALUES_MAX: usize = 10_000;
/// How many bytes one session keeps, and all of them.
const SESSION_BYTES_MAX: usize = 16 << 20;
const BYTES_MAX: usize = 64 << 20;

/// What an entry takes beside its key and value.
const ENTRY_BYTES: usize = 64;

/// The sessions of a mock.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: HashMap<String, Session>,
    /// Counts uses, to tell which session was used longest ago.
    clock: u64,
    /// What all of them keep, but for what the one that was used last added since.
    bytes: usize,
    last: Option<String>,
    /// What is to be fired for those that were forgotten, once nobody has the lock.
    forgotten: Vec<Signal>,
}

/// The sessions while nobody else has them.
pub(crate) struct LockedSessions<'m>(Option<MutexGuard<'m, Sessions>>);

/// What one session remembers.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) state: HashMap<String, Node>,
    /// How many calls of each method it has made.
    attempts: HashMap<String, u64>,
    /// How often each response of each method has answered.
    used: HashMap<String, HashMap<u64, u64>>,
    last_used: u64,
    /// Fires when a value changes that rules of queries may read.
    changed: Signal,
    /// What its values take, and what of that is counted among all.
    bytes: usize,
    counted: usize,
}

/// The name of the session of a call, which is ASCII or UTF-8; empty where there is none.
pub(crate) fn name(headers: &Headers) -> &str {
    let value = headers.get(SESSION_HEADER);
    value.and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).unwrap_or_default()
}

impl<'m> LockedSessions<'m> {
    pub(crate) fn of(sessions: &'m Mutex<Sessions>) -> Self {
        Self(Some(sessions.lock()))
    }
}

impl Deref for LockedSessions<'_> {
    type Target = Sessions;

    fn deref(&self) -> &Sessions {
        self.0.as_ref().expect("held until dropped")
    }
}

impl DerefMut for LockedSessions<'_> {
    fn deref_mut(&mut self) -> &mut Sessions {
        self.0.as_mut().expect("held until dropped")
    }
}

impl Drop for LockedSessions<'_> {
    /// Who is woken may ask at once.
    fn drop(&mut self) {
        let Some(mut sessions) = self.0.take() else { return };
        let forgotten = std::mem::take(&mut sessions.forgotten);
        drop(sessions);
        forgotten.iter().for_each(Signal::fire);
    }
}

impl Sessions {
    /// The session of a name. Those that are forgotten for it lose what they remember, so their
    /// watchers are told.
    pub(crate) fn session(&mut self, name: &str) -> &mut Session {
        self.clock += 1;
        self.count_last();
        let is_new = !self.all.contains_key(name);
        while (is_new && self.all.len() >= SESSIONS_MAX) || self.bytes > BYTES_MAX {
            let others = self.all.iter().filter(|(other, _)| *other != name);
            let oldest = others.min_by_key(|(_, session)| session.last_used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            let changed = self.forget(&oldest);
            self.forgotten.extend(changed);
        }
        self.last = Some(name.to_owned());
        let session = self.all.entry(name.to_owned()).or_default();
        session.last_used = self.clock;
        session
    }

    /// The session of a name, if there is one; it does not count as used.
    pub(crate) fn peek(&self, name: &str) -> Option<&Session> {
        self.all.get(name)
    }

    /// Each session with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Session)> {
        self.all.iter().map(|(name, session)| (&**name, session))
    }

    /// Counts what the session that was used last remembers now.
    fn count_last(&mut self) {
        let Some(name) = self.last.take() else { return };
        let Some(session) = self.all.get_mut(&name) else { return };
        let bytes = session.bytes + name.len();
        self.bytes = self.bytes - session.counted + bytes;
        session.counted = bytes;
    }

    fn forget(&mut self, name: &str) -> Option<Signal> {
        let session = self.all.remove(name)?;
        self.bytes -= session.counted;
        Some(session.changed)
    }

    /// Forgets one session, or all of them; returns what is to be fired then.
    pub(crate) fn reset(&mut self, name: Option<&str>) -> Vec<Signal> {
        let names = match name {
            Some(name) => vec![name.to_owned()],
            None => self.all.keys().cloned().collect(),
        };
        names.iter().filter_map(|name| self.forget(name)).collect()
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
    pub(crate) fn used(&self, path: &str, counter: u64) -> u64 {
        self.used.get(path).and_then(|used| used.get(&counter)).copied().unwrap_or(0)
    }

    /// Counts an answer of a response.
    pub(crate) fn count(&mut self, path: &str, counter: u64) {
        *self.used.entry(path.to_owned()).or_default().entry(counter).or_default() += 1;
    }

    /// What fires when a value changes.
    pub(crate) fn changed(&self) -> Signal {
        self.changed.clone()
    }

    /// Tells who watches that a value changed; who watches from now on hears of the next change.
    ///
    /// Before the sessions are let go: the reply to the next command must not be there while
    /// somebody is not told of this one.
    pub(crate) fn notify_changed(&mut self) {
        std::mem::take(&mut self.changed).fire();
    }

    /// Remembers values; whether they are others than before.
    pub(crate) fn set_all(&mut self, values: Vec<(String, Node)>) -> bool {
        values.into_iter().fold(false, |any, (key, value)| {
            // Each is remembered.
            self.set(key, value) || any
        })
    }

    /// Remembers a value, and `null` forgets it; whether it was another one. What would be too much
    /// is not remembered.
    fn set(&mut self, key: String, value: Node) -> bool {
        let size = |key: &str, value: &Node| key.len() + value.bytes() + ENTRY_BYTES;
        let before = self.state.get(&key);
        let is_same = before.is_some_and(|before| before.value == value.value);
        let freed = before.map_or(0, |before| size(&key, before));
        if value.value == crate::value::node::Tree::Null {
            self.bytes -= freed;
            return self.state.remove(&key).is_some();
        }
        let bytes = self.bytes - freed + size(&key, &value);
        let is_known = before.is_some();
        if is_same || bytes > SESSION_BYTES_MAX || self.state.len() >= VALUES_MAX && !is_known {
            return false;
        }
        self.bytes = bytes;
        self.state.insert(key, value);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::node::Tree;

    fn text(bytes: usize) -> Vec<(String, Node)> {
        vec![("cart".to_owned(), Node::new(Tree::Text("x".repeat(bytes))))]
    }

    #[test]
    fn what_sessions_remember_is_bounded_and_the_oldest_go() {
        let mut sessions = Sessions::default();
        for number in 0..20 {
            assert!(sessions.session(&number.to_string()).set_all(text(4 << 20)));
        }
        let kept = |sessions: &mut Sessions, name: &str| sessions.session(name).state.len();
        assert_eq!((kept(&mut sessions, "19"), kept(&mut sessions, "0")), (1, 0));
        assert!(sessions.bytes <= BYTES_MAX, "{}", sessions.bytes);
        let session = sessions.session("19");
        assert!(!session.set_all(text(17 << 20)), "more than one may keep");
        assert!(!session.set_all(text(4 << 20)), "the same");
        assert!(session.set_all(text(15 << 20)), "in place of the other");
        sessions.reset(None);
        assert_eq!((sessions.bytes, sessions.all.len()), (0, 0));
    }
}

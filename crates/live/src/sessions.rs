//! Sessions that have lost their connection and wait to be resumed.
//!
//! Bounded by number; the oldest are dropped first. Keyed by session id; taken only with the secret,
//! by the same principal, from the same boot.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::config::{Micros, micros};
use crate::hello::Hello;
use crate::session::Session;

/// Parked sessions of one acceptor.
#[derive(Debug)]
pub struct Sessions {
    parked: HashMap<[u8; 16], Parked>,
    by_age: BTreeMap<(Micros, u64), [u8; 16]>,
    order: u64,
    sessions_max: usize,
}

#[derive(Debug)]
struct Parked {
    session: Session,
    principal: Bytes,
    age: (Micros, u64),
}

impl Sessions {
    /// Keeps at most `sessions_max`.
    pub fn new(sessions_max: usize) -> Self {
        Self { parked: HashMap::new(), by_age: BTreeMap::new(), order: 0, sessions_max }
    }

    /// The number of parked sessions.
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Whether none is parked.
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Keeps a session that lost its connection. `principal` names who opened it, in any form that
    /// is equal for equal principals.
    ///
    /// Returns sessions that must be given up for it, already ended: the owner polls their events,
    /// so that their queries stop.
    pub fn park(&mut self, session: Session, principal: Bytes, now: Micros) -> Vec<Session> {
        let Some(id) = session.session_id().filter(|_| session.is_resumable()).map(|id| id.id)
        else {
            return vec![ended(session)];
        };
        self.order += 1;
        let due = now.saturating_add(micros(session.config.retain));
        let age = (due, self.order);
        let mut dropped = Vec::new();
        if let Some(old) = self.parked.insert(id, Parked { session, principal, age }) {
            self.by_age.remove(&old.age);
            dropped.push(ended(old.session));
        }
        self.by_age.insert(age, id);
        while self.parked.len() > self.sessions_max {
            dropped.extend(self.pop());
        }
        dropped
    }

    /// The session that this hello resumes: it names it, proves it, has the same principal, and comes
    /// from the process (the page) that opened it.
    ///
    /// A session whose old connection is still open is not here: the owner ends that connection with
    /// [`Session::take_over`] and parks it first.
    pub fn take(&mut self, hello: &Hello, principal: &[u8]) -> Option<Session> {
        let (id, secret) = (hello.session?, hello.secret?);
        let parked = self.parked.get(&id)?;
        let known = parked.session.session_id()?;
        // A reloaded page begins its counts anew, so it must not find the ids of the one before.
        let boot = parked.session.peer().boot;
        let same_process = boot.is_some() && boot == hello.boot;
        if !known.proves(&id, &secret) || parked.principal != principal || !same_process {
            return None;
        }
        let parked = self.parked.remove(&id)?;
        self.by_age.remove(&parked.age);
        Some(parked.session)
    }

    /// When the next one is too old.
    pub fn poll_timeout(&self) -> Option<Micros> {
        self.by_age.keys().next().map(|(due, _)| *due)
    }

    /// Takes out what is too old, ended.
    pub fn expire(&mut self, now: Micros) -> Vec<Session> {
        let mut dropped = Vec::new();
        while self.poll_timeout().is_some_and(|due| due <= now) {
            dropped.extend(self.pop());
        }
        dropped
    }

    fn pop(&mut self) -> Option<Session> {
        let (_, id) = self.by_age.pop_first()?;
        self.parked.remove(&id).map(|parked| ended(parked.session))
    }
}

fn ended(mut session: Session) -> Session {
    session.expire();
    session
}

//! The sessions of one acceptor, by id: those that have a connection, and those that lost it and
//! wait to be resumed.
//!
//! What is kept for a session is the owner's: the session itself, or whatever leads to it while its
//! calls run on. Those without a connection are bounded by number and by time; the oldest are
//! dropped first. One is taken only with its secret, by the same principal, from the same boot.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::config::{Micros, SessionId, micros};
use crate::hello::{Hello, feature};
use crate::session::Session;

/// The sessions of one acceptor, with what its owner keeps for each.
#[derive(Debug)]
pub struct Sessions<T> {
    kept: HashMap<[u8; 16], DetachedSession<T>>,
    by_age: BTreeMap<(Micros, u64), [u8; 16]>,
    order: u64,
    parked_max: usize,
    /// Bytes of those without a connection, and the most that they may be.
    bytes: usize,
    bytes_max: usize,
}

/// What resumes a session: [`Session::ticket`].
#[derive(Debug, Clone)]
pub struct Ticket {
    id: SessionId,
    boot: Option<[u8; 16]>,
    retain: Micros,
}

impl Ticket {
    /// The session's id.
    pub fn id(&self) -> &[u8; 16] {
        &self.id.id
    }
}

#[derive(Debug)]
struct DetachedSession<T> {
    ticket: Ticket,
    principal: Bytes,
    /// Since when it has no connection, and until when it is kept.
    age: Option<(Micros, u64)>,
    /// What it holds without a connection.
    bytes: usize,
    owned: T,
}

impl Session {
    /// What resumes this session; `None` when it cannot be resumed.
    pub fn ticket(&self) -> Option<Ticket> {
        let id = self.session_id().filter(|_| self.is_resumable())?;
        let boot = self.peer.boot;
        let retain = micros(self.config.retain);
        Some(Ticket { id: *id, boot, retain })
    }
}

impl<T> Sessions<T> {
    /// Keeps at most `parked_max` without a connection.
    pub fn new(parked_max: usize) -> Self {
        let kept = HashMap::new();
        let by_age = BTreeMap::new();
        Self { kept, by_age, order: 0, parked_max, bytes: 0, bytes_max: usize::MAX }
    }

    /// Those without a connection hold at most so many bytes together.
    #[must_use]
    pub fn with_bytes_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// How many bytes those without a connection hold.
    pub fn parked_bytes(&self) -> usize {
        self.bytes
    }

    /// The number of sessions without a connection.
    pub fn parked(&self) -> usize {
        self.by_age.len()
    }

    /// Keeps what leads to a session that has a connection. `principal` names who opened it, in any
    /// form that is equal for equal principals.
    pub fn hold(&mut self, ticket: Ticket, principal: Bytes, owned: T) {
        let id = *ticket.id();
        self.remove(&id);
        self.kept.insert(id, DetachedSession { ticket, principal, age: None, bytes: 0, owned });
    }

    /// A session lost its connection, and holds so many bytes.
    ///
    /// Returns what was kept for those that are given up for it, the oldest first, and itself if it
    /// holds too much alone: the owner [expires](Session::expire) them, so that their queries stop.
    pub fn park(&mut self, id: &[u8; 16], bytes: usize, now: Micros) -> Vec<T> {
        let Some(kept) = self.kept.get_mut(id) else { return Vec::new() };
        self.order += 1;
        let age = (now.saturating_add(kept.ticket.retain), self.order);
        if let Some(before) = kept.age.replace(age) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(age, *id);
        self.bytes = self.bytes - kept.bytes + bytes;
        kept.bytes = bytes;
        self.drop_beyond_bounds()
    }

    /// Looks again at what those without a connection hold, since their calls go on; returns as
    /// [`park`](Self::park) does.
    pub fn measure(&mut self, mut bytes_of: impl FnMut(&T) -> usize) -> Vec<T> {
        for kept in self.kept.values_mut().filter(|kept| kept.age.is_some()) {
            let bytes = bytes_of(&kept.owned);
            self.bytes = self.bytes - kept.bytes + bytes;
            kept.bytes = bytes;
        }
        self.drop_beyond_bounds()
    }

    fn drop_beyond_bounds(&mut self) -> Vec<T> {
        let mut dropped = Vec::new();
        while self.by_age.len() > self.parked_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.pop() else { break };
            dropped.push(oldest);
        }
        dropped
    }

    /// Takes out the session that this hello resumes: it names it, proves it, has the same
    /// principal, and comes from the process (the page) that opened it.
    ///
    /// It may still have a connection, which its owner then ends with [`Session::take_over`].
    pub fn take(&mut self, hello: &Hello, principal: &[u8]) -> Option<T> {
        let id = hello.session?;
        let secret = hello.secret?;
        // A side that does not offer to resume could not say what it holds.
        if hello.features & feature::RESUME == 0 {
            return None;
        }
        let DetachedSession { ticket, principal: known, .. } = self.kept.get(&id)?;
        // A reloaded page begins its counts anew, so it must not find the ids of the one before.
        let same_process = ticket.boot.is_some() && ticket.boot == hello.boot;
        if !ticket.id.proves(&id, &secret) || known != principal || !same_process {
            return None;
        }
        self.remove(&id)
    }

    /// Takes out a session that is over.
    pub fn remove(&mut self, id: &[u8; 16]) -> Option<T> {
        let kept = self.kept.remove(id)?;
        if let Some(age) = kept.age {
            self.by_age.remove(&age);
        }
        self.bytes -= kept.bytes;
        Some(kept.owned)
    }

    /// When the next one is too old.
    pub fn poll_timeout(&self) -> Option<Micros> {
        self.by_age.keys().next().map(|(due, _)| *due)
    }

    /// Takes out what was kept for those that are too old; the owner [expires](Session::expire)
    /// them.
    pub fn expire(&mut self, now: Micros) -> Vec<T> {
        let mut dropped = Vec::new();
        while self.poll_timeout().is_some_and(|due| due <= now) {
            dropped.extend(self.pop());
        }
        dropped
    }

    fn pop(&mut self) -> Option<T> {
        let (_, id) = self.by_age.pop_first()?;
        let kept = self.kept.remove(&id)?;
        self.bytes -= kept.bytes;
        Some(kept.owned)
    }
}

//! Notes whether a handler read anything of the call that is not in the key.
//!
//! The deadline is not in it either, and still no secret: a run for all who ask shows that of the
//! run. Once the run is its caller's alone, it shows the caller's.

use parking_lot::Mutex;
use std::fmt;
use std::time::Instant;

use http::header::{ACCEPT, AUTHORIZATION, COOKIE};
use tidewire_service::{ContextPart, ContextWatch};

use crate::scope::Scope;

/// What is in the key, and the first thing that was read beside it.
pub(crate) struct Privacy {
    scope: Scope,
    /// Whether `accept` is in the key, as of plain HTTP.
    is_page: bool,
    /// Until when the run may take.
    deadline: Instant,
    read: Mutex<Option<String>>,
}

impl Privacy {
    pub(crate) fn new(scope: Scope, is_page: bool, deadline: Instant) -> Self {
        Self { scope, is_page, deadline, read: Mutex::new(None) }
    }

    /// Whether the answer is its caller's alone.
    pub(crate) fn is_private(&self) -> bool {
        self.read.lock().is_some()
    }

    /// What was read first that is not in the key.
    pub(crate) fn read_beside_key(&self) -> Option<String> {
        self.read.lock().clone()
    }

    fn is_in_key(&self, part: ContextPart<'_>) -> bool {
        match (part, &self.scope) {
            (ContextPart::Header(name), _) if self.is_page && name == ACCEPT => true,
            (ContextPart::Header(name), Scope::Caller) => name == AUTHORIZATION || name == COOKIE,
            (ContextPart::Header(name), Scope::Vary(names)) => names.iter().any(|n| n == name),
            (ContextPart::Principal, Scope::Caller) => true,
            (ContextPart::Peer | ContextPart::Extensions, Scope::Call) => false,
            (_, Scope::Call) => true,
            _ => false,
        }
    }
}

impl ContextWatch for Privacy {
    fn read(&self, part: ContextPart<'_>) {
        if self.is_in_key(part) {
            return;
        }
        let mut read = self.read.lock();
        read.get_or_insert_with(|| match part {
            ContextPart::Header(name) => format!("header {name}"),
            ContextPart::Headers => "all headers".to_owned(),
            ContextPart::Peer => "the peer".to_owned(),
            ContextPart::Protocol => "the protocol".to_owned(),
            ContextPart::Principal => "the principal".to_owned(),
            ContextPart::Extensions => "the extensions".to_owned(),
            _ => "the context".to_owned(),
        });
    }

    fn deadline(&self, own: Option<Instant>) -> Option<Instant> {
        if self.is_private() { own } else { Some(self.deadline) }
    }
}

impl fmt::Debug for Privacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Privacy").field("read", &self.read_beside_key()).finish_non_exhaustive()
    }
}

//! Whose a reply is: which callers may be given the reply of one run.

use tidewire_service::{CacheScope, Names};

/// Which parts of a call are in the key, and so which callers share a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The message alone.
    Public,
    /// The message and the caller: principal, client certificate, `authorization`, `cookie`.
    Caller,
    /// The message and these headers.
    Vary(Names),
    /// Everything of a call but its peer's address and its extensions. Nothing is cached: watchers
    /// whose calls are the same share one run a change.
    Call,
}

impl Scope {
    /// Whether replies are cached.
    pub(crate) fn is_cached(&self) -> bool {
        *self != Self::Call
    }
}

impl From<Option<CacheScope>> for Scope {
    fn from(cache: Option<CacheScope>) -> Self {
        match cache {
            None => Self::Call,
            Some(CacheScope::Public) => Self::Public,
            Some(CacheScope::Vary(names)) => Self::Vary(names),
            // What this version does not know is the caller's alone.
            Some(_) => Self::Caller,
        }
    }
}

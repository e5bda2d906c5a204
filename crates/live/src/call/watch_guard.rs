//! A hold of an answer of the peer, which is told of for as long as that is kept.

use std::fmt;

use tidewire_live_proto::CallId;

use crate::link::Link;

/// Keeps an answer watched: dropping it ends that.
#[must_use = "the peer tells of an answer for as long as its hold is kept"]
pub struct WatchGuard {
    link: Link,
    call: CallId,
}

impl WatchGuard {
    pub(crate) fn new(link: Link, call: CallId) -> Self {
        Self { link, call }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.link.0.dropped.add(self.call);
    }
}

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("call", &self.call).finish_non_exhaustive()
    }
}

//! A command under way, and what it ends if nobody learns how it went.

use std::sync::Arc;

use tidewire_service::{Error, Outcome};

use super::page_cache::{Hold, PageCache};

/// A command under way. Dropped before it is settled, it may have changed anything.
pub(super) struct Command {
    pub(super) cache: PageCache,
    pub(super) service: Arc<str>,
    is_settled: bool,
    /// Dropped last: other hosts are told that this one runs a command.
    _hold: Option<Hold>,
}

impl Command {
    pub(super) fn begin(cache: &PageCache, service: &Arc<str>) -> Self {
        let hold = cache.0.holds.get().map(|hold| hold());
        Self { cache: cache.clone(), service: Arc::clone(service), is_settled: false, _hold: hold }
    }

    /// It is known how it went.
    pub(super) fn settle(mut self) {
        self.is_settled = true;
    }

    /// It failed, and its caller may have sent it in part.
    pub(super) fn fail(mut self, error: &Error, is_broken: bool) {
        self.is_settled = error.outcome() == Outcome::NotRun || is_broken;
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cache.may_have_changed(&self.service);
        }
    }
}

//! On which terms the answers of one method are kept, and how often they were.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidewire_memo::Memo;
use tidewire_service::{Clock, Lifetime};

use crate::cached_reply::CachedReply;
use crate::flights::Flights;
use crate::http::{CacheDeclaration, Rules};
use crate::key::Key;
use crate::method_override::Effective;
use crate::previous::Previous;
use crate::refusal::Refusal;
use crate::scope::Scope;
use crate::settings::Settings;

/// On which terms the answers of one method are kept.
pub(crate) struct MethodPolicy {
    /// The method's path, or what stands for plain pages.
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// What the method declares by `ttl` or `immutable`; then its answers are kept without a
    /// dependency.
    pub(crate) lifetime: Lifetime,
    pub(crate) coalesces: bool,
    pub(crate) reply_bytes_max: usize,
    pub(crate) compute_timeout: Duration,
    pub(crate) timer: Arc<dyn Clock>,
    /// What caches of HTTP are told.
    pub(crate) rules: Rules,
    is_told: AtomicBool,
    /// Answers in a row that were not kept.
    refused: AtomicU32,
    /// Whether any answer was ever kept.
    has_kept: AtomicBool,
    memo: OnceLock<Memo<Key, CachedReply>>,
    /// What the service may be asked about by its own name for it.
    pub(crate) previous: Previous,
    /// What is known of plain pages, which do not say by a schema that they may be kept.
    pub(crate) flights: Option<Arc<Flights>>,
}

/// After this many answers in a row that were not kept, most calls do not wait for each other any
/// more.
const HOPELESS: u32 = 16;
/// One of this many calls tries again.
const PROBE: u32 = 256;

impl MethodPolicy {
    pub(crate) fn new(
        name: &str,
        effective: Effective,
        settings: &Settings,
        timer: &Arc<dyn Clock>,
    ) -> Self {
        let Effective { scope, lifetime, coalesces, caching } = effective;
        let caching = caching.or(settings.caching);
        let is_page = !name.starts_with('/');
        Self {
            name: name.to_owned(),
            rules: Rules::new(&scope, settings, CacheDeclaration { lifetime, is_page, caching }),
            scope,
            lifetime,
            coalesces,
            reply_bytes_max: settings.reply_bytes_max,
            compute_timeout: settings.compute_timeout,
            timer: Arc::clone(timer),
            is_told: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            has_kept: AtomicBool::new(false),
            memo: OnceLock::new(),
            previous: Previous::default(),
            flights: is_page.then(Arc::default),
        }
    }

    /// Whether replies are cached; otherwise they are watched at most.
    pub(crate) fn is_cached(&self) -> bool {
        self.scope.is_cached()
    }

    /// Says in which memo answers are kept, once.
    pub(crate) fn keeps_in(&self, memo: Memo<Key, CachedReply>) {
        let _ = self.memo.set(memo);
    }

    /// The memo in which answers are kept.
    pub(crate) fn memo(&self) -> Memo<Key, CachedReply> {
        *self.memo.get().expect("terms are of a memo before anything is kept")
    }

    /// Notes why an answer was not kept; the first time of a method goes to the log.
    pub(crate) fn note(&self, refusal: &Refusal) {
        // These refusals say little about the next call. If they counted, one caller could end the
        // caching of a method.
        let is_of_call = matches!(refusal, Refusal::Untold | Refusal::Code(_) | Refusal::Status(_));
        if !is_of_call {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_cached() && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::debug!(method = %self.name, "an answer {refusal}");
        }
    }

    /// Notes that an answer was kept.
    pub(crate) fn note_kept(&self, kept: &CachedReply) {
        self.previous.note(kept);
        self.note_page(kept.key(), true);
        self.refused.store(0, Ordering::Relaxed);
        self.has_kept.store(true, Ordering::Relaxed);
    }

    /// Notes of a plain page whether an answer was kept.
    pub(crate) fn note_page(&self, key: &Key, is_kept: bool) {
        self.flights.iter().for_each(|flights| flights.note(key, is_kept));
    }

    /// Whether no answer was ever kept, so that looking for one is in vain.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_kept.load(Ordering::Relaxed)
    }

    /// Whether nothing of this method is kept, it seems, so that waiting for another call gains
    /// nothing. To be asked once a call, since it counts.
    pub(crate) fn is_hopeless(&self) -> bool {
        let refused = self.refused.load(Ordering::Relaxed);
        if self.coalesces || refused < HOPELESS {
            return false;
        }
        // Counts on, so that every so often one call finds out whether it is still so.
        !self.refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE)
    }
}

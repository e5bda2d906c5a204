//! One memo a method, made at its first call, and the terms on which it keeps answers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method as Verb;
use tidewire_memo::{Ambient, Graph, Memo};
use tidewire_service::{
    CacheScope, Call, Clock, FormsBudget, Lifetime, Method, Spec, StreamKind, Target,
};

use crate::attempt::{Attempt, NotCached};
use crate::cached_reply::CachedReply;
use crate::flights::Flights;
use crate::http::{CacheDeclaration, Rules};
use crate::key::Key;
use crate::method_override::Effective;
use crate::methods::Methods;
use crate::previous::Previous;
use crate::refusal::Refusal;
use crate::reply_cache::Settings;
use crate::scope::Scope;
use crate::watched_queries::Runs;

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

/// The memo of one method.
pub(crate) struct MethodMemo {
    pub(crate) memo: Memo<Key, CachedReply>,
    pub(crate) terms: Arc<MethodPolicy>,
    /// The method with the caching that is set for it, where its `.proto` says something else:
    /// whoever serves it goes by that.
    pub(crate) method: Option<Method>,
    /// Who waits for replies that are watched and not cached.
    pub(crate) runs: Arc<Runs>,
}

/// The memos of what one service answers.
pub(crate) struct Table {
    pub(crate) graph: Graph,
    pub(crate) settings: Settings,
    pub(crate) timer: Arc<dyn Clock>,
    /// What other forms of answers may take.
    pub(crate) room: Arc<FormsBudget>,
    methods: Methods<Arc<MethodMemo>>,
    pages: OnceLock<Arc<MethodMemo>>,
    /// Whether pages are cached, and who shares them.
    cache_pages: Option<CacheScope>,
}

/// After this many answers in a row that were not kept, most calls do not wait for each other any
/// more.
const HOPELESS: u32 = 16;
/// One of this many calls tries again.
const PROBE: u32 = 256;

impl MethodPolicy {
    /// Whether replies are cached; otherwise they are watched at most.
    pub(crate) fn is_cached(&self) -> bool {
        self.scope.is_cached()
    }

    /// The memo in which answers are kept.
    pub(crate) fn memo(&self) -> Memo<Key, CachedReply> {
        *self.memo.get().expect("terms are of a memo before anything is kept")
    }

    /// Notes why an answer was not kept; the first time of a method goes to the log.
    pub(crate) fn note(&self, refusal: &Refusal) {
        // What it was made of was not kept, or what came of this call alone, says little about the
        // next one; a caller could end the caching of a method with it.
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

impl Table {
    pub(crate) fn new(
        graph: Graph,
        settings: Settings,
        timer: Arc<dyn Clock>,
        cache_pages: Option<CacheScope>,
    ) -> Self {
        let room = Arc::clone(&settings.room);
        let methods = Methods::new();
        let pages = OnceLock::new();
        Self { graph, settings, timer, room, methods, pages, cache_pages }
    }

    /// Where answers to this call are kept; `None` for what passes through.
    pub(crate) fn place(&self, call: &Call) -> Option<&Arc<MethodMemo>> {
        match &call.target {
            Target::Method(method) if method.is_query() && method.kind == StreamKind::Unary => {
                Some(self.of_method(method))
            }
            Target::Http(target) if target.method == Verb::GET => {
                let effective = || Effective::of_page(self.cache_pages.clone());
                let page = || Arc::new(self.make(self.terms("GET", effective())));
                Some(self.pages.get_or_init(page))
            }
            _ => None,
        }
    }

    fn of_method(&self, method: &Method) -> &Arc<MethodMemo> {
        self.methods.find_or_add(method, || {
            let overrides = self.settings.of(method);
            let cache = overrides.cache_of(method);
            let mut memo = self.make(self.terms(&method.path, overrides.over(method)));
            if cache != method.cache {
                let mut spec = Spec::clone(method);
                spec.cache = cache;
                memo.method = Some(Arc::new(spec).into());
            }
            Arc::new(memo)
        })
    }

    fn make(&self, terms: MethodPolicy) -> MethodMemo {
        let life = match terms.lifetime {
            Lifetime::For(life) => Some(life),
            _ => None,
        };
        let terms = Arc::new(terms);
        let own = Arc::clone(&terms);
        let memo = Memo::new_in(&self.graph, &terms.name, move |key: Key| {
            // The caller who starts a run brings its call along; see `memoized`. That of another
            // key is never run for this one.
            let attempt = Ambient::current().get::<Arc<Attempt>>();
            let attempt = attempt.filter(|attempt| attempt.is_of(&key, &own));
            async move {
                match attempt {
                    Some(attempt) => attempt.run().await.for_memo(),
                    None => Err(NotCached::Private),
                }
            }
        });
        let memo = memo.weigh(CachedReply::bytes);
        let longest = self.settings.caller_ttl;
        let life = match terms.scope {
            Scope::Public | Scope::Vary(_) | Scope::Call => life,
            Scope::Caller => Some(life.map_or(longest, |life| life.min(longest))),
        };
        let memo = match life {
            Some(life) => memo.ttl(life),
            None => memo,
        };
        // The first and only time.
        let _ = terms.memo.set(memo);
        MethodMemo { memo, terms, method: None, runs: Arc::default() }
    }

    fn terms(&self, name: &str, effective: Effective) -> MethodPolicy {
        let Effective { scope, lifetime, coalesces, caching } = effective;
        let caching = caching.or(self.settings.caching);
        let is_page = !name.starts_with('/');
        MethodPolicy {
            name: name.to_owned(),
            rules: Rules::new(
                &scope,
                &self.settings,
                CacheDeclaration { lifetime, is_page, caching },
            ),
            scope,
            lifetime,
            coalesces,
            reply_bytes_max: self.settings.reply_bytes_max,
            compute_timeout: self.settings.compute_timeout,
            timer: Arc::clone(&self.timer),
            is_told: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            has_kept: AtomicBool::new(false),
            memo: OnceLock::new(),
            previous: Previous::default(),
            flights: is_page.then(Arc::default),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.methods.each().chain(self.pages.get()).for_each(|place| place.memo.close());
    }
}

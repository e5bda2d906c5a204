//! One memo a method, made at its first call. The terms on which it keeps answers are in
//! `method_policy.rs`.

use std::sync::{Arc, OnceLock};

use http::Method as Verb;
use tidewire_memo::{Ambient, Graph, Memo};
use tidewire_service::{
    CacheScope, Call, Clock, FormsBudget, Lifetime, Method, Spec, StreamKind, Target,
};

use crate::attempt::{Attempt, NotCached};
use crate::cached_reply::CachedReply;
use crate::key::Key;
use crate::method_override::Effective;
use crate::method_policy::MethodPolicy;
use crate::methods::Methods;
use crate::runs::Runs;
use crate::scope::Scope;
use crate::settings::Settings;

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
                let page = || Arc::new(self.make(self.policy("GET", effective())));
                Some(self.pages.get_or_init(page))
            }
            _ => None,
        }
    }

    /// All that were called.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<MethodMemo>> {
        self.methods.each().chain(self.pages.get())
    }

    fn of_method(&self, method: &Method) -> &Arc<MethodMemo> {
        self.methods.find_or_add(method, || {
            let overrides = self.settings.of(method);
            let cache = overrides.cache_of(method);
            let mut memo = self.make(self.policy(&method.path, overrides.over(method)));
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
            // The caller who starts a run brings its call along: see `Shared::compute` in
            // `caching_service.rs`. That of another key is never run for this one.
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
        terms.keeps_in(memo);
        MethodMemo { memo, terms, method: None, runs: Arc::default() }
    }

    fn policy(&self, name: &str, effective: Effective) -> MethodPolicy {
        MethodPolicy::new(name, effective, &self.settings, &self.timer)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.each().for_each(|place| place.memo.close());
    }
}

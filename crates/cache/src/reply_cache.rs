//! The layer as its users make it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tidewire_memo::Graph;
use tidewire_service::{CacheScope, Caching, Clock, FormsBudget, Layer, Spec};

use crate::caching_service::Memoize;
use crate::method_override::MethodOverride;
use crate::mismatch::{Mismatch, OnMismatch};
use crate::override_error::OverrideError;
use crate::scope::Scope;
use crate::settings::Settings;
use crate::turns::Turns;

/// How replies are memoized; [`layer`](Self::layer) makes the layer.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`caller_ttl`](Self::caller_ttl) | 60 s | how long a reply for one caller is cached |
/// | [`compute_timeout`](Self::compute_timeout) | 30 s | how long one run for all who ask may take |
/// | [`key_bytes_max`](Self::key_bytes_max) | 16 KiB | calls with a larger message pass through |
/// | [`reply_bytes_max`](Self::reply_bytes_max) | 1 MiB | larger replies are not kept |
/// | [`forms_bytes_max`](Self::forms_bytes_max) | 64 MiB | what compressed and JSON forms may take |
/// | [`verify`](Self::verify) | none | which share of the hits is computed again and compared |
/// | [`caching`](Self::caching) | `no-cache`: they ask each time | what caches of HTTP are told |
/// | [`method`](Self::method) | as its `.proto` says | all of that for one method |
///
/// The bytes of all answers count against the budget of the graph, those of their forms do not.
/// Answers that are stale and not asked for go as others are kept
/// ([`Memo::sweep`](tidewire_memo::Memo::sweep)). Time passes in the graph only when somebody says
/// so ([`Graph::drive`], [`Graph::advance`]), as a server does for the one that it has.
///
/// A query is cached if its `.proto` says so:
///
/// ```proto
/// import "tidewire/v1/options.proto";
///
/// rpc Get(GetRequest) returns (Cart) {
///   option idempotency_level = NO_SIDE_EFFECTS;
///   option (tidewire.v1.method) = { cache: CALLER };
/// }
/// ```
///
/// | its handler may read | `PUBLIC` | `CALLER` | `VARY` with `vary: "x-tenant"` |
/// |---|---|---|---|
/// | principal, `authorization`, `cookie` | no | yes: there is one reply for each caller | only if it is named |
/// | a header that is named | no | no | yes: there is one reply for each value |
/// | another header, the peer, extensions | no | no | no |
///
/// A reply whose handler read more is its caller's alone, and is not kept; the log says why, once a
/// method. A gate that knows callers by another header calls `set_principal`: then `CALLER`
/// tells them apart.
///
/// A server has one by `Server::builder().memo(cache)`; `tidewire::serve` has it already, in
/// [`Graph::global`]. This is what it does to a handler that reads a source:
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_cache::ReplyCache; pub mod memo { pub use tidewire_memo::*; }
/// #     pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; }
/// # }
/// # struct TokioClock;
/// # impl tidewire::service::Clock for TokioClock {
/// #     fn now(&self) -> std::time::Instant { std::time::Instant::now() }
/// #     fn sleep_until(
/// #         &self, at: std::time::Instant,
/// #     ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
/// #         Box::pin(tokio::time::sleep_until(at.into()))
/// #     }
/// # }
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidewire::http;
/// use tidewire::memo::{Graph, Source};
/// use tidewire::service::CacheScope;
/// use tidewire::{Body, Call, Context, Layer, ReplyCache, Service};
///
/// static RUNS: AtomicU32 = AtomicU32::new(0);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let graph = Graph::new();
/// let news = Source::<()>::new_in(&graph, "news");
/// let page = move |_: Call| async move {
///     news.read(&());
///     Ok(format!("edition {}", RUNS.fetch_add(1, Ordering::Relaxed) + 1))
/// };
/// let cache = ReplyCache::new(&graph);
/// let cached = cache.page_layer(TokioClock, CacheScope::Public).layer(Arc::new(page));
/// let get = || {
///     let uri = http::Uri::from_static("/news");
///     cached.call(Call::http(http::Method::GET, uri, Context::default(), Body::Empty))
/// };
/// assert_eq!(get().await?.body.collect(64).await?, "edition 1");
/// assert_eq!(get().await?.body.collect(64).await?, "edition 1");
/// news.changed(&());
/// assert_eq!(get().await?.body.collect(64).await?, "edition 2");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a reply cache does nothing until it is a layer of something"]
pub struct ReplyCache {
    graph: Graph,
    terms: Settings,
}

impl ReplyCache {
    /// Keeps answers in `graph`, in which what they depend on is too.
    pub fn new(graph: &Graph) -> Self {
        let terms = Settings {
            caller_ttl: Duration::from_secs(60),
            compute_timeout: Duration::from_secs(30),
            key_bytes_max: 16 << 10,
            reply_bytes_max: 1 << 20,
            room: Arc::new(FormsBudget::new(64 << 20)),
            caching: Caching::NONE,
            verify: Arc::default(),
            on_mismatch: OnMismatch::default(),
            credential_headers: Vec::new(),
            certificates: false,
            methods: BTreeMap::new(),
        };
        Self { graph: graph.clone(), terms }
    }

    /// The graph in which answers are kept.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Sets how long an answer that is shared with the same caller only is kept.
    pub fn caller_ttl(mut self, life: Duration) -> Self {
        self.terms.caller_ttl = life;
        self
    }

    /// Sets how long one run of the service may take: the deadline that it sees. Each caller's own
    /// deadline bounds its waiting.
    pub fn compute_timeout(mut self, timeout: Duration) -> Self {
        self.terms.compute_timeout = timeout.min(TIMEOUT_MAX);
        self
    }

    /// Sets the largest message or path that is looked up.
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.terms.key_bytes_max = bytes;
        self
    }

    /// Sets the largest reply that is cached.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.terms.reply_bytes_max = bytes;
        self
    }

    /// Sets how much memory other forms of answers may take, beside the budget of the graph:
    /// compressed ones, and JSON for REST. Each is made at first demand and goes with its answer;
    /// what finds no room is made each time.
    pub fn forms_bytes_max(mut self, bytes: usize) -> Self {
        self.terms.room = Arc::new(FormsBudget::new(bytes));
        self
    }

    /// Computes a share of the hits, between 0 and 1, again before they are given. If the result
    /// differs although nothing that it declared has changed, an error is logged: the method reads
    /// something that it does not declare. Tests say 1.0. It costs a run of the method for each hit
    /// that is looked at, and the log then shows the beginning of requests.
    ///
    /// Replies that may be old by their own terms (`ttl`), or read a source that is
    /// [`external`](tidewire_memo::Source::external), are not reported.
    pub fn verify(mut self, share: f64) -> Self {
        self.terms.verify = Arc::new(Turns::of(share));
        self
    }

    /// Tells of what [`verify`](Self::verify) finds, in place of the log. A test panics there, or
    /// counts.
    pub fn on_mismatch(mut self, report: impl Fn(&Mismatch) + Send + Sync + 'static) -> Self {
        self.terms.on_mismatch = OnMismatch(Arc::new(report));
        self
    }

    /// Lets caches of HTTP answer without asking, where a method's `.proto` says nothing else. They
    /// are not told of changes; without this they ask each time (`no-cache`), and are answered 304.
    pub fn caching(mut self, caching: Caching) -> Self {
        self.terms.caching = caching;
        self
    }

    /// Names a header, beside `authorization` and `cookie`, by which callers say who they are: HTTP
    /// caches are told (`vary`) that a caller's reply depends on it.
    pub fn credential_header(mut self, name: HeaderName) -> Self {
        self.terms.credential_headers.push(name);
        self
    }

    /// Says that callers may be known by a client certificate: HTTP caches have to ask each time
    /// for a caller's reply, since no header tells callers apart.
    pub fn certificates(mut self) -> Self {
        self.terms.certificates = true;
        self
    }

    /// Whether HTTP caches may give replies of a method to everybody, known or not: those of
    /// `PUBLIC`.
    pub fn is_public(&self, spec: &Spec) -> bool {
        spec.is_query() && matches!(self.terms.of(spec).scope(spec), Scope::Public)
    }

    /// Sets what holds for a method, `shop.v1.Items/Get`, in place of what its `.proto` says; or
    /// for all queries of a service, `shop.v1.Items/*`, of which nothing else is set.
    pub fn method(mut self, name: &str, terms: MethodOverride) -> Self {
        self.terms.methods.insert(name.to_owned(), terms);
        self
    }

    /// Whether all methods that terms are set for are queries among those that are served.
    ///
    /// # Errors
    /// The first that is not such a method.
    pub fn check<'a>(
        &self,
        served: impl Iterator<Item = &'a Spec> + Clone,
    ) -> Result<(), OverrideError> {
        let mut methods = self.terms.methods.iter();
        let error = methods.find_map(|(name, terms)| {
            OverrideError::find(name, terms, &self.terms, served.clone())
        });
        error.map_or(Ok(()), Err)
    }

    /// The layer, which asks `timer` for the time.
    pub fn layer(&self, timer: impl Clock) -> impl Layer {
        let graph = self.graph.clone();
        let settings = self.terms.clone();
        Memoize { graph, settings, timer: Arc::new(timer), pages: None }
    }

    /// The layer of a plain HTTP handler whose replies to `GET` are cached for these callers.
    pub fn page_layer(&self, timer: impl Clock, scope: CacheScope) -> impl Layer {
        let graph = self.graph.clone();
        let settings = self.terms.clone();
        Memoize { graph, settings, timer: Arc::new(timer), pages: Some(scope) }
    }
}

impl fmt::Debug for ReplyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyCache").field("settings", &self.terms).finish_non_exhaustive()
    }
}

/// More than any run takes, and little enough to be added to a time.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

//! The settings of the layer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::Graph;
use tidewire_service::{Layer, Timer};

use crate::memoized::Memoize;

/// How replies are memoized; [`layer`](Self::layer) makes the layer.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`caller_ttl`](Self::caller_ttl) | 60 s | how long an answer for one caller is kept |
/// | [`compute_timeout`](Self::compute_timeout) | 30 s | how long one run for all who ask may take |
/// | [`key_bytes_max`](Self::key_bytes_max) | 16 KiB | calls with a larger message pass through |
/// | [`reply_bytes_max`](Self::reply_bytes_max) | 1 MiB | larger replies are not kept |
/// | [`max_age`](Self::max_age) | none: `no-cache` | how long caches of HTTP may answer without asking |
/// | [`stale_while_revalidate`](Self::stale_while_revalidate) | none | how much longer while they ask |
/// | [`stale_if_error`](Self::stale_if_error) | none | how much longer while nothing answers |
///
/// The bytes of all answers count against the budget of the graph. Time passes in the graph only when
/// somebody says so: [`Graph::drive`] or [`Graph::advance`].
#[derive(Clone)]
#[must_use = "an edge does nothing until it is a layer of something"]
pub struct Edge {
    graph: Graph,
    terms: Settings,
}

/// What can be set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) caller_ttl: Duration,
    pub(crate) compute_timeout: Duration,
    pub(crate) key_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
    pub(crate) max_age: Option<Duration>,
    pub(crate) stale_while_revalidate: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
}

impl Edge {
    /// Keeps answers in `graph`, in which what they are made of is too.
    pub fn new(graph: &Graph) -> Self {
        let terms = Settings {
            caller_ttl: Duration::from_secs(60),
            compute_timeout: Duration::from_secs(30),
            key_bytes_max: 16 << 10,
            reply_bytes_max: 1 << 20,
            max_age: None,
            stale_while_revalidate: None,
            stale_if_error: None,
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
        self.terms.compute_timeout = timeout;
        self
    }

    /// Sets the largest message or path that is looked up.
    pub fn key_bytes_max(mut self, bytes: usize) -> Self {
        self.terms.key_bytes_max = bytes;
        self
    }

    /// Sets the largest reply that is kept.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Self {
        self.terms.reply_bytes_max = bytes;
        self
    }

    /// Lets caches of HTTP answer for this long without asking (`max-age`, RFC 9111, section 5.2.2.1):
    /// they are not told of changes. Without it they ask each time (`no-cache`), and are answered 304.
    pub fn max_age(mut self, life: Duration) -> Self {
        self.terms.max_age = Some(life);
        self
    }

    /// Lets caches of HTTP answer for this long after `max_age` while they ask (RFC 5861, section 3).
    pub fn stale_while_revalidate(mut self, life: Duration) -> Self {
        self.terms.stale_while_revalidate = Some(life);
        self
    }

    /// Lets caches of HTTP answer for this long after `max_age` while asking fails (RFC 5861, section 4).
    pub fn stale_if_error(mut self, life: Duration) -> Self {
        self.terms.stale_if_error = Some(life);
        self
    }

    /// The layer, which asks `timer` for the time.
    pub fn layer(&self, timer: impl Timer) -> impl Layer {
        Memoize { graph: self.graph.clone(), settings: self.terms.clone(), timer: Arc::new(timer) }
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("settings", &self.terms).finish_non_exhaustive()
    }
}

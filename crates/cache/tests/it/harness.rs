//! Its own graph, a service that counts its runs, and calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::{HeaderName, HeaderValue};
use tidewire_cache::ReplyCache;
use tidewire_memo::Graph;
use tidewire_service::{
    Answer, Body, CacheScope, Call, Clock, Codec, Context, Headers, Idempotency, Layer, Method,
    Reply, Result, Service, Spec, StreamKind,
};

/// The clock of the runtime of the test.
pub(crate) struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // tidy: allow-sleep the clock that the layer asks, paused in tests
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// A query `/test.v1.Rows/Get`.
pub(crate) fn query(sharing: CacheScope) -> Spec {
    Spec::dynamic("test.v1.Rows", "Get", StreamKind::Unary, ["test.v1.Id", "test.v1.Row"])
        .idempotency(Idempotency::NoSideEffects)
        .cache(sharing)
}

/// A service behind the layer, and how often it ran.
#[derive(Clone)]
pub(crate) struct Behind {
    pub(crate) service: Arc<dyn Service>,
    method: Method,
    runs: Arc<AtomicUsize>,
}

impl Behind {
    pub(crate) fn new<F, Fut>(graph: &Graph, spec: Spec, handler: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply>> + Send + 'static,
    {
        Self::with(ReplyCache::new(graph), spec, handler)
    }

    pub(crate) fn with<F, Fut>(cache: ReplyCache, spec: Spec, handler: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply>> + Send + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let counting = move |call: Call| {
            counted.fetch_add(1, Ordering::SeqCst);
            handler(call)
        };
        let service = cache.page_layer(TestClock, CacheScope::Caller).layer(Arc::new(counting));
        Self { service, method: Method::from(Arc::new(spec)), runs }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn method(&self) -> Method {
        self.method.clone()
    }

    pub(crate) fn ask(&self, message: &'static str, context: Context) -> Answer {
        let body = Body::from(message.as_bytes().to_vec());
        self.service.call(Call::method(self.method.clone(), context, Codec::Proto, body))
    }

    /// The text of the answer.
    pub(crate) async fn text(&self, message: &'static str, context: Context) -> String {
        let reply = self.ask(message, context).await.expect("an answer");
        text(reply).await
    }
}

pub(crate) async fn text(reply: Reply) -> String {
    let bytes = reply.body.collect(usize::MAX).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A context with one header; none for an empty name.
pub(crate) fn from(name: &'static str, value: &'static str) -> Context {
    let mut headers = Headers::new();
    if !name.is_empty() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Context::new(headers)
}

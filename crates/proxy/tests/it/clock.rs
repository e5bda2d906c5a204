//! A page cache before a real upstream, whose clock the test moves.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{Method, StatusCode};
use parking_lot::Mutex;
use tidewire_cache::{PageCache, PageRuntime, PageSettings};
use tidewire_service::{Answer, Body, Call, Headers, Layer, Service};

use crate::origin::Origin;
use crate::{call, upstream};

/// Time stands still until it is moved.
#[derive(Clone)]
pub(crate) struct Clock(Arc<Mutex<Duration>>, Instant, SystemTime);

impl Clock {
    fn new() -> Self {
        // Whole seconds, as dates in headers have them.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        Self(Arc::default(), Instant::now(), wall)
    }

    pub(crate) fn pass(&self, seconds: u64) {
        *self.0.lock() += Duration::from_secs(seconds);
    }

    /// The present, and so many seconds later, as a header has it.
    pub(crate) fn date(&self, offset: i64) -> String {
        let there = self.wall();
        let by = Duration::from_secs(offset.unsigned_abs());
        httpdate::fmt_http_date(if offset < 0 { there - by } else { there + by })
    }
}

impl PageRuntime for Clock {
    fn now(&self) -> Instant {
        self.1 + *self.0.lock()
    }

    fn wall(&self) -> SystemTime {
        self.2 + *self.0.lock()
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(work);
    }

    fn run(&self, command: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(command);
    }
}

/// A page cache before an upstream.
#[derive(Clone)]
pub(crate) struct CachingProxy {
    pub(crate) pages: PageCache,
    pub(crate) clock: Clock,
    service: Arc<dyn Service>,
}

/// What a caller got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: Headers,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn status_text(&self) -> &str {
        self.header("cache-status").unwrap_or_default()
    }
}

impl Service for CachingProxy {
    fn call(&self, call: Call) -> Answer {
        self.service.call(call)
    }
}

impl CachingProxy {
    pub(crate) fn new(origin: &Origin) -> Self {
        Self::with(origin, |_| {})
    }

    pub(crate) fn with(origin: &Origin, change: impl FnOnce(&mut PageSettings)) -> Self {
        let clock = Clock::new();
        let pages = PageCache::new(clock.clone());
        let mut settings = PageSettings::default();
        change(&mut settings);
        let service = pages.layer("shop", settings).layer(Arc::new(upstream(&[&origin.url()])));
        Self { pages, clock, service }
    }

    pub(crate) async fn get(&self, target: &str) -> Got {
        self.get_with(target, &[]).await
    }

    pub(crate) async fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Got {
        self.ask(Method::GET, target, headers).await
    }

    pub(crate) async fn ask(&self, method: Method, target: &str, headers: &[(&str, &str)]) -> Got {
        let is_unsafe = !method.is_safe();
        let body = if is_unsafe { Body::from("body") } else { Body::Empty };
        let reply = match self.service.call(call(method, target, headers, body)).await {
            Ok(reply) => reply,
            Err(error) => {
                let headers = error.headers().clone();
                let body = error.message().to_owned();
                return Got { status: error.http_status(), headers, body };
            }
        };
        let (status, headers) = (reply.status, reply.headers.clone());
        let body = reply.body.collect(1 << 24).await.unwrap();
        Got { status, headers: headers.into(), body: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// A request that can be made by a task.
    pub(crate) fn get_owned(&self, target: &str) -> impl Future<Output = Got> + Send + use<> {
        let (cached, target) = (self.clone(), target.to_owned());
        async move { cached.get(&target).await }
    }
}

//! What everything that answers implements, and what wraps it.
//!
//! ```text
//! call ─▶ layer ─▶ layer ─▶ backend: Rust │ process │ upstream │ mock │ plain HTTP handler
//! ```
//!
//! [`Answer`] is the future of a reply, a few pointers wide: the reply that is there at once (a memo
//! hit, a constant) is boxed, and any other is a boxed future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{Call, Reply, Result};

/// Answers calls.
pub trait Service: Send + Sync + 'static {
    /// Answers one call.
    ///
    /// Dropping the answer cancels it. Work that must go on (a command) is moved into a task by
    /// whoever owns the tasks, the server; a service need not care.
    fn call(&self, call: Call) -> Answer;
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, call: Call) -> Answer {
        (**self).call(call)
    }
}

/// Wraps a service into another: deadlines, limits, authentication, memoization, metrics.
pub trait Layer: Send + Sync + 'static {
    /// The wrapped service.
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service>;
}

impl<F> Layer for F
where
    F: Fn(Arc<dyn Service>) -> Arc<dyn Service> + Send + Sync + 'static,
{
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        self(inner)
    }
}

/// Wraps `service` in `layers`; the first layer sees a call first.
pub fn stack(layers: &[Arc<dyn Layer>], service: Arc<dyn Service>) -> Arc<dyn Service> {
    layers.iter().rev().fold(service, |inner, layer| layer.layer(inner))
}

/// The future of a reply.
///
/// # Panics
/// When polled again after it was ready.
pub struct Answer(State);

enum State {
    Ready(Option<Result<Box<Reply>>>),
    Pending(Outcome),
}

impl Answer {
    /// An answer that is there at once.
    #[inline]
    pub fn ready(outcome: Result<Reply>) -> Self {
        Self(State::Ready(Some(outcome.map(Box::new))))
    }

    /// An answer that has to be awaited.
    #[inline]
    pub fn pending(outcome: impl Future<Output = Result<Reply>> + Send + 'static) -> Self {
        Self(State::Pending(Box::pin(outcome)))
    }
}

impl Answer {
    /// The outcome when it is there already, otherwise the future that has to be awaited.
    ///
    /// # Errors
    /// The future.
    ///
    /// # Panics
    /// When it was polled to its end before.
    #[inline]
    pub fn into_ready(self) -> Result<Result<Box<Reply>>, Outcome> {
        match self.0 {
            State::Ready(outcome) => Ok(outcome.expect(TAKEN)),
            State::Pending(outcome) => Err(outcome),
        }
    }
}

/// The boxed future of a reply.
pub type Outcome = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

const TAKEN: &str = "an answer is polled until it is ready, once";

impl Future for Answer {
    type Output = Result<Reply>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(outcome) => Poll::Ready(outcome.take().expect(TAKEN).map(|reply| *reply)),
            State::Pending(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Ready(outcome) => f.debug_tuple("Ready").field(outcome).finish(),
            State::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// A service made of an async function; see [`service_fn`].
pub struct ServiceFn<F>(F);

/// Makes a service of an async function from [`Call`] to [`Reply`].
///
/// ```
/// use tidewire_service::{Call, Reply, service_fn};
/// let echo = service_fn(|call: Call| async move {
///     Ok(Reply::text(call.param("text").unwrap_or_default().to_owned()))
/// });
/// ```
pub fn service_fn<F, Fut>(f: F) -> ServiceFn<F>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply>> + Send + 'static,
{
    ServiceFn(f)
}

impl<F, Fut> Service for ServiceFn<F>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply>> + Send + 'static,
{
    fn call(&self, call: Call) -> Answer {
        Answer::pending((self.0)(call))
    }
}

impl<F> fmt::Debug for ServiceFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceFn")
    }
}

/// A service made of a function that answers at once; see [`ready_fn`].
pub struct ReadyFn<F>(F);

/// Makes a service of a function that answers without waiting.
///
/// ```
/// use tidewire_service::{Call, Reply, ready_fn};
/// let hello = ready_fn(|_call: Call| Ok(Reply::text("Hello, World!")));
/// ```
pub fn ready_fn<F>(f: F) -> ReadyFn<F>
where
    F: Fn(Call) -> Result<Reply> + Send + Sync + 'static,
{
    ReadyFn(f)
}

impl<F> Service for ReadyFn<F>
where
    F: Fn(Call) -> Result<Reply> + Send + Sync + 'static,
{
    fn call(&self, call: Call) -> Answer {
        Answer::ready((self.0)(call))
    }
}

impl<F> fmt::Debug for ReadyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadyFn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::VIA;

    fn tag(name: &'static str) -> Arc<dyn Layer> {
        Arc::new(move |inner: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(ready_then(inner, name))
        })
    }

    fn ready_then(inner: Arc<dyn Service>, name: &'static str) -> impl Service {
        service_fn(move |call| {
            let answer = inner.call(call);
            async move { Ok(answer.await?.with_header(VIA, HeaderValue::from_static(name))) }
        })
    }

    #[test]
    fn the_first_layer_sees_the_call_first_and_the_reply_last() {
        let service =
            stack(&[tag("outer"), tag("inner")], Arc::new(ready_fn(|_| Ok(Reply::text("hello")))));
        let call = Call::http(
            http::Method::GET,
            http::Uri::from_static("/"),
            crate::Context::default(),
            crate::Body::Empty,
        );
        let mut answer = service.call(call);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Ok(reply)) = Pin::new(&mut answer).poll(&mut cx) else {
            panic!("the reply is there at once")
        };
        let via: Vec<_> = reply.headers.get_all(VIA).iter().collect();
        assert_eq!(via, ["inner", "outer"]);
    }
}

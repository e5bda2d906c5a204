//! What everything that answers implements, and what wraps it.
//!
//! ```text
//! call ─▶ layer ─▶ layer ─▶ backend: Rust │ process │ upstream │ mock │ plain HTTP handler
//! ```
//!
//! [`Answer`] is the future of a reply, a few pointers wide: the reply that is there at once (a
//! memo hit, a constant) is boxed, and any other is a boxed future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::{CacheScope, CachedBody, Call, Error, Reply, Result};

/// Answers calls.
///
/// An async function from [`Call`] to anything that becomes a [`Reply`] is a service:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Call, Result, Service};
/// async fn greet(call: Call) -> Result<String> {
///     Ok(format!("Hello, {}!", call.param::<String>("name")?))
/// }
/// # let _: &dyn Service = &greet;
/// ```
///
/// So is a closure. What it takes along is cloned for each call, since calls run at the same time:
///
/// ```
/// # use tidewire_service as tidewire;
/// use std::sync::{Arc, Mutex};
/// use tidewire::{Call, Error, Service};
///
/// let visits = Arc::new(Mutex::new(0_u64));
/// let count = move |_: Call| {
///     let visits = Arc::clone(&visits);
///     async move {
///         let mut visits = visits.lock().map_err(|_| Error::internal("a call panicked"))?;
///         *visits += 1;
///         Ok(format!("visit {visits}"))
///     }
/// };
/// # let _: &dyn Service = &count;
/// ```
pub trait Service: Send + Sync + 'static {
    /// Answers one call.
    ///
    /// Dropping the answer cancels it. Work that must go on (a command) is moved into a task by
    /// whoever owns the tasks, the server; a service need not care.
    fn call(&self, call: Call) -> Answer;

    /// Whether a server may cache the replies of this plain HTTP handler to `GET`, and for whom;
    /// not unless [`cached`](Self::cached) says so. Methods of a `.proto` say it there.
    fn cache(&self) -> Option<CacheScope> {
        None
    }

    /// Whether this service gave the reply that `kept` keeps from its own memory, and does nothing
    /// else with a call that it answers so. Then whoever has the reply may ask
    /// [`CachedBody::again`] in place of the service. Not by default: what wraps a service may want
    /// to see each call.
    fn keeps(&self, kept: &dyn CachedBody) -> bool {
        let _ = kept;
        false
    }

    /// This plain HTTP handler, whose replies to `GET` a server may cache until what they depend on
    /// changes.
    ///
    /// Everything that the handler reads and that may change has to be a source or a memo.
    fn cached(self, scope: CacheScope) -> CachedService<Self>
    where
        Self: Sized,
    {
        CachedService { service: self, scope }
    }
}

/// A plain HTTP handler whose replies may be cached; see [`Service::cached`].
#[derive(Debug, Clone)]
pub struct CachedService<S> {
    service: S,
    scope: CacheScope,
}

impl<S: Service> Service for CachedService<S> {
    fn call(&self, call: Call) -> Answer {
        self.service.call(call)
    }

    fn cache(&self) -> Option<CacheScope> {
        Some(self.scope.clone())
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, call: Call) -> Answer {
        (**self).call(call)
    }

    fn cache(&self) -> Option<CacheScope> {
        (**self).cache()
    }

    fn keeps(&self, kept: &dyn CachedBody) -> bool {
        (**self).keeps(kept)
    }
}

impl<F, Fut, R> Service for F
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R>> + Send + 'static,
    R: Into<Reply>,
{
    #[inline]
    fn call(&self, call: Call) -> Answer {
        // Not an async block, which would hold the future twice, nor a combinator, which moves it.
        Answer::pending(HandlerFuture { future: self(call) })
    }
}

pin_project_lite::pin_project! {
    /// The reply of a handler, and its error as the caller sees it.
    struct HandlerFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, R> Future for HandlerFuture<F>
where
    F: Future<Output = Result<R>>,
    R: Into<Reply>,
{
    type Output = Result<Reply>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.project().future.poll(cx));
        Poll::Ready(outcome.map(Into::into).map_err(Error::seen_by_caller))
    }
}

/// Wraps a service into another: limits, memoization, validation.
///
/// A function from a service to a service is a layer. It may read the call ([`Call::spec`] says
/// which method is called, [`Call::message`] is what was sent), reply by itself, or change the
/// reply:
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_service::*; }
/// use std::sync::Arc;
/// use tidewire::http;
/// use tidewire::{Body, Call, Context, Layer, Service};
///
/// fn stamp(inner: Arc<dyn Service>) -> Arc<dyn Service> {
///     Arc::new(move |call: Call| {
///         let answer = inner.call(call);
///         async move {
///             let mut reply = answer.await?;
///             reply.set_header("x-served-by", "host-7")?;
///             Ok(reply)
///         }
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let service = stamp.layer(Arc::new(async |_: Call| Ok("hello")));
/// let uri = http::Uri::from_static("/");
/// let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
/// assert_eq!(service.call(call).await?.headers["x-served-by"], "host-7");
/// # Ok(())
/// # }
/// ```
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
/// A service that is more than a function implements [`Service`], and makes its answers:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::Answer;
/// use tidewire::{Call, Reply, Service};
///
/// struct Version(&'static str);
///
/// impl Service for Version {
///     fn call(&self, _: Call) -> Answer {
///         Answer::ready(Ok(Reply::text(self.0)))
///     }
/// }
/// # let _: &dyn Service = &Version("7");
/// ```
/// # Panics
/// When polled again after it was ready.
pub struct Answer(State);

enum State {
    Ready(Option<Result<Box<Reply>>>),
    Pending(PendingAnswer),
}

/// The boxed future of a reply that is not there at once.
pub type PendingAnswer = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// What an [`Answer`] is before it is polled; see [`Answer::into_progress`].
#[expect(missing_debug_implementations, reason = "a future has none")]
pub enum Progress {
    /// The outcome is there.
    Ready(Result<Box<Reply>>),
    /// It has to be awaited.
    Pending(PendingAnswer),
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

    /// The outcome when it is there already, otherwise the future that has to be awaited.
    ///
    /// # Panics
    /// When it was polled to its end before.
    #[inline]
    pub fn into_progress(self) -> Progress {
        match self.0 {
            State::Ready(outcome) => Progress::Ready(outcome.expect(TAKEN)),
            State::Pending(outcome) => Progress::Pending(outcome),
        }
    }
}

impl From<Progress> for Answer {
    #[inline]
    fn from(progress: Progress) -> Self {
        Self(match progress {
            Progress::Ready(outcome) => State::Ready(Some(outcome)),
            Progress::Pending(pending) => State::Pending(pending),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::VIA;

    fn tag(name: &'static str) -> Arc<dyn Layer> {
        Arc::new(move |inner: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(move |call: Call| {
                let answer = inner.call(call);
                async move {
                    let mut reply = answer.await?;
                    reply.append_header(VIA, name)?;
                    Ok(reply)
                }
            })
        })
    }

    #[test]
    fn the_first_layer_sees_the_call_first_and_the_reply_last() {
        let hello = async |_: Call| Ok("hello");
        let service = stack(&[tag("outer"), tag("inner")], Arc::new(hello));
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

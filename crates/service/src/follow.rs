//! Following a query: its answer now, and again whenever it has become stale.
//!
//! The call is made again as it was first made, through all gates and layers, with a fresh deadline and
//! with the validator of the answer that the follower has; so an answer that became stale and did not
//! change costs no body and is not told. This room has no clock: a [`Timer`] comes in.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use crate::{Error, Freshness, Lifetime, Query, Reply, Result, Service, Stream};

/// Tells the time and waits for it.
pub trait Timer: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;

    /// Waits until a point in time.
    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// How a query is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pace {
    /// The least time between two calls; 100 ms unless said otherwise.
    pub min_interval: Duration,
    /// How long each call may take; 30 s unless said otherwise.
    pub timeout: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { min_interval: Duration::from_millis(100), timeout: Duration::from_secs(30) }
    }
}

impl Pace {
    /// Sets the least time between two calls.
    #[must_use]
    pub fn with_min_interval(mut self, min_interval: Duration) -> Self {
        self.min_interval = min_interval;
        self
    }

    /// Sets how long each call may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// The replies to `query`: the present one, then each that differs from the one before.
///
/// The stream waits until an answer becomes stale or its lifetime is over, and at least
/// [`Pace::min_interval`] since the call before. It ends after an answer of which nothing says when it
/// ends, and after one that never changes. An error ends it too, unless it carries its own freshness
/// (`not_found` until there is something to find).
///
/// # Cancel safety
/// Dropping the stream cancels the call that is under way.
pub fn follow(
    service: Arc<dyn Service>,
    query: Query,
    pace: Pace,
    timer: impl Timer,
) -> Stream<Reply> {
    let follower = Follower { service, query, pace, timer, next: Some(None) };
    Stream::new(futures_util::stream::unfold(follower, |mut follower| async move {
        let outcome = follower.next().await?;
        Some((outcome, follower))
    }))
}

struct Follower<T> {
    service: Arc<dyn Service>,
    query: Query,
    pace: Pace,
    timer: T,
    /// What has to end before the next call, and when the last one was made; `None` at the end.
    next: Option<Option<(Freshness, Instant)>>,
}

impl<T: Timer> Follower<T> {
    async fn next(&mut self) -> Option<Result<Reply>> {
        loop {
            if let Some((freshness, called)) = self.next.take()? {
                self.stale(&freshness).await;
                self.timer.sleep_until(called + self.pace.min_interval).await;
            }
            let called = self.timer.now();
            let outcome = self.call(called).await;
            let freshness = match &outcome {
                Ok(reply) => &reply.freshness,
                Err(error) => error.freshness(),
            };
            if ends(freshness) {
                self.next = Some(Some((freshness.clone(), called)));
            }
            match outcome {
                Ok(reply) if reply.is_unchanged() => {}
                told => {
                    let validator =
                        told.as_ref().ok().and_then(|reply| reply.freshness.validator());
                    self.query.context_mut().set_held(validator.into_iter().collect());
                    return Some(told);
                }
            }
        }
    }

    async fn call(&mut self, now: Instant) -> Result<Reply> {
        let deadline = now + self.pace.timeout;
        let mut call = self.query.clone().into_call();
        call.context = call.context.with_deadline(deadline);
        match select(self.service.call(call), self.timer.sleep_until(deadline)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => {
                Err(Error::deadline_exceeded("a followed query was not answered in time"))
            }
        }
    }

    /// Waits until an answer is no longer good.
    async fn stale(&self, freshness: &Freshness) {
        let told = poll_fn(|cx| match freshness.staleness() {
            Some(staleness) => staleness.poll_stale(cx),
            None => std::task::Poll::Pending,
        });
        match freshness.lifetime() {
            Lifetime::For(lifetime) => {
                let left = lifetime.saturating_sub(freshness.age());
                select(told, self.timer.sleep_until(self.timer.now() + left)).await;
            }
            Lifetime::Unknown | Lifetime::Immutable => told.await,
        }
    }
}

/// Whether anything says when an answer is no longer good.
fn ends(freshness: &Freshness) -> bool {
    freshness.staleness().is_some() || matches!(freshness.lifetime(), Lifetime::For(_))
}

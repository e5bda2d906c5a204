//! Following a query: its answer now, and again whenever it has become stale.
//!
//! The call is made again as it was first made, through all gates and layers, with a fresh deadline
//! and with the validator of the answer that the follower has; so an answer that became stale and
//! did not change costs no body and is not told. What the query holds at first is such an answer:
//! who comes back is told what changed since. This crate has no clock: a [`Clock`] comes in.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use crate::{Error, Freshness, Lifetime, Query, Reply, Result, Service, Stream, WatchMode};

/// Tells the time and waits for it.
///
/// With the clock of tokio:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::pin::Pin;
/// use std::time::Instant;
/// use tidewire::service::Clock;
///
/// struct TokioTime;
///
/// impl Clock for TokioTime {
///     fn now(&self) -> Instant {
///         Instant::now()
///     }
///
///     fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
///         Box::pin(tokio::time::sleep_until(at.into()))
///     }
/// }
/// # let _: &dyn Clock = &TokioTime;
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;

    /// Waits until a point in time.
    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// How a query is followed.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::time::Duration;
/// use tidewire::service::FollowOptions;
///
/// let twice_a_second = FollowOptions::default().with_min_interval(Duration::from_millis(500));
/// assert_eq!(twice_a_second.timeout, Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowOptions {
    /// The least time between two calls; 100 ms unless said otherwise.
    pub min_interval: Duration,
    /// How long each call may take; 30 s unless said otherwise.
    pub timeout: Duration,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self { min_interval: Duration::from_millis(100), timeout: Duration::from_secs(30) }
    }
}

impl FollowOptions {
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

/// The answers to `query`: the present one, then each that differs from the one before, as its
/// validator says; one without a validator is told each time.
///
/// The stream waits until an answer becomes stale or its lifetime is over, and at least
/// [`FollowOptions::min_interval`] since the call before. It ends after an answer of which nothing
/// says when it ends, and after one that never changes. An error is an answer too, and ends it
/// unless it carries its own freshness (`not_found` until there is something to find). The stream
/// itself never fails.
///
/// # Cancel safety
/// Dropping the stream cancels the call that is under way.
pub fn follow(
    service: Arc<dyn Service>,
    query: Query,
    pace: FollowOptions,
    timer: impl Clock,
) -> Stream<Result<Reply>> {
    let watching = WatchMode::Begins;
    Follower { service, query, pace, timer, watching, next: Some(None) }.answers()
}

/// [`follow`] from an answer on that the follower was given already: what is told first is the next
/// one.
///
/// # Cancel safety
/// As there.
pub fn follow_from(
    given: Freshness,
    service: Arc<dyn Service>,
    mut query: Query,
    pace: FollowOptions,
    timer: impl Clock,
) -> Stream<Result<Reply>> {
    query.context_mut().set_held(given.validator().into_iter().collect());
    let now = timer.now();
    let next = ends(&given).then_some(Some((given, now)));
    let watching = WatchMode::Continues;
    Follower { service, query, pace, timer, watching, next }.answers()
}
struct Follower<T> {
    service: Arc<dyn Service>,
    query: Query,
    pace: FollowOptions,
    timer: T,
    /// Whether the next call is the first.
    watching: WatchMode,
    /// What has to end before the next call, and when the last one was made; `None` at the end.
    next: Option<Option<(Freshness, Instant)>>,
}

impl<T: Clock> Follower<T> {
    fn answers(self) -> Stream<Result<Reply>> {
        Stream::new(futures_util::stream::unfold(self, |mut follower| async move {
            let outcome = follower.next().await?;
            Some((Ok(outcome), follower))
        }))
    }

    async fn next(&mut self) -> Option<Result<Reply>> {
        loop {
            if let Some((freshness, called)) = self.next.take()? {
                self.stale(&freshness).await;
                self.sleep_until(called.checked_add(self.pace.min_interval)).await;
            }
            let called = self.timer.now();
            let outcome = self.call(called).await.and_then(|reply| self.checked(reply));
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
        let deadline = now.checked_add(self.pace.timeout);
        let mut call = self.query.clone().into_call();
        call.context = call.context.with_deadline(deadline);
        call.context.set_watching(self.watching);
        self.watching = WatchMode::Continues;
        match select(self.service.call(call), pin!(self.sleep_until(deadline))).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => {
                Err(Error::deadline_exceeded("a followed query was not answered in time"))
            }
        }
    }

    /// Only what is held can be unchanged.
    fn checked(&self, reply: Reply) -> Result<Reply> {
        let context = self.query.context();
        let is_held = reply.is_held(&context.caller_validators()) || context.holds_any();
        match reply.is_unchanged() && !is_held {
            true => Err(Error::internal("the service answered that something else is unchanged")),
            false => Ok(reply),
        }
    }

    /// Waits until a point in time; one beyond what a clock can tell never comes.
    async fn sleep_until(&self, at: Option<Instant>) {
        match at {
            Some(at) => self.timer.sleep_until(at).await,
            None => std::future::pending().await,
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
                let end = self.timer.now().checked_add(left);
                select(told, pin!(self.sleep_until(end))).await;
            }
            Lifetime::Unknown | Lifetime::Immutable => told.await,
        }
    }
}

/// Whether anything says when an answer is no longer good.
fn ends(freshness: &Freshness) -> bool {
    freshness.staleness().is_some() || matches!(freshness.lifetime(), Lifetime::For(_))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::collections::VecDeque;
    use std::task::{Context as TaskContext, Poll, Waker};

    use http::{Method, Uri};

    use super::*;
    use crate::{Answer, Body, Call, Code, Context, Signal, Validator};

    /// Time that goes on when it is told to.
    #[derive(Clone, Default)]
    struct ManualClock(Arc<Mutex<(Option<Instant>, Vec<Waker>)>>);

    impl ManualClock {
        fn advance(&self, by: Duration) {
            let now = self.now() + by;
            let mut state = self.0.lock();
            state.0 = Some(now);
            state.1.drain(..).for_each(Waker::wake);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Instant {
            *self.0.lock().0.get_or_insert_with(Instant::now)
        }

        fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let clock = self.clone();
            Box::pin(poll_fn(move |cx| {
                if clock.now() >= at {
                    return Poll::Ready(());
                }
                clock.0.lock().1.push(cx.waker().clone());
                Poll::Pending
            }))
        }
    }

    /// Answers what it is told to, and notes what each caller held.
    #[derive(Default)]
    struct Script {
        answers: Mutex<VecDeque<Result<Reply>>>,
        held: Mutex<Vec<Vec<Validator>>>,
    }

    impl Service for Script {
        fn call(&self, call: Call) -> Answer {
            assert!(call.context.deadline().is_some(), "each call has a deadline");
            self.held.lock().push(call.context.caller_validators());
            match self.answers.lock().pop_front() {
                Some(answer) => Answer::ready(answer),
                None => Answer::pending(std::future::pending()),
            }
        }
    }

    fn reply(text: &'static str, signal: &Signal) -> Reply {
        let freshness = Freshness::tracked(Arc::new(signal.clone()));
        let validator = Validator::new([text.len() as u8; 16]);
        Reply::text(text).with_freshness(freshness.with_validator(validator))
    }

    fn following(answers: Vec<Result<Reply>>) -> (Stream<Result<Reply>>, ManualClock, Arc<Script>) {
        let script = Arc::new(Script { answers: Mutex::new(answers.into()), ..Script::default() });
        let call = Call::http(Method::GET, Uri::from_static("/"), Context::default(), Body::Empty);
        let query = now(call.buffered()).expect("at once").expect("an empty body");
        let clock = ManualClock::default();
        let service: Arc<dyn Service> = Arc::clone(&script) as Arc<dyn Service>;
        (follow(service, query, FollowOptions::default(), clock.clone()), clock, script)
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut cx = TaskContext::from_waker(Waker::noop());
        match std::pin::pin!(future).poll(&mut cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn text(next: Option<Result<Option<Result<Reply>>>>) -> String {
        match next.map(|next| next.expect("it never fails")) {
            None => "waits".to_owned(),
            Some(None) => "ended".to_owned(),
            Some(Some(Err(error))) => error.code().to_string(),
            Some(Some(Ok(reply))) => format!("{:?}", now(reply.body.collect(99)).expect("whole")),
        }
    }

    #[test]
    fn a_stale_answer_is_asked_for_again_at_its_pace_and_what_did_not_change_is_not_told() {
        let signals = [Signal::new(), Signal::new()];
        let unchanged = Reply::unchanged(Validator::new([3; 16]))
            .with_freshness(Freshness::tracked(Arc::new(signals[1].clone())));
        let last = reply("changed", &Signal::new());
        let (mut stream, clock, script) =
            following(vec![Ok(reply("one", &signals[0])), Ok(unchanged), Ok(last)]);
        assert!(text(now(stream.next())).contains("one"));
        assert_eq!(text(now(stream.next())), "waits");
        signals[0].fire();
        assert_eq!(text(now(stream.next())), "waits", "not before the interval is over");
        clock.advance(Duration::from_millis(100));
        assert_eq!(text(now(stream.next())), "waits", "it did not change");
        signals[1].fire();
        clock.advance(Duration::from_millis(100));
        assert!(text(now(stream.next())).contains("changed"));
        let held = script.held.lock().clone();
        let three = vec![Validator::new([3; 16])];
        assert_eq!(held, [vec![], three.clone(), three]);
    }

    #[test]
    fn an_error_with_freshness_is_followed_and_one_without_ends() {
        let signal = Signal::new();
        let missing = Error::not_found("not yet")
            .with_freshness(Freshness::tracked(Arc::new(signal.clone())));
        let (mut stream, clock, _) = following(vec![Err(missing), Err(Error::internal("bug"))]);
        assert_eq!(text(now(stream.next())), Code::NotFound.to_string());
        signal.fire();
        clock.advance(Duration::from_secs(1));
        assert_eq!(text(now(stream.next())), Code::Internal.to_string());
        assert_eq!(text(now(stream.next())), "ended");
    }

    #[test]
    fn a_lifetime_ends_an_answer_a_call_takes_no_longer_than_it_may_and_nothing_known_ends_it() {
        let lasting =
            Reply::text("short").with_freshness(Freshness::lasting(Duration::from_secs(5)));
        let (mut stream, clock, _) = following(vec![Ok(lasting)]);
        assert!(text(now(stream.next())).contains("short"));
        clock.advance(Duration::from_secs(4));
        assert_eq!(text(now(stream.next())), "waits");
        clock.advance(Duration::from_secs(5));
        assert_eq!(text(now(stream.next())), "waits", "the second call is not answered");
        clock.advance(Duration::from_secs(30));
        assert_eq!(text(now(stream.next())), Code::DeadlineExceeded.to_string());
        let (mut stream, ..) = following(vec![Ok(Reply::text("once"))]);
        assert!(text(now(stream.next())).contains("once"));
        assert_eq!(text(now(stream.next())), "ended");
    }
}

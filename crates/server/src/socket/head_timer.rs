//! The time that an HTTP/1.1 client has for the head of a request, and between two requests,
//! counted only where the server waits for it.
//!
//! The HTTP library asks for the time and makes a timer before it reads a head, also when the head
//! is there already, as under load and behind pipelining it is. So the clock that it sees here
//! stands still, and the timer, which it looks at only when the head is not there yet, starts then.
//! What it waits for is told by whether anything was read since:
//!
//! | of the head | time |
//! |---|---|
//! | nothing is there | `limits.idle_timeout` |
//! | a part is there | `limits.header_read_timeout`, from its first byte |
//!
//! While the client does not read what is to be written, it is not waited for a head.
//!
//! A part that came together with the request before it counts as nothing until more comes. A
//! request that is answered beside the library (`socket/prepared.rs`) is one before.
//!
//! A connection has one [`Alarm`] for all of its heads. One that is set already, and not too late,
//! is left as it is, and set anew only when it rings too early; so most heads set none.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::limits::Limits;
use crate::socket::activity::Activity;

/// Makes timers that start when they are first looked at.
#[derive(Debug, Clone)]
pub(crate) struct HeadTimer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    activity: Arc<Activity>,
    head: Duration,
    idle: Duration,
    now: Instant,
    alarm: Mutex<Alarm>,
}

/// What wakes a connection whose client is late.
#[derive(Debug, Default)]
struct Alarm(Option<Pin<Box<tokio::time::Sleep>>>);

impl HeadTimer {
    /// What the library is told that heads may take; it is not looked at.
    pub(crate) const TOLD: Duration = Duration::from_secs(1);

    /// The timer of one connection.
    pub(crate) fn new(activity: Arc<Activity>, limits: &Limits) -> Self {
        let head = limits.header_read_timeout;
        let idle = limits.idle_timeout;
        Self(Arc::new(Shared {
            activity,
            head,
            idle,
            now: Instant::now(),
            alarm: Mutex::default(),
        }))
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.activity.requests.await_head();
        Box::pin(HeadTimeout {
            timer: Arc::clone(&self.0),
            reads: self.0.activity.reads(),
            answered: self.0.activity.requests.answer_count(),
            // What told that this is HTTP/1.1 is part of its first head.
            is_within: self.0.activity.is_first_head(),
            until: None,
        })
    }

    /// The library sleeps for heads only.
    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(Self::TOLD)
    }

    fn now(&self) -> Instant {
        self.0.now
    }
}

/// Ready when a head took too long.
struct HeadTimeout {
    timer: Arc<Shared>,
    /// How often something was read when the wait began.
    reads: usize,
    /// How often requests were answered beside the library before.
    answered: usize,
    is_within: bool,
    /// Since it was first looked at.
    until: Option<tokio::time::Instant>,
}

impl Sleep for HeadTimeout {}

impl Future for HeadTimeout {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.timer.activity.is_blocked() {
            // The client has to read first, within limits.reply_progress_timeout.
            this.until = None;
            return Poll::Pending;
        }
        let answered = this.timer.activity.requests.answer_count();
        if answered != this.answered {
            // The wait begins anew.
            this.answered = answered;
            this.is_within = false;
            this.until = None;
        }
        if !this.is_within && this.reads != this.timer.activity.reads() {
            this.is_within = true;
            this.until = None;
        }
        let (timeout, name) = match this.is_within {
            true => (this.timer.head, "limits.header_read_timeout"),
            false => (this.timer.idle, "limits.idle_timeout"),
        };
        let until = *this.until.get_or_insert_with(|| {
            this.timer.activity.set_waits_for_head(true);
            let now = tokio::time::Instant::now();
            now.checked_add(timeout).unwrap_or(now + FAR)
        });
        ready!(this.timer.alarm.lock().poll(until, cx));
        tracing::debug!("a connection is closed after {name} = {timeout:?}");
        Poll::Ready(())
    }
}

impl Drop for HeadTimeout {
    fn drop(&mut self) {
        if self.until.is_some() {
            self.timer.activity.set_waits_for_head(false);
        }
    }
}

impl Alarm {
    /// Ready at this time. The connection is one task, so whoever waits is woken by what was set
    /// before.
    fn poll(&mut self, until: tokio::time::Instant, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(set) = &self.0
            && set.deadline() <= until
            && !set.is_elapsed()
        {
            return Poll::Pending;
        }
        if until <= tokio::time::Instant::now() {
            return Poll::Ready(());
        }
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx)
    }
}

/// More than anybody waits.
const FAR: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::socket::activity::UnreadBytes;

    /// A connection that waits for its second head, for 100 s.
    fn second_head() -> (Arc<Activity>, Pin<Box<dyn Sleep>>) {
        let limits = Limits { idle_timeout: Duration::from_secs(100), ..Limits::default() };
        let activity = Activity::new(Arc::new(UnreadBytes::new(&limits)), &limits);
        let timer = HeadTimer::new(Arc::clone(&activity), &limits);
        drop(timer.sleep(HeadTimer::TOLD));
        let sleep = timer.sleep(HeadTimer::TOLD);
        (activity, sleep)
    }

    async fn look(sleep: &mut Pin<Box<dyn Sleep>>) -> Poll<()> {
        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_answered_beside_the_library_begins_the_wait_anew() {
        let (activity, mut sleep) = second_head();
        for _ in 0..3 {
            assert!(look(&mut sleep).await.is_pending());
            tokio::time::advance(Duration::from_secs(90)).await;
            activity.requests.count_answered();
        }
        assert!(look(&mut sleep).await.is_pending());
        tokio::time::advance(Duration::from_secs(99)).await;
        assert!(look(&mut sleep).await.is_pending());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(look(&mut sleep).await.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_to_read_first_is_not_waited_for() {
        let (activity, mut sleep) = second_head();
        assert!(look(&mut sleep).await.is_pending());
        activity.set_blocked(true);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(90)).await;
            assert!(look(&mut sleep).await.is_pending());
        }
        activity.set_blocked(false);
        assert!(look(&mut sleep).await.is_pending());
        tokio::time::advance(Duration::from_secs(101)).await;
        assert!(look(&mut sleep).await.is_ready());
    }
}

//! The time that an HTTP/1.1 client has for the head of a request, and between two requests, counted
//! only where the server waits for it.
//!
//! The HTTP library asks for the time and makes a timer before it reads a head, also when the head is
//! there already, as under load and behind pipelining it is. So the clock that it sees here stands
//! still, and the timer, which it looks at only when the head is not there yet, starts then. What it
//! waits for is told by whether anything was read since:
//!
//! | of the head | time |
//! |---|---|
//! | nothing is there | `limits.idle_timeout` |
//! | a part is there | `limits.header_read_timeout`, from its first byte |
//!
//! A part that came together with the request before it counts as nothing until more comes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use crate::limits::Limits;
use crate::vigil::Vigil;

/// Makes timers that start when they are first looked at.
#[derive(Debug, Clone)]
pub(crate) struct HeadTimer {
    vigil: Arc<Vigil>,
    head: Duration,
    idle: Duration,
    now: Instant,
}

impl HeadTimer {
    /// What the library is told that heads may take; it is not looked at.
    pub(crate) const TOLD: Duration = Duration::from_secs(1);

    /// The timer of one connection.
    pub(crate) fn new(vigil: Arc<Vigil>, limits: &Limits) -> Self {
        let (head, idle) = (limits.header_read_timeout, limits.idle_timeout);
        Self { vigil, head, idle, now: Instant::now() }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Waiting {
            timer: self.clone(),
            reads: self.vigil.reads(),
            // What told that this is HTTP/1.1 is part of its first head.
            is_within: self.vigil.is_first_head(),
            sleep: None,
        })
    }

    /// The library sleeps for heads only.
    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(Self::TOLD)
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// Ready when a head took too long.
struct Waiting {
    timer: HeadTimer,
    /// How often something was read when the wait began.
    reads: usize,
    is_within: bool,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Sleep for Waiting {}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.is_within && this.reads != this.timer.vigil.reads() {
            this.is_within = true;
            this.sleep = None;
        }
        let (timeout, name) = match this.is_within {
            true => (this.timer.head, "limits.header_read_timeout"),
            false => (this.timer.idle, "limits.idle_timeout"),
        };
        let sleep = match &mut this.sleep {
            Some(sleep) => sleep,
            None => {
                this.timer.vigil.set_waits_for_head(true);
                this.sleep.insert(Box::pin(tokio::time::sleep(timeout)))
            }
        };
        ready!(sleep.as_mut().poll(cx));
        tracing::debug!("a connection is closed after {name} = {timeout:?}");
        Poll::Ready(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.sleep.is_some() {
            self.timer.vigil.set_waits_for_head(false);
        }
    }
}

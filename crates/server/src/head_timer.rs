//! The time that a client has for the head of a request, counted only where the server waits for it.
//!
//! The HTTP library asks for the time and makes a timer before it reads a head, also when the head is
//! there already, as under load and behind pipelining it is. So the clock that it sees here stands
//! still, and the timer, which it looks at only when the head is not there yet, starts then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// Makes timers that start when they are first looked at, and then run for the timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadTimer {
    timeout: Duration,
    now: Instant,
}

impl HeadTimer {
    /// Heads may take so long.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, now: Instant::now() }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(LateSleep { duration, sleep: None })
    }

    /// The deadline is always the timeout after the present; telling so would cost more than the rest.
    fn sleep_until(&self, _deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(self.timeout)
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// Ready so long after it was first polled.
struct LateSleep {
    duration: Duration,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Sleep for LateSleep {}

impl Future for LateSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let duration = self.duration;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(duration)));
        sleep.as_mut().poll(cx)
    }
}

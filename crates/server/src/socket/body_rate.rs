//! How fast the body of a request has to come while the server waits for it.
//!
//! In each `limits.body_progress_timeout` of waiting, `limits.body_progress_bytes_min` have to
//! come, or the end. The time that the server itself takes between two pieces does not count. A
//! body that is there when it is asked for costs no clock.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::StatusCode;
use tidewire_service::Error;
use tokio::time::{Instant, Sleep};

use crate::limits::Limits;

/// So many bytes in such a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyRate {
    timeout: Duration,
    bytes_min: usize,
    /// Whether the peer of a stream may be silent between two messages: where it is asked otherwise
    /// whether it is there.
    pub(crate) pauses: bool,
}

/// The wait for a body.
#[derive(Default)]
pub(crate) struct Wait(Option<Box<BodyWait>>);

struct BodyWait {
    sleep: Pin<Box<Sleep>>,
    /// What is left of the timeout, and since when it passes.
    left: Duration,
    since: Option<Instant>,
    bytes: usize,
}

impl BodyRate {
    /// The pace of a connection, where peers that pause are asked whether they are there, or not.
    pub(crate) fn new(limits: &Limits, pauses: bool) -> Self {
        let timeout = limits.body_progress_timeout;
        let bytes_min = limits.body_progress_bytes_min;
        Self { timeout, bytes_min, pauses }
    }

    /// Any byte in each `timeout`.
    pub(crate) const fn that_ends_after(self, timeout: Duration) -> Self {
        Self { timeout, bytes_min: 1, ..self }
    }
}

impl Wait {
    /// Nothing is there; ready with an error when that lasts too long.
    pub(crate) fn poll_over(&mut self, pace: BodyRate, cx: &mut Context<'_>) -> Poll<Error> {
        let BodyRate { timeout, bytes_min, .. } = pace;
        let waiting = self.0.get_or_insert_with(|| {
            let sleep = Box::pin(tokio::time::sleep(timeout));
            Box::new(BodyWait { sleep, left: timeout, since: None, bytes: 0 })
        });
        if waiting.since.is_none() {
            let now = Instant::now();
            waiting.since = Some(now);
            // A day more than anybody waits.
            let until = now.checked_add(waiting.left).unwrap_or(now + FAR);
            waiting.sleep.as_mut().reset(until);
        }
        ready!(waiting.sleep.as_mut().poll(cx));
        let text = format!(
            "of the request body fewer than limits.body_progress_bytes_min = {bytes_min} bytes came \
             in limits.body_progress_timeout = {timeout:?}"
        );
        Poll::Ready(Error::deadline_exceeded(text).with_http_status(StatusCode::REQUEST_TIMEOUT))
    }

    /// So many bytes came.
    pub(crate) fn came(&mut self, bytes: usize, pace: BodyRate) {
        let Some(waiting) = &mut self.0 else { return };
        waiting.bytes += bytes;
        if waiting.bytes >= pace.bytes_min {
            self.0 = None;
        } else if let Some(since) = waiting.since.take() {
            waiting.left = waiting.left.saturating_sub(since.elapsed());
        }
    }
}

const FAR: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn pace(timeout: u64, bytes_min: usize) -> BodyRate {
        BodyRate { timeout: Duration::from_millis(timeout), bytes_min, pauses: false }
    }

    #[tokio::test]
    async fn a_body_that_drips_is_over() {
        let (mut wait, pace) = (Wait::default(), pace(40, usize::MAX));
        let mut drops = tokio::time::interval(Duration::from_millis(10));
        let error = loop {
            tokio::select! {
                error = poll_fn(|cx| wait.poll_over(pace, cx)) => break error,
                _ = drops.tick() => {}
            }
            wait.came(1, pace);
        };
        assert_eq!(error.http_status(), StatusCode::REQUEST_TIMEOUT);
        assert!(error.message().contains("limits.body_progress_timeout = 40ms"), "{error}");
    }

    #[tokio::test]
    async fn the_clock_runs_only_while_the_server_waits_and_until_enough_came() {
        let (mut wait, pace) = (Wait::default(), pace(1_000_000, 10));
        let waits = |wait: &mut Wait| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(wait.poll_over(pace, &mut cx).is_pending());
        };
        waits(&mut wait);
        wait.came(4, pace);
        assert_eq!(wait.0.as_ref().unwrap().since, None, "it is the server's turn");
        waits(&mut wait);
        assert!(wait.0.as_ref().unwrap().since.is_some());
        wait.came(6, pace);
        assert!(wait.0.is_none(), "ten bytes came");
    }
}

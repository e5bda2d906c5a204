//! Whether the server of an HTTP/2 connection is still there.
//!
//! Anything that is received is a sign of life. When there was none for `keep_alive_interval` while
//! calls run, a PING asks for one; without it within `keep_alive_timeout` the connection is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep};

use crate::limits::ClientLimits;

/// Watches over one connection.
pub(crate) struct KeepAlive {
    pings: Option<PingPong>,
    /// How often something was received, and at the last look.
    heard: Arc<AtomicUsize>,
    known: usize,
    heard_at: Instant,
    asked_at: Option<Instant>,
    interval: Duration,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
}

impl KeepAlive {
    pub(crate) fn new(
        pings: Option<PingPong>,
        heard: Arc<AtomicUsize>,
        limits: &ClientLimits,
    ) -> Self {
        let interval = limits.keep_alive_interval.unwrap_or(ClientLimits::KEEP_ALIVE);
        Self {
            pings,
            heard,
            known: 0,
            heard_at: Instant::now(),
            asked_at: None,
            interval,
            timeout: limits.keep_alive_timeout,
            timer: Box::pin(tokio::time::sleep(interval)),
        }
    }

    /// Ready once the server gave no sign of life when asked. An unused connection is not asked.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>, is_unused: bool) -> Poll<()> {
        let heard = self.heard.load(Ordering::Relaxed);
        if heard != self.known {
            (self.known, self.heard_at) = (heard, Instant::now());
            if self.asked_at.take().is_some() {
                self.timer.as_mut().reset(self.heard_at + self.interval);
            }
        }
        if let Some(pings) = &mut self.pings {
            // Its answer was counted as something received; this makes room for the next one.
            let _ = pings.poll_pong(cx);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let present = Instant::now();
            let next = match self.asked_at {
                Some(asked_at) if present >= asked_at + self.timeout => return Poll::Ready(()),
                Some(asked_at) => asked_at + self.timeout,
                None if is_unused => present + self.interval,
                None if present >= self.heard_at + self.interval => {
                    if let Some(pings) = &mut self.pings {
                        // One that is still on its way asks as well.
                        drop(pings.send_ping(Ping::opaque()));
                    }
                    self.asked_at = Some(present);
                    present + self.timeout
                }
                None => self.heard_at + self.interval,
            };
            self.timer.as_mut().reset(next);
        }
        Poll::Pending
    }
}

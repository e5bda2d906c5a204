//! How a connection lives and ends.
//!
//! | what happens | the connection |
//! |---|---|
//! | its client ends it, or HTTP does (`socket/head_timer.rs`, keep-alive, `socket/gather.rs`) | is over |
//! | HTTP/2, and no call ran for `limits.idle_timeout` | says that it goes away |
//! | HTTP/2, and what is left of a reply is not taken (`limits.reply_progress_timeout`) | is closed |
//! | a drain, a reply's script, `limits.connection_age_max` | says that it goes away |
//!
//! A connection that goes away ends with its last call. Not every peer lets it: one may have sent
//! half a head, or not acknowledge what HTTP/2 asks it first. So without calls it is closed, at
//! once over HTTP/1.1, and after [`CLOSE_GRACE`] over HTTP/2.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use tidewire_service::Signal;
use tokio::time::{Instant, Sleep};

use crate::limits::Limits;
use crate::runtime::stop::{Stage, Stop};
use crate::socket::activity::Activity;
use crate::socket::gather::GatherHandle;

/// Drives a connection until something ends it.
pub(crate) struct ConnectionDriver {
    pub(crate) activity: Arc<Activity>,
    pub(crate) gathering: GatherHandle,
    pub(crate) stop: Stop,
    /// Tells handlers of a drain.
    pub(crate) stopping: Signal,
    /// Fired where a reply's script wants the connection to end.
    pub(crate) goes_away: Option<Signal>,
    /// When it is too old.
    pub(crate) age: Option<Pin<Box<Sleep>>>,
}

/// A connection of HTTP that can be told to end.
pub(crate) trait Http: Future<Output = hyper::Result<()>> {
    /// Lets running calls end, and takes no others.
    fn go_away(self: Pin<&mut Self>);
}

impl<I, S, B> Http for http1::UpgradeableConnection<I, S>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn go_away(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B, E> Http for http2::Connection<I, S, E>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn go_away(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Why the first part of a connection's life is over.
enum PhaseEnd {
    Ended(hyper::Result<()>),
    GoesAway,
    Stuck,
}

impl ConnectionDriver {
    /// Polls a connection until it is over; HTTP/2 has a tick.
    pub(crate) async fn live(
        mut self,
        mut http: Pin<&mut impl Http>,
        mut tick: Option<Tick>,
    ) -> hyper::Result<()> {
        let age = self.age.take();
        let over = self.serve(http.as_mut(), tick.as_mut(), age).await;
        self.gathering.end();
        if self.stop.has_reached(Stage::Draining) {
            self.stopping.fire();
        }
        match over {
            PhaseEnd::Ended(ended) => return ended,
            PhaseEnd::Stuck => return Ok(()),
            PhaseEnd::GoesAway => http.as_mut().go_away(),
        }
        let is_http1 = tick.is_none();
        tokio::select! {
            ended = self.leave(http, tick) => ended,
            () = self.stop.reached(Stage::CutOff) => {
                let running = match is_http1 {
                    true => usize::from(!self.activity.waits_for_head()),
                    false => self.activity.calls(),
                };
                self.stop.cut_off(running);
                Ok(())
            }
        }
    }

    async fn serve(
        &self,
        mut http: Pin<&mut impl Http>,
        mut tick: Option<&mut Tick>,
        mut age: Option<Pin<Box<Sleep>>>,
    ) -> PhaseEnd {
        let mut listener = self.stop.listener();
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = http.as_mut().poll(cx) {
                    return Poll::Ready(PhaseEnd::Ended(ended));
                }
                if self.gathering.has_held() {
                    continue;
                }
                if let Some(goes_away) = &self.goes_away
                    && goes_away.poll_fired(cx).is_ready()
                {
                    return Poll::Ready(PhaseEnd::GoesAway);
                }
                if let Some(age) = &mut age
                    && age.as_mut().poll(cx).is_ready()
                {
                    tracing::debug!("a connection goes away after limits.connection_age_max");
                    return Poll::Ready(PhaseEnd::GoesAway);
                }
                if let Some(tick) = &mut tick
                    && let Poll::Ready(over) = tick.poll_over(&self.activity, cx)
                {
                    return Poll::Ready(over);
                }
                return listener.poll_stage(cx).map(|_| PhaseEnd::GoesAway);
            }
        })
        .await
    }

    /// Lets a connection that goes away end with its calls.
    async fn leave(
        &self,
        mut http: Pin<&mut impl Http>,
        mut tick: Option<Tick>,
    ) -> hyper::Result<()> {
        let mut close = tick.as_ref().map(|_| Box::pin(tokio::time::sleep(CLOSE_GRACE)));
        poll_fn(|cx| {
            if let Poll::Ready(ended) = http.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let (Some(tick), Some(close)) = (&mut tick, &mut close) else {
                return if self.activity.waits_for_head() {
                    Poll::Ready(Ok(()))
                } else {
                    Poll::Pending
                };
            };
            if let Poll::Ready(PhaseEnd::Stuck) = tick.poll_over(&self.activity, cx) {
                return Poll::Ready(Ok(()));
            }
            while close.as_mut().poll(cx).is_ready() {
                if self.activity.calls() == 0 {
                    return Poll::Ready(Ok(()));
                }
                close.as_mut().reset(Instant::now() + CLOSE_GRACE);
            }
            Poll::Pending
        })
        .await
    }
}

/// Looks after an HTTP/2 connection from time to time.
pub(crate) struct Tick {
    idle: Interval,
    reply: Interval,
    /// What [`Activity::changes`] was.
    changes: usize,
}

struct Interval {
    period: Duration,
    sleep: Pin<Box<Sleep>>,
    /// It will wake the connection, which is one task.
    is_set: bool,
}

impl Tick {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            idle: Interval::new(limits.idle_timeout),
            reply: Interval::new(limits.reply_progress_timeout),
            changes: 0,
        }
    }

    fn poll_over(&mut self, activity: &Activity, cx: &mut Context<'_>) -> Poll<PhaseEnd> {
        while self.reply.poll(cx).is_ready() {
            if activity.turn_over() {
                let timeout = self.reply.period;
                tracing::debug!(
                    "a connection is closed after limits.reply_progress_timeout = {timeout:?}"
                );
                return Poll::Ready(PhaseEnd::Stuck);
            }
        }
        loop {
            ready!(self.idle.poll(cx));
            let changes = std::mem::replace(&mut self.changes, activity.changes());
            if activity.calls() == 0 && changes == self.changes {
                let timeout = self.idle.period;
                tracing::debug!("a connection goes away after limits.idle_timeout = {timeout:?}");
                return Poll::Ready(PhaseEnd::GoesAway);
            }
        }
    }
}

impl Interval {
    fn new(period: Duration) -> Self {
        let period = period.max(Duration::from_millis(1));
        Self { period, sleep: Box::pin(tokio::time::sleep(period)), is_set: false }
    }

    /// Ready once a period.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_set && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.is_set = true;
        ready!(self.sleep.as_mut().poll(cx));
        self.is_set = false;
        let next = Instant::now().checked_add(self.period);
        self.sleep.as_mut().reset(next.unwrap_or_else(|| Instant::now() + CLOSE_GRACE));
        Poll::Ready(())
    }
}

/// How long a peer may take to acknowledge that the connection goes away.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

//! The deadline of a call, kept in every phase of it.
//!
//! The server is told how long it has, but a server that is stuck, or a network that swallows what
//! is sent, must not hold a caller up: the same deadline runs here, by tokio's clock. Its error
//! names the phase that it passed in. A call without a deadline has no timer.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidewire_service::{Code, Error, Outcome};
use tokio::time::Sleep;

use crate::trace::now;

/// What a call is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Queue,
    Resolve,
    Connect,
    Tls,
    Http2,
    Send,
    Headers,
    Body,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "waiting for a free connection to",
            Self::Resolve => "resolving",
            Self::Connect => "connecting to",
            Self::Tls => "in the TLS handshake with",
            Self::Http2 => "starting HTTP/2 with",
            Self::Send => "sending the request to",
            Self::Headers => "waiting for the response of",
            Self::Body => "reading the response of",
        })
    }
}

/// A phase that another task moves on.
#[derive(Debug)]
pub(crate) struct SharedPhase(AtomicU8);

impl SharedPhase {
    pub(crate) fn new(phase: Phase) -> Self {
        Self(AtomicU8::new(phase as u8))
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        const ALL: [Phase; 5] =
            [Phase::Queue, Phase::Resolve, Phase::Connect, Phase::Tls, Phase::Http2];
        let index = usize::from(self.0.load(Ordering::Relaxed));
        ALL.get(index).copied().unwrap_or(Phase::Connect)
    }
}

/// The end of a call's time, if it has one.
pub(crate) struct Deadline {
    at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The deadline passed.
#[derive(Debug)]
pub(crate) struct DeadlinePassed;

impl Deadline {
    pub(crate) fn new(at: Option<Instant>) -> Self {
        Self { at, sleep: None }
    }

    /// What is left; `None` without a deadline.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(now()))
    }

    /// Whether it passed.
    pub(crate) fn is_over(&self) -> bool {
        self.at.is_some_and(|at| at <= now())
    }

    /// What an error is in truth: a server that keeps the deadline too may be a little earlier, and
    /// all that it says is that the call was cancelled.
    pub(crate) fn explain(&self, error: Error, phase: Phase, host: &str) -> Error {
        let is_due = self.remaining().is_some_and(|left| left <= Duration::from_millis(10));
        if is_due && error.code() == Code::Canceled { deadline_error(phase, host) } else { error }
    }

    /// Ready once it passed.
    pub(crate) fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        sleep.as_mut().poll(cx)
    }

    /// The outcome of `work`, unless the deadline passes first. It is pinned where it stays, since
    /// a future that takes another by value has room for it twice.
    pub(crate) async fn race<T>(
        &mut self,
        mut work: impl Future<Output = T> + Unpin,
    ) -> Result<T, DeadlinePassed> {
        poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending => self.poll_passed(cx).map(|()| Err(DeadlinePassed)),
        })
        .await
    }
}

/// The earlier of a deadline and the end of a time that begins now.
pub(crate) fn earlier(deadline: Option<Instant>, timeout: Option<Duration>) -> Option<Instant> {
    let latest = timeout.and_then(|timeout| now().checked_add(timeout));
    deadline.into_iter().chain(latest).min()
}

/// The error of a call whose deadline passed.
pub(crate) fn deadline_error(phase: Phase, host: &str) -> Error {
    let outcome = match phase {
        Phase::Queue | Phase::Resolve | Phase::Connect | Phase::Tls | Phase::Http2 => {
            Outcome::NotRun
        }
        _ => Outcome::Unknown,
    };
    Error::deadline_exceeded(format!("the deadline passed {phase} {host}")).with_outcome(outcome)
}

//! How a call runs, whatever its protocol: the one place for deadline, run-to-completion and isolation.
//!
//! ```text
//! call ─▶ deadline over? ─▶ command: has a place? ─▶ service, isolated ─▶ in a task if it waits ─▶ reply
//!                                                    └──── no longer than the deadline ────┘      │
//!                              body of the reply: isolated and within the deadline, frame by frame ◀┘
//! ```
//!
//! A call without a deadline that is no command costs what its service costs: its outcome or its
//! future is handed on as it is. The body of a call may still be on its way; then it is read within the
//! same deadline, since the service asks for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidewire_service::{Body, Call, Error, Frame, Reply, Result, Service, Validator};
use tokio::time::{Instant, Sleep};

use crate::command::Command;
use crate::deadline;
use crate::isolate::{Isolated, IsolatedPending, IsolatedProgress, IsolatedStream};

/// A call that runs.
pub(crate) enum Run {
    /// Its outcome is there.
    Ready(Result<Box<Reply>>),
    /// It has to be awaited.
    Pending(Waiting),
}

/// A call that has to be awaited.
pub(crate) enum Waiting {
    /// And what the caller holds.
    InPlace(IsolatedPending, Held),
    Bounded(Pin<Box<dyn Future<Output = Result<Reply>> + Send>>),
}

/// What the caller holds: nothing, mostly.
type Held = Box<[Validator]>;

/// Runs a call.
///
/// A command whose message is complete begins here; one whose message is on its way begins with it.
#[inline]
pub(crate) fn run(service: &dyn Service, call: Call, command: Option<Command>) -> Run {
    let (at, held): (_, Held) = (call.context.deadline(), call.context.held().into());
    if at.is_some() || command.is_some() {
        return bounded(service, call, command, at.map(Instant::from_std), held);
    }
    match Isolated::call(service, call).into_progress() {
        IsolatedProgress::Ready(outcome) => {
            Run::Ready(outcome.and_then(|reply| guarded(reply, None, &held)))
        }
        IsolatedProgress::Pending(pending) => Run::Pending(Waiting::InPlace(pending, held)),
    }
}

fn bounded(
    service: &dyn Service,
    call: Call,
    command: Option<Command>,
    deadline: Option<Instant>,
    held: Held,
) -> Run {
    if deadline.is_some_and(|at| at <= Instant::now()) {
        return Run::Ready(Err(deadline::passed()));
    }
    if let Some(command) = &command
        && !matches!(call.body, Body::Stream(_))
        && let Err(error) = command.begin()
    {
        return Run::Ready(Err(error));
    }
    let pending = match Isolated::call(service, call).into_progress() {
        IsolatedProgress::Ready(outcome) => {
            return Run::Ready(outcome.and_then(|reply| guarded(reply, deadline, &held)));
        }
        IsolatedProgress::Pending(pending) => pending,
    };
    Run::Pending(Waiting::Bounded(Box::pin(async move {
        let outcome = async {
            match command {
                Some(command) => command.run(pending).await,
                None => pending.await,
            }
        };
        let reply = match deadline {
            None => outcome.await?,
            Some(at) => tokio::time::timeout_at(at, outcome)
                .await
                .unwrap_or_else(|_| Err(deadline::passed()))?,
        };
        checked(reply, deadline, &held)
    })))
}

#[inline]
fn guarded(
    mut reply: Box<Reply>,
    deadline: Option<Instant>,
    held: &[Validator],
) -> Result<Box<Reply>> {
    if matches!(reply.body, Body::Stream(_)) || reply.is_unchanged() {
        *reply = checked(*reply, deadline, held)?;
    }
    Ok(reply)
}

/// The reply with its body, if that is a stream, isolated and within the deadline.
///
/// # Errors
/// When it says that what the caller holds is right, and the caller does not hold that.
fn checked(mut reply: Reply, deadline: Option<Instant>, held: &[Validator]) -> Result<Reply> {
    if reply.is_unchanged() && !reply.is_held(held) {
        let text = "the service answered that nothing changed to a caller who does not hold it";
        return Err(Error::internal(text));
    }
    guard(&mut reply.body, deadline);
    Ok(reply)
}

fn guard(body: &mut Body, deadline: Option<Instant>) {
    *body = match std::mem::take(body) {
        Body::Stream(frames) => {
            let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
            Body::frames(Guarded { frames: IsolatedStream(Some(frames)), deadline })
        }
        whole => whole,
    };
}

impl Run {
    /// The outcome.
    pub(crate) async fn outcome(self) -> Result<Reply> {
        match self {
            Self::Ready(outcome) => outcome.map(|reply| *reply),
            Self::Pending(waiting) => waiting.await,
        }
    }
}

impl Future for Waiting {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Bounded(bounded) => bounded.as_mut().poll(cx),
            Self::InPlace(pending, held) => {
                let outcome = std::task::ready!(Pin::new(pending).poll(cx));
                Poll::Ready(outcome.and_then(|reply| checked(reply, None, held)))
            }
        }
    }
}

type Frames = Pin<Box<dyn futures_core::Stream<Item = Result<Frame>> + Send>>;

/// The frames of a reply: a panic and the deadline end them with an error.
struct Guarded {
    frames: IsolatedStream<Frames>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl futures_core::Stream for Guarded {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.frames.0.is_some()
            && let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.frames.end();
            return Poll::Ready(Some(Err(deadline::passed())));
        }
        Pin::new(&mut self.frames).poll_next(cx)
    }
}

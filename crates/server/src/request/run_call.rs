//! How a call runs, whatever its protocol: the one place for deadline, run-to-completion and
//! isolation.
//!
//! ```text
//! call ─▶ deadline over? ─▶ command: has a place? ─▶ service, isolated ─▶ in a task if it waits ─▶ reply
//!                                                    └──── no longer than the deadline ────┘      │
//!                              body of the reply: isolated and within the deadline, frame by frame ◀┘
//! ```
//!
//! A call that is answered when it is first asked costs what its service costs; only one that has
//! to wait, and has a deadline or is a command, gets a future around that of its service. The body
//! of a call may still be on its way; then it is read within the same deadline, since the service
//! asks for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidewire_service::{
    Body, Call, Error, Frame, Frames, Messages, Reply, Result, Service, Side, Validator,
};
use tokio::time::{Instant, Sleep};

use crate::request::catch_panic::{
    IsolatedAnswer, IsolatedPending, IsolatedProgress, IsolatedStream,
};
use crate::request::command::Command;
use crate::request::deadline::Deadline;
use crate::request::message_listeners::MessageListeners;

/// A call that runs.
pub(crate) enum Run {
    /// Its outcome is there.
    Ready(Result<Box<Reply>>),
    /// It has to be awaited.
    Pending(PendingCall),
}

/// A call that has to be awaited, polled in place until it has to wait.
pub(crate) struct PendingCall {
    state: State,
    /// A command, which goes on without its caller.
    command: Option<Command>,
    deadline: Option<Deadline>,
    /// What the caller holds: nothing, mostly.
    held: Option<Box<CallerValidators>>,
    /// Who is told its messages: nobody, mostly.
    heard: Option<Box<MessageListeners>>,
}

enum State {
    InPlace(IsolatedPending),
    Bounded(Pin<Box<dyn Future<Output = Result<Reply>> + Send>>),
}

/// Runs a call.
///
/// A command whose message is complete begins here; one whose message is on its way begins with it.
#[inline]
pub(crate) fn run(service: &dyn Service, mut call: Call, mut command: Option<Command>) -> Run {
    let deadline = Deadline::of_call(&call.context);
    let held = CallerValidators::of(&call.context);
    if let Some(deadline) = deadline
        && deadline.at <= Instant::now()
    {
        return Run::Ready(Err(deadline.error()));
    }
    if let Some(command) = &mut command
        && !matches!(call.body, Body::Stream(_))
        && let Err(error) = command.begin()
    {
        return Run::Ready(Err(error));
    }
    let heard = MessageListeners::of(&call);
    if let Some(heard) = &heard {
        call.body = heard.follow(Side::Request, std::mem::take(&mut call.body));
    }
    match IsolatedAnswer::call(service, call).into_progress() {
        IsolatedProgress::Ready(mut outcome) => {
            if let Ok(reply) = &mut outcome
                && let Err(error) = finish(reply, heard.as_deref(), deadline, held.as_deref())
            {
                outcome = Err(error);
            }
            Run::Ready(outcome)
        }
        IsolatedProgress::Pending(pending) => Run::Pending(PendingCall {
            state: State::InPlace(pending),
            command,
            deadline,
            held,
            heard,
        }),
    }
}

/// Makes of what the service replied what is sent: its messages are told, and its body, if that is
/// a stream, is isolated and within the deadline.
///
/// # Errors
/// When it says that what the caller holds is right, and the caller does not hold that.
#[inline]
fn finish(
    reply: &mut Reply,
    heard: Option<&MessageListeners>,
    deadline: Option<Deadline>,
    held: Option<&CallerValidators>,
) -> Result<()> {
    if let Some(heard) = heard {
        reply.body = heard.follow(Side::Reply, std::mem::take(&mut reply.body));
    }
    if reply.is_unchanged() && held.is_none_or(|held| !held.is_held(reply)) {
        let text = "the service answered that nothing changed to a caller who does not hold it";
        return Err(Error::internal(text));
    }
    if matches!(reply.body, Body::Stream(_)) {
        guard(&mut reply.body, deadline);
    }
    Ok(())
}

/// What has to wait, within its bounds.
async fn bounded(
    pending: IsolatedPending,
    command: Option<Command>,
    deadline: Option<Deadline>,
) -> Result<Reply> {
    let outcome = async {
        match command {
            Some(command) => command.run(pending).await,
            None => pending.await,
        }
    };
    match deadline {
        None => outcome.await,
        Some(deadline) => tokio::time::timeout_at(deadline.at, outcome)
            .await
            .unwrap_or_else(|_| Err(deadline.error())),
    }
}

/// What the caller said that it holds.
struct CallerValidators {
    validators: Vec<Validator>,
    any: bool,
}

impl CallerValidators {
    #[inline]
    fn of(context: &tidewire_service::Context) -> Option<Box<Self>> {
        let held = || Self { validators: context.caller_validators(), any: context.holds_any() };
        context.holds_something().then(|| Box::new(held()))
    }

    fn is_held(&self, reply: &Reply) -> bool {
        self.any || reply.is_held(&self.validators)
    }
}

fn guard(body: &mut Body, deadline: Option<Deadline>) {
    *body = match std::mem::take(body) {
        Body::Stream(frames) => {
            let until = |deadline: Deadline| Box::pin(tokio::time::sleep_until(deadline.at));
            let deadline = deadline.map(|deadline| (deadline, until(deadline)));
            Body::batches(GuardedFrames { frames: IsolatedStream(Some(frames)), deadline })
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

impl Future for PendingCall {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut outcome = match &mut this.state {
            State::Bounded(bounded) => ready!(bounded.as_mut().poll(cx)),
            State::InPlace(pending) => match Pin::new(&mut *pending).poll(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending if this.command.is_none() && this.deadline.is_none() => {
                    return Poll::Pending;
                }
                Poll::Pending => {
                    let mut waits = Box::pin(bounded(
                        std::mem::take(pending),
                        this.command.take(),
                        this.deadline,
                    ));
                    let first = waits.as_mut().poll(cx);
                    this.state = State::Bounded(waits);
                    ready!(first)
                }
            },
        };
        if let Ok(reply) = &mut outcome
            && let Err(error) =
                finish(reply, this.heard.as_deref(), this.deadline, this.held.as_deref())
        {
            outcome = Err(error);
        }
        Poll::Ready(outcome)
    }
}

/// The frames of a reply: a panic and the deadline end them with an error.
struct GuardedFrames {
    frames: IsolatedStream<Pin<Box<dyn Frames>>>,
    deadline: Option<(Deadline, Pin<Box<Sleep>>)>,
}

impl GuardedFrames {
    /// The error of a deadline that passed; then nothing more comes.
    fn late(&mut self, cx: &mut Context<'_>) -> Option<Error> {
        self.frames.0.as_ref()?;
        let (deadline, passed) = self.deadline.as_mut()?;
        if passed.as_mut().poll(cx).is_pending() {
            return None;
        }
        let error = deadline.error();
        self.frames.end();
        Some(error)
    }
}

impl futures_core::Stream for GuardedFrames {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(late) = self.late(cx) {
            return Poll::Ready(Some(Err(late)));
        }
        Pin::new(&mut self.frames).poll_next(cx)
    }
}

impl Frames for GuardedFrames {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        if let Some(late) = self.late(cx) {
            return Poll::Ready(Some(Err(late)));
        }
        Pin::new(&mut self.frames).poll_messages(cx, messages)
    }
}

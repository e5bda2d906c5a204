//! A call on its way through the gateway: one that finds a process ready, and room in its session,
//! is placed when it is polled first and is a few pointers from then on, without a future or its
//! own timer.
//!
//! ```text
//!  asked ─ a permit, a session, a whole request ─▶ warm ─▶ answer
//!    └─ a start, a queue, a stream, plain HTTP, a call within a call, a crash ─▶ later (cold.rs) ─▶ answer
//! ```
//!
//! The keeper of the service wakes a warm call once it is overdue, which it looks for when the
//! first of them is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidewire_schema::Back;
use tidewire_service::{Body, Call, Error, PendingAnswer, Reply, Result};
use tokio::time::Instant;

use crate::call::cold::{self, CallStage};
use crate::call::headers;
use crate::call::permit::{CallOrigin, InstancePermit, PermitResult};
use crate::call::policy;
use crate::native::session::PendingReply;
use crate::service::inner::Inner;

/// The future of a call of a hosted service.
pub(crate) struct HostedCall {
    inner: Arc<Inner>,
    /// Taken out where it is passed on; kept where it may have to be made once more.
    call: Option<Call>,
    stage: Stage,
    /// What translates the reply.
    back: Option<Back>,
}

#[allow(clippy::large_enum_variant, reason = "most calls are warm, and need no allocation")]
enum Stage {
    Asked,
    Warm(Warm),
    Later(PendingAnswer),
    Over,
}

/// A call that a process has.
struct Warm {
    in_flight: PendingReply,
    /// None once it is answered.
    permit: Option<InstancePermit>,
    due: Option<Instant>,
    is_page: bool,
}

impl HostedCall {
    pub(crate) fn new(inner: Arc<Inner>, call: Call, back: Option<Back>) -> Self {
        Self { inner, call: Some(call), stage: Stage::Asked, back }
    }

    /// Makes the call, or begins to do what has to be done before.
    fn begin(&mut self, cx: &Context<'_>) -> Result<Stage> {
        let inner = &self.inner;
        let asked = &mut self.call;
        let call = asked.as_mut().expect(TAKEN);
        if !tidewire_proxy::is_whole(call)
            || call.context.enclosing().is_some()
            || !inner.is_native()
        {
            let call = asked.take().expect(TAKEN);
            return Ok(Stage::Later(Box::pin(cold::pass(Arc::clone(inner), call))));
        }
        call.context.program(&inner.name);
        let caller = call.context.caller_key();
        headers::prepare(call);
        let later = |asked: &mut Option<Call>, place| {
            let call = asked.take().expect(TAKEN);
            let origin = CallOrigin { caller, enclosing: None };
            Stage::Later(Box::pin(cold::pass_prepared(Arc::clone(inner), call, origin, place)))
        };
        let now = Instant::now();
        let permit = match inner.try_permit(caller, now)? {
            PermitResult::Granted(permit) => permit,
            PermitResult::Queued(waiting) => return Ok(later(asked, CallStage::Waits(waiting))),
        };
        let due = now.checked_add(permit.instance.generation.life.request_timeout);
        let is_page = call.http_target().is_some();
        let again = policy::body_again(call);
        let Some(native) = permit.instance.native() else {
            return Ok(later(asked, CallStage::Has(permit)));
        };
        match native.try_call(call, due, cx) {
            Poll::Ready(Ok(in_flight)) => {
                Self::keep(asked, again);
                if in_flight.is_due_first() {
                    inner.wake.notify_one();
                }
                Ok(Stage::Warm(Warm { in_flight, permit: Some(permit), due, is_page }))
            }
            Poll::Ready(Err(error)) => {
                Self::keep(asked, again);
                self.lost(permit, error)
            }
            Poll::Pending => Ok(later(asked, CallStage::Has(permit))),
        }
    }

    /// Keeps a call that may be made again.
    fn keep(call: &mut Option<Call>, body: Option<Body>) {
        match (body, call) {
            (Some(body), Some(call)) => call.body = body,
            (_, call) => *call = None,
        }
    }

    /// The reply to whoever asked.
    fn replied(&mut self, mut reply: Reply) -> Result<Reply> {
        if let Some(back) = self.back.take() {
            back.translate(&mut reply)?;
        }
        Ok(reply)
    }

    /// What an error of a call comes to: it is final, or its process is at its end.
    fn lost(&mut self, permit: InstancePermit, error: Error) -> Result<Stage> {
        if policy::is_final(&permit, &error) {
            return Err(error);
        }
        let again = self.call.take();
        let lost = cold::lost_and_again(Arc::clone(&self.inner), permit, error, again);
        Ok(Stage::Later(Box::pin(lost)))
    }
}

impl Future for HostedCall {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.stage, Stage::Asked) {
            this.stage = this.begin(cx)?;
            if matches!(this.stage, Stage::Warm(_)) {
                // It was placed by this task, which is woken by its answer.
                return Poll::Pending;
            }
        }
        if let Stage::Warm(warm) = &mut this.stage {
            let outcome = match warm.in_flight.poll_answer(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending if warm.due.is_some_and(|due| due <= Instant::now()) => {
                    let error = policy::overdue(&this.inner, warm.permit.as_ref().expect(TAKEN));
                    // Nobody waits for it any more.
                    this.stage = Stage::Over;
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => return Poll::Pending,
            };
            let permit = warm.permit.take().expect(TAKEN);
            let is_page = warm.is_page;
            match outcome {
                Ok(reply) => {
                    let reply = cold::hold_permit(reply, permit, is_page);
                    return Poll::Ready(this.replied(reply));
                }
                Err(error) => this.stage = this.lost(permit, error)?,
            }
        }
        match &mut this.stage {
            Stage::Later(later) => {
                let outcome = ready!(later.as_mut().poll(cx));
                Poll::Ready(outcome.and_then(|reply| this.replied(reply)))
            }
            _ => unreachable!("{TAKEN}"),
        }
    }
}

const TAKEN: &str = "a call is polled until it is answered, once";

//! A call of plain HTTP that finds a process ready and is there as a whole: it has its place before
//! it is polled, and is one future in one box.
//!
//! ```text
//!  asked ─ a permit ─▶ client ─▶ reply
//!            │            └─ fails: the call comes back ─▶ policy.rs, and perhaps once more (cold.rs)
//!            └─ none is free ─▶ waits (cold.rs)
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tidewire_client::PassFailure;
use tidewire_proxy::{ResponseTimer, is_whole, tell_plain, upgrade_header};
use tidewire_service::{Answer, Call, PendingAnswer, Reply, Result};
use tokio::time::Instant;

use crate::call::cold::{self, CallStage};
use crate::call::permit::{CallOrigin, InstancePermit, PermitResult};
use crate::call::policy;
use crate::instance::overdue::DueCall;
use crate::service::inner::Inner;

/// Whether a call may pass here: one of plain HTTP that neither comes in pieces nor is part of
/// another, and whose answer nobody hears late.
pub(crate) fn may_pass(inner: &Inner, call: &Call) -> bool {
    call.http_target().is_some()
        && is_whole(call)
        && call.context.enclosing().is_none()
        && call.context.late_listener().is_none()
        && !inner.is_native()
        && upgrade_header(call).is_none()
}

/// Passes such a call.
pub(crate) fn pass(inner: &Arc<Inner>, mut call: Call) -> Answer {
    call.context.program(&inner.name);
    let caller = call.context.caller_key();
    tell_plain(&mut call.context);
    let later = |call, place| {
        let origin = CallOrigin { caller, enclosing: None };
        Answer::pending(cold::pass_prepared(Arc::clone(inner), call, origin, place))
    };
    let now = Instant::now();
    let permit = match inner.try_permit(caller, now) {
        Ok(PermitResult::Granted(permit)) => permit,
        Ok(PermitResult::Queued(waiting)) => return later(call, CallStage::Waits(waiting)),
        Err(error) => return Answer::ready(Err(error)),
    };
    let Some(client) = permit.instance.http_client() else {
        return later(call, CallStage::Has(permit));
    };
    let due = match ResponseTimer::of(&mut call) {
        ResponseTimer::Runs => now.checked_add(permit.instance.generation.life.request_timeout),
        _ => None,
    };
    match client.pass(call) {
        Ok(passing) => {
            let permit = Some(permit);
            Answer::pending(PassingCall { passing, due, waits: None, permit, later: None })
        }
        Err(error) => Answer::ready(Err(error)),
    }
}

pin_project! {
    /// A call that a process has.
    struct PassingCall<F> {
        #[pin]
        passing: F,
        due: Option<Instant>,
        // Once it has to wait.
        waits: Option<DueCall>,
        // None once it is answered, or failed.
        permit: Option<InstancePermit>,
        later: Option<PendingAnswer>,
    }
}

impl<F: Future<Output = Result<Reply, PassFailure>>> Future for PassingCall<F> {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(later) = this.later {
            return later.as_mut().poll(cx);
        }
        let outcome = match this.passing.poll(cx) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                let Some(due) = *this.due else { return Poll::Pending };
                let permit = this.permit.as_ref().expect(TAKEN);
                let Some(waits) = this.waits else {
                    let waits =
                        this.waits.insert(DueCall::new(&permit.instance.waiting, due, cx.waker()));
                    if waits.is_first {
                        permit.inner.wake.notify_one();
                    }
                    return Poll::Pending;
                };
                if !waits.is_over(cx.waker()) {
                    return Poll::Pending;
                }
                return Poll::Ready(Err(policy::overdue(&permit.inner, permit)));
            }
        };
        *this.waits = None;
        let permit = this.permit.take().expect(TAKEN);
        match outcome {
            Ok(reply) => Poll::Ready(Ok(cold::hold_permit(reply, permit, true))),
            Err(PassFailure { error, .. }) if policy::is_final(&permit, &error) => {
                Poll::Ready(Err(error))
            }
            Err(PassFailure { error, call }) => {
                let inner = Arc::clone(&permit.inner);
                let lost = cold::lost_and_again(inner, permit, error, call.map(|call| *call));
                this.later.insert(Box::pin(lost)).as_mut().poll(cx)
            }
        }
    }
}

const TAKEN: &str = "a call is polled until it is answered, once";

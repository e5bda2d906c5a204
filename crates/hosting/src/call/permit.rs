//! Permits: the places that calls take at instances of a service, and the wait for one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use tidewire_service::{CallerKey, Context, Error, Outcome, ParentCalls, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::instance::Instance;
use crate::pool::TakeResult;
use crate::pool::grant::{Grant, Refusal};
use crate::service::figures::micros;
use crate::service::inner::Inner;

/// A place at an instance, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct InstancePermit {
    pub(crate) inner: Arc<Inner>,
    pub(crate) instance: Arc<Instance>,
    /// Whose call has it.
    pub(crate) caller: CallerKey,
}

/// Whose call it is, and which calls wait for it, as it arrived: less of that goes to a process.
#[derive(Debug, Clone)]
pub(crate) struct CallOrigin {
    pub(crate) caller: CallerKey,
    pub(crate) enclosing: Option<ParentCalls>,
}

impl CallOrigin {
    pub(crate) fn of(context: &Context) -> Self {
        Self { caller: context.caller_key(), enclosing: context.enclosing().cloned() }
    }
}

impl Inner {
    /// Takes a place at an instance; starts one, and waits for it, if there is none.
    ///
    /// # Errors
    /// Too many wait; it takes too long; no instance can be started; the service is being ended.
    pub(crate) async fn permit(self: &Arc<Self>, origin: &CallOrigin) -> Result<InstancePermit> {
        let caller = origin.caller;
        // Who waits for this call is not waited for.
        let enclosing = origin.enclosing.as_ref();
        let above = enclosing.and_then(|chain| self.pool().take_above(caller, chain.holders()));
        if let Some(grant) = above {
            return Ok(self.issue_permit(grant));
        }
        match self.try_permit(caller, Instant::now())? {
            PermitResult::Granted(permit) => Ok(permit),
            PermitResult::Queued(waiting) => waiting.permit().await,
        }
    }

    /// [`permit`](Self::permit) of a call from outside: a place, or the wait for one.
    ///
    /// # Errors
    /// As [`permit`](Self::permit).
    pub(crate) fn try_permit(
        self: &Arc<Self>,
        caller: CallerKey,
        now: Instant,
    ) -> Result<PermitResult> {
        let taken = self.pool().take(caller, now);
        match taken {
            TakeResult::Granted(grant) => Ok(PermitResult::Granted(self.issue_permit(grant))),
            TakeResult::Refused(refusal) => Err(self.refusal_error(refusal)),
            TakeResult::Later(receiver) => {
                self.wake.notify_one();
                let inner = Arc::clone(self);
                Ok(PermitResult::Queued(PromisedPermit { inner, receiver, began: now }))
            }
        }
    }

    fn issue_permit(self: &Arc<Self>, grant: Grant<Arc<Instance>>) -> InstancePermit {
        // Nothing freezes it while the place is taken, so that no lock is needed.
        if grant.is_frozen {
            grant.instance.thaw();
        }
        if grant.was_spare {
            self.wake.notify_one();
        }
        let inner = Arc::clone(self);
        InstancePermit { inner, instance: grant.instance, caller: grant.caller }
    }

    fn refusal_error(&self, refusal: Refusal) -> Error {
        let name = self.name();
        let (error, wait) = match refusal {
            Refusal::QueueFull => {
                let text = format!("too many calls wait for {name}; try again later");
                let error = Error::resource_exhausted(text);
                (error.with_http_status(StatusCode::SERVICE_UNAVAILABLE), SHORT_WAIT)
            }
            Refusal::Failed(failure, wait) => {
                let text = match failure.late_after {
                    Some(time) => format!("{name} was not ready within start_timeout = {time:?}"),
                    None => format!("{name} cannot be called now; its log says why"),
                };
                (Error::unavailable(text).with_cause(failure), wait)
            }
            Refusal::Draining => {
                (Error::unavailable(format!("{name} is being ended")), Duration::ZERO)
            }
        };
        retry_after(error, wait)
    }

    /// Waits until a call waits for a place that nobody else is giving up for it; where one is
    /// given, until that is a call of somebody who has fewer places than this caller.
    pub(crate) async fn until_place_is_needed(&self, share_of: Option<CallerKey>) {
        loop {
            let waits = self.waits.notified();
            let is_needed = match share_of {
                Some(caller) => self.pool().vacate_share(caller),
                None => self.pool().vacate(),
            };
            if is_needed {
                return;
            }
            waits.await;
        }
    }
}

/// A place at an instance, or the wait for one.
pub(crate) enum PermitResult {
    Granted(InstancePermit),
    Queued(PromisedPermit),
}

/// A place that was promised: given back if nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct PromisedPermit {
    inner: Arc<Inner>,
    receiver: oneshot::Receiver<Result<Grant<Arc<Instance>>, Refusal>>,
    /// Since when it is waited for.
    began: Instant,
}

impl PromisedPermit {
    /// Waits for it.
    ///
    /// # Errors
    /// As [`Inner::permit`].
    pub(crate) async fn permit(mut self) -> Result<InstancePermit> {
        let timeout = self.inner.generation().life.queue_timeout;
        let told = loop {
            let told = tokio::time::timeout(timeout, &mut self.receiver).await;
            // A start has its own bound, and tells everybody who waits when that is over.
            if told.is_ok() || !self.inner.pool().awaits_start() {
                break told;
            }
        };
        let inner = &self.inner;
        match told {
            Ok(Ok(Ok(grant))) => {
                let waited = micros(self.began.elapsed());
                inner.figures.queued.fetch_add(1, Ordering::Relaxed);
                inner.figures.queue_us.fetch_add(waited, Ordering::Relaxed);
                Ok(inner.issue_permit(grant))
            }
            Ok(Ok(Err(refusal))) => Err(inner.refusal_error(refusal)),
            Ok(Err(_)) => Err(inner.refusal_error(Refusal::Draining)),
            Err(_) => {
                let name = inner.name();
                let text =
                    format!("{name} had no place for a call within queue_timeout = {timeout:?}");
                Err(retry_after(Error::unavailable(text), SHORT_WAIT))
            }
        }
    }
}

impl Drop for PromisedPermit {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(grant)) = self.receiver.try_recv() {
            drop(self.inner.issue_permit(grant));
        }
    }
}

impl Drop for InstancePermit {
    fn drop(&mut self) {
        let is_due = self.inner.pool().give_back(self.instance.id, self.caller, Instant::now());
        // Most calls change nothing of what is planned.
        if is_due {
            self.inner.wake.notify_one();
        } else if self.inner.changed.receiver_count() > 0 {
            self.inner.changed.send_replace(());
        }
    }
}

/// Whoever may try again is told when, in whole seconds (RFC 9110, section 10.2.3): no process had
/// the call.
fn retry_after(error: Error, wait: Duration) -> Error {
    let mut error = error.with_outcome(Outcome::NotRun);
    let seconds = wait.as_secs_f64().ceil().max(1.0);
    if let Ok(value) = HeaderValue::from_str(&format!("{seconds:.0}")) {
        error.headers_mut().insert(RETRY_AFTER, value);
    }
    error
}

const SHORT_WAIT: Duration = Duration::from_secs(1);

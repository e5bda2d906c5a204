//! A call of a hosted program that waits on its way: bodies pass as streams, nothing is read whole.
//!
//! When its process fails: `policy.rs`; when a body is slow in coming: `upload.rs`; when an answer
//! is read slowly: `download.rs`.
//!
//! A permit is held until the last byte of the answer was read, so that an open stream counts as a
//! call; one that came whole with its head was.

use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderName, HeaderValue};
use tidewire_proxy::{ResponseTimer, in_time};
use tidewire_service::{
    Body, Call, Error, Outcome, Protocol, Reply, Result, Target, ThinHeaders, Upgrade,
    is_of_gateway,
};

use crate::call::download;
use crate::call::headers;
use crate::call::permit::{CallOrigin, InstancePermit, PromisedPermit};
use crate::call::policy::{self, CallAgain, CallFailure, CallSubject};
use crate::call::upload;
use crate::service::inner::Inner;

/// Where a call is on its way to an instance.
#[derive(Debug)]
pub(crate) enum CallStage {
    /// Nowhere yet.
    None,
    /// In line for a permit.
    Waits(PromisedPermit),
    /// It has one.
    Has(InstancePermit),
}

/// Passes a call to an instance.
pub(crate) async fn pass(inner: Arc<Inner>, mut call: Call) -> Result<Reply> {
    let is_native = inner.is_native();
    upload::hold_back(&inner, &mut call)
        .await
        .map_err(|error| error.with_outcome(Outcome::NotRun))?;
    call.context.program(&inner.name);
    let origin = CallOrigin::of(&call.context);
    if call.http_target().is_none() && !is_native {
        let name = inner.name();
        return Err(Error::unimplemented(format!("{name} answers plain HTTP only")));
    }
    if !is_native {
        tidewire_proxy::tell_plain(&mut call.context);
    } else {
        let comes = matches!(call.body, Body::Stream(_));
        let protocol = if comes { call.context.protocol() } else { None };
        headers::prepare(&mut call);
        if let Some(protocol) = protocol {
            call.context = std::mem::take(&mut call.context).with_protocol(protocol);
        }
    }
    pass_prepared(inner, call, origin, CallStage::None).await
}

/// [`pass`] of a call as the process gets it.
pub(crate) async fn pass_prepared(
    inner: Arc<Inner>,
    mut call: Call,
    origin: CallOrigin,
    place: CallStage,
) -> Result<Reply> {
    let permit = match place {
        CallStage::None => inner.permit(&origin).await?,
        CallStage::Waits(waiting) => waiting.permit().await?,
        CallStage::Has(permit) => permit,
    };
    let permit = that_serves(&inner, permit, &origin).await?;
    let again = CallAgain::of(&mut call, inner.is_native());
    match once(&inner, call, permit).await {
        Ok(reply) => Ok(reply),
        Err(failed) => {
            let again = again.and_then(CallAgain::call);
            try_again(&inner, failed, again, &origin).await
        }
    }
}

/// What a call whose process failed comes to: the same once more, where that may be.
async fn try_again(
    inner: &Arc<Inner>,
    failed: CallFailure,
    again: Option<Call>,
    origin: &CallOrigin,
) -> Result<Reply> {
    let again = again.filter(|call| failed.may_be_made_again(call, inner.is_native()));
    let Some(call) = again else { return Err(failed.error) };
    let permit = inner.permit(origin).await?;
    let permit = that_serves(inner, permit, origin).await?;
    Box::pin(once(inner, call, permit)).await.map_err(|failed| failed.error)
}

/// The permit, or another one if its process takes no calls any more, which the pool does not know
/// yet.
async fn that_serves(
    inner: &Arc<Inner>,
    mut permit: InstancePermit,
    origin: &CallOrigin,
) -> Result<InstancePermit> {
    while let Some(native) = permit.instance.native().filter(|native| !native.serves()) {
        if native.has_left() {
            inner.leaves(&permit.instance);
        } else {
            inner.ended(permit.instance.id, permit.instance.ended().await);
        }
        drop(permit);
        permit = inner.permit(origin).await?;
    }
    Ok(permit)
}

/// What a call comes to that could not reach its process any more.
pub(crate) async fn lost_and_again(
    inner: Arc<Inner>,
    permit: InstancePermit,
    error: Error,
    again: Option<Call>,
) -> Result<Reply> {
    let subject = again.as_ref().map(CallSubject::of);
    // A warm call is part of no other.
    let origin = CallOrigin { caller: permit.caller, enclosing: None };
    let failed = policy::lost(&inner, permit, error, subject).await;
    try_again(&inner, failed, again, &origin).await
}

async fn once(
    inner: &Arc<Inner>,
    mut call: Call,
    permit: InstancePermit,
) -> Result<Reply, CallFailure> {
    let timeout = permit.instance.generation.life.request_timeout;
    // Asked of what is never kept: an answer depends on what is asked of its call.
    let comes = matches!(call.body, Body::Stream(_));
    let is_http = comes && call.context.protocol() == Some(Protocol::Http);
    let subject = CallSubject::of(&call);
    let clock = ResponseTimer::of(&mut call);
    let instance = Arc::clone(&permit.instance);
    let passed = in_time(call, &clock, timeout, |call| async move { instance.call(call).await });
    let outcome = passed.await;
    let is_early = is_http && !clock.has_all();
    match outcome {
        Some(Ok(mut reply)) => {
            if is_early {
                // The rest is not waited for.
                reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(hold_permit(reply, permit, matches!(subject.target, Target::Http(_))))
        }
        Some(Err(error)) => Err(policy::lost(inner, permit, error, Some(subject)).await),
        None => Err(CallFailure::new(policy::overdue(inner, &permit))),
    }
}

/// The reply, which gives the permit back when its body is over, or the connection that it takes
/// over.
pub(crate) fn hold_permit(mut reply: Reply, permit: InstancePermit, is_page: bool) -> Reply {
    permit.instance.note_reply();
    take_out_principal(&mut reply.headers);
    if let Some(upgrade) = reply.take_upgrade() {
        let upgrade = Upgrade::new(move |connection| async move {
            upgrade.run(connection).await;
            drop(permit);
        });
        return Reply::upgrade(reply.status, upgrade).with_headers(reply.headers);
    }
    if let Body::Stream(frames) = reply.body {
        reply.body = download::hold(frames, permit, is_page);
    }
    reply
}

/// Takes out who calls, which the gateway says to programs, and no program to callers.
fn take_out_principal(headers: &mut ThinHeaders) {
    let says_who_calls = |name: &&HeaderName| {
        is_of_gateway(name.as_str())
            && ["principal", "rights"].contains(&&name.as_str()["tidewire-".len()..])
    };
    let said: Vec<_> = headers.keys().filter(says_who_calls).cloned().collect();
    for name in said {
        headers.remove(name);
    }
}

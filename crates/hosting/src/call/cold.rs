//! One call of a hosted program: bodies pass as streams, nothing is read whole.
//!
//! | what happens | the caller gets |
//! |---|---|
//! | an answer, whatever its status | that, headers and trailers as they are |
//! | the process ends before the head, of a unary query or a safe request without a body, and had other calls, or was ended from outside | one more try, at a new process |
//! | the same, and it was the one call of a process that ended by its own doing | 502, `unavailable`: another process would end in it too |
//! | a call of the live protocol that was not run, its process having ended or gone away before it | one more try, at a new process |
//! | a call of plain HTTP that was never sent, as nothing listens any more: the process is about to end | one more try, at a new process; its end is not waited for beyond a moment |
//! | the process ends before the head, of another | 502, `unavailable`; `aborted` for a command of the live protocol: it may have run |
//! | the gateway has no descriptor for a connection | 503 |
//! | the process ends within the body | a body that breaks off |
//! | a response that is not of `pipe-json` | 502; the process gets no more calls |
//! | no head within `request_timeout`, by the process's own [clock](crate::clock) | 504; after three in a row the process is killed |
//!
//! When a body is slow in coming: `upload.rs`; when an answer is read slowly: `download.rs`.
//!
//! A permit is held until the last byte of the answer was read, so that an open stream counts as a
//! call; one that came whole with its head was.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, StatusCode};
use rustix::io::Errno;
use tidewire_proxy::{ProxyError, ResponseTimer, in_time};
use tidewire_service::{
    Body, Call, Code, Error, Headers, OneLine, Outcome, Protocol, Reply, Result, StreamKind,
    Target, Upgrade, is_of_gateway,
};

use crate::call::download;
use crate::call::headers;
use crate::call::permit::{CallOrigin, InstancePermit, PromisedPermit};
use crate::call::upload;
use crate::native::pipe_json::ProtocolViolation;
use crate::process::program::Listen;
use crate::service::inner::Inner;
use crate::supervisor::message::End;

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
    call: Call,
    origin: CallOrigin,
    place: CallStage,
) -> Result<Reply> {
    let permit = match place {
        CallStage::None => inner.permit(&origin).await?,
        CallStage::Waits(waiting) => waiting.permit().await?,
        CallStage::Has(permit) => permit,
    };
    let permit = that_serves(&inner, permit, &origin).await?;
    let again = body_again(&call).map(|body| copy(&call, body));
    match once(&inner, call, permit).await {
        Ok(reply) => Ok(reply),
        Err(failed) => try_again(&inner, failed, again, &origin).await,
    }
}

/// What a call whose process failed comes to: the same once more, where that may be.
async fn try_again(
    inner: &Arc<Inner>,
    failed: CallFailure,
    again: Option<Call>,
    origin: &CallOrigin,
) -> Result<Reply> {
    let was_not_run = inner.is_native() && failed.error.outcome() == Outcome::NotRun;
    let may_be_made = |call: &Call| {
        let is_safe_again = !failed.is_to_blame && is_safe(call);
        failed.was_refused || failed.is_crash && (was_not_run || is_safe_again)
    };
    let Some(call) = again.filter(may_be_made) else { return Err(failed.error) };
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
    let failed = lost(&inner, permit, error, subject).await;
    try_again(&inner, failed, again, &origin).await
}

/// Why there is no answer.
struct CallFailure {
    error: Error,
    /// The process ended, and the answer had not begun.
    is_crash: bool,
    /// It ended by its own doing, in this call and no other.
    is_to_blame: bool,
    /// Nothing listened any more: it was never sent.
    was_refused: bool,
}

impl CallFailure {
    /// Of a process that goes on.
    fn new(error: Error) -> Self {
        Self { error, is_crash: false, is_to_blame: false, was_refused: false }
    }
}

/// How a call is called in the log.
struct CallSubject {
    target: Target,
    request_id: Option<HeaderValue>,
}

impl CallSubject {
    fn of(call: &Call) -> Self {
        let request_id = call.context.headers().get("x-request-id").cloned();
        Self { target: call.target.clone(), request_id }
    }
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
        Some(Err(error)) => Err(lost(inner, permit, error, Some(subject)).await),
        None => Err(CallFailure::new(overdue(inner, &permit))),
    }
}

/// A call was not answered in time.
pub(crate) fn overdue(inner: &Inner, permit: &InstancePermit) -> Error {
    permit.instance.did_not_answer();
    let name = inner.name();
    let timeout = permit.instance.generation.life.request_timeout;
    let error = Error::deadline_exceeded(format!("{name} did not answer within {timeout:?}"));
    let error = marked(permit, ProxyError::HttpResponseTimeout, error);
    match permit.instance.hint() {
        Some(hint) => error.with_cause(hint),
        None => error,
    }
}

/// What an error of a call comes to: whether the process is at its end.
fn lost<'a>(
    inner: &'a Inner,
    permit: InstancePermit,
    error: Error,
    subject: Option<CallSubject>,
) -> Pin<Box<dyn Future<Output = CallFailure> + Send + 'a>> {
    Box::pin(async move {
        if let Some(why) = ProtocolViolation::of(&error) {
            let why = why.to_string();
            return violation(inner, &permit, &why, error);
        }
        if !permit.instance.is_out_of_reach(&error) {
            return CallFailure::new(error);
        }
        if is_short_of_descriptors(&error) {
            let text = format!(
                "the gateway has no file descriptor free to call {} by; raise its limit of open files",
                inner.name()
            );
            let short = Error::unavailable(text).with_outcome(error.outcome()).with_cause(error);
            return CallFailure::new(short);
        }
        if permit.instance.native().is_none() && was_refused(&error) {
            return connection_refused(inner, permit, error).await;
        }
        // The end of a process is known a moment after that of its connections; one whose session
        // is over is killed.
        let wait = match permit.instance.generation.program.listen {
            Listen::Native => END_IS_CERTAIN,
            _ => END_IS_KNOWN,
        };
        let end = tokio::time::timeout(wait, permit.instance.ended()).await;
        let is_to_blame = match end {
            Ok(end) => {
                inner.ended(permit.instance.id, end);
                // What was not run has ended nothing.
                let subject = subject.filter(|_| error.outcome() != Outcome::NotRun);
                crashed_in(inner, &permit, end, subject)
            }
            Err(_) => false,
        };
        let name = inner.name();
        let text = match end {
            Ok(end @ (End::OutOfMemory(_) | End::TooManyProcesses(_))) => {
                format!("{name} ended before it answered: {end}")
            }
            Ok(_) => format!("{name} ended before it answered"),
            Err(_) if inner.ran_out_of_memory(&permit.instance) => format!(
                "{name} broke the connection off before it answered: one of its processes ran out of \
                 memory_max"
            ),
            Err(_) => format!("{name} broke the connection off before it answered"),
        };
        // Whom a program does not let in, or finds wrong, is its gateway, and not the caller.
        let code = match error.code() {
            code @ (Code::Aborted | Code::DeadlineExceeded) => code,
            _ => Code::Unavailable,
        };
        let seen = Error::new(code, text).with_http_status(StatusCode::BAD_GATEWAY);
        let seen = marked(&permit, ProxyError::ConnectionTerminated, seen);
        let error = seen.with_outcome(error.outcome()).with_cause(error);
        CallFailure { error, is_crash: end.is_ok(), is_to_blame, was_refused: false }
    })
}

/// A response was not of the protocol: its process gets no more calls, and ends with those that it
/// has.
fn violation(inner: &Inner, permit: &InstancePermit, why: &str, error: Error) -> CallFailure {
    let service = inner.name();
    let pid = permit.instance.pid();
    tracing::warn!(service, pid, "{why}; the process gets no more calls");
    inner.leaves(&permit.instance);
    let text = format!("{service} answered with what is not of pipe-json");
    let seen = Error::unavailable(text).with_http_status(StatusCode::BAD_GATEWAY);
    let seen = ProxyError::HttpProtocol.mark(seen);
    CallFailure::new(seen.with_outcome(Outcome::Answered).with_cause(error))
}

/// A call was not sent, since its process does not listen any more: it ends by itself, or is of no
/// use. No other call is given to it, and it has this one no more.
async fn connection_refused(inner: &Inner, permit: InstancePermit, error: Error) -> CallFailure {
    let instance = Arc::clone(&permit.instance);
    drop(permit);
    match tokio::time::timeout(END_IS_KNOWN, instance.ended()).await {
        Ok(end) => inner.ended(instance.id, end),
        Err(_) => {
            let service = inner.name();
            let pid = instance.pid();
            tracing::warn!(service, pid, "it does not listen any more, and gets no more calls");
            inner.leaves(&instance);
        }
    }
    let text = format!("{} does not listen any more", inner.name());
    let seen = Error::unavailable(text).with_http_status(StatusCode::BAD_GATEWAY);
    let seen = ProxyError::ConnectionRefused.mark(seen);
    let error = seen.with_outcome(Outcome::NotRun).with_cause(error);
    CallFailure { error, is_crash: false, is_to_blame: false, was_refused: true }
}

/// Says in which call a process ended, and whether that one is to blame.
fn crashed_in(
    inner: &Inner,
    permit: &InstancePermit,
    end: End,
    subject: Option<CallSubject>,
) -> bool {
    let calls = permit.instance.calls_at_end.get().copied().unwrap_or_default();
    let is_to_blame = subject.is_some() && calls == 1 && end.is_own_doing();
    if let Some(CallSubject { target, request_id }) = subject {
        let service = inner.name();
        let pid = permit.instance.pid();
        let call = target.describe();
        let call = OneLine(&call);
        let request_id = request_id.as_ref().and_then(|id| id.to_str().ok()).map(OneLine);
        let request_id = request_id.map(tracing::field::display);
        let others = calls.saturating_sub(1);
        match permit.instance.was_killed(end) {
            Some(why) => tracing::error!(service, pid, %call, request_id, others, "{why}"),
            None => {
                tracing::error!(service, pid, %call, request_id, others, "crashed in this call: {end}");
            }
        }
        if is_to_blame {
            inner.pool().failed_in(end, &call.to_string());
        }
    }
    is_to_blame
}

/// The error with what a proxy says of it (RFC 9209), for a program of plain HTTP.
fn marked(permit: &InstancePermit, what: ProxyError, error: Error) -> Error {
    match permit.instance.native() {
        None => what.mark(error),
        Some(_) => error,
    }
}

/// Whether it was this program that could have no connection.
fn is_short_of_descriptors(error: &Error) -> bool {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())
        .any(|number| [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&number))
}

/// Whether nothing listens where the call went.
fn was_refused(error: &Error) -> bool {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let is_refusal = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(error, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound))
    };
    error.outcome() == Outcome::NotRun && causes.into_iter().any(is_refusal)
}

/// The body of a call that can be made once more.
pub(crate) fn body_again(call: &Call) -> Option<Body> {
    match &call.body {
        Body::Empty => Some(Body::Empty),
        Body::Full(message) => Some(Body::Full(message.clone())),
        Body::Stream(_) => None,
    }
}

/// Whether a call does no more when it is made twice than once.
fn is_safe(call: &Call) -> bool {
    match &call.target {
        Target::Http(http) => http.method.is_safe() && matches!(call.body, Body::Empty),
        Target::Method(method) => method.is_query() && method.kind == StreamKind::Unary,
        _ => false,
    }
}

/// The call with another body.
fn copy(call: &Call, body: Body) -> Call {
    let copy = Call::of_target(call.target.clone(), call.context.clone(), body);
    copy.with_codecs(call.codec, call.accept)
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
fn take_out_principal(headers: &mut Headers) {
    let says_who_calls = |name: &&HeaderName| {
        is_of_gateway(name.as_str())
            && ["principal", "rights"].contains(&&name.as_str()["tidewire-".len()..])
    };
    let said: Vec<_> = headers.keys().filter(says_who_calls).cloned().collect();
    for name in said {
        headers.remove(name);
    }
}

const END_IS_KNOWN: Duration = Duration::from_millis(500);
const END_IS_CERTAIN: Duration = Duration::from_secs(30);

//! What becomes of a call whose process fails: when it is tried again, what is lost, and what is
//! overdue. Warm and cold calls alike ask here.
//!
//! | what happens | the caller gets |
//! |---|---|
//! | an answer, whatever its status | that, headers and trailers as they are |
//! | the process ends before the head, of a unary query or a safe request without a body, and had other calls, or was ended from outside | one more try, at a new process |
//! | the same, and it was the one call of a process that ended by its own doing | 502, `unavailable`: another process would end in it too |
//! | a call of the live protocol that was not run, its process having ended or gone away before it | one more try, at a new process |
//! | a call of plain HTTP that was never sent, as nothing listens any more: the process is about to end | one more try, at a new process, unless more of its body was read than is kept; its end is not waited for beyond a moment |
//! | the process ends before the head, of another | 502, `unavailable`; `aborted` for a command of the live protocol: it may have run |
//! | the gateway has no descriptor for a connection | 503 |
//! | the process ends within the body | a body that breaks off |
//! | a response that is not of `pipe-json` | 502; the process gets no more calls |
//! | no head within `request_timeout`, by its [clock](tidewire_proxy::ResponseTimer) | 504; after three in a row the process is killed |

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use rustix::io::Errno;
use tidewire_proxy::ProxyError;
use tidewire_service::{Body, BodyAgain, Call, Code, Error, OneLine, Outcome, StreamKind, Target};

use crate::call::permit::InstancePermit;
use crate::native::pipe_json::ProtocolViolation;
use crate::process::program::Listen;
use crate::service::inner::Inner;
use crate::supervisor::message::End;
use crate::supervisor::usage;

/// Why there is no answer.
pub(super) struct CallFailure {
    pub(super) error: Error,
    /// The process ended, and the answer had not begun.
    is_crash: bool,
    /// It ended by its own doing, in this call and no other.
    is_to_blame: bool,
    /// Nothing listened any more: it was never sent.
    was_refused: bool,
}

impl CallFailure {
    /// Of a process that goes on.
    pub(super) fn new(error: Error) -> Self {
        Self { error, is_crash: false, is_to_blame: false, was_refused: false }
    }

    /// Whether the same call may be made once more, at another process.
    pub(super) fn may_be_made_again(&self, call: &Call, is_native: bool) -> bool {
        let was_not_run = is_native && self.error.outcome() == Outcome::NotRun;
        let is_safe_again = !self.is_to_blame && is_safe(call);
        self.was_refused || self.is_crash && (was_not_run || is_safe_again)
    }
}

/// How a call is called in the log.
pub(super) struct CallSubject {
    pub(super) target: Target,
    request_id: Option<HeaderValue>,
}

impl CallSubject {
    pub(super) fn of(call: &Call) -> Self {
        let request_id = call.context.headers().get("x-request-id").cloned();
        Self { target: call.target.clone(), request_id }
    }
}

/// A call was not answered in time.
pub(super) fn overdue(inner: &Inner, permit: &InstancePermit) -> Error {
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

/// Whether an error of a call says nothing of its process, and is what the caller gets.
pub(super) fn is_final(permit: &InstancePermit, error: &Error) -> bool {
    !permit.instance.is_out_of_reach(error) && ProtocolViolation::of(error).is_none()
}

/// What an error of a call comes to: whether the process is at its end.
pub(super) fn lost<'a>(
    inner: &'a Inner,
    permit: InstancePermit,
    error: Error,
    subject: Option<CallSubject>,
) -> Pin<Box<dyn Future<Output = CallFailure> + Send + 'a>> {
    Box::pin(async move {
        if is_final(&permit, &error) {
            return CallFailure::new(error);
        }
        if let Some(why) = ProtocolViolation::of(&error) {
            let why = why.to_string();
            return violation(inner, &permit, &why, error);
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
        // The end of a process is known a moment after that of its connections. A native process
        // whose session is over ends or is killed, so that its end is certain to come.
        let wait = match permit.instance.generation.program.listen {
            Listen::Native => usage::END_IS_CERTAIN,
            _ => END_IS_KNOWN,
        };
        let end = usage::known_end(permit.instance.pid(), permit.instance.ended(), wait).await;
        let is_to_blame = match end {
            Some(end) => {
                inner.ended(permit.instance.id, end);
                // What was not run has ended nothing.
                let subject = subject.filter(|_| error.outcome() != Outcome::NotRun);
                crashed_in(inner, &permit, end, subject)
            }
            None => false,
        };
        let name = inner.name();
        let text = match end {
            Some(end @ (End::OutOfMemory(_) | End::TooManyProcesses(_))) => {
                format!("{name} ended before it answered: {end}")
            }
            Some(_) => format!("{name} ended before it answered"),
            None if inner.ran_out_of_memory(&permit.instance) => format!(
                "{name} broke the connection off before it answered: one of its processes ran out of \
                 memory_max"
            ),
            None => format!("{name} broke the connection off before it answered"),
        };
        // Whom a program does not let in, or finds wrong, is its gateway, and not the caller.
        let code = match error.code() {
            code @ (Code::Aborted | Code::DeadlineExceeded) => code,
            _ => Code::Unavailable,
        };
        let seen = Error::new(code, text).with_http_status(StatusCode::BAD_GATEWAY);
        let seen = marked(&permit, ProxyError::ConnectionTerminated, seen);
        let error = seen.with_outcome(error.outcome()).with_cause(error);
        CallFailure { error, is_crash: end.is_some(), is_to_blame, was_refused: false }
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
    match usage::known_end(instance.pid(), instance.ended(), END_IS_KNOWN).await {
        Some(end) => inner.ended(instance.id, end),
        None => {
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
pub(super) fn body_again(call: &Call) -> Option<Body> {
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

/// A call that may be made once more.
pub(super) struct CallAgain {
    call: Call,
    /// Where its body is a stream.
    body: Option<BodyAgain>,
}

impl CallAgain {
    /// The call once more, where it can be made so. A stream of plain HTTP is read through this
    /// from then on; of a method's nobody would know whether it was read.
    pub(super) fn of(call: &mut Call, is_native: bool) -> Option<Self> {
        let (again, body) = match std::mem::take(&mut call.body) {
            Body::Stream(frames) if !is_native => {
                let (lent, again) = BodyAgain::lend(frames);
                call.body = lent;
                (Body::Empty, Some(again))
            }
            body => {
                call.body = body;
                (body_again(call)?, None)
            }
        };
        let copy = Call::of_target(call.target.clone(), call.context.clone(), again);
        Some(Self { call: copy.with_codecs(call.codec, call.accept), body })
    }

    /// The call, if all of it is there.
    pub(super) fn call(mut self) -> Option<Call> {
        if let Some(body) = self.body {
            self.call.body = body.take()?;
        }
        Some(self.call)
    }
}

const END_IS_KNOWN: Duration = Duration::from_millis(500);

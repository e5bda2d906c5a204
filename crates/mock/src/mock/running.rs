//! A call while it runs: what the log is told of it, and how it ended.
//!
//! | a call ends when | the log says |
//! |---|---|
//! | its reply or its error is handed over; of a stream the last message | `ok`, or the error |
//! | nobody waits for it any more, before that | `canceled` |
//! | the same, and its deadline has passed | `deadline_exceeded` |
//! | a fault breaks its reply | the fault |
//!
//! A query and a stream are dropped when their caller leaves, and that is how it is noticed. A
//! command goes on without its caller: there a gate of the server ([`Mock::call_gate`]) leaves a
//! guard that is dropped with the request. Whatever is said of a call first stays.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use tidewire_schema::Message;
use tidewire_service::{
    Body, Context, Error, Frame, Gate, Head, Method, Reply, Result, Script, StreamKind, Target,
};

use super::Mock;
use crate::select::plan::{Decision, Extent};
use crate::state::log::{CallId, Ending, LoggedCall};
use crate::state::sessions;

/// What is known of a call when the log is told of it.
pub(super) struct NewCall<'a> {
    pub(super) method: &'a Method,
    pub(super) context: &'a Context,
    pub(super) requests: Vec<Message>,
    /// Those of the requests.
    pub(super) bytes: usize,
    pub(super) rule: Option<Decision>,
    /// Whether rules were asked for an answer; not where the request was refused before.
    pub(super) has_reached_rules: bool,
}

impl NewCall<'_> {
    fn logged(self, mock: &Mock) -> LoggedCall {
        LoggedCall {
            number: 0,
            at_millis: mock.now_millis(),
            method: self.method.clone(),
            session: sessions::name(self.context.headers()).to_owned(),
            headers: self.context.headers().clone(),
            request_count: self.requests.len() as u64,
            requests: self.requests,
            rule: self.rule,
            has_reached_rules: self.has_reached_rules,
            is_running: true,
            error: None,
            reason: String::new(),
            fault: None,
        }
    }
}

/// Held by what answers a call: by its future, and then by the stream of its reply. If it is
/// dropped before the call has ended, nobody waits for the call any more.
pub(super) struct CallGuard(Arc<RunningCall>);

/// A call that the log is told of.
pub(super) struct RunningCall {
    mock: Mock,
    id: CallId,
    deadline: Option<Instant>,
    sent: Mutex<SentReply>,
    has_ended: AtomicBool,
}

/// What was handed over of a reply, and what is to go wrong with it.
#[derive(Default)]
struct SentReply {
    extent: Extent,
    script: Script,
}

impl RunningCall {
    /// Tells the log of a call that begins.
    pub(super) fn begin(mock: &Mock, call: NewCall<'_>) -> CallGuard {
        let deadline = call.context.deadline();
        let slot = call.context.extensions().get::<CallSlot>().cloned();
        let bytes = call.bytes;
        let is_on = mock.log().is_on();
        let id = match is_on {
            true => {
                let call = call.logged(mock);
                mock.log().add(call, bytes)
            }
            false => CallId::default(),
        };
        let running = Arc::new(Self {
            mock: mock.clone(),
            id,
            deadline,
            sent: Mutex::default(),
            has_ended: AtomicBool::new(!is_on),
        });
        if let Some(CallSlot(slot)) = slot.filter(|_| is_on) {
            let _ = slot.set(Arc::clone(&running));
        }
        CallGuard(running)
    }

    /// Adds what the caller says, of so many bytes.
    pub(super) fn add_request(&self, request: &Message, bytes: usize) {
        self.mock.log().add_request(self.id, request, bytes);
    }

    pub(super) fn set_rule(&self, rule: Option<Decision>) {
        self.mock.log().set_rule(self.id, rule);
    }

    fn sent(&self, message: &Bytes) {
        let mut sent = self.sent.lock();
        sent.extent = sent.extent.and(message);
    }

    /// The stream of replies came to its end.
    fn end_stream(&self, error: Option<&Error>) {
        let fault = {
            let sent = self.sent.lock();
            sent.extent.broken_by(&sent.script)
        };
        let ending = error.map(Ending::of_error).unwrap_or_default();
        self.end(Ending { fault, ..ending });
    }

    fn end(&self, ending: Ending) {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            self.mock.log().end(self.id, ending);
        }
    }

    /// Nobody waits for the call any more.
    fn leave(&self) {
        if self.has_ended.load(Ordering::Acquire) {
            return;
        }
        let fault = {
            let sent = self.sent.lock();
            sent.extent.cut_by(&sent.script)
        };
        let ending = match fault {
            Some(_) => Ending::default(),
            None => Ending::of_error(&self.left_error()),
        };
        self.end(Ending { fault, ..ending });
    }

    fn left_error(&self) -> Error {
        let now = self.mock.0.timer.now();
        match self.deadline.is_some_and(|deadline| deadline <= now) {
            true => Error::deadline_exceeded("the deadline passed before the answer was complete"),
            false => Error::canceled("the caller left before the answer was complete"),
        }
    }
}

impl CallGuard {
    pub(super) fn call(&self) -> &Arc<RunningCall> {
        &self.0
    }

    /// The outcome for whoever waits for it; the log is told how the call ended, which is later if
    /// the reply is a stream.
    pub(super) fn settle(self, outcome: Result<Reply>) -> Result<Reply> {
        if let Some(ending) = ending(&outcome) {
            self.0.end(ending);
            return outcome;
        }
        let mut reply = outcome?;
        self.0.sent.lock().script = reply.script().cloned().unwrap_or_default();
        let frames = std::mem::take(&mut reply.body).into_frames();
        reply.body = Body::frames(followed(frames, self));
        Ok(reply)
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// How a call with this outcome ended; `None` where its reply is a stream.
pub(super) fn ending(outcome: &Result<Reply>) -> Option<Ending> {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(error) => return Some(Ending::of_error(error)),
    };
    let extent = match &reply.body {
        Body::Stream(_) => return None,
        Body::Full(bytes) => Extent::NOTHING.and(bytes),
        Body::Empty => Extent::NOTHING.and(&Bytes::new()),
    };
    let fault = reply.script().and_then(|script| extent.broken_by(script));
    Some(Ending { error: None, fault })
}

/// Tells the log of a call that ended as it began.
pub(super) fn log_at_once(mock: &Mock, call: NewCall<'_>, ending: Ending) {
    if !mock.log().is_on() {
        return;
    }
    let bytes = call.bytes;
    let mut call = call.logged(mock);
    call.end(ending);
    mock.log().add(call, bytes);
}

/// The frames of a reply, whose end the log is told.
fn followed(
    frames: impl Stream<Item = Result<Frame>> + Send + 'static,
    guard: CallGuard,
) -> impl Stream<Item = Result<Frame>> + Send + 'static {
    let frames: Pin<Box<dyn Stream<Item = Result<Frame>> + Send>> = Box::pin(frames);
    futures_util::stream::unfold((frames, guard), |(mut frames, guard)| async move {
        let frame = frames.next().await;
        match &frame {
            Some(Ok(Frame::Data(message))) => guard.0.sent(message),
            Some(Ok(Frame::Trailers(_))) | None => guard.0.end_stream(None),
            Some(Err(error)) => guard.0.end_stream(Some(error)),
        }
        Some((frame?, (frames, guard)))
    })
}

/// Where a call is put that a request is for.
#[derive(Clone, Default)]
struct CallSlot(Arc<OnceLock<Arc<RunningCall>>>);

/// Dropped when a request is over.
struct RequestGuard(CallSlot);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let Some(running) = self.0.0.get() {
            running.leave();
        }
    }
}

impl Mock {
    /// A gate for the server that serves this mock: it lets every request pass, and the log is told
    /// when the caller of a command leaves. A command goes on without its caller, so the mock
    /// itself cannot tell.
    pub fn call_gate(&self) -> impl Gate + use<> {
        let mock = self.clone();
        move |head: &mut Head| {
            if let Target::Method(method) = &head.target
                && method.kind == StreamKind::Unary
                && !method.is_query()
                && mock.set().methods.contains_key(&*method.path)
            {
                let slot = CallSlot::default();
                head.context.extensions_mut().insert(slot.clone());
                head.leave(RequestGuard(slot));
            }
            Ok(())
        }
    }
}

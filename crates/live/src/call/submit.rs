//! How a call is given to the session: at once, or when there is room for it.

use std::future::poll_fn;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use parking_lot::MutexGuard;
use tidewire_live_proto::{
    CallId, CallKind, CallRefusal, Destination, Extra, Metadata, Micros, Request, RequestBody,
    Watch,
};
use tidewire_service::{
    Body, Call, Codec, Error, Frames, Headers, Idempotency, Outcome, Result, StreamKind, Target,
    ThinHeaders, Validator,
};

use crate::call::Open;
use crate::link::exchange::CallEvent;
use crate::link::watcher::Watcher;
use crate::link::{Link, State};
use crate::reply_head::metadata;
use crate::running;
use crate::stream_out::Pour;

/// What the session needs of a call; its body stays in the call until there is room for it.
struct Order<'a> {
    target: &'a Target,
    body: &'a mut Body,
    codec: Codec,
    kind: CallKind,
    metadata: Metadata,
    deadline: Micros,
    held: Option<Validator>,
    tokens: Vec<Bytes>,
    parent: Option<CallId>,
    watch: Watch,
}

impl Link {
    /// Gives a call to the session, once there is room for it.
    pub(crate) async fn place(
        &self,
        mut call: Call,
        watcher: Option<Arc<dyn Watcher>>,
        begins: impl FnOnce(CallId) + Send,
    ) -> Result<Open> {
        let deadline = self.deadline(&call);
        let mut begins = Some(begins);
        let watcher = watcher.filter(|_| may_be_watched(&call));
        let mut place =
            |cx: &mut TaskContext<'_>| self.try_place(&mut call, watcher.as_ref(), &mut begins, cx);
        // What is seldom waited for is apart: the future of a call is moved, and most are small.
        match poll_fn(|cx| Poll::Ready(place(cx))).await {
            Poll::Ready(placed) => placed,
            Poll::Pending => Box::pin(self.until_deadline(deadline, poll_fn(place))).await,
        }
    }

    /// Gives a call to the session, if there is room for it: `cx` is woken by its answer, and its
    /// body is taken out. Otherwise lets `cx` know when there may be room.
    pub(crate) fn try_place(
        &self,
        call: &mut Call,
        watcher: Option<&Arc<dyn Watcher>>,
        begins: &mut Option<impl FnOnce(CallId) + Send>,
        cx: &TaskContext<'_>,
    ) -> Poll<Result<Open>> {
        let streams_out = call.spec().is_none_or(|method| method.kind.server_streams());
        let order = Order::of(self, call, watcher.is_some())?;
        let mut state = self.lock();
        state.let_go(self, None);
        match state.session.may_call(order.kind) {
            Ok(()) => {}
            Err(CallRefusal::Closed) => return Poll::Ready(Err(over(&state))),
            Err(CallRefusal::Full { .. } | CallRefusal::Draining) => {
                state.wait(cx);
                return Poll::Pending;
            }
        }
        let (request, frames) = order.request(&mut state);
        // Who neither gives up nor is known again by a key does not ask for the time.
        let is_timeless = request.deadline == Micros::MAX && request.kind == CallKind::Query;
        let now = if is_timeless { 0 } else { self.0.clock.now() };
        let Ok(id) = state.session.call(request, now) else {
            return Poll::Ready(Err(over(&state)));
        };
        let is_unsent = !state.is_greeted;
        let exchange = state.exchanges.entry(id).or_default();
        exchange.is_unsent = is_unsent;
        exchange.watcher = watcher.map(Arc::downgrade);
        exchange.wait_to_read(cx);
        if let Some(begins) = begins.take() {
            begins(id);
        }
        self.write_at_once(state);
        if let Some(frames) = frames {
            self.send_items(id, frames);
        }
        Poll::Ready(Ok(Open::new(self.clone(), id, streams_out)))
    }

    /// Has what is to be written written: here and now if that can be, else by the task of the
    /// connection.
    fn write_at_once<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let by =
            state.beside.by.clone().filter(|_| state.is_greeted && state.beside.left.is_empty());
        let Some(by) = by else { return state.wake() };
        if state.beside.joins && state.exchanges.len() > 1 {
            return state.wake();
        }
        if state.beside.is_writing {
            // Whoever does looks again when it is done.
            return;
        }
        let mut out = take(&mut state.beside.buffer);
        while state.session.poll_output(self.0.clock.now(), &mut out) {
            state.beside.is_writing = true;
            drop(state);
            let sent = by.try_send(&out).unwrap_or(0);
            state = self.lock();
            state.beside.is_writing = false;
            if sent < out.len() {
                state.beside.left = out.split_off(sent);
                return state.wake();
            }
            out.clear();
        }
        state.beside.buffer = out;
        // A deadline may be before what the task waits for, and its last byte what lets it leave;
        // what the session has to say itself, such as that the call is too large for its peer, is
        // heard there.
        let due = state.session.poll_timeout();
        let looks_at = state.beside.looks_at;
        let is_sooner = due.is_some_and(|due| looks_at.is_none_or(|at| due < at));
        if is_sooner || state.session.is_draining() || state.session.has_event() {
            state.wake();
        }
    }

    /// Until when an answer is wanted, as the session counts it.
    fn deadline(&self, call: &Call) -> Micros {
        call.context.deadline().map_or(Micros::MAX, |at| self.0.clock.micros(at))
    }

    /// Waits for a place no longer than the caller does.
    async fn until_deadline(
        &self,
        deadline: Micros,
        placed: impl Future<Output = Result<Open>>,
    ) -> Result<Open> {
        match self.0.clock.instant(deadline).filter(|_| deadline != Micros::MAX) {
            None => placed.await,
            Some(at) => tokio::time::timeout_at(at, placed).await.unwrap_or_else(|_| {
                let text = "the deadline passed while other calls were running";
                Err(Error::deadline_exceeded(text).with_outcome(Outcome::NotRun))
            }),
        }
    }

    /// Sends the items of a request as they come, in a task that ends with the call.
    fn send_items(&self, call: CallId, frames: Items) {
        let link = self.clone();
        let sends = async move {
            if let Err(error) = Pour::new(link.clone(), call, frames, ThinHeaders::default()).await
            {
                return link.give_up(call, error);
            }
            // Also when it is over, or wants no more.
            let mut state = link.lock();
            state.session.finish(call, &Metadata::default());
            state.wake();
        };
        let task = self.0.tasks.spawn(sends).abort_handle();
        match self.lock().exchanges.get_mut(&call) {
            Some(exchange) => exchange.task = Some(task),
            None => task.abort(),
        }
    }

    /// This side ends its call, which was sent: nobody knows what became of it.
    fn give_up(&self, call: CallId, error: Error) {
        let error = error.with_outcome(Outcome::Unknown);
        let mut state = self.lock();
        let State { session, exchanges, .. } = &mut *state;
        session.cancel(call);
        if let Some(exchange) = exchanges.get_mut(&call) {
            exchange.hear(CallEvent::Failed(error, Vec::new()));
        }
        state.wake();
    }
}

/// The session takes no calls any more.
fn over(state: &State) -> Error {
    let ended = state.ended.as_ref().map(ToString::to_string).unwrap_or_default();
    Error::unavailable(format!("the session is over: {ended}")).with_outcome(Outcome::NotRun)
}

impl<'a> Order<'a> {
    fn of(link: &Link, call: &'a mut Call, is_watched: bool) -> Result<Self> {
        let deadline = link.deadline(call);
        let Call { target, context, codec, accept, body, .. } = call;
        if codec != accept {
            return Err(Error::internal("a remote service answers in the codec of its request"));
        }
        let tokens = context.tokens().iter();
        Ok(Self {
            kind: kind(target),
            target,
            body,
            codec: *codec,
            metadata: metadata(context.headers(), &Headers::default()),
            deadline,
            held: context.caller_validators().first().copied(),
            tokens: tokens.map(|token| Bytes::copy_from_slice(token.bytes())).collect(),
            parent: running::parent(link.0.is_process),
            watch: if is_watched { Watch::Notify } else { Watch::No },
        })
    }

    /// The request, and what is to be streamed after it.
    fn request(self, state: &mut State) -> (Request, Option<Items>) {
        let destination = match self.target {
            Target::Http(http) => {
                let target = http.uri.path_and_query().map_or("/", |target| target.as_str());
                Request::http(http.method.as_str(), target, Bytes::new()).destination
            }
            Target::Method(method) => {
                Destination::Method(state.session.method(&method.path, self.codec))
            }
            other => Destination::Method(state.session.method(&other.describe(), self.codec)),
        };
        let extra = (!self.tokens.is_empty() || self.parent.is_some()).then(|| {
            Box::new(Extra { tokens: self.tokens, parent: self.parent, ..Extra::default() })
        });
        let takes_many =
            matches!(self.target, Target::Method(method) if method.kind.client_streams());
        let (payload, body, frames) = match take(self.body) {
            // One message is a stream of one: the callee reads items.
            body if takes_many => (Bytes::new(), RequestBody::Stream, Some(body.into_frames())),
            Body::Empty => (Bytes::new(), RequestBody::Whole, None),
            Body::Full(payload) => (payload, RequestBody::Whole, None),
            Body::Stream(frames) => (Bytes::new(), RequestBody::Stream, Some(frames)),
        };
        let request = Request {
            destination,
            kind: self.kind,
            watch: self.watch,
            metadata: self.metadata,
            payload,
            body,
            validator: self.held,
            deadline: self.deadline,
            extra,
        };
        (request, frames)
    }
}

/// Whether a caller may be told of the answer.
fn may_be_watched(call: &Call) -> bool {
    let streams = |kind: StreamKind| kind.server_streams() || kind.client_streams();
    let streams = call.spec().is_none_or(|method| streams(method.kind));
    kind(&call.target) == CallKind::Query && !streams && !matches!(call.body, Body::Stream(_))
}

/// What a call has to stream.
type Items = Pin<Box<dyn Frames>>;

/// What a repeated call does.
fn kind(target: &Target) -> CallKind {
    match target {
        Target::Method(method) if method.is_query() => CallKind::Query,
        Target::Method(method) if method.idempotency == Idempotency::Idempotent => {
            CallKind::Idempotent
        }
        Target::Http(http) if http.method.is_safe() => CallKind::Query,
        _ => CallKind::Command,
    }
}

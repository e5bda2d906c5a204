//! How a call is given to the session: at once, or when there is room for it.

use std::future::poll_fn;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use tidewire_live::{
    CallId, CallKind, CallRefused, Destination, Extra, Metadata, Micros, Request, RequestBody,
    Watch,
};
use tidewire_service::{
    Body, Call, Codec, Context, Error, Frames, Headers, Idempotency, Outcome, Result, Target,
    Validator,
};

use crate::call::Open;
use crate::exchange::Heard;
use crate::hold::Watcher;
use crate::link::{Link, State};
use crate::pour::Pour;
use crate::process;
use crate::serve::metadata;

/// A call as the session takes it, but for the number of its method; empty once it was placed.
pub(crate) struct Order {
    target: Target,
    codec: Codec,
    kind: CallKind,
    metadata: Metadata,
    payload: Bytes,
    frames: Option<Items>,
    deadline: Micros,
    held: Option<Validator>,
    tokens: Vec<Bytes>,
    parent: Option<CallId>,
    streams_out: bool,
    /// Who is told of the answer.
    watcher: Option<Arc<dyn Watcher>>,
}

impl Link {
    /// Gives a call to the session, once there is room for it.
    pub(crate) async fn place(
        &self,
        mut order: Order,
        watcher: Option<Arc<dyn Watcher>>,
        begins: impl FnOnce(CallId) + Send,
    ) -> Result<Open> {
        order.watcher = watcher.filter(|_| order.may_be_watched());
        let (deadline, mut begins) = (order.deadline, Some(begins));
        let mut place = |cx: &mut TaskContext<'_>| self.try_place(&mut order, &mut begins, cx);
        // What is seldom waited for is apart: the future of a call is moved, and most are small.
        match poll_fn(|cx| Poll::Ready(place(cx))).await {
            Poll::Ready(placed) => placed,
            Poll::Pending => Box::pin(self.until_deadline(deadline, poll_fn(place))).await,
        }
    }

    /// Gives a call to the session, if there is room for it: `cx` is woken by its answer. Otherwise lets `cx`
    /// know when there may be room.
    pub(crate) fn try_place(
        &self,
        order: &mut Order,
        begins: &mut Option<impl FnOnce(CallId) + Send>,
        cx: &TaskContext<'_>,
    ) -> Poll<Result<Open>> {
        let mut state = self.lock();
        state.let_go(self, None);
        match state.session.may_call(order.kind) {
            Ok(()) => {}
            Err(CallRefused::Closed) => return Poll::Ready(Err(over(&state))),
            Err(CallRefused::Full { .. } | CallRefused::Draining) => {
                state.wait(cx);
                return Poll::Pending;
            }
        }
        let request = order.request(&mut state);
        // Who neither gives up nor is known again by a key does not ask for the time.
        let is_timeless = request.deadline == Micros::MAX && request.kind == CallKind::Query;
        let now = if is_timeless { 0 } else { self.0.clock.now() };
        let Ok(id) = state.session.call(request, now) else {
            return Poll::Ready(Err(over(&state)));
        };
        let is_unsent = !state.is_greeted;
        let exchange = state.exchanges.entry(id).or_default();
        exchange.is_unsent = is_unsent;
        exchange.watcher = order.watcher.as_ref().map(Arc::downgrade);
        exchange.wait_to_read(cx);
        if let Some(begins) = begins.take() {
            begins(id);
        }
        self.write_at_once(state);
        if let Some(frames) = order.frames.take() {
            self.send_items(id, frames);
        }
        Poll::Ready(Ok(Open::new(self.clone(), id, order.streams_out)))
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
            if let Err(error) = Pour::new(link.clone(), call, frames, Headers::default()).await {
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

    /// This side ends its call.
    fn give_up(&self, call: CallId, error: Error) {
        let mut state = self.lock();
        let State { session, exchanges, .. } = &mut *state;
        session.cancel(call);
        if let Some(exchange) = exchanges.get_mut(&call) {
            exchange.hear(Heard::Failed(error, Vec::new()));
        }
        state.wake();
    }
}

/// The session takes no calls any more.
fn over(state: &State) -> Error {
    let ended = state.ended.as_ref().map(ToString::to_string).unwrap_or_default();
    Error::unavailable(format!("the session is over: {ended}")).with_outcome(Outcome::NotRun)
}

impl Order {
    /// What the session needs of a call.
    pub(crate) fn of(link: &Link, call: Call) -> Result<Self> {
        let streams_out = call.spec().is_none_or(|method| method.kind.server_streams());
        let Call { target, context, codec, accept, body, .. } = call;
        if codec != accept {
            return Err(Error::internal("a remote service answers in the codec of its request"));
        }
        let kind = kind(&target);
        let (payload, frames) = match body {
            Body::Empty => (Bytes::new(), None),
            Body::Full(payload) => (payload, None),
            Body::Stream(frames) => (Bytes::new(), Some(frames)),
        };
        let deadline = context.deadline().map_or(Micros::MAX, |at| link.0.clock.micros(at));
        let held = context.held().first().copied();
        let tokens = context.tokens().iter();
        let tokens = tokens.map(|token| Bytes::copy_from_slice(token.bytes())).collect();
        let (metadata, parent, watcher) = (headers(context), process::parent(link), None);
        Ok(Self {
            target,
            codec,
            kind,
            metadata,
            payload,
            frames,
            deadline,
            held,
            tokens,
            parent,
            streams_out,
            watcher,
        })
    }

    /// Whether its caller may be told of the answer.
    fn may_be_watched(&self) -> bool {
        self.kind == CallKind::Query && !self.streams_out && self.frames.is_none()
    }

    /// The request, which is taken out.
    fn request(&mut self, state: &mut State) -> Request {
        let destination = match &self.target {
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
            let (tokens, parent) = (take(&mut self.tokens), self.parent);
            Box::new(Extra { tokens, parent, ..Extra::default() })
        });
        let is_stream = self.frames.is_some();
        Request {
            destination,
            kind: self.kind,
            watch: if self.watcher.is_some() { Watch::Notify } else { Watch::No },
            metadata: take(&mut self.metadata),
            payload: take(&mut self.payload),
            body: if is_stream { RequestBody::Stream } else { RequestBody::Whole },
            validator: self.held,
            deadline: self.deadline,
            extra,
        }
    }
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

fn headers(context: Context) -> Metadata {
    metadata(&context.into_headers(), &Headers::default())
}

//! Calling the peer.
//!
//! A call is given to the session at once, connected or not, and its end is awaited; dropping its future,
//! or the body of its reply, cancels it. A request that is a stream is sent by a task, which ends with
//! the call. What a failed call became is in [`Error::outcome`].

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tidewire_live::{
    CallId, CallKind, CallRefused, Extra, Metadata, Micros, Request, Then, Watch, varint,
};
use tidewire_service::{
    Body, Call, Context, Error, Frame, Frames, Freshness, Headers, Idempotency, Lifetime, Messages,
    Outcome, Reply, Result, Target, Token, Tokens,
};

use crate::body::ItemsOf;
use crate::exchange::{Answered, Heard};
use crate::hold::{Hold, Watcher};
use crate::link::{Link, State};
use crate::pour::Pour;
use crate::process;
use crate::serve::metadata;

/// A source that a hosted process read for an answer, as it names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depends {
    /// The name of the source.
    pub source: Bytes,
    /// The key in it.
    pub key: Bytes,
}

impl Depends {
    pub(crate) fn of((source, key): (&[u8], &[u8])) -> Self {
        Self { source: Bytes::copy_from_slice(source), key: Bytes::copy_from_slice(key) }
    }
}

/// What became of a call that was made.
pub(crate) struct Made {
    pub(crate) reply: Reply,
    /// Keeps the answer watched, if it is.
    pub(crate) hold: Option<Hold>,
}

/// A call as the session takes it, but for the number of its method.
struct Order {
    target: Target,
    codec: tidewire_service::Codec,
    kind: CallKind,
    metadata: Metadata,
    payload: Option<Bytes>,
    deadline: Micros,
    held: Option<tidewire_service::Validator>,
    watch: Watch,
    tokens: Vec<Bytes>,
    parent: Option<CallId>,
}

impl Link {
    /// Makes a call and waits for its answer, or for the head of it.
    ///
    /// # Errors
    /// What the peer answers, or what became of the call: [`Error::outcome`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call; a command that was sent runs to completion.
    pub async fn call(&self, call: Call) -> Result<Reply> {
        Ok(self.make(call, None, |_| (), &mut Vec::new()).await?.reply)
    }

    /// [`call`](Self::call) of a hosted process: `begins` is told the call's name before anything can come
    /// from the process that is part of it ([`Arrived::parent`](crate::Arrived)), and `made_of` becomes what
    /// the answer was made of, be it a reply or an error. `begins` must not wait, nor use the link, whose
    /// lock is held.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    /// As [`call`](Self::call).
    pub async fn call_hosted(
        &self,
        call: Call,
        begins: impl FnOnce(CallId) + Send,
        made_of: &mut Vec<Depends>,
    ) -> Result<Reply> {
        Ok(self.make(call, None, begins, made_of).await?.reply)
    }

    pub(crate) async fn make(
        &self,
        mut call: Call,
        watcher: Option<Arc<dyn Watcher>>,
        begins: impl FnOnce(CallId) + Send,
        made_of: &mut Vec<Depends>,
    ) -> Result<Made> {
        let streams_in = call.spec().is_none_or(|method| method.kind.client_streams());
        let streams_out = call.spec().is_none_or(|method| method.kind.server_streams());
        let is_method = call.spec().is_some();
        // What is seldom waited for is apart: the future of a call is moved, and most are small.
        if !streams_in && matches!(call.body, Body::Stream(_)) {
            Box::pin(call.message()).await?;
        }
        let (mut order, frames) = Order::of(self, call)?;
        let may_watch = order.kind == CallKind::Query && !streams_out && frames.is_none();
        let watcher = watcher.filter(|_| may_watch);
        if watcher.is_some() {
            order.watch = Watch::Notify;
        }
        let id = self.place(&order, watcher.as_ref(), begins).await?;
        let open = Open { items: ItemsOf::new(self.clone(), id), is_held: false };
        if let Some(frames) = frames {
            self.send_items(id, frames);
        }
        match poll_fn(|cx| self.poll_heard(id, cx)).await {
            Heard::Failed(error, depends) => {
                *made_of = depends;
                Err(error)
            }
            Heard::Reply(mut answered) => {
                *made_of = std::mem::take(&mut answered.depends);
                let then = answered.then;
                let reply = reply(*answered);
                if then == Then::Watch {
                    return Ok(Made { reply, hold: Some(open.into_hold()) });
                }
                let reply = open.rest(reply, then, streams_out || !is_method).await?;
                Ok(Made { reply, hold: None })
            }
            _ => Err(Error::internal("the peer answered without an answer")),
        }
    }

    /// Gives a call to the session, once there is room for it.
    async fn place(
        &self,
        order: &Order,
        watcher: Option<&Arc<dyn Watcher>>,
        begins: impl FnOnce(CallId) + Send,
    ) -> Result<CallId> {
        let mut begins = Some(begins);
        let mut place =
            |cx: Option<&TaskContext<'_>>| self.try_place(order, watcher, &mut begins, cx);
        match place(None) {
            Poll::Ready(placed) => placed,
            Poll::Pending => {
                let placed = poll_fn(move |cx| place(Some(cx)));
                Box::pin(self.until_deadline(order, placed)).await
            }
        }
    }

    /// Gives a call to the session, if there is room for it; otherwise lets `cx` know when there may be.
    fn try_place(
        &self,
        order: &Order,
        watcher: Option<&Arc<dyn Watcher>>,
        begins: &mut Option<impl FnOnce(CallId) + Send>,
        cx: Option<&TaskContext<'_>>,
    ) -> Poll<Result<CallId>> {
        let mut state = self.lock();
        state.let_go(self, None);
        let request = order.request(&mut state);
        match state.session.call(request, self.0.clock.now()) {
            Ok(id) => {
                let is_unsent = !state.is_greeted;
                let exchange = state.exchanges.entry(id).or_default();
                exchange.is_unsent = is_unsent;
                exchange.watcher = watcher.map(Arc::downgrade);
                if let Some(begins) = begins.take() {
                    begins(id);
                }
                self.write_at_once(state);
                Poll::Ready(Ok(id))
            }
            Err(CallRefused::Closed) => {
                let ended = state.ended.as_ref().map(ToString::to_string).unwrap_or_default();
                let error = Error::unavailable(format!("the session is over: {ended}"));
                Poll::Ready(Err(error.with_outcome(Outcome::NotRun)))
            }
            Err(CallRefused::Full { .. } | CallRefused::Draining) => {
                cx.into_iter().for_each(|cx| state.wait(cx));
                Poll::Pending
            }
        }
    }

    /// Waits for a place no longer than the caller does.
    async fn until_deadline(
        &self,
        order: &Order,
        placed: impl Future<Output = Result<CallId>>,
    ) -> Result<CallId> {
        let deadline = self.0.clock.instant(order.deadline).filter(|_| order.deadline != u64::MAX);
        match deadline {
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

impl Order {
    /// What the session needs of a call, and what it has to stream.
    fn of(link: &Link, call: Call) -> Result<(Self, Option<Items>)> {
        let Call { target, context, codec, accept, body, .. } = call;
        if codec != accept {
            return Err(Error::internal("a remote service answers in the codec of its request"));
        }
        let kind = kind(&target);
        let (payload, frames) = match body {
            Body::Empty => (Some(Bytes::new()), None),
            Body::Full(payload) => (Some(payload), None),
            Body::Stream(frames) => (None, Some(frames)),
        };
        let deadline = context.deadline().map_or(Micros::MAX, |at| link.0.clock.micros(at));
        let held = context.held().first().copied();
        let tokens = context.tokens().iter();
        let tokens = tokens.map(|token| Bytes::copy_from_slice(token.bytes())).collect();
        let metadata = headers(context);
        let (watch, parent) = (Watch::No, process::parent(link));
        let order =
            Self { target, codec, kind, metadata, payload, deadline, held, watch, tokens, parent };
        Ok((order, frames))
    }

    fn request(&self, state: &mut State) -> Request {
        let payload = self.payload.clone().unwrap_or_default();
        let request = match &self.target {
            Target::Http(http) => {
                let target = http.uri.path_and_query().map_or("/", |target| target.as_str());
                Request::http(http.method.as_str(), target, payload)
            }
            Target::Method(method) => {
                let id = state.session.method(&method.path, self.codec);
                Request::query(id, payload)
            }
            other => {
                let id = state.session.method(&other.describe(), self.codec);
                Request::query(id, payload)
            }
        };
        let request = Request { kind: self.kind, ..request };
        let request =
            request.metadata(self.metadata.clone()).deadline(self.deadline).validator(self.held);
        let request = request.watch(self.watch);
        let request = match self.tokens.is_empty() && self.parent.is_none() {
            true => request,
            false => {
                let (tokens, parent) = (self.tokens.clone(), self.parent);
                request.extra(Extra { tokens, parent, ..Extra::default() })
            }
        };
        if self.payload.is_none() { request.streaming() } else { request }
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

/// The reply that an answer stands for.
fn reply(answered: Answered) -> Reply {
    let Answered { headers, trailers, payload, is_unchanged, validator, status, .. } = answered;
    let tokens = answered.tokens.into_iter().filter_map(Token::new).collect::<Tokens>();
    let mut freshness = Freshness::default().with_validator(validator).with_tokens(&tokens);
    match answered.max_age_ms {
        None => {}
        Some(varint::MAX) => freshness = freshness.with_lifetime(Lifetime::Immutable),
        Some(left) => {
            freshness = freshness.with_lifetime(Lifetime::For(Duration::from_millis(left)));
        }
    }
    let reply = match validator {
        Some(validator) if is_unchanged => Reply::unchanged(validator),
        _ => Reply::new(Body::Full(payload)),
    };
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let reply = match status {
        Some(status) => reply.with_status(status),
        None => reply,
    };
    reply.with_headers(headers).with_trailers(trailers).with_freshness(freshness)
}

/// A call that is not over for its caller: dropping it cancels it.
struct Open {
    items: ItemsOf,
    /// Its answer is held, and the hold ends it.
    is_held: bool,
}

impl Open {
    /// The call is answered, and its answer held.
    fn into_hold(mut self) -> Hold {
        self.is_held = true;
        self.items.link.hold(self.items.call)
    }

    /// What follows the head of an answer.
    async fn rest(self, reply: Reply, then: Then, streams_out: bool) -> Result<Reply> {
        match then {
            Then::Nothing | Then::Watch => Ok(reply),
            Then::Items if streams_out => Ok(reply.map(|_| Body::batches(self))),
            Then::Items => Box::pin(self.one(reply)).await,
        }
    }

    /// The one message of a reply that came as a stream.
    async fn one(mut self, reply: Reply) -> Result<Reply> {
        let (mut message, mut trailers) = (None, Headers::default());
        while let Some(frame) = poll_fn(|cx| self.items.poll_frame(cx)).await {
            match frame? {
                Frame::Trailers(late) => trailers = late,
                Frame::Data(item) if message.is_none() => message = Some(item),
                Frame::Data(_) => {
                    return Err(Error::internal("the peer sent several messages for one"));
                }
            }
        }
        let message = message.ok_or_else(|| Error::internal("the peer sent no message"))?;
        Ok(reply.map(|_| Body::Full(message)).with_trailers(trailers))
    }
}

impl futures_core::Stream for Open {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_frame(cx)
    }
}

impl Frames for Open {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        self.items.poll_messages(cx, messages)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_held {
            return;
        }
        let mut state = self.items.link.lock();
        // A call that is over is not there any more.
        let is_open = state.session.cancel(self.items.call);
        if let Some(mut exchange) = state.exchanges.remove(&self.items.call) {
            exchange.stop();
        }
        if is_open {
            state.wake();
        }
    }
}

//! Calling the peer.
//!
//! A call is given to the session when its future is polled first, connected or not, and its end is
//! awaited; dropping that future, or the body of its reply, cancels it. A request that is a stream
//! is sent by a task, which ends with the call. What a failed call became is in [`Error::outcome`].
//!
//! ```text
//!  CallFuture ─ placed (submit.rs) ─▶ OpenCall ─ one answer ──────▶ reply; nothing is left of the call
//!                                    └──── a stream's head ─▶ reply, whose body is the call itself
//! ```

mod held_call;
mod submit;
pub(crate) mod watch_guard;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use tidewire_live_proto::{CallId, Continuation};
use tidewire_service::{Body, Call, Error, Frame, Frames, Messages, Reply, Result, ThinHeaders};

use crate::body::ItemStream;
use crate::call::watch_guard::WatchGuard;
use crate::dependencies::Depends;
use crate::link::Link;
use crate::link::call_map::CallMap;
use crate::link::exchange::{CallEvent, Exchange, PeerAnswer};
use crate::link::watcher::Watcher;

/// What became of a call that was made.
pub(crate) struct CallResult {
    pub(crate) reply: Reply,
    /// Keeps the answer watched, if it is.
    pub(crate) hold: Option<WatchGuard>,
}

/// The future of an answer, or of the head of it.
///
/// # Panics
/// When polled again after it was ready.
#[must_use = "a call is made by whoever awaits its answer"]
pub struct CallFuture(Stage);

enum Stage {
    Asked(Option<(Link, Call)>),
    Placed(OpenCall),
    /// It has to wait for something that few calls do.
    Later(BoxedReply),
}

/// A call that the session has, until its answer is there, or the head of it: dropping it cancels
/// the call.
///
/// # Panics
/// When polled again after it was ready.
#[must_use = "a call is over when nobody waits for its answer"]
pub struct OpenCall(Rest);

enum Rest {
    Head(Option<Open>),
    /// What the answer was made of, too.
    Items(BoxedReply, Vec<Depends>),
}

type BoxedReply = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

const TAKEN: &str = "a call is polled until it is answered, once";

impl Link {
    /// Makes a call and waits for its answer, or for the head of it: fails with what the peer
    /// answers, or with what became of the call, [`Error::outcome`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call; a command that was sent runs to completion.
    pub fn call(&self, call: Call) -> CallFuture {
        CallFuture(Stage::Asked(Some((self.clone(), call))))
    }

    /// Gives a call of a hosted process to the session, once there is room for it: `begins` is told
    /// the call's name before anything can come from the process that is part of it
    /// ([`IncomingCall::parent`](crate::IncomingCall)). It must not wait, nor use the link, whose
    /// lock is held.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the call is not made.
    pub async fn call_hosted(
        &self,
        call: Call,
        begins: impl FnOnce(CallId) + Send,
    ) -> Result<OpenCall> {
        let call = if is_whole(&call) { call } else { Box::pin(with_message(call)).await? };
        self.place(call, None, begins).await.map(OpenCall::new)
    }

    /// [`call_hosted`](Self::call_hosted) of a call whose body is not a stream, here and now: its
    /// body is taken out, and `cx` is woken by its answer. Where there is no room the call is left
    /// as it is, and `cx` woken when there may be.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn try_call_hosted(
        &self,
        call: &mut Call,
        begins: impl FnOnce(CallId) + Send,
        cx: &TaskContext<'_>,
    ) -> Poll<Result<OpenCall>> {
        self.try_place(call, None, &mut Some(begins), cx).map_ok(OpenCall::new)
    }

    /// Makes a call whose answer `watcher` is told of.
    pub(crate) async fn make(&self, call: Call, watcher: Arc<dyn Watcher>) -> Result<CallResult> {
        let call = if is_whole(&call) { call } else { Box::pin(with_message(call)).await? };
        let mut open = self.place(call, Some(watcher), |_| ()).await?;
        match poll_fn(|cx| open.poll_head(cx)).await {
            CallEvent::Failed(error, _) => Err(error),
            CallEvent::Reply(answered) => {
                let PeerAnswer { reply, then, .. } = *answered;
                Ok(match then {
                    Continuation::Nothing => CallResult { reply, hold: None },
                    Continuation::Watch => CallResult { reply, hold: Some(open.into_hold()) },
                    Continuation::Items => {
                        CallResult { reply: open.rest(reply).await?, hold: None }
                    }
                })
            }
            _ => Err(unanswered()),
        }
    }
}

/// Whether the body of a call is what its method takes.
fn is_whole(call: &Call) -> bool {
    !matches!(call.body, Body::Stream(_))
        || call.spec().is_none_or(|method| method.kind.client_streams())
}

/// The call with its one message, which came as a stream.
async fn with_message(mut call: Call) -> Result<Call> {
    call.message().await?;
    Ok(call)
}

fn unanswered() -> Error {
    Error::internal("the peer answered without an answer")
}

impl CallFuture {
    /// What is made in another way.
    pub(crate) fn later(made: impl Future<Output = Result<Reply>> + Send + 'static) -> Self {
        Self(Stage::Later(Box::pin(made)))
    }

    /// Makes the call, and comes to the next stage.
    fn begin(link: Link, mut call: Call, cx: &TaskContext<'_>) -> Result<Stage> {
        if !is_whole(&call) {
            let whole = async move { link.call(with_message(call).await?).await };
            return Ok(Stage::Later(Box::pin(whole)));
        }
        match link.try_place(&mut call, None, &mut None::<fn(CallId)>, cx) {
            Poll::Ready(placed) => Ok(Stage::Placed(OpenCall::new(placed?))),
            Poll::Pending => Ok(Stage::Later(Box::pin(async move {
                let open = link.place(call, None, |_| ()).await?;
                Self(Stage::Placed(OpenCall::new(open))).await
            }))),
        }
    }
}

impl Future for CallFuture {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.0 {
                Stage::Asked(asked) => {
                    let (link, call) = asked.take().expect(TAKEN);
                    self.0 = Self::begin(link, call, cx)?;
                    if matches!(self.0, Stage::Placed(_)) {
                        // It was placed by this task, which is woken by its answer.
                        return Poll::Pending;
                    }
                }
                Stage::Later(later) => return later.as_mut().poll(cx),
                Stage::Placed(placed) => return placed.poll_answer(cx, &mut Vec::new()),
            }
        }
    }
}

impl OpenCall {
    fn new(open: Open) -> Self {
        Self(Rest::Head(Some(open)))
    }

    /// The answer, or the head of it; `made_of` becomes what it depended on, be it a reply or an
    /// error.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub fn poll_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        made_of: &mut Vec<Depends>,
    ) -> Poll<Result<Reply>> {
        loop {
            let open = match &mut self.0 {
                Rest::Items(items, depends) => {
                    let reply = ready!(items.as_mut().poll(cx));
                    *made_of = std::mem::take(depends);
                    return Poll::Ready(reply);
                }
                Rest::Head(open) => open,
            };
            let answered = match ready!(open.as_mut().expect(TAKEN).poll_head(cx)) {
                CallEvent::Reply(answered) => answered,
                CallEvent::Failed(error, depends) => {
                    *made_of = depends;
                    return Poll::Ready(Err(error));
                }
                _ => return Poll::Ready(Err(unanswered())),
            };
            let PeerAnswer { reply, then, depends } = *answered;
            if then != Continuation::Items {
                *made_of = depends;
                return Poll::Ready(Ok(reply));
            }
            let open = open.take().expect(TAKEN);
            self.0 = Rest::Items(Box::pin(open.rest(reply)), depends);
        }
    }
}

/// A call that is not over for its caller: dropping it cancels it.
pub(crate) struct Open {
    items: ItemStream,
    /// Its answer may be a stream.
    streams_out: bool,
    /// Nothing is left of it: it was answered, or is held.
    is_done: bool,
}

impl Open {
    pub(crate) fn new(link: Link, call: CallId, streams_out: bool) -> Self {
        Self { items: ItemStream::new(link, call), streams_out, is_done: false }
    }

    /// What was heard first. After a whole answer there is nothing more to hear.
    fn poll_head(&mut self, cx: &mut TaskContext<'_>) -> Poll<CallEvent> {
        let ItemStream { link, call, .. } = &self.items;
        let mut state = link.lock();
        let Some(exchange) = state.exchanges.get_mut(call) else {
            return Poll::Ready(CallEvent::given_up());
        };
        let heard = ready!(exchange.poll_heard(cx));
        if let CallEvent::Reply(answered) = &heard
            && answered.then == Continuation::Nothing
        {
            self.is_done = true;
            forget(&mut state.exchanges, *call);
        }
        Poll::Ready(heard)
    }

    /// The call is answered, and its answer held.
    fn into_hold(mut self) -> WatchGuard {
        self.is_done = true;
        WatchGuard::new(self.items.link.clone(), self.items.call)
    }

    /// What follows the head of an answer.
    async fn rest(self, reply: Reply) -> Result<Reply> {
        if self.streams_out {
            Ok(reply.map(|_| Body::batches(self)))
        } else {
            self.one(reply).await
        }
    }

    /// The one message of a reply that came as a stream.
    async fn one(mut self, reply: Reply) -> Result<Reply> {
        let mut message = None;
        let mut trailers = ThinHeaders::default();
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
        if self.is_done {
            return;
        }
        let mut state = self.items.link.lock();
        // A call that is over is not there any more.
        let is_open = state.session.cancel(self.items.call);
        forget(&mut state.exchanges, self.items.call);
        if is_open {
            state.wake();
        }
    }
}

/// Ends what goes on for a call that is over for its caller.
fn forget(exchanges: &mut CallMap<Exchange>, call: CallId) {
    if let Some(mut exchange) = exchanges.remove(&call) {
        exchange.stop();
    }
}

impl fmt::Debug for CallFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallFuture")
    }
}

impl fmt::Debug for OpenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenCall")
    }
}

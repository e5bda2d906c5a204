//! Answering calls of the peer.
//!
//! A call is handed to the [`Host`] with everything owned; its answer is polled once in place and
//! goes on in a task if it has to wait (`driver.rs`). What the answer is (whole, a stream,
//! "unchanged", an error with what became of the call) is told to the session here.

mod stale;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use tidewire_live_proto::{CallId, Watch};
use tidewire_service::{Body, Frames, Outcome, Peer, Reply, ThinHeaders};

use crate::body::RequestBody;
use crate::dependencies::{self, Depends};
use crate::host::{CallFailure, Host, IncomingCall};
use crate::link::request::RequestParts;
use crate::link::watch::RepeatableCall;
use crate::link::{Link, State};
use crate::reply_head::{head_made_of, head_of, metadata};
use crate::running;
use crate::stream_out::Pour;

/// A request as a host sees it.
pub(crate) fn arrived(request: RequestParts, link: &Link, peer: Option<Arc<Peer>>) -> IncomingCall {
    let items = |call| Body::batches(RequestBody::new(link.clone(), call));
    request.arrived(link.0.clock, peer, items)
}

/// A call that is being answered.
pub(crate) struct AnswerTask {
    pub(crate) link: Link,
    pub(crate) call: CallId,
    pub(crate) watch: Watch,
    /// How a watched answer is made again.
    pub(crate) again: Option<Arc<RepeatableCall>>,
}

/// What of a call is still to be done.
pub(crate) type Rest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The items of an answer, and trailers unless they have others.
type Items = (Pin<Box<dyn Frames>>, ThinHeaders);

impl AnswerTask {
    pub(crate) fn of(link: &Link, (call, watch): (CallId, Watch), arrived: &IncomingCall) -> Self {
        Self { link: link.clone(), call, watch, again: RepeatableCall::of(arrived, watch) }
    }

    /// Answers it to its end.
    pub(crate) async fn run(self, host: Arc<dyn Host>, arrived: IncomingCall) {
        let answering = host.answer(arrived);
        let (outcome, depends) =
            running::answer_with_dependencies(self.link.0.is_process, self.call, answering).await;
        self.end(outcome, &depends).await;
    }

    /// Ends it with what was answered.
    pub(crate) async fn end(self, outcome: Result<Reply, CallFailure>, depends: &[Depends]) {
        if let Some(items) = self.give(outcome, depends) {
            self.stream(items).await;
        }
    }

    /// Begins to answer it, in place: what is left to do. What most calls are is not a future but
    /// the host's.
    pub(crate) fn begin(
        self,
        cx: &mut TaskContext<'_>,
        host: Arc<dyn Host>,
        arrived: IncomingCall,
    ) -> Option<Rest> {
        let mut rest: Rest = if self.link.0.is_process {
            Box::pin(self.run(host, arrived))
        } else {
            let mut answering = host.answer(arrived);
            match answering.as_mut().poll(cx) {
                Poll::Ready(outcome) => {
                    let items = self.give(outcome, &[])?;
                    Box::pin(self.stream(items))
                }
                Poll::Pending => {
                    return Some(Box::pin(async move { self.end(answering.await, &[]).await }));
                }
            }
        };
        rest.as_mut().poll(cx).is_pending().then_some(rest)
    }

    /// Gives the session what was answered, but for its items if it has some.
    pub(crate) fn give(
        &self,
        outcome: Result<Reply, CallFailure>,
        depends: &[Depends],
    ) -> Option<Items> {
        let mut state = self.link.lock();
        state.tell_stale(&self.link);
        state.settle(&self.link);
        let items = match outcome {
            Err(failed) => {
                self.fail(&mut state, &failed, depends);
                None
            }
            Ok(reply) => self.reply(&mut state, reply, depends),
        };
        match items {
            // Who sends them waits for room there.
            Some(_) => {
                state.exchanges.entry(self.call).or_default();
            }
            None => {
                state.exchanges.remove(&self.call);
            }
        }
        // What waits now bounds the answers of other sessions.
        state.settle(&self.link);
        state.wake();
        items
    }

    fn reply(&self, state: &mut State, mut reply: Reply, depends: &[Depends]) -> Option<Items> {
        let call = self.call;
        let body = match std::mem::take(&mut reply.body) {
            Body::Stream(frames) => {
                let trailers = std::mem::take(&mut reply.trailers);
                let max = state.session.peer().limits.metadata_max;
                state.session.reply_stream(call, &head_made_of(&reply, depends, max));
                return Some((frames, trailers));
            }
            Body::Full(body) => body,
            Body::Empty => Bytes::new(),
        };
        if self.watch != Watch::No {
            let head = head_of(&reply, &body);
            let again = self.again.clone();
            state.reply_watched(&self.link, call, head, &reply.freshness, again);
        } else {
            let max = state.session.peer().limits.metadata_max;
            state.session.reply_body(call, &head_made_of(&reply, depends, max), &body);
        }
        None
    }

    fn fail(&self, state: &mut State, failed: &CallFailure, depends: &[Depends]) {
        let may_watch = self.watch != Watch::No && failed.outcome == Outcome::Answered;
        let known = failed.error.freshness();
        match known.validator().filter(|_| may_watch && known.is_known()) {
            Some(validator) => {
                let again = self.again.clone();
                state.fail_watched(&self.link, self.call, &failed.error, validator, again);
            }
            None => state.fail(self.call, failed, depends),
        }
    }

    /// Sends the items of an answer as they come.
    pub(crate) async fn stream(self, (frames, trailers): Items) {
        let outcome = Pour::new(self.link.clone(), self.call, frames, trailers).await;
        let mut state = self.link.lock();
        match outcome {
            Ok(Some(trailers)) => {
                let trailers = metadata(&trailers, &ThinHeaders::default());
                state.session.finish(self.call, &trailers);
            }
            Ok(None) => {}
            Err(error) => {
                state.tell_stale(&self.link);
                state.fail(self.call, &error.into(), &[]);
            }
        }
        state.exchanges.remove(&self.call);
        state.wake();
    }
}

impl State {
    fn fail(&mut self, call: CallId, failed: &CallFailure, depends: &[Depends]) {
        match failed.outcome {
            Outcome::Answered => {
                let max = self.session.peer().limits.metadata_max;
                let headers = failed.error.headers();
                let trailers = failed.error.trailers();
                let maps = dependencies::metadata(headers, trailers, depends, max);
                self.session.fail_made_of(call, &failed.error, &maps);
            }
            outcome => self.session.refuse(call, &failed.error, outcome),
        }
    }
}

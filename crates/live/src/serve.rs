//! Answering calls of the peer.
//!
//! A call is handed to the [`Host`] with everything owned; its answer is polled once in place and
//! goes on in a task if it has to wait (`driver.rs`). What the answer is (whole, a stream,
//! "unchanged", an error with what became of the call) is told to the session here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tidewire_live_proto::{
    CallId, ChangedSources, CommandOrigin, IncomingRequest, Metadata, Micros, OutgoingReply,
    PeerMethod, RequestLine, Session, Violation, Watch, varint,
};
use tidewire_service::{
    Body, Context, Error, Frames, Freshness, Headers, Lifetime, Outcome, Peer, Protocol, Reply,
    Token, Tokens, Validator, WatchMode,
};

use crate::body::RequestBody;
use crate::dependencies::{self, Depends};
use crate::exchange::owned;
use crate::link::{Link, State};
use crate::process;
use crate::stream_out::Pour;
use crate::watch::RepeatableCall;

/// Answers the calls of peers.
pub trait Host: Send + Sync + 'static {
    /// Answers one call. Dropping the future cancels it, which is not done to what
    /// [runs on](Self::runs_on): that is awaited whatever its caller does.
    fn answer(&self, call: IncomingCall) -> AnswerFuture;

    /// Whether a call runs on although its caller gave up, as a command with one reply does: one
    /// whose request came whole, unless the host knows its methods, and that a larger one is not a
    /// stream.
    fn runs_on(&self, call: &IncomingCall) -> bool {
        call.is_command && !matches!(call.body, Body::Stream(_))
    }

    /// Whether there is a method at this path. The connection keeps the names of those only: a peer
    /// may name thousands.
    fn knows(&self, path: &str) -> bool {
        let _ = path;
        true
    }

    /// Whose a connection is, by its default headers; a session belongs to one principal. `None`
    /// where nobody has to be known: what takes the place of these headers is not answered then.
    ///
    /// # Errors
    /// Why its credential is refused.
    fn identify(&self, headers: HeaderMap, peer: Option<Arc<Peer>>) -> Option<IdentityFuture> {
        let _ = (headers, peer);
        None
    }

    /// A hosted process says something beside its calls, in the order in which it does: what comes
    /// from it after this is heard later. It must not wait, nor use the link, whose lock is held.
    fn hear(&self, said: ProcessMessage) {
        let _ = said;
    }
}

/// Whose a connection is, once that is known.
pub type IdentityFuture = Pin<Box<dyn Future<Output = Result<Identity, Violation>> + Send>>;

/// Whose a connection is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The principal, in any form that is equal for equal ones.
    pub principal: Bytes,
    /// For how long its credential is good from now on, where that is known.
    pub expires_in: Option<Duration>,
}

/// What a hosted process says of itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessMessage {
    /// It takes calls from now on.
    Ready,
    /// It has so many jobs that are not calls.
    Busy(u64),
    /// A line for the log.
    Log {
        /// 1 trace, 2 debug, 3 info, 4 warn, 5 error.
        level: u64,
        /// The text.
        text: String,
        /// The fields, as headers.
        fields: HeaderMap,
    },
    /// Sources changed.
    Changed(ChangedSources),
    /// Its encoded `FileDescriptorSet`.
    Descriptors(Bytes),
    /// It takes no more calls, and ends with those that it has.
    Leaves,
}

/// The future of an answer.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<Reply, CallFailure>> + Send>>;

/// A call that arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct IncomingCall {
    /// What is called.
    pub target: CallTarget,
    /// Headers, deadline, the other side, what the caller holds and has seen, the key of a command.
    pub context: Context,
    /// The message or whole body, or a stream of them.
    pub body: Body,
    /// Whether it came as a command, so that it is known when it comes again.
    pub is_command: bool,
    /// Whether it is a command of an earlier session, under the key that it had there.
    pub is_sent_again: bool,
    /// The call of this side that it is part of, whether that is open or not.
    pub parent: Option<CallId>,
}

/// What a call is for.
#[derive(Debug, Clone)]
pub enum CallTarget {
    /// A method.
    Method(PeerMethod),
    /// A plain HTTP request.
    Http(http::Method, http::Uri),
    /// What is not HTTP request.
    Nothing(&'static str),
}

/// A call that has no answer.
#[derive(Debug)]
pub struct CallFailure {
    /// What its caller is told.
    pub error: Error,
    /// [`Outcome::Answered`] when the error is the handler's answer, else what became of the
    /// call.
    pub outcome: Outcome,
}

impl CallFailure {
    /// The call never reached a handler.
    pub fn not_run(error: Error) -> Self {
        Self { error, outcome: Outcome::NotRun }
    }

    /// The call may have run, and nobody knows how it ended.
    pub fn unknown(error: Error) -> Self {
        Self { error, outcome: Outcome::Unknown }
    }
}

impl From<Error> for CallFailure {
    /// What the handler answered.
    fn from(error: Error) -> Self {
        Self { error, outcome: Outcome::Answered }
    }
}

/// A request, taken out of the session.
pub(crate) struct RequestParts {
    pub(crate) call: CallId,
    /// The number of its method on this connection.
    pub(crate) number: Option<u32>,
    /// The number, if the request gave it to its method.
    pub(crate) named: Option<u32>,
    pub(crate) watch: Watch,
    target: CallTarget,
    metadata: Metadata,
    headers: HeaderMap,
    body: Option<Bytes>,
    deadline: Option<Micros>,
    held: Option<Validator>,
    command: Option<u64>,
    origin: Option<CommandOrigin>,
    is_sent_again: bool,
    parent: Option<CallId>,
}

impl RequestParts {
    pub(crate) fn of(request: &IncomingRequest<'_>) -> Self {
        let target = match request.http() {
            Some(RequestLine { verb, target }) => http_target(verb, target),
            None => {
                request.peer_method().map_or(CallTarget::Nothing("no method"), CallTarget::Method)
            }
        };
        Self {
            call: request.call,
            number: request.method(),
            named: request.method().filter(|_| request.names_method()),
            watch: request.watch(),
            target,
            metadata: request.metadata(),
            headers: HeaderMap::new(),
            body: (!request.is_streaming())
                .then(|| owned(request.payload(), || request.share_payload())),
            deadline: request.deadline(),
            held: request.validator(),
            command: request.command(),
            origin: request.origin(),
            is_sent_again: request.sent_before().is_some(),
            parent: request.parent(),
        }
    }

    /// Whether its message comes as items.
    pub(crate) fn is_streaming(&self) -> bool {
        self.body.is_none()
    }

    /// Whether there is its method.
    pub(crate) fn is_known_to(&self, host: &dyn Host) -> bool {
        match &self.target {
            CallTarget::Method(method) => host.knows(&method.path),
            _ => true,
        }
    }

    /// Its own headers in place of the connection's.
    pub(crate) fn with_headers(mut self, session: &Session) -> Self {
        if !self.metadata.is_empty() || !session.peer_headers().is_empty() {
            self.headers = session.headers_of(&self.metadata).to_maps().headers;
        }
        self
    }

    /// The call as a host sees it.
    pub(crate) fn arrived(self, link: &Link, peer: Option<Arc<Peer>>) -> IncomingCall {
        let deadline = self.deadline.and_then(|at| link.0.clock.instant(at));
        let mut context = Context::new(self.headers)
            .with_protocol(Protocol::Live)
            .with_deadline(deadline.map(tokio::time::Instant::into_std))
            .with_peer(peer);
        context.set_held(self.held.into_iter().collect());
        if self.watch != Watch::No {
            context.set_watching(WatchMode::Begins);
        }
        if let Some(origin) = self.origin {
            context.set_command(origin.client(), origin.id.to_string());
        }
        let tokens = self.metadata.tokens().filter_map(|token| Token::new(token.to_vec()));
        context.add_tokens(&tokens.collect::<Tokens>());
        let body = match self.body {
            Some(whole) => Body::Full(whole),
            None => Body::batches(RequestBody::new(link.clone(), self.call)),
        };
        let target = self.target;
        let parent = self.parent;
        let is_command = self.command.is_some();
        let is_sent_again = self.is_sent_again;
        IncomingCall { target, context, body, is_command, is_sent_again, parent }
    }
}

fn http_target(verb: &[u8], target: &[u8]) -> CallTarget {
    match (http::Method::from_bytes(verb), http::Uri::try_from(target)) {
        (Ok(verb), Ok(uri)) => CallTarget::Http(verb, uri),
        (Err(_), _) => CallTarget::Nothing("no HTTP verb"),
        (_, Err(_)) => CallTarget::Nothing("no path"),
    }
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
type Items = (Pin<Box<dyn Frames>>, Headers);

impl AnswerTask {
    pub(crate) fn of(link: &Link, (call, watch): (CallId, Watch), arrived: &IncomingCall) -> Self {
        Self { link: link.clone(), call, watch, again: RepeatableCall::of(arrived, watch) }
    }

    /// Answers it to its end.
    pub(crate) async fn run(self, host: Arc<dyn Host>, arrived: IncomingCall) {
        let answering = host.answer(arrived);
        let (outcome, depends) =
            process::answer_with_dependencies(&self.link, self.call, answering).await;
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
                state.fail(self.call, &failed, depends);
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

    /// Sends the items of an answer as they come.
    pub(crate) async fn stream(self, (frames, trailers): Items) {
        let outcome = Pour::new(self.link.clone(), self.call, frames, trailers).await;
        let mut state = self.link.lock();
        match outcome {
            Ok(Some(trailers)) => {
                let trailers = metadata(&trailers, &Headers::default());
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

/// What the session is told of a reply before its payload, and what it depended on.
fn head_made_of<'a>(reply: &'a Reply, depends: &[Depends], max: u16) -> OutgoingReply<'a> {
    let mut head = head_of(reply, &[]);
    if !depends.is_empty() {
        head.metadata = dependencies::metadata(&reply.headers, &reply.trailers, depends, max);
    }
    head
}

/// What the session is told of a reply, with this payload.
pub(crate) fn head_of<'a>(reply: &'a Reply, payload: &'a [u8]) -> OutgoingReply<'a> {
    let Reply { status, headers, trailers, freshness, .. } = reply;
    OutgoingReply {
        metadata: metadata(headers, trailers),
        payload,
        validator: freshness.validator(),
        max_age_ms: max_age_ms(freshness),
        token: freshness.tokens().iter().next().map_or(&[], Token::bytes),
        status: Some(status.as_u16()).filter(|status| *status != 200),
        watch: false,
    }
}

/// Headers and trailers as the protocol has them, without those that are HTTP's own.
pub(crate) fn metadata(headers: &HeaderMap, trailers: &HeaderMap) -> Metadata {
    match headers.is_empty() && trailers.is_empty() {
        true => Metadata::default(),
        false => Metadata::from_maps(headers, trailers),
    }
}

/// For how long the peer may keep an answer.
fn max_age_ms(freshness: &Freshness) -> Option<u64> {
    match freshness.lifetime() {
        Lifetime::Immutable => Some(varint::MAX),
        Lifetime::For(life) => {
            let left = life.saturating_sub(freshness.age()).as_millis();
            Some(u64::try_from(left).unwrap_or(varint::MAX).min(varint::MAX))
        }
        _ => None,
    }
}

//! Answering calls of the peer.
//!
//! A call is handed to the [`Host`] with everything owned; its answer is polled once in place and goes
//! on in a task if it has to wait (`connection.rs`). What the answer is (whole, a stream, "unchanged",
//! an error with what became of the call) is told to the session here.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tidewire_live::{
    CallId, Changed, CommandOrigin, IncomingRequest, Metadata, Micros, OutgoingReply, PeerMethod,
    Session, Watch, varint,
};
use tidewire_service::{
    Body, Context, Error, Frames, Freshness, Headers, Lifetime, Outcome, Protocol, Reply, Token,
    Tokens, Validator,
};

use crate::body::RequestBody;
use crate::call::Depends;
use crate::exchange::owned;
use crate::link::Link;
use crate::pour::Pour;
use crate::process;
use crate::watch::Again;

/// Answers the calls of peers.
pub trait Host: Send + Sync + 'static {
    /// Answers one call. Dropping the future cancels it, which is done to queries and streams only: the
    /// answer to a unary command is awaited whatever its caller does.
    fn answer(&self, call: Arrived) -> Answering;

    /// A hosted process says something beside its calls, in the order in which it does: what comes from it
    /// after this is heard later. It must not wait, nor use the link, whose lock is held.
    fn hear(&self, said: Said) {
        let _ = said;
    }
}

/// What a hosted process says of itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Said {
    /// It takes calls from now on.
    Ready,
    /// It has so many jobs that are no calls.
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
    Changed(Changed),
    /// Its encoded `FileDescriptorSet`.
    Descriptors(Bytes),
}

/// The future of an answer.
pub type Answering = Pin<Box<dyn Future<Output = Result<Reply, Failed>> + Send>>;

/// A call that arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arrived {
    /// What is called.
    pub target: Asked,
    /// Headers, deadline, the other side, what the caller holds and has seen, the key of a command.
    pub context: Context,
    /// The message or whole body, or a stream of them.
    pub body: Body,
    /// Whether it came as a command, so that it is known when it comes again.
    pub is_command: bool,
    /// The call of this side that it is part of, whether that is open or not.
    pub parent: Option<CallId>,
}

/// What a call is for.
#[derive(Debug, Clone)]
pub enum Asked {
    /// A method.
    Method(PeerMethod),
    /// A plain HTTP request.
    Http(http::Method, http::Uri),
    /// What is no HTTP request.
    Nothing(&'static str),
}

/// A call that has no answer.
#[derive(Debug)]
pub struct Failed {
    /// What its caller is told.
    pub error: Error,
    /// [`Outcome::Answered`] when the error is the handler's answer, else what became of the call.
    pub outcome: Outcome,
}

impl Failed {
    /// The call never reached a handler.
    pub fn not_run(error: Error) -> Self {
        Self { error, outcome: Outcome::NotRun }
    }
}

impl From<Error> for Failed {
    /// What the handler answered.
    fn from(error: Error) -> Self {
        Self { error, outcome: Outcome::Answered }
    }
}

/// A request, taken out of the session.
pub(crate) struct Taken {
    pub(crate) call: CallId,
    /// The number of its method on this connection.
    pub(crate) number: Option<u32>,
    pub(crate) watch: Watch,
    target: Asked,
    metadata: Metadata,
    headers: HeaderMap,
    body: Option<Bytes>,
    deadline: Option<Micros>,
    held: Option<Validator>,
    command: Option<u64>,
    origin: Option<CommandOrigin>,
    parent: Option<CallId>,
}

impl Taken {
    pub(crate) fn of(request: &IncomingRequest<'_>) -> Self {
        let target = match request.http() {
            Some((verb, target)) => http_target(verb, target),
            None => request.peer_method().map_or(Asked::Nothing("no method"), Asked::Method),
        };
        Self {
            call: request.call,
            number: request.method(),
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
            parent: request.parent(),
        }
    }

    /// Its own headers in place of the connection's.
    pub(crate) fn with_headers(mut self, session: &Session) -> Self {
        if !self.metadata.is_empty() || !session.peer_headers().is_empty() {
            self.headers = session.headers_of(&self.metadata).to_maps().0;
        }
        self
    }

    /// The call as a host sees it.
    pub(crate) fn arrived(self, link: &Link, peer: Option<Arc<tidewire_service::Peer>>) -> Arrived {
        let deadline = self.deadline.and_then(|at| link.0.clock.instant(at));
        let mut context = Context::new(self.headers)
            .with_protocol(Protocol::Live)
            .with_deadline(deadline.map(tokio::time::Instant::into_std))
            .with_peer(peer);
        context.set_held(self.held.into_iter().collect());
        if let Some(origin) = self.origin {
            context.set_command(origin.client(), origin.id.to_string());
        }
        let tokens = self.metadata.tokens().filter_map(|token| Token::new(token.to_vec()));
        context.add_tokens(&tokens.collect::<Tokens>());
        let body = match self.body {
            Some(whole) => Body::Full(whole),
            None => Body::batches(RequestBody::new(link.clone(), self.call)),
        };
        let (target, parent, is_command) = (self.target, self.parent, self.command.is_some());
        Arrived { target, context, body, is_command, parent }
    }
}

fn http_target(verb: &[u8], target: &[u8]) -> Asked {
    match (http::Method::from_bytes(verb), http::Uri::try_from(target)) {
        (Ok(verb), Ok(uri)) => Asked::Http(verb, uri),
        (Err(_), _) => Asked::Nothing("no HTTP verb"),
        (_, Err(_)) => Asked::Nothing("no path"),
    }
}

/// Answers one call to its end.
pub(crate) async fn serve(
    link: Link,
    host: Arc<dyn Host>,
    (call, watch): (CallId, Watch),
    arrived: Arrived,
) {
    let again = Again::of(&arrived, watch);
    let (outcome, depends) = process::answered(&link, call, host.answer(arrived)).await;
    match outcome {
        Err(failed) => link.fail(call, &failed, &depends),
        Ok(reply) if watch != Watch::No => link.deliver_watched(call, reply, again).await,
        Ok(reply) => link.deliver(call, reply, &depends).await,
    }
    link.lock().exchanges.remove(&call);
}

impl Link {
    fn fail(&self, call: CallId, failed: &Failed, depends: &[Depends]) {
        let mut state = self.lock();
        state.tell_stale(self);
        match failed.outcome {
            Outcome::Answered => {
                let maps = made_of(failed.error.headers(), failed.error.trailers(), depends);
                state.session.fail_made_of(call, &failed.error, &maps);
            }
            outcome => state.session.refuse(call, &failed.error, outcome),
        }
        state.wake();
    }

    async fn deliver(&self, call: CallId, mut reply: Reply, depends: &[Depends]) {
        let body = std::mem::take(&mut reply.body);
        let trailers = match &body {
            Body::Stream(_) => std::mem::take(&mut reply.trailers),
            _ => Headers::default(),
        };
        let frames = {
            let mut head = head_of(&reply, &[]);
            if !depends.is_empty() {
                head.metadata = made_of(&reply.headers, &reply.trailers, depends);
            }
            let mut state = self.lock();
            state.tell_stale(self);
            let frames = match body {
                Body::Empty => {
                    state.session.reply(call, head);
                    None
                }
                Body::Full(body) => {
                    state.session.reply_body(call, &head, &body);
                    None
                }
                Body::Stream(frames) => {
                    state.session.reply_stream(call, &head);
                    Some(frames)
                }
            };
            state.wake();
            frames
        };
        if let Some(frames) = frames {
            self.stream(call, frames, trailers).await;
        }
    }

    /// Answers a query that is watched, if its answer tells when it ends.
    async fn deliver_watched(&self, call: CallId, reply: Reply, again: Option<Arc<Again>>) {
        let body = match &reply.body {
            Body::Full(body) => body.clone(),
            Body::Empty => Bytes::new(),
            Body::Stream(_) => return self.deliver(call, reply, &[]).await,
        };
        let mut state = self.lock();
        state.tell_stale(self);
        let head = head_of(&reply, &body);
        state.reply_watched(self, call, head, &reply.freshness, again);
        state.wake();
    }

    /// Sends the items of an answer as they come.
    async fn stream(&self, call: CallId, frames: Pin<Box<dyn Frames>>, trailers: Headers) {
        match Pour::new(self.clone(), call, frames, trailers).await {
            Ok(Some(trailers)) => {
                let mut state = self.lock();
                state.session.finish(call, &metadata(&trailers, &Headers::default()));
                state.wake();
            }
            Ok(None) => {}
            Err(error) => self.fail(call, &error.into(), &[]),
        }
    }
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

/// The metadata of an answer, with what it was made of.
fn made_of(headers: &HeaderMap, trailers: &HeaderMap, depends: &[Depends]) -> Metadata {
    let mut builder = Metadata::builder();
    for (name, value) in headers {
        builder = builder.header(name.as_str(), value.as_bytes());
    }
    for Depends { source, key } in depends {
        builder = builder.depends(source, key);
    }
    if !trailers.is_empty() {
        builder = builder.trailers();
    }
    for (name, value) in trailers {
        builder = builder.header(name.as_str(), value.as_bytes());
    }
    builder.build()
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

//! A client: a [`Service`] whose calls another process answers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_service::{
    Answer, Body, Call, Channel, Code, Codec, Context, Error, Frame, Method, Outcome, Reply,
    Result, Service, Target,
};
use tidewire_wire::Caller;

use crate::balance::{Backend, Balancer};
use crate::builder::Builder;
use crate::connect::{Unconnected, connect};
use crate::deadline::{Deadline, Phase, passed};
use crate::exchange::{Failed, Outbound, Received, exchange};
use crate::plain;
use crate::retry::{Failures, Retries, is_repeatable};
use crate::trace::{Step, Trace, now, tell};
use crate::wire::{self, Expected, Message};

/// Calls servers over Connect, gRPC, gRPC-Web or plain HTTP; cheap to clone.
///
/// It is a [`Service`], so it takes [`Call`]s of methods with raw bytes, protobuf or JSON, and of
/// plain HTTP; and a [`Channel`], so generated clients take it. Connections are opened when they are
/// needed and kept for further calls; they end with the last clone and the last reply being read.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

/// What all clones of a client share.
pub(crate) struct Inner {
    pub(crate) caller: Caller,
    pub(crate) codec: Codec,
    pub(crate) balancer: Arc<Balancer>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) trace: Option<Trace>,
    pub(crate) retries: Retries,
}

impl Client {
    /// A client of the server at `url`: `http://host:port`, `https://host`, `unix:/path`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// A channel for generated clients, with the codec of the builder; a client that is used as a
    /// channel itself sends protobuf.
    pub fn channel(&self) -> Channel {
        Channel::new(self.clone()).with_codec(self.0.codec)
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.0.balancer.open_connections()
    }
}

impl Service for Client {
    fn call(&self, call: Call) -> Answer {
        let inner = Arc::clone(&self.0);
        Answer::pending(async move { inner.run(call).await })
    }
}

impl Inner {
    async fn run(&self, call: Call) -> Result<Reply> {
        let Call { target, context, codec, accept, body, .. } = call;
        if codec != accept {
            return Err(Error::internal("a remote service answers in the codec of its request"));
        }
        let trace = context.extensions().get::<Trace>().cloned().or_else(|| self.trace.clone());
        let at = self.deadline(&context);
        let (outbound, read, is_repeatable) = match target {
            Target::Method(method) => {
                let message = message(&method, body).await?;
                let outbound =
                    wire::request(&self.caller, &method, codec, context, message, trace.as_ref())?;
                let expected = Expected { kind: method.kind, codec };
                (outbound, Read::Method(expected), is_repeatable(&method))
            }
            Target::Http(target) => {
                let is_safe = target.method.is_safe();
                let outbound = plain::request(target, context, body, trace.as_ref())?;
                (outbound, Read::Plain, is_safe)
            }
            other => {
                let what = other.describe();
                return Err(Error::unimplemented(format!("{what} is nothing that can be sent")));
            }
        };
        self.call_until_done(outbound, &read, is_repeatable, at, trace).await
    }

    fn deadline(&self, context: &Context) -> Option<Instant> {
        let latest = self.timeout.and_then(|timeout| now().checked_add(timeout));
        match (context.deadline(), latest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Makes a call, and makes it again where that is allowed.
    async fn call_until_done(
        &self,
        mut outbound: Outbound,
        read: &Read,
        is_repeatable: bool,
        at: Option<Instant>,
        trace: Option<Trace>,
    ) -> Result<Reply> {
        let is_repeatable = is_repeatable && self.retries.is_on();
        let mut failures = Failures::default();
        loop {
            let spare = if is_repeatable { outbound.replica() } else { None };
            let outcome = self.call_once(outbound, read, at, trace.clone()).await;
            let error = match outcome {
                Ok(reply) => {
                    self.retries.succeeded();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let Some(again) = spare else { return Err(error) };
            let Some(wait) = self.retries.again(&error, &mut failures) else {
                return Err(error);
            };
            // What would come too late is not tried.
            if at.is_some_and(|at| now() + wait >= at) {
                return Err(error);
            }
            tell(trace.as_ref(), || Step::Retrying { error: &error, after: wait });
            tokio::time::sleep(wait).await;
            outbound = again;
        }
    }

    async fn call_once(
        &self,
        outbound: Outbound,
        read: &Read,
        at: Option<Instant>,
        trace: Option<Trace>,
    ) -> Result<Reply> {
        let (received, backend) = self.send(outbound, read, at, trace).await?;
        let outcome = match read {
            Read::Plain => Ok(plain::reply(received)),
            Read::Method(expected) => wire::reply(&self.caller, expected, received).await,
        };
        backend.answered(outcome.as_ref().err());
        outcome
    }

    /// Sends a request until a server has it: what was surely not seen goes to the next address.
    async fn send(
        &self,
        mut outbound: Outbound,
        read: &Read,
        at: Option<Instant>,
        trace: Option<Trace>,
    ) -> Result<(Received, Arc<Backend>)> {
        let mut tries_left = None;
        loop {
            let mut deadline = Deadline::new(at);
            let backend = self.balancer.pick(&mut deadline, trace.as_ref()).await?;
            if let Some(remaining) = deadline.remaining() {
                if remaining.is_zero() {
                    return Err(passed(Phase::Send, &backend.pool.target.host));
                }
                if matches!(read, Read::Method(_)) {
                    let (name, value) = self.caller.timeout(remaining);
                    outbound.headers.insert(name, value);
                }
            }
            let (backend, failed) =
                match connect(&self.balancer, backend, &mut deadline, trace.as_ref()).await {
                    Ok((lease, backend)) => {
                        match exchange(lease, outbound, deadline, trace.clone()).await {
                            Ok(received) => return Ok((received, backend)),
                            Err(failed) => (backend, failed),
                        }
                    }
                    Err(Unconnected { error, backend, is_address_bad }) => {
                        (backend, Failed { error, unsent: Some(outbound), is_address_bad })
                    }
                };
            if failed.is_address_bad {
                backend.broke();
                self.balancer.suspect();
            }
            let left = tries_left.get_or_insert_with(|| self.balancer.count().max(2));
            *left -= 1;
            match failed {
                Failed { unsent: Some(back), is_address_bad: true, error }
                    if *left > 0 && error.code() != Code::DeadlineExceeded =>
                {
                    outbound = back;
                }
                Failed { unsent: Some(_), error, .. } => {
                    return Err(error.with_outcome(Outcome::NotRun));
                }
                Failed { error, .. } => return Err(error),
            }
        }
    }
}

/// How a response is read.
enum Read {
    Method(Expected),
    Plain,
}

/// The request message of a method, or the stream of them.
async fn message(method: &Method, body: Body) -> Result<Message> {
    Ok(match body {
        Body::Full(message) => Message::One(message),
        body if method.kind.client_streams() => Message::Many(body),
        Body::Empty => Message::One(Bytes::new()),
        Body::Stream(frames) => Message::One(one_message(frames).await?),
    })
}

/// The one message of a stream.
async fn one_message(
    mut frames: impl futures_core::Stream<Item = Result<Frame>> + Unpin,
) -> Result<Bytes> {
    let mut message = None;
    while let Some(frame) = frames.next().await {
        let Frame::Data(data) = frame? else { continue };
        if message.replace(data).is_some() {
            return Err(Error::invalid_argument("more than one message where one is expected"));
        }
    }
    message.ok_or_else(|| Error::invalid_argument("no message where one is expected"))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("dialect", &self.0.caller.dialect).finish_non_exhaustive()
    }
}

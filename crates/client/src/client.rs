//! A client: a [`Service`] whose calls another process answers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_service::{
    Answer, Body, Call, Channel, Codec, Context, Error, Frame, Method, Reply, Result, Service,
    Target,
};

use crate::balance::Balancer;
use crate::builder::Builder;
use crate::deadline::{Deadline, Phase, passed};
use crate::exchange::{Failed, Outbound, Received, exchange};
use crate::trace::Trace;
use crate::wire::{Dialect, Expected, Message, headers};
use crate::{Protocol, plain};

/// Calls servers over Connect, gRPC, gRPC-Web or plain HTTP; cheap to clone.
///
/// It is a [`Service`], so it takes [`Call`]s of methods with raw bytes, protobuf or JSON, and of
/// plain HTTP; and a [`Channel`], so generated clients take it. Connections are opened when they are
/// needed and kept for further calls; they end with the last clone and the last reply being read.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    dialect: Dialect,
    codec: Codec,
    balancer: Balancer,
    timeout: Option<Duration>,
    trace: Option<Trace>,
}

impl Client {
    /// A client of the server at `url`: `http://host:port`, `https://host`, `unix:/path`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }

    pub(crate) fn new(
        dialect: Dialect,
        codec: Codec,
        balancer: Balancer,
        timeout: Option<Duration>,
        trace: Option<Trace>,
    ) -> Self {
        Self(Arc::new(Inner { dialect, codec, balancer, timeout, trace }))
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
        let Call { target, context, codec, body } = call;
        let trace = context.extensions().get::<Trace>().cloned().or_else(|| self.trace.clone());
        let at = self.deadline(&context);
        match target {
            Target::Method(method) => {
                self.call_method(&method, codec, context, body, at, trace).await
            }
            Target::Http(target) => {
                let outbound = plain::request(target, context, body, trace.as_ref())?;
                let (received, _) = self.attempt(outbound, at, trace, None).await?;
                Ok(plain::reply(received))
            }
        }
    }

    fn deadline(&self, context: &Context) -> Option<Instant> {
        let latest = self.timeout.and_then(|timeout| crate::trace::now().checked_add(timeout));
        match (context.deadline(), latest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    async fn call_method(
        &self,
        method: &Method,
        codec: Codec,
        context: Context,
        body: Body,
        at: Option<Instant>,
        trace: Option<Trace>,
    ) -> Result<Reply> {
        let message = match body {
            Body::Stream(_) if method.kind.client_streams() => Message::Many(body),
            Body::Stream(frames) => Message::One(one_message(frames).await?),
            Body::Full(message) => Message::One(message),
            Body::Empty if method.kind.client_streams() => Message::Many(body),
            Body::Empty => Message::One(Bytes::new()),
        };
        let outbound = self.dialect.request(method, codec, context, message, trace.as_ref())?;
        let expected = Expected { kind: method.kind, codec };
        let (received, _) = self.attempt(outbound, at, trace, Some(self.dialect.protocol)).await?;
        self.dialect.reply(&expected, received).await
    }

    /// Sends a request until a server has it: what was surely not seen goes to the next address.
    async fn attempt(
        &self,
        mut outbound: Outbound,
        at: Option<Instant>,
        trace: Option<Trace>,
        protocol: Option<Protocol>,
    ) -> Result<(Received, ())> {
        let mut left = self.balancer.count().max(2);
        loop {
            let mut deadline = Deadline::new(at, None);
            let pool = self.balancer.pick(&mut deadline, trace.as_ref()).await?;
            if let Some(remaining) = deadline.remaining() {
                if remaining.is_zero() {
                    return Err(passed(Phase::Send, &pool.target.host));
                }
                let headers = &mut outbound.headers;
                match protocol {
                    Some(Protocol::Connect) => {
                        headers.insert(CONNECT_TIMEOUT, headers::connect_timeout(remaining));
                    }
                    Some(_) => {
                        headers.insert(GRPC_TIMEOUT, headers::grpc_timeout(remaining));
                    }
                    None => {}
                }
            }
            let failed = match exchange(&pool, outbound, deadline, trace.clone()).await {
                Ok(received) => return Ok((received, ())),
                Err(failed) => failed,
            };
            left -= 1;
            match failed {
                Failed { unsent: Some(back), is_address_bad: true, .. } if left > 0 => {
                    outbound = back;
                }
                Failed { error, .. } => return Err(error),
            }
        }
    }
}

const CONNECT_TIMEOUT: http::HeaderName = headers::name("connect-timeout-ms");
const GRPC_TIMEOUT: http::HeaderName = headers::name("grpc-timeout");

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
        f.debug_struct("Client").field("dialect", &self.0.dialect).finish_non_exhaustive()
    }
}

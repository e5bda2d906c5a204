//! A client: a [`Service`] whose calls another process answers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidewire_service::{
    Answer, Call, Channel, Code, Codec, Context, Error, Outcome, Reply, Result, Service,
};
use tidewire_wire::Caller;

use crate::balance::{Backend, Balancer};
use crate::connect::{ConnectFailure, connect};
use crate::deadline::{Deadline, Phase, deadline_error, earlier};
use crate::endpoint::Endpoint;
use crate::exchange::{RequestFailure, ResponseStart, exchange};
use crate::live::Live;
use crate::order::{Order, ReadMode};
use crate::plain;
use crate::replica::ReplicaSet;
use crate::retry::{Failures, Retries};
use crate::rpc;
use crate::trace::{Step, Trace, now, tell};

/// Calls servers over Connect, gRPC, gRPC-Web, live or plain HTTP; cheap to clone.
///
/// It is a [`Service`], so it takes [`Call`]s of methods with raw bytes, protobuf or JSON, and of
/// plain HTTP; and a [`Channel`], so generated clients take it. Connections are opened when they
/// are needed and kept for further calls; they end with the last clone and the last reply being
/// read.
///
/// Any plain HTTP server is called as a handler would be; a generated client takes
/// [`channel`](Self::channel). Headers go along by a [`Context`], as do a deadline and a trace:
/// `Greeter::greet(&greeter, context, request)` is `greeter.greet(request)` with one.
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_client::Client; pub use tidewire_service::*; }
/// use tidewire::http;
/// use tidewire::{Body, Call, Client, Code, Context, Service};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("http://127.0.0.1:9").build()?; // nobody listens there
/// // let greeter = GreeterClient::new(client.channel());
/// let uri = http::Uri::from_static("/health");
/// let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
/// let error = client.call(call).await.unwrap_err();
/// assert_eq!(error.code(), Code::Unavailable);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Kind);

/// How a client speaks with its servers.
#[derive(Clone)]
enum Kind {
    Http(Arc<Inner>),
    Live(Arc<Live>),
}

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
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Kind::Http(Arc::new(inner)))
    }

    pub(crate) fn live(live: Arc<Live>) -> Self {
        Self(Kind::Live(live))
    }

    /// A channel for generated clients, with the codec of the builder; a client that is used as a
    /// channel itself sends protobuf.
    pub fn channel(&self) -> Channel {
        let codec = match &self.0 {
            Kind::Http(http) => http.codec,
            Kind::Live(live) => live.codec,
        };
        Channel::new(self.clone()).with_codec(codec)
    }

    /// How many answers are kept here that the server tells of; see
    /// [`Builder::replicas`](crate::Builder::replicas).
    pub fn replicas_held(&self) -> usize {
        match &self.0 {
            Kind::Http(_) => 0,
            Kind::Live(live) => live.shelf().map_or(0, ReplicaSet::len),
        }
    }

    /// Leaves the server at `url` out for a while, since it is known not to be well; no time takes
    /// it in again. While all are left out, calls go to the one whose time is up first.
    pub fn leave_out(&self, url: &str, time: Duration) {
        if let Kind::Http(http) = &self.0
            && let Ok(endpoint) = Endpoint::parse(url)
        {
            http.balancer.leave_out(&endpoint.name(), time);
        }
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        match &self.0 {
            Kind::Http(http) => http.balancer.open_connections(),
            Kind::Live(live) => live.open_connections(),
        }
    }
}

impl Service for Client {
    fn call(&self, call: Call) -> Answer {
        match &self.0 {
            Kind::Http(http) => http.answer(call),
            Kind::Live(live) => live.clone().answer(call),
        }
    }
}

impl Inner {
    /// What of a call is not needed is left here: it would be moved about with the future.
    fn answer(self: &Arc<Self>, call: Call) -> Answer {
        if call.codec != call.accept {
            let text = "a remote service answers in the codec of its request";
            return Answer::ready(Err(Error::internal(text)));
        }
        let own = call.context.extensions().get::<Trace>().cloned();
        let trace = own.or_else(|| self.trace.clone());
        let at = self.deadline(&call.context);
        match Order::of(call) {
            Ok(order) => Answer::pending(Arc::clone(self).call_until_done(order, at, trace)),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn deadline(&self, context: &Context) -> Option<Instant> {
        earlier(context.deadline(), self.timeout)
    }

    /// Makes a call, and makes it again where that is allowed.
    async fn call_until_done(
        self: Arc<Self>,
        mut order: Order,
        at: Option<Instant>,
        trace: Option<Trace>,
    ) -> Result<Reply> {
        let trace = trace.as_ref();
        order.gather().await?;
        let is_repeatable = order.is_repeatable() && self.retries.is_on();
        let mut failures = Failures::default();
        loop {
            let error = match self.call_once(&mut order, at, trace).await {
                Ok(reply) => {
                    self.retries.succeeded();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            if !is_repeatable || !order.is_there() {
                return Err(error);
            }
            let Some(wait) = self.retries.again(&error, &mut failures) else {
                return Err(error);
            };
            // What would come too late is not tried.
            if at.is_some_and(|at| now() + wait >= at) {
                return Err(error);
            }
            tell(trace, || Step::Retrying { error: &error, after: wait });
            tokio::time::sleep(wait).await;
        }
    }

    async fn call_once(
        &self,
        order: &mut Order,
        at: Option<Instant>,
        trace: Option<&Trace>,
    ) -> Result<Reply> {
        let (received, backend) = self.send(order, at, trace).await?;
        let outcome = match order.read() {
            ReadMode::Plain => plain::reply(received).await,
            ReadMode::Method(expected) => rpc::reply(&self.caller, &expected, received).await,
        };
        backend.record_outcome(outcome.as_ref().err());
        outcome
    }

    /// Sends a request until a server has it: what was surely not seen goes to the next address.
    async fn send(
        &self,
        order: &mut Order,
        at: Option<Instant>,
        trace: Option<&Trace>,
    ) -> Result<(ResponseStart, Arc<Backend>)> {
        let mut tried: Vec<Arc<Backend>> = Vec::new();
        let mut closed = 0;
        loop {
            let mut deadline = Deadline::new(at);
            let backend = match self.balancer.other_than(&tried) {
                Some(other) if !tried.is_empty() => other,
                _ => self.balancer.pick(&mut deadline, trace).await?,
            };
            if deadline.is_over() {
                let error = deadline_error(Phase::Send, &backend.pool.target.host);
                return Err(error.with_outcome(Outcome::NotRun));
            }
            let (backend, failed, may_go_on) =
                match connect(&self.balancer, backend, &mut deadline, trace).await {
                    Ok((lease, backend)) => {
                        let outbound = order.outbound(&self.caller, deadline.remaining(), trace)?;
                        match exchange(lease, outbound, deadline, trace.cloned()).await {
                            Ok(received) => return Ok((received, backend)),
                            Err(failed) => (backend, failed, true),
                        }
                    }
                    Err(ConnectFailure { error, backend, is_address_bad }) => {
                        let error = error.with_outcome(Outcome::NotRun);
                        let failed =
                            RequestFailure { error, body: None, is_address_bad, was_closed: false };
                        (backend, failed, is_address_bad)
                    }
                };
            let RequestFailure { error, body, is_address_bad, was_closed } = failed;
            // A kept connection may be closed in the very moment of its next request.
            if was_closed && closed < CLOSED_MAX && order.is_safe_and_bare() {
                closed += 1;
                tell(trace, || Step::Retrying { error: &error, after: Duration::ZERO });
                continue;
            }
            if is_address_bad {
                backend.broke();
                self.balancer.suspect();
            } else if error.code() == Code::Unavailable {
                backend.record_outcome(Some(&error));
            }
            if error.outcome() != Outcome::NotRun {
                return Err(error);
            }
            if let Some(body) = body {
                order.give_back(body);
            }
            tried.push(backend);
            let is_last = tried.len() >= self.balancer.count().max(2);
            if is_last || !may_go_on || error.code() == Code::DeadlineExceeded || !order.is_there()
            {
                // A connection that was closed may have carried it.
                let was_sent = closed > 0;
                return Err(if was_sent { error.with_outcome(Outcome::Unknown) } else { error });
            }
        }
    }
}

/// How many kept connections are found closed by one call. The first is closed with all that wait;
/// others were given back meanwhile.
const CLOSED_MAX: usize = 3;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Http(http) => f
                .debug_struct("Client")
                .field("dialect", &http.caller.dialect)
                .finish_non_exhaustive(),
            Kind::Live(_) => f.write_str("Client(live)"),
        }
    }
}

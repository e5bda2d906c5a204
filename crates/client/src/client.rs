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
use crate::exchange::{RequestFailure, exchange};
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

/// A call of plain HTTP that failed; see [`Client::pass`].
#[derive(Debug)]
pub struct PassFailure {
    /// What it failed with.
    pub error: Error,
    /// The call from its beginning; `None` if its body is not there any more.
    pub call: Option<Box<Call>>,
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

    /// Makes a call of plain HTTP, which comes back where it fails: whoever passes calls on makes
    /// it once more elsewhere, without a copy of it.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn pass(
        &self,
        call: Call,
    ) -> Result<impl Future<Output = Result<Reply, PassFailure>> + Send + use<>> {
        let Kind::Http(http) = &self.0 else {
            return Err(Error::unimplemented("plain HTTP does not go over the live protocol"));
        };
        let mut begun = http.begin(call)?;
        Ok(async move {
            begun.run().await.map_err(|error| {
                let BegunCall { order, at, trace, .. } = begun;
                PassFailure { error, call: order.into_call(at, trace).map(Box::new) }
            })
        })
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
    fn answer(self: &Arc<Self>, call: Call) -> Answer {
        match self.begin(call) {
            Ok(mut begun) => Answer::pending(async move { begun.run().await }),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    /// A call that can be sent. What of it is not needed is left here: it would be moved about with
    /// its future.
    fn begin(self: &Arc<Self>, call: Call) -> Result<BegunCall> {
        if call.codec != call.accept {
            let text = "a remote service answers in the codec of its request";
            return Err(Error::internal(text));
        }
        let own = call.context.extensions().get::<Trace>().cloned();
        let trace = own.or_else(|| self.trace.clone());
        let at = self.deadline(&call.context);
        Ok(BegunCall { client: Arc::clone(self), order: Order::of(call)?, at, trace })
    }

    fn deadline(&self, context: &Context) -> Option<Instant> {
        earlier(context.deadline(), self.timeout)
    }
}

/// A call on its way.
struct BegunCall {
    client: Arc<Inner>,
    order: Order,
    at: Option<Instant>,
    trace: Option<Trace>,
}

impl BegunCall {
    /// Makes a call, and makes it again where that is allowed.
    async fn run(&mut self) -> Result<Reply> {
        if self.order.is_coming() {
            // Boxed, like all that few calls wait for, so that others are not the larger for it.
            Box::pin(self.order.gather()).await?;
        }
        let is_repeatable = self.order.is_repeatable() && self.client.retries.is_on();
        let mut failures = Failures::default();
        loop {
            let error = match self.once().await {
                Ok(reply) => {
                    self.client.retries.succeeded();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            if !is_repeatable || !self.order.is_there() {
                return Err(error);
            }
            let Some(wait) = self.client.retries.again(&error, &mut failures) else {
                return Err(error);
            };
            // What would come too late is not tried.
            if self.at.is_some_and(|at| now() + wait >= at) {
                return Err(error);
            }
            tell(self.trace.as_ref(), || Step::Retrying { error: &error, after: wait });
            Box::pin(tokio::time::sleep(wait)).await;
        }
    }

    /// Sends a request until a server has it, and reads its reply: what was surely not seen goes to
    /// the next address.
    async fn once(&mut self) -> Result<Reply> {
        let Self { client, order, at, trace } = self;
        let Inner { balancer, caller, .. } = &**client;
        let trace = trace.as_ref();
        let mut tried: Vec<Arc<Backend>> = Vec::new();
        let mut closed = 0;
        loop {
            let mut deadline = Deadline::new(*at);
            let other = if tried.is_empty() { None } else { balancer.other_than(&tried) };
            let backend = match other {
                Some(other) => other,
                None => balancer.pick(&mut deadline, trace).await?,
            };
            if deadline.is_over() {
                let error = deadline_error(Phase::Send, &backend.pool.target.host);
                return Err(error.with_outcome(Outcome::NotRun));
            }
            let (backend, failed, may_go_on) =
                match connect(balancer, backend, &mut deadline, trace).await {
                    Ok((lease, backend)) => {
                        match exchange(lease, order, caller, deadline, trace).await {
                            Ok(received) => {
                                let outcome = match order.read() {
                                    ReadMode::Plain => plain::reply(received).await,
                                    ReadMode::Method(expected) => {
                                        Box::pin(rpc::reply(caller, &expected, received)).await
                                    }
                                };
                                backend.record_outcome(outcome.as_ref().err());
                                return outcome;
                            }
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
                balancer.suspect();
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
            let is_last = tried.len() >= balancer.count().max(2);
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderValue, Method, Uri};
    use tidewire_service::{Body, Headers};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::Retry;

    fn call(body: Body) -> Call {
        let mut headers = Headers::new();
        for (name, value) in
            [("x-a", "1"), ("x-b", "\u{fc}"), ("x-a", ""), ("connection", "x-hop"), ("x-hop", "3")]
        {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Call::http(Method::POST, Uri::from_static("/a?b=c"), Context::new(headers), body)
    }

    /// What comes back of a call that a server reads up to `end`, without an answer.
    async fn comes_back(body: Body, end: &str) -> Option<Box<Call>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::builder(url).retry(Retry::none()).build().unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(end.as_bytes()) {
                stream.read_buf(&mut read).await.unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(client.pass(call(body)).unwrap(), server);
        let failed = outcome.unwrap_err();
        assert_eq!(failed.error.outcome(), Outcome::Unknown);
        failed.call
    }

    async fn assert_is_as_it_was(call: Call) {
        let target = call.http_target().unwrap();
        assert_eq!((&target.method, target.uri.to_string().as_str()), (&Method::POST, "/a?b=c"));
        let headers: Vec<_> = call.context.headers().iter().collect();
        let headers: Vec<_> =
            headers.iter().map(|(name, it)| (name.as_str(), it.as_bytes())).collect();
        let expected: [(&str, &[u8]); 3] =
            [("x-a", b"1"), ("x-a", b""), ("x-b", "\u{fc}".as_bytes())];
        assert_eq!(headers, expected);
        assert_eq!(call.body.collect(1 << 20).await.unwrap(), "body");
    }

    fn pieces(pieces: &'static [&'static [u8]]) -> Body {
        Body::stream(futures_util::stream::iter(pieces.iter().map(|it| Ok(Bytes::from_static(it)))))
    }

    #[tokio::test]
    async fn a_call_that_fails_comes_back_as_it_was() {
        assert_is_as_it_was(*comes_back(Body::from("body"), "body").await.unwrap()).await;
        let chunked = comes_back(pieces(&[b"bo", b"dy"]), "0\r\n\r\n").await;
        assert_is_as_it_was(*chunked.unwrap()).await;
        let large = pieces(&[&[b'a'; 40 << 10], &[b'a'; 40 << 10]]);
        assert!(comes_back(large, "0\r\n\r\n").await.is_none(), "more than is kept");
    }

    #[tokio::test]
    async fn a_call_that_was_never_sent_comes_back_whatever_its_body() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::builder(url).retry(Retry::none()).build().unwrap();
        for body in [Body::from("body"), pieces(&[b"bo", b"dy"])] {
            let failed = client.pass(call(body)).unwrap().await.unwrap_err();
            assert_eq!(failed.error.outcome(), Outcome::NotRun);
            assert_is_as_it_was(*failed.call.unwrap()).await;
        }
    }
}

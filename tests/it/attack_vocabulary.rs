//! Attacks on what the vocabulary promises, each by somebody who has read the documentation only.
//!
//! | promises about | file |
//! |---|---|
//! | the one end of a request, its guards and its phases | `ends.rs` |
//! | panics of gates, observers and guards | `panics.rs` |
//! | layers and bodies | `layers.rs` |
//! | freshness, tokens, following | `freshness.rs`, `following.rs` |
//! | what a caller holds, command keys, principals, outgoing calls | `callers.rs` |
//! | paths, queries, headers, trailers, limits | `requests.rs` |
//! | run-time schemas beside generated code | `run_time.rs` |

mod callers;
mod ends;
mod following;
mod freshness;
mod layers;
mod panics;
mod requests;
mod run_time;

use std::net::SocketAddr;
use std::sync::Arc;

use tidewire::client::{HttpVersion, Protocol, Retry};
use tidewire::service::{End, Observation, Observer, Phase, Upgrade};
use tidewire::{Body, Builder, Call, Client, Error, Head, Reply, Service};
use tidewire_tests::proto::*;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::harness::behaviour;

const PROTOCOLS: [Protocol; 3] = [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb];

/// A client of the behaviour service over HTTP/2, all of whose calls share a connection.
fn client(address: SocketAddr, protocol: Protocol) -> BehaviourServiceClient {
    let client = Client::builder(format!("http://{address}")).retry(Retry::none());
    let client = client.protocol(protocol).http(HttpVersion::Http2).build().unwrap();
    BehaviourServiceClient::new(client.channel())
}

/// What is told of a request, in order.
#[derive(Debug)]
enum Event {
    Begin(String),
    Phase(Phase),
    End(End),
    Dropped,
}

/// An observer, and a gate that leaves a guard: both tell the same log.
#[derive(Clone)]
struct Log(UnboundedSender<Event>);

impl Observer for Log {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        self.0.send(Event::Begin(head.target.describe())).ok();
        Arc::new(self.clone())
    }
}

impl Observation for Log {
    fn phase(&self, phase: Phase) {
        self.0.send(Event::Phase(phase)).ok();
    }

    fn end(&self, end: &End) {
        self.0.send(Event::End(end.clone())).ok();
    }
}

struct Guard(UnboundedSender<Event>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send(Event::Dropped).ok();
    }
}

/// One request as it was told: it began, had phases in their order, ended once, and only then its
/// guard was dropped.
#[derive(Debug)]
struct Told {
    target: String,
    end: End,
}

struct Heard(UnboundedReceiver<Event>);

impl Heard {
    async fn one(&mut self) -> Told {
        let Some(Event::Begin(target)) = self.0.recv().await else { panic!("it has to begin") };
        let (mut last, mut ended) = (None, None);
        loop {
            match self.0.recv().await.unwrap() {
                Event::Phase(phase) => {
                    assert!(last < Some(phase), "{target}: {phase:?} after {last:?}");
                    assert!(ended.is_none(), "{target}: {phase:?} after the end");
                    last = Some(phase);
                }
                Event::End(end) => {
                    assert!(ended.is_none(), "{target} ended twice: {ended:?} {end:?}");
                    ended = Some(end);
                }
                Event::Dropped => {
                    let end = ended.unwrap_or_else(|| panic!("{target}: the guard went first"));
                    return Told { target, end };
                }
                Event::Begin(other) => panic!("{target} has not ended when {other} begins"),
            }
        }
    }

    /// The end of what has begun, whatever it came through before.
    async fn end(&mut self) -> End {
        loop {
            match self.0.recv().await {
                Some(Event::Phase(_)) => {}
                Some(Event::End(end)) => return end,
                other => panic!("no end: {other:?}"),
            }
        }
    }

    /// Nothing more was told.
    fn silent(&mut self) {
        let more = self.0.try_recv();
        assert!(more.is_err(), "{more:?}");
    }
}

/// The builder with a log.
fn told(builder: Builder) -> (Builder, Heard) {
    let (log, heard) = unbounded_channel();
    let guards = log.clone();
    let gate = move |head: &mut Head| {
        head.leave(Guard(guards.clone()));
        match head.target.describe().contains("refused") {
            true => Err(Error::resource_exhausted("too many")),
            false => Ok(()),
        }
    };
    (builder.gate(gate).observer(Log(log)), Heard(heard))
}

/// The behaviour service, things, and plain handlers of all sorts.
fn stage() -> Builder {
    use tidewire::http::{Method, StatusCode};
    let things = crate::vocabulary::service();
    let upgrade = async |_: Call| {
        let echo = Upgrade::new(async |mut connection| {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let byte = connection.read_u8().await.unwrap_or_default();
            connection.write_all(&[byte; 3]).await.ok();
            connection.shutdown().await.ok();
        });
        Ok(Reply::upgrade(StatusCode::SWITCHING_PROTOCOLS, echo))
    };
    let (builder, _) = behaviour();
    builder
        .service(things)
        .route(Method::GET, "/plain/{name}", crate::vocabulary::plain)
        .route(Method::GET, "/endless", async |_: Call| Ok(Reply::new(endless())))
        .route(Method::GET, "/upgrade", upgrade)
        .route(Method::GET, "/gone", async |_: Call| Ok(StatusCode::GONE))
        .route(Method::POST, "/sink", async |mut call: Call| {
            Ok(call.message().await?.len().to_string())
        })
}

/// A first chunk, and then nothing for ever.
fn endless() -> Body {
    use futures_util::{StreamExt, stream};
    let first = stream::iter([Ok("first".into())]);
    Body::stream(first.chain(stream::pending()))
}

/// A layer of a function from the inner answer to another.
fn answering<F, Fut>(f: F) -> impl Fn(Arc<dyn Service>) -> Arc<dyn Service> + Send + Sync + 'static
where
    F: Fn(Call, Arc<dyn Service>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = tidewire::Result<Reply>> + Send + 'static,
{
    move |inner| {
        let f = f.clone();
        Arc::new(move |call: Call| f(call, Arc::clone(&inner)))
    }
}

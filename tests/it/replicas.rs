//! Replicas across three processes' worth of servers and clients:
//!
//! ```text
//!  A: rows, REST ◀─ wire ─ B: serves what it makes of replicas of A ◀─ wire ─ C: memos that read replicas of B
//! ```
//!
//! Wires are cut and mended. What is asserted is order and loss, never time.

mod chain;
mod lost;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidewire::client::{Replicas, WhenLost};
use tidewire::memo::{Graph, Memo};
use tidewire::{
    Call, Client, Codec, Context, Error, Implementation, Layer, Message, Method, Reply, ReplyCache,
    Result, RunningServer, Schema, Server, Service,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{send, start};
use crate::memoized::{Rows, built};

/// A wire that can be cut.
struct Wire {
    address: SocketAddr,
    /// Whether it passes anything, and how often it was cut.
    state: watch::Sender<(bool, usize)>,
}

impl Wire {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = watch::Sender::new((true, 0));
        let known = state.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut known = known.clone();
                let (is_up, cuts) = *known.borrow();
                if !is_up {
                    continue;
                }
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = known.wait_for(|now| *now != (true, cuts)) => {}
                    }
                });
            }
        });
        Self { address, state }
    }

    /// Cuts what there is, once.
    fn cut(&self) {
        self.state.send_modify(|(_, cuts)| *cuts += 1);
    }

    /// Lets nothing pass until it is mended.
    fn down(&self) {
        self.state.send_modify(|(is_up, _)| *is_up = false);
    }

    fn mend(&self) {
        self.state.send_modify(|(is_up, _)| *is_up = true);
    }
}

/// How many calls of a method came.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Layer for Calls {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        let calls = Arc::clone(&self.0);
        Arc::new(move |call: Call| {
            calls.fetch_add(usize::from(call.describe().ends_with("/Get")), Ordering::SeqCst);
            inner.call(call)
        })
    }
}

/// Rows of another server.
#[derive(Clone)]
struct Remote {
    client: Client,
    schema: Schema,
}

impl Remote {
    fn new(at: &Wire, graph: &Graph, when_lost: WhenLost, schema: &Schema) -> Self {
        let replicas = Replicas::new(graph).when_lost(when_lost);
        let client = Client::builder(format!("ws://{}", at.address)).replicas(replicas).build();
        Self { client: client.unwrap(), schema: schema.clone() }
    }

    async fn call(&self, name: &str, json: String) -> Result<Reply> {
        let interface = self.schema.interface("test.v1.Rows").unwrap().unwrap();
        let method = interface.methods().iter().find(|known| known.method == name).unwrap();
        let call = Call::method(method.clone(), Context::default(), Codec::Json, json.into_bytes());
        self.client.call(call).await
    }

    async fn get(&self, id: i64) -> Result<Reply> {
        self.call("Get", format!(r#"{{"id":"{id}"}}"#)).await
    }

    /// The value of a row.
    async fn value(&self, id: i64) -> Result<i64> {
        value_of(self.get(id).await?).await
    }

    /// Writes; makes sure that it was done once a connection was lost.
    async fn set(&self, id: i64, value: i64) {
        let json = format!(r#"{{"id":"{id}","value":"{value}"}}"#);
        while self.call("Set", json.clone()).await.is_err() {}
    }
}

async fn value_of(reply: Reply) -> Result<i64> {
    let bytes = reply.body.collect(1000).await?;
    let row: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let value = &row["value"];
    Ok(value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default())
}

/// B: passes commands on, and answers queries from what it holds of A.
#[derive(Clone)]
struct Relay(Remote);

impl Implementation for Relay {
    async fn unary(&self, method: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
        let number = |name: &str| match request.get(name) {
            Ok(Some(tidewire::schema::Value::I64(number))) => number,
            _ => 0,
        };
        let (id, mut row) = (number("id"), self.0.schema.message(&method.output).unwrap());
        let value = if method.method == "Set" {
            let json = format!(r#"{{"id":"{id}","value":"{}"}}"#, number("value"));
            value_of(self.0.call("Set", json).await?).await?
        } else {
            self.0.value(id).await?
        };
        row.set("id", id).unwrap();
        row.set("value", value).unwrap();
        Ok(Reply::new(row))
    }
}

/// A, B and C.
struct Chain {
    _servers: [RunningServer; 2],
    a: SocketAddr,
    rows: Rows,
    /// What came to A and B.
    calls: [Calls; 2],
    /// From B to A, and from C to B.
    wires: [Wire; 2],
    c: Remote,
    graph: Graph,
    /// What C makes of a row, and how often it did.
    labels: Memo<i64, String>,
    made: Calls,
}

impl Chain {
    async fn new(when_lost: WhenLost) -> Self {
        let calls = [Calls::default(), Calls::default()];
        let (builder, rows) = built();
        let (running_a, a) = start(builder.layer(calls[0].clone())).await;
        let to_a = Wire::to(a).await;
        let graph_of_b = Graph::new();
        let relay = Relay(Remote::new(&to_a, &graph_of_b, when_lost, &rows.schema));
        let service = rows.schema.implement("test.v1.Rows", relay).unwrap();
        let builder = Server::builder().service(service).memo(ReplyCache::new(&graph_of_b));
        let (running_b, b) = start(builder.layer(calls[1].clone())).await;
        let to_b = Wire::to(b).await;
        let graph = Graph::new();
        let c = Remote::new(&to_b, &graph, when_lost, &rows.schema);
        let (read, made) = (c.clone(), Calls::default());
        let counted = made.clone();
        let labels = Memo::new_in(&graph, "labels", move |id: i64| {
            counted.0.fetch_add(1, Ordering::SeqCst);
            let read = read.clone();
            async move { Ok::<_, Error>(format!("row {id} is {}", read.value(id).await?)) }
        });
        let wires = [to_a, to_b];
        Self { _servers: [running_a, running_b], a, rows, calls, wires, c, graph, labels, made }
    }

    /// Writes a row through REST on A.
    async fn write(&self, id: i64, value: i64) {
        let row = format!(r#"{{"id":"{id}","value":"{value}"}}"#);
        let head = "POST /rows\ncontent-type: application/json";
        send(self.a, head, row.as_bytes()).await.check(200, &[]);
    }

    /// The value that C's label of a row tells.
    async fn label(&self, id: i64) -> i64 {
        let label = self.labels.get(id).await.unwrap();
        label.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// How many calls came to A and to B.
    fn counts(&self) -> [usize; 2] {
        [self.calls[0].count(), self.calls[1].count()]
    }
}

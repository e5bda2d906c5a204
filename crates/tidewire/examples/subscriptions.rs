//! What subscriptions cost a server: its own memory for each, beyond the answers that it keeps, and the time
//! from one write that touches all of them to the last notice at their client, which is a process of its own.
//!
//! ```text
//! cargo run --release -p tidewire --example subscriptions -- 100000
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that a person runs")]

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use tidewire::memo::{Graph, Source};
use tidewire::{
    Call, Client, Codec, Context, Edge, Idempotency, Implementation, Limits, Message, Method,
    Reply, Result, Schema, Server, Service, Spec, StreamKind,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const PROTO: &str = r#"
syntax = "proto3";
package shelf.v1;
import "tidewire/v1/options.proto";
service Shelf {
  rpc Get(Item) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (tidewire.v1.method) = { sharing: PUBLIC };
  }
  rpc Touch(Item) returns (Item);
}
message Item { int64 id = 1; }
"#;

#[derive(Clone)]
struct Shelf {
    items: Source<i64>,
    schema: Schema,
}

impl Implementation for Shelf {
    async fn unary(&self, method: &Method, _: Context, item: Message) -> Result<Reply<Message>> {
        if method.method == "Touch" {
            self.items.changed_all();
            return Ok(Reply::new(self.schema.message(&method.output).unwrap()));
        }
        let Ok(Some(tidewire::Value::I64(id))) = item.get("id") else { unreachable!("it has one") };
        self.items.read(&id);
        Ok(Reply::new(item))
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [url, count] => subscriber(url, count.parse().unwrap()).await,
        [count] => server(count).await,
        _ => println!("subscriptions COUNT"),
    }
}

/// Serves, starts the subscriber, and tells what its steps cost.
async fn server(count: &str) {
    let subscriptions: usize = count.parse().unwrap();
    let graph = Graph::new();
    graph.set_budget(4 << 30);
    let folder = std::env::temp_dir().join(format!("subscriptions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("shelf.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(&folder).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let shelf = Shelf { items: Source::new_in(&graph, "items"), schema: schema.clone() };
    let mut limits = Limits::default();
    limits.watches_max = u32::try_from(subscriptions).unwrap();
    let running = Server::builder()
        .service(schema.implement("shelf.v1.Shelf", shelf).unwrap())
        .limits(limits)
        .memo(Edge::new(&graph))
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
        .start()
        .await
        .unwrap();
    let url = running.url().replace("http", "tcp");
    let mut subscriber = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([&url, count])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut steps = BufReader::new(subscriber.stdout.take().unwrap()).lines();
    let mut goes_on = subscriber.stdin.take().unwrap();
    let mut before = resident_bytes();
    while let Some(step) = steps.next_line().await.unwrap() {
        let now = resident_bytes();
        let each = now.saturating_sub(before) / subscriptions;
        println!("{step}; the server has {} MiB, {each} bytes more for each", now >> 20);
        before = now;
        let _ = goes_on.write_all(b"\n").await;
    }
}

/// The client: prints each step, and goes on when it is told.
async fn subscriber(url: &str, count: usize) {
    let mut told = BufReader::new(tokio::io::stdin()).lines();
    let mut step = async |text: String| {
        println!("{text}");
        told.next_line().await.unwrap();
    };
    let plain = Client::builder(url).build().unwrap();
    let watching = Client::builder(url).watch_queries().build().unwrap();
    let method = |name: &str, idempotency: Idempotency| {
        let names = ["shelf.v1.Item"; 2];
        let spec = Spec::dynamic("shelf.v1.Shelf", name, StreamKind::Unary, names);
        Arc::new(spec.idempotency(idempotency))
    };
    let (get, touch) =
        (method("Get", Idempotency::NoSideEffects), method("Touch", Idempotency::Unknown));
    let call = |method: &Arc<Spec>, id: usize| {
        let item = format!(r#"{{"id":"{id}"}}"#);
        Call::method(Arc::clone(method), Context::default(), Codec::Json, item)
    };
    plain.call(call(&get, 1)).await.unwrap();
    watching.call(call(&get, 1)).await.unwrap();
    step("connected".to_owned()).await;
    for id in 1..=count {
        plain.call(call(&get, id)).await.unwrap();
    }
    step(format!("{count} answers are kept")).await;
    let mut held = Vec::with_capacity(count);
    for id in 1..=count {
        held.push(watching.call(call(&get, id)).await.unwrap());
    }
    let granted = held.iter().filter(|reply| reply.freshness.staleness().is_some()).count();
    step(format!("{granted} of them are watched")).await;
    let began = Instant::now();
    plain.call(call(&touch, 1)).await.unwrap();
    let written = began.elapsed();
    for reply in &held {
        if let Some(staleness) = reply.freshness.staleness() {
            std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
        }
    }
    let last = began.elapsed();
    step(format!("written in {written:?}, the last notice after {last:?}")).await;
}

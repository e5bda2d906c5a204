//! The order of reads over sockets: nobody is shown a write before those who hold the older state
//! are told, whatever protocol and cache the reply comes through.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use tidewire::client::Client;
use tidewire::memo::{Graph, Source};
use tidewire::schema::Value;
use tidewire::service::{Protocol, Staleness};
use tidewire::{
    Call, Codec, Context, Implementation, Message, Method, Reply, ReplyCache, Result,
    RunningServer, Schema, Server, Service,
};
use tokio::sync::watch;

use crate::harness::{send, start};

const PROTO: &str = r#"
syntax = "proto3";
package order.v1;
import "google/api/annotations.proto";
import "tidewire/v1/options.proto";

service Rows {
  rpc Get(Id) returns (Row) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/rows/{id}" };
    option (tidewire.v1.method) = { cache: PUBLIC };
  }
  rpc Peek(Id) returns (Row) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/peek/{id}" };
  }
  rpc Set(Row) returns (Row) { option (google.api.http) = { post: "/rows" body: "*" }; }
}
message Id { int64 id = 1; }
message Row { int64 id = 1; int64 value = 2; }
"#;

/// Rows that have one number; a write stops between its commit and what announces it.
#[derive(Clone)]
struct Rows {
    schema: Schema,
    source: Source<i64>,
    number: Arc<AtomicI64>,
    looks: watch::Sender<usize>,
    committed: watch::Sender<bool>,
    may_announce: watch::Sender<bool>,
    sets: Arc<AtomicUsize>,
}

impl Implementation for Rows {
    async fn unary(&self, method: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
        let field = |name| match request.get(name) {
            Ok(Some(Value::I64(number))) => number,
            _ => 0,
        };
        let mut row = self.schema.message(&method.output)?;
        row.set("id", field("id"))?;
        if method.method == "Set" {
            let write = self.source.write(&field("id"));
            self.number.store(field("value"), Ordering::SeqCst);
            self.committed.send_replace(true);
            let _ = self.may_announce.subscribe().wait_for(|may| *may).await;
            write.finish();
            self.sets.fetch_add(1, Ordering::SeqCst);
        } else {
            self.source.read(&field("id"));
        }
        row.set("value", self.number.load(Ordering::SeqCst))?;
        self.looks.send_modify(|looks| *looks += 1);
        Ok(row.into())
    }
}

async fn served() -> (RunningServer, SocketAddr, Rows) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let graph = Graph::new();
    let rows = Rows {
        schema: schema.clone(),
        source: Source::new_in(&graph, "rows"),
        number: Arc::new(AtomicI64::new(1)),
        looks: watch::Sender::default(),
        committed: watch::Sender::default(),
        may_announce: watch::Sender::default(),
        sets: Arc::default(),
    };
    let service = schema.implement("order.v1.Rows", rows.clone()).unwrap();
    let builder = Server::builder().service(service).memo(ReplyCache::new(&graph));
    let (running, address) = start(builder).await;
    (running, address, rows)
}

#[derive(Clone)]
struct Reader {
    client: Client,
    schema: Schema,
}

impl Reader {
    async fn read(&self, method: &str, id: i64) -> (i64, Option<Arc<dyn Staleness>>) {
        let interface = self.schema.interface("order.v1.Rows").unwrap().unwrap();
        let method = interface.methods().iter().find(|known| known.method == method).unwrap();
        let json = format!(r#"{{"id":"{id}"}}"#).into_bytes();
        let call = Call::method(method.clone(), Context::default(), Codec::Json, json);
        let reply = self.client.call(call).await.unwrap();
        let staleness = reply.freshness.staleness().cloned();
        let bytes = reply.body.collect(1000).await.unwrap();
        let row: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        (row["value"].as_str().unwrap().parse().unwrap(), staleness)
    }
}

#[tokio::test]
async fn a_reply_shows_a_write_only_once_those_who_watch_are_told() {
    for watched in ["Get", "Peek"] {
        for (protocol, asked) in [
            (None, "Peek"),
            (None, "Get"),
            (Some(Protocol::Live), "Peek"),
            (Some(Protocol::Grpc), "Peek"),
            (Some(Protocol::Connect), "Peek"),
            (Some(Protocol::GrpcWeb), "Get"),
        ] {
            let (_running, address, rows) = served().await;
            let schema = rows.schema.clone();
            let watching = Client::builder(format!("tcp://{address}")).watch_queries();
            let watching = Reader { client: watching.build().unwrap(), schema };
            let reader = match protocol {
                // On the same session as the watch.
                None => watching.clone(),
                Some(protocol) => {
                    let client = Client::builder(format!("http://{address}")).protocol(protocol);
                    Reader { client: client.build().unwrap(), ..watching.clone() }
                }
            };
            let (value, held) = watching.read(watched, 7).await;
            let held = held.expect("it is watched");
            assert_eq!(value, 1);
            let set = tokio::spawn(async move {
                let post = "POST /rows\ncontent-type: application/json";
                send(address, post, br#"{"id":"7","value":"2"}"#).await.check(200, &[]);
            });
            let mut committed = rows.committed.subscribe();
            committed.wait_for(|is_committed| *is_committed).await.unwrap();
            let mut looks = rows.looks.subscribe();
            let before = *looks.borrow_and_update();
            // Nobody has asked for this by this method, so it is computed, of the new state.
            let case = format!("{watched} is watched, {asked} over {protocol:?}");
            let of_watch = (watched, asked) == ("Get", "Get");
            let seen = tokio::spawn({
                let (reader, asked) = (reader.clone(), asked);
                async move { reader.read(asked, 7).await.0 }
            });
            if of_watch {
                assert_eq!(seen.await.unwrap(), 1, "{case}: a hit of the older state");
                rows.may_announce.send_replace(true);
                set.await.unwrap();
                continue;
            }
            looks.wait_for(|looks| *looks > before).await.unwrap();
            // What was written of it before this is there.
            reader.read("Peek", 8).await;
            assert!(!seen.is_finished(), "{case}: it is held");
            rows.may_announce.send_replace(true);
            assert_eq!(seen.await.unwrap(), 2, "{case}");
            if protocol.is_none() {
                assert!(held.is_stale(), "{case}: told before, on the same session");
            }
            std::future::poll_fn(|cx| held.poll_stale(cx)).await;
            set.await.unwrap();
            assert_eq!(rows.sets.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test]
async fn a_write_of_another_row_holds_up_nobody() {
    let (_running, address, rows) = served().await;
    let set = tokio::spawn(async move {
        let post = "POST /rows\ncontent-type: application/json";
        send(address, post, br#"{"id":"7","value":"2"}"#).await.check(200, &[]);
    });
    let mut committed = rows.committed.subscribe();
    committed.wait_for(|is_committed| *is_committed).await.unwrap();
    for path in ["/peek/8", "/rows/8"] {
        send(address, &format!("GET {path}"), b"").await.check(200, &["2"]);
    }
    rows.may_announce.send_replace(true);
    set.await.unwrap();
}

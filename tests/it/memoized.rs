//! Answers from memory over every protocol: right after a write through any of them, and cheap for
//! who holds what is still right.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidewire::client::{Client, Upstream};
use tidewire::http::Method;
use tidewire::memo::{Graph, Source};
use tidewire::schema::Value;
use tidewire::service::{CacheScope, Protocol};
use tidewire::{
    Builder, Call, Codec, Context, Error, Implementation, Message, Method as RpcMethod, Reply,
    ReplyCache, Result, RunningServer, Schema, Server, Service,
};

use crate::harness::{Response, send, start};

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
import "tidewire/v1/options.proto";

service Rows {
  rpc Get(Id) returns (Row) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/rows/{id}" };
    option (tidewire.v1.method) = { cache: PUBLIC };
  }
  rpc Mine(Id) returns (Row) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/mine/{id}" };
    option (tidewire.v1.method) = { cache: CALLER };
  }
  rpc Long(Id) returns (Row) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/long/{id}" };
    option (tidewire.v1.method) = { cache: PUBLIC };
  }
  rpc Set(Row) returns (Row) { option (google.api.http) = { post: "/rows" body: "*" }; }
}
message Id { int64 id = 1; }
message Row { int64 id = 1; int64 value = 2; string who = 3; }
"#;

/// A number for every row, and how often rows were looked at.
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) schema: Schema,
    source: Source<i64>,
    values: Arc<Mutex<HashMap<i64, i64>>>,
    looks: Arc<AtomicUsize>,
    /// Sent with every answer of `Mine` that is computed.
    who: Arc<Mutex<Option<String>>>,
    /// Whether somebody writes the row of each `Get` before that is done.
    is_busy: Arc<AtomicBool>,
}

impl Rows {
    fn look(&self, id: i64) -> Result<i64> {
        self.source.read(&id);
        self.looks.fetch_add(1, Ordering::SeqCst);
        match id < 100 {
            true => Ok(self.values.lock().unwrap().get(&id).copied().unwrap_or_default()),
            false => Err(Error::not_found("no row has this id")),
        }
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::SeqCst);
    }

    /// Somebody else writes the next value of a row.
    async fn overtake(&self, id: i64) {
        let rows = self.clone();
        let write = tokio::spawn(async move {
            let write = rows.source.write(&id);
            *rows.values.lock().unwrap().entry(id).or_default() += 1;
            write.finish();
        });
        write.await.unwrap();
    }

    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Implementation for Rows {
    async fn unary(
        &self,
        method: &RpcMethod,
        context: Context,
        request: Message,
    ) -> Result<Reply<Message>> {
        let number = |name: &str| {
            request.get(name).ok().flatten().map_or(0, |value| match value {
                Value::I64(value) => value,
                _ => 0,
            })
        };
        let id = number("id");
        let mut row = self.schema.message(&method.output).expect("a known message");
        row.set("id", id).expect("a field");
        if method.method == "Set" {
            let write = self.source.write(&id);
            self.values.lock().unwrap().insert(id, number("value"));
            write.finish();
            row.set("value", number("value")).expect("a field");
        } else {
            row.set("value", self.look(id)?).expect("a field");
        }
        if method.method == "Get" && self.is_busy.load(Ordering::SeqCst) {
            self.overtake(id).await;
        }
        if method.method == "Long" {
            let long = format!("{} ", self.look(id)?).repeat(1000);
            row.set("who", long.as_str()).expect("a field");
        }
        if method.method == "Mine" {
            let who = context.header("authorization").and_then(|who| who.to_str().ok());
            row.set("who", who.unwrap_or("nobody")).expect("a field");
        }
        let mut reply = Reply::new(row);
        if method.method == "Mine"
            && let Some(who) = self.who.lock().unwrap().clone()
        {
            reply.set_header("set-cookie", who)?;
        }
        Ok(reply)
    }
}

pub(crate) async fn served() -> (RunningServer, SocketAddr, Rows) {
    let (builder, rows) = built();
    let (running, address) = start(builder).await;
    (running, address, rows)
}

/// The service, with a page beside it, and answers kept.
pub(crate) fn built() -> (Builder, Rows) {
    let (builder, rows, graph) = without_memory();
    (builder.memo(ReplyCache::new(&graph)), rows)
}

/// The same without keeping any answer; what it reads is in the graph.
pub(crate) fn without_memory() -> (Builder, Rows, Graph) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let graph = Graph::new();
    let rows = Rows {
        schema: schema.clone(),
        source: Source::new_in(&graph, "rows"),
        values: Arc::default(),
        looks: Arc::default(),
        who: Arc::default(),
        is_busy: Arc::default(),
    };
    let of_page = rows.clone();
    let page = move |call: Call| {
        let rows = of_page.clone();
        async move { Ok(rows.look(call.param("id")?)?.to_string()) }
    };
    let builder = Server::builder()
        .service(schema.implement("test.v1.Rows", rows.clone()).unwrap())
        .route(Method::GET, "/page/{id}", page.cached(CacheScope::Caller));
    (builder, rows, graph)
}

const GETS: [&str; 3] = [
    "GET /rows/7",
    "GET /page/7",
    "GET /test.v1.Rows/Get?encoding=json&message=%7B%22id%22:%227%22%7D",
];

pub(crate) fn header(response: &Response, name: &str) -> Option<String> {
    let prefix = format!("{name}: ");
    response.head.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

/// Calls a method of the service over a protocol; gives the reply as JSON.
pub(crate) async fn call(
    address: SocketAddr,
    protocol: Protocol,
    rows: &Rows,
    method: &str,
    json: &str,
) -> String {
    let client = Client::builder(format!("http://{address}")).protocol(protocol).build().unwrap();
    let interface = rows.schema.interface("test.v1.Rows").unwrap().unwrap();
    let method = interface.methods().iter().find(|known| known.method == method).unwrap();
    let body = tidewire::Body::from(json.as_bytes().to_vec());
    let call = Call::method(method.clone(), Context::default(), Codec::Json, body);
    let reply = Upstream::new(client).call(call).await.unwrap();
    String::from_utf8(reply.body.collect(1 << 20).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn an_update_through_any_protocol_is_seen_by_the_next_read_of_every_other() {
    let (_running, address, rows) = served().await;
    for (round, protocol) in [Protocol::Grpc, Protocol::Connect, Protocol::GrpcWeb, Protocol::Live]
        .into_iter()
        .enumerate()
    {
        let mut tags = Vec::new();
        for get in GETS {
            tags.push(header(&send(address, get, b"").await, "etag").expect("a tag"));
        }
        let before = rows.looks();
        for (get, tag) in GETS.iter().zip(&tags) {
            send(address, get, b"").await.check(200, &[]);
            let held = format!("{get}\nif-none-match: {tag}");
            send(address, &held, b"").await.check(304, &[]);
        }
        assert_eq!(rows.looks(), before, "answers come from memory");

        let value = format!("4{round}");
        let row = format!(r#"{{"id":"7","value":"{value}"}}"#);
        call(address, protocol, &rows, "Set", &row).await;
        for (get, tag) in GETS.iter().zip(&tags) {
            let held = format!("{get}\nif-none-match: {tag}");
            send(address, &held, b"").await.check(200, &[&value]);
        }
        for reader in [Protocol::Grpc, Protocol::Connect, Protocol::GrpcWeb, Protocol::Live] {
            let read = call(address, reader, &rows, "Get", r#"{"id":"7"}"#).await;
            assert!(read.contains(&value), "{reader}: {read}");
        }
    }
}

#[tokio::test]
async fn a_write_of_one_row_leaves_the_answers_of_others_in_memory() {
    let (_running, address, rows) = served().await;
    send(address, "GET /rows/1", b"").await.check(200, &[]);
    send(address, "GET /rows/2", b"").await.check(200, &[]);
    let post = "POST /rows\ncontent-type: application/json";
    send(address, post, br#"{"id":"1","value":"5"}"#).await.check(200, &[]);
    let looks = rows.looks();
    send(address, "GET /rows/2", b"").await.check(200, &[]);
    assert_eq!(rows.looks(), looks);
    send(address, "GET /rows/1", b"").await.check(200, &["5"]);
    assert_eq!(rows.looks(), looks + 1);
}

#[tokio::test]
async fn caches_are_told_to_ask_each_time_whose_the_answer_is_and_where_it_came_from() {
    let (_running, address, _) = served().await;
    for (get, control, vary) in [
        ("GET /rows/1", "public, no-cache", Some("accept-encoding")),
        ("GET /mine/1", "private, no-cache", Some("authorization, cookie, accept-encoding")),
        ("GET /page/1", "private, no-cache", Some("authorization, cookie, accept")),
    ] {
        let first = send(address, get, b"").await;
        assert_eq!(header(&first, "cache-control").as_deref(), Some(control), "{get}");
        assert_eq!(header(&first, "vary").as_deref(), vary, "{get}");
        let stored = Some("tidewire; fwd=miss; stored");
        assert_eq!(header(&first, "cache-status").as_deref(), stored, "{get}");
        assert_eq!(header(&first, "age"), None, "{get}");
        let again = send(address, get, b"").await;
        assert_eq!(header(&again, "cache-status").as_deref(), Some("tidewire; hit"), "{get}");
        assert_eq!(header(&again, "age").as_deref(), Some("0"), "{get}");
        let tag = header(&again, "etag").expect("a tag");
        let unchanged = send(address, &format!("{get}\nif-none-match: {tag}"), b"").await;
        unchanged.check(304, &[]);
        assert_eq!(header(&unchanged, "cache-control").as_deref(), Some(control), "{get}");
        assert_eq!(header(&unchanged, "etag"), Some(tag), "{get}");
    }
    let missing = send(address, "GET /rows/100", b"").await;
    missing.check(404, &["not_found"]);
    assert_eq!(header(&missing, "cache-control").as_deref(), Some("public, no-cache"));
}

#[tokio::test]
async fn callers_get_their_own_from_memory_and_a_cookie_is_given_once() {
    let (_running, address, rows) = served().await;
    let ask = async |who: &str| {
        let get = format!("GET /mine/1\nauthorization: Bearer {who}");
        send(address, &get, b"").await
    };
    for who in ["ada", "grace", "ada", "grace"] {
        ask(who).await.check(200, &[who]);
    }
    assert_eq!(rows.looks(), 2);
    *rows.who.lock().unwrap() = Some("session=1".to_owned());
    for _ in 0..2 {
        assert!(header(&ask("carl").await, "set-cookie").is_some());
    }
    assert_eq!(rows.looks(), 4);
}

//! What gates, observers and layers can say and see, over real sockets.
//!
//! | user of the vocabulary | file |
//! |---|---|
//! | a gate that authenticates by the head | `gate.rs` |
//! | an observer that counts outcomes and phases | `observer.rs` |
//! | a layer that answers from a run-time schema, by fields | `layer.rs` |
//! | a layer that keeps answers, with validators and "unchanged" | `memory.rs` |

mod gate;
mod layer;
mod live;
mod memory;
mod observer;

use std::net::SocketAddr;

use tidewire::http::{Method, StatusCode};
use tidewire::{
    Builder, Call, Context, Error, Implementation, Message, Method as RpcMethod, Reply, Result,
    RpcService, Schema, Server,
};

use crate::harness::{Response, send};

/// The ways on which the same thing is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Rest,
    Connect,
    ConnectGet,
    /// A call over the live protocol, on a WebSocket.
    Live,
    /// One of plain HTTP over it, on TCP.
    LivePlain,
}

const EVERY_WAY: [Way; 6] =
    [Way::Plain, Way::Rest, Way::Connect, Way::ConnectGet, Way::Live, Way::LivePlain];

/// Asks for the thing with this name; `headers` are lines.
async fn ask(way: Way, address: SocketAddr, name: &str, headers: &str) -> Response {
    let (head, body) = match way {
        Way::Plain => (format!("GET /plain/{name}\n{headers}"), String::new()),
        Way::Rest => (format!("GET /things/{name}\n{headers}"), String::new()),
        Way::Connect => (
            format!("POST /test.v1.Things/Get\ncontent-type: application/json\n{headers}"),
            format!(r#"{{"name":"{name}"}}"#),
        ),
        Way::ConnectGet => {
            let path = format!("/test.v1.Things/Get?encoding=json&message=%7B%22name%22:%22{name}");
            (format!("GET {path}%22%7D\n{headers}"), String::new())
        }
        Way::Live | Way::LivePlain => return live::ask(way, address, name, headers).await,
    };
    send(address, &head, body.as_bytes()).await
}

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
import "tidewire/v1/options.proto";

service Things {
  rpc Get(GetRequest) returns (Thing) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/things/{name}" };
    option (tidewire.v1.method) = { cache: PUBLIC };
  }
  rpc Put(Thing) returns (Thing) {
    option (google.api.http) = { post: "/things" body: "*" };
  }
}
message GetRequest { string name = 1; }
message Thing { string name = 1; int32 size = 2; }
"#;

fn schema() -> Schema {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("things.proto"), PROTO).unwrap();
    Schema::from_folder(folder.path()).unwrap()
}

/// Every thing is as large as its name is long; a few names make trouble.
struct Things(Schema);

/// What the service answers, and the plain handler alike.
async fn size_of(name: &str, context: &Context) -> Result<i32> {
    match name {
        "missing" => Err(Error::not_found("no thing is called missing")),
        "panic" => panic!("asked for"),
        "stuck" => std::future::pending().await,
        "whoami" => {
            let principal = context.principal().ok_or_else(|| Error::internal("nobody"))?;
            Ok(i32::try_from(principal.subject().len()).unwrap_or_default())
        }
        name => Ok(i32::try_from(name.len()).unwrap_or_default()),
    }
}

impl Implementation for Things {
    async fn unary(
        &self,
        method: &RpcMethod,
        context: Context,
        request: Message,
    ) -> Result<Reply<Message>> {
        let name =
            request.get("name").unwrap().and_then(|value| value.as_str()).unwrap_or_default();
        let size = size_of(name, &context).await?;
        let mut reply = self.0.message(&method.output).unwrap();
        reply.set("name", name).unwrap();
        reply.set("size", size).unwrap();
        Ok(Reply::new(reply))
    }
}

pub(crate) async fn plain(call: Call) -> Result<Reply> {
    let name: String = call.param("name")?;
    let size = size_of(&name, &call.context).await?;
    Reply::json(&serde_json::json!({"name": name, "size": size}))
}

/// The service alone.
pub(crate) fn service() -> impl RpcService {
    schema().implement("test.v1.Things", Things(schema())).unwrap()
}

/// A server of the same things over REST, Connect, gRPC, gRPC-Web and a plain handler.
fn things() -> Builder {
    Server::builder()
        .service(service())
        .route(Method::GET, "/plain/{name}", plain)
        .route(Method::POST, "/sink", async |mut call: Call| {
            Ok(call.message().await?.len().to_string())
        })
        .route(Method::GET, "/nothing", async |_: Call| Ok(StatusCode::NO_CONTENT))
}

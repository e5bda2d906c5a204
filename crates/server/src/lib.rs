//! One port, all protocols.
//!
//! ```text
//! bytes ─▶ listener ─▶ connection ─▶ routes ─┬─▶ rpc: Connect, gRPC, gRPC-Web ─┬─▶ layers ─▶ service
//!          tcp, tls,   HTTP/1.1,             ├─▶ rest (google.api.http) ───────┤
//!          unix        HTTP/2                └─▶ http: plain handlers, mounts ─┘
//! ```
//!
//! Every service, whatever it is written in, is reached as a [`Service`](tidewire_service::Service);
//! protocols differ only in how they make a `Call` of bytes and bytes of a `Reply`. Standard RPC
//! protocols are spoken by the connectrpc library, which no public signature here names.
//!
//! A command (a method that is not a query) runs to completion in a task that the server owns, even
//! when its caller goes away; a panic in a handler is one failed call; a drain lets running calls
//! end.

mod address;
mod builder;
mod command;
mod connection;
mod cors;
mod enter;
mod gather;
mod head_timer;
mod health;
mod isolate;
mod limits;
mod listener;
mod mount;
mod observe;
mod plain;
mod proto;
mod reflection;
mod rest;
mod routes;
mod rpc;
mod running;
mod stop;
#[cfg(feature = "tls")]
mod tls;

pub use address::{Address, ParseAddressError};
pub use builder::{Builder, Server};
pub use cors::{Cors, CorsError};
pub use limits::Limits;
pub use mount::tower;
pub use rest::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestError, RestFinding, RestOptions,
    RestRule, UnknownNames, check_rest, rest_rules,
};
pub use routes::RouteError;
pub use running::{Running, StartError};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};

//! One port, all protocols.
//!
//! ```text
//! bytes ─▶ listener ─▶ connection ─▶ way: look-up, ─┬─▶ rpc: Connect, gRPC, gRPC-Web ─┬─▶ layers ─▶ service
//!          tcp, tls,   HTTP/1.1,    observers,      ├─▶ rest (google.api.http) ───────┤
//!          unix        HTTP/2       gates           └─▶ http: plain handlers, mounts ─┘
//! ```
//!
//! Every service, whatever it is written in, is reached as a
//! [`Service`](tidewire_service::Service); protocols differ only in how they make a `Call` of bytes
//! and bytes of a `Reply`. What the RPC protocols are as bytes is the crate `wire`, what REST is as
//! bytes is `rest`.
//!
//! A command (a method that is not a query) runs to completion in a task that the server owns, even
//! when its caller goes away; a panic in a handler is one failed call; a drain lets running calls
//! end.

#![doc = include_str!("../README.md")]

mod activity;
mod authority;
mod body_rate;
mod builder;
mod callers;
mod catch_panic;
mod clock;
mod command;
mod command_keys;
mod connection;
mod connection_driver;
mod cors;
mod deadline;
mod detect;
mod docs;
mod fault;
mod follow;
mod freshness;
mod gate;
mod gather;
mod handle;
mod head_timer;
mod health;
mod hosts;
mod http1;
mod http2;
mod interim;
mod limits;
mod live;
mod log_limit;
mod lookup;
mod message_listeners;
mod mount;
mod observe;
mod origin;
mod pipeline;
mod plain;
mod proto;
mod reflection;
mod reload;
mod reloadable;
mod reply_body;
mod request_body;
mod response;
mod rest;
mod routes;
mod rpc;
mod run_call;
mod running_server;
mod stop;
mod trace;
mod usage;

pub use builder::{Builder, Server};
pub use callers::{CallerAddresses, NetworkError};
pub use clock::TokioClock;
pub use cors::{Cors, CorsError};
pub use gate::access::{AccessError, AccessRules};
pub use handle::{Handle, ServerIdentity};
pub use hosts::Hosts;
pub use limits::{LimitRange, Limits, LimitsError};
pub use live::Callee;
pub use mount::tower;
pub use reload::{ReloadHandle, Settings};
pub use routes::RouteError;
pub use running_server::{RunningServer, StartError};
pub use tidewire_listen::{Address, ParseAddressError};
#[cfg(feature = "tls")]
pub use tidewire_listen::{Tls, TlsError, TlsFiles};
pub use tidewire_rest::{RestError, RestOptions};
pub use usage::{Bound, Usage};

//! One port, all protocols.
//!
//! ```text
//! bytes ─▶ listener ─▶ connection ─▶ dispatch: ─┬─▶ rpc: Connect, gRPC, gRPC-Web ─┬─▶ layers ─▶ service
//!          tcp, tls,   HTTP/1.1,    look-up,    ├─▶ rest (google.api.http) ───────┤
//!          unix        HTTP/2       observers,  └─▶ plain: handlers, mounts ──────┘
//!                                   gates
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
//!
//! Folders import downward only (`xtask/src/tidy/levels.rs`):
//!
//! | folder | what is in it |
//! |---|---|
//! | `control` | the builder, a running server, its handle, other settings while it runs |
//! | `connection` | accepting, HTTP/1.1 and HTTP/2, how a connection ends |
//! | `dispatch` | from a request to its protocol: the only place that knows all of them |
//! | `builtin` | health, reflection, freshness, the docs page |
//! | `protocols` | what a request means in `rpc`, `rest`, `plain` and `live` |
//! | `app` | the server as protocols see it; calls that no HTTP request carries |
//! | `response` | kinds of bodies, errors, tags, faults on purpose |
//! | `request` | bodies, observers, deadlines, commands, panics: how a call runs |
//! | `services` | methods by path, routes, mounts, services that change |
//! | `gate` | limits of callers, access rules, hosts, origins, addresses |
//! | `socket` | below HTTP: detection, reads and writes, what a peer owes |
//! | `runtime`, `limits` | stopping, counters, the clock; every bound |

#![doc = include_str!("../README.md")]

mod app;
mod builtin;
mod connection;
mod control;
mod dispatch;
mod gate;
mod limits;
mod protocols;
mod request;
mod response;
mod runtime;
mod services;
mod socket;

pub use control::builder::{Builder, Server};
pub use control::edition::Settings;
pub use control::handle::{Handle, ServerIdentity};
pub use control::reload::ReloadHandle;
pub use control::running_server::RunningServer;
pub use control::start_error::StartError;
pub use gate::access::AccessRules;
pub use gate::access_error::AccessError;
pub use gate::callers::{CallerAddresses, NetworkError};
pub use gate::cors::{Cors, CorsError};
pub use gate::hosts::Hosts;
pub use limits::{LimitRange, Limits, LimitsError};
pub use protocols::live::Callee;
pub use runtime::clock::TokioClock;
pub use runtime::usage::{Bound, Usage};
pub use services::routes::RouteError;
pub use services::tower::tower;
pub use tidewire_listen::{Address, ParseAddressError};
#[cfg(feature = "tls")]
pub use tidewire_listen::{Tls, TlsError, TlsFiles};
pub use tidewire_rest::{RestError, RestOptions};

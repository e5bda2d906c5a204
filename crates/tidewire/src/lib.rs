//! Tidewire: define a service once in protobuf; serve it over Connect, gRPC, gRPC-Web and REST on
//! one port.
//!
//! What most programs need is here: put `.proto` files in a folder, have `tidewire_build` make code
//! of them in `build.rs`, implement the trait, and [`serve`] it:
//!
//! ```ignore
//! tidewire::include_protos!();
//! use hello::v1::{Greeter, GreeterServer, GreetReply, GreetRequest};
//! use tidewire::{Context, Reply, Result};
//!
//! struct Hello;
//!
//! impl Greeter for Hello {
//!     async fn greet(&self, _: Context, request: GreetRequest) -> Result<Reply<GreetReply>> {
//!         let text = format!("Hello, {}!", request.name);
//!         Ok(GreetReply { text, ..Default::default() }.into())
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> tidewire::Exit {
//!     tidewire::serve(GreeterServer::new(Hello)).await
//! }
//! ```
//!
//! Its settings come from `tidewire.toml` and the environment. [`serve_with`] takes several
//! services and what stands beside them; [`config::Config`] and [`Server`] are the steps below. A
//! service that is known only at run time comes from a [`Schema`].

#![doc = include_str!("../README.md")]

mod change_log;
mod changes;
pub mod config;
mod echo;
mod exit;
pub mod hosted;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(feature = "mock")]
pub mod mock;
mod serve;

pub use bytes;
pub use change_log::ChangeLog;
pub use echo::Echo;
pub use exit::{Exit, Failure};
pub use http;
pub use serve::{serve, serve_with};
pub use tidewire_admin as admin;
pub use tidewire_auth as auth;
pub use tidewire_cache::{MethodOverride, Mismatch, OverrideError, ReplyCache};
pub use tidewire_client as client;
pub use tidewire_client::Client;
pub use tidewire_hosting as hosting;
pub use tidewire_hosting::supervisor;
pub use tidewire_loader::Loader;
#[cfg(feature = "mcp")]
pub use tidewire_mcp as mcp;
pub use tidewire_memo as memo;
#[cfg(feature = "mock")]
pub use tidewire_mock::Mock;
pub use tidewire_oplog as oplog;
pub use tidewire_rest::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestError, RestFinding, RestOptions,
    RestRule, UnknownNames, check_rest, rest_rules,
};
pub use tidewire_schema as schema;
pub use tidewire_schema::{
    Diagnostic, Diagnostics, FieldError, Implementation, Message, Schema, SchemaError,
    SchemaService, Sources, Value, describe,
};
pub use tidewire_server::{
    AccessError, AccessRules, Address, Bound, Builder, Cors, CorsError, Limits, LimitsError,
    RunningServer, Server, StartError, TokioClock, Usage, tower,
};
#[cfg(feature = "tls")]
pub use tidewire_server::{Tls, TlsError, TlsFiles};
pub use tidewire_service::{
    Access, Admission, Answer, Body, CacheScope, Caching, Call, Channel, Clock, Code, Codec,
    CommandKey, Context, ContextPart, ContextWatch, DURATION_FORMAT, Detail, Duplex, End,
    EndReason, Error, ErrorParts, Fault, FollowOptions, Frame, Freshness, Gate, GateFuture, Head,
    Headers, HttpTarget, Idempotency, Interface, Layer, LayeredService, Lifetime, Method,
    Observation, Observer, Outcome, PathParams, Peer, PermitSource, Permits, Phase, Phases,
    Principal, Protocol, Query, Reply, Result, RpcService, Script, Sender, Service, ServiceSource,
    Side, Signal, Spec, Staleness, Stream, StreamKind, Target, Token, Tokens, Upgrade, Validator,
    follow, gated, parse_duration,
};
pub use tidewire_telemetry as telemetry;

pub use tidewire_validate::{
    RuleSet, Validate, Violation, Violations, print_timestamp, required_without_presence,
};

/// Includes the code that `tidewire_build` made: one module a package.
#[macro_export]
macro_rules! include_protos {
    () => {
        include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
    };
}

pub use tidewire_service::generated;

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
//!
//! What most programs name stands here; what few need stands in modules:
//!
//! | to | names | and modules |
//! |---|---|---|
//! | serve | [`serve`], [`serve_with`], [`Server`], [`Limits`] | [`config`], [`server`], [`rest`] |
//! | answer | [`Context`], [`Reply`], [`Error`], [`ResultExt`], [`Code`], [`Stream`] | [`types`], [`service`], [`validate`] |
//! | answer plain HTTP | [`Call`], [`Head`], [`Body`] | [`http`] |
//! | stand around services | [`Layer`], [`Gate`], [`Principal`] | [`gate`], [`auth`] |
//! | call | [`Client`] | [`client`], [`service::Channel`], [`service::follow`] |
//! | keep answers until they change | [`ReplyCache`] | [`memo`], [`cache`] |
//! | read a database | [`Loader`], [`ChangeLog`] | [`oplog`] |
//! | serve what is known at run time | [`Schema`], [`Message`], [`Implementation`] | [`schema`] |
//! | host programs, or be one | | [`hosting`], [`program`] |
//! | look inside | [`Outcome`] | [`admin`], [`telemetry`] |
//!
//! With the feature `mock`, `Mock` and the module `mock` play services of `.proto` files by rules.

#![doc = include_str!("../README.md")]

mod change_log;
mod changes;
pub mod config;
mod echo;
mod exit;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(feature = "mock")]
pub mod mock;
pub mod program;
mod serve;

pub use bytes;
pub use change_log::ChangeLog;
pub use echo::Echo;
pub use exit::{Exit, Failure};
pub use http;
pub use serve::{serve, serve_with};
pub use tidewire_admin as admin;
pub use tidewire_auth as auth;
pub use tidewire_cache::ReplyCache;
pub use tidewire_client as client;
pub use tidewire_client::Client;
pub use tidewire_hosting as hosting;
pub use tidewire_loader::Loader;
#[cfg(feature = "mcp")]
pub use tidewire_mcp as mcp;
pub use tidewire_memo as memo;
#[cfg(feature = "mock")]
pub use tidewire_mock::Mock;
pub use tidewire_oplog as oplog;
pub use tidewire_schema as schema;
pub use tidewire_schema::{Implementation, Message, Schema};
pub use tidewire_server::{Address, Builder, Limits, RunningServer, Server};
pub use tidewire_service::{
    Body, Call, Code, Codec, Context, Detail, Error, Gate, Head, Headers, Layer, Method, Outcome,
    Principal, Reply, Result, ResultExt, RpcService, Service, Stream, generated,
};
pub use tidewire_telemetry as telemetry;

/// Settings of cached replies by method, and what `verify` finds. The cache is a [`ReplyCache`].
pub mod cache {
    pub use tidewire_cache::{MethodOverride, Mismatch, OverrideError};
}

/// What decides whether a call is let in, before it is read: a [`Gate`].
pub mod gate {
    pub use tidewire_service::{Admission, GateFuture, gated};
}

/// How methods are bound to paths, and how their messages are written as JSON.
pub mod rest {
    pub use tidewire_rest::{
        Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestError, RestFinding, RestOptions,
        RestRule, UnknownNames, check_rest, rest_rules,
    };
}

/// What surrounds a [`Server`]: access rules, CORS, TLS, its clock, services of `tower`.
pub mod server {
    pub use tidewire_server::{
        AccessError, AccessRules, Bound, Cors, CorsError, LimitsError, StartError, TokioClock,
        Usage, tower,
    };
    #[cfg(feature = "tls")]
    pub use tidewire_server::{Tls, TlsError, TlsFiles};
}

/// The parts of calls and replies that layers, observers and services of an unusual kind need: what
/// a call is for, what it may read, how a reply stays current, streams in both directions.
pub mod service {
    pub use tidewire_service::{
        Access, Answer, CacheScope, Caching, Channel, Clock, CommandKey, ContextPart, ContextWatch,
        DURATION_FORMAT, Duplex, End, EndReason, ErrorParts, Fault, FollowOptions, Frame,
        Freshness, HeaderEntry, HeaderValues, HeaderValuesIter, HeadersIntoIter, HeadersIter,
        HttpTarget, Idempotency, InsertName, Interface, LayeredService, Lifetime, LookupName,
        Observation, Observer, OneLine, PathParams, Peer, PermitSource, Permits, Phase, Phases,
        Protocol, Query, Script, Sender, ServiceSource, Side, Signal, Spec, Staleness, StreamKind,
        Target, ThinHeaders, Token, Tokens, Upgrade, Validator, follow, is_steering,
        parse_duration,
    };
}

/// What fields of generated messages are made of: well-known messages of protobuf, enums and
/// messages inside of messages.
///
/// ```
/// use std::time::SystemTime;
/// use tidewire::types::{MessageField, Timestamp};
///
/// let opened_at: MessageField<Timestamp> = Timestamp::from(SystemTime::now()).into();
/// assert!(opened_at.as_option().is_some());
/// ```
pub mod types {
    pub use tidewire_service::generated::buffa::{EnumValue, MessageField};
    pub use tidewire_service::generated::buffa_types::google::protobuf::{
        Any, BoolValue, BytesValue, DoubleValue, Duration, Empty, FieldMask, FloatValue,
        Int32Value, Int64Value, ListValue, NullValue, StringValue, Struct, Timestamp, UInt32Value,
        UInt64Value, Value,
    };
}

/// Rules in `.proto` files that say which messages are valid.
pub mod validate {
    pub use tidewire_validate::{
        RuleSet, Validate, Violation, Violations, print_timestamp, required_without_presence,
    };
}

/// Includes the code that `tidewire_build` made: one module a package.
#[macro_export]
macro_rules! include_protos {
    () => {
        include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
    };
}

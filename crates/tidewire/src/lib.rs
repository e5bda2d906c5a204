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
//! Its settings come from `tidewire.toml` and the environment. A method that you forget does not
//! compile; `GreeterPartial` in place of `Greeter` is for an implementation of some methods.
//!
//! What most programs name stands here; what few need stands in modules:
//!
//! | to | names | and modules | pages of `docs/guide` |
//! |---|---|---|---|
//! | [serve](#serve) | [`serve()`], [`serve_with`], [`Server`], [`Limits`] | [`config`], [`server`], [`rest`] | `first-service.md`, `configuration.md`, `rest.md` |
//! | [reply](#reply) | [`Context`], [`Reply`], [`Stream`] | [`types`], [`service`], [`validate`] | `handlers.md`, `validation.md` |
//! | [refuse](#errors) | [`Error`], [`Code`], [`Detail`], [`ResultExt`] | | `handlers.md` |
//! | [reply to plain HTTP](#plain-http) | [`Call`], [`Head`], [`Body`] | [`http`] | `handlers.md` |
//! | [stand around services](#gates-and-layers) | [`Gate`], [`Layer`], [`Principal`] | [`gate`], [`auth`] | `front-door.md` |
//! | [call](#call) | [`Client`] | [`client`], [`service::Channel`], [`service::follow()`] | `calling-services.md` |
//! | [compute once](#memos-and-cached-replies) | [`ReplyCache`] | [`memo`], [`cache`] | `memo.md`, `cached-replies.md` |
//! | read a database | [`Loader`], [`ChangeLog`] | [`oplog`] | `your-database.md` |
//! | [test](#test) | [`Service`] | | `testing-your-service.md` |
//! | [mock](#mock) | `Mock`, with the feature `mock` | `mock` | `mocking.md`, `mock-tests.md` |
//! | [host programs](#host-programs), or be one | | [`hosting`], [`program`] | `hosting.md`, `hosting-rust.md` |
//! | [measure](#measure) | [`Outcome`] | [`telemetry`], [`admin`] | `looking-inside.md` |
//! | serve what is known at run time | [`Schema`], [`Message`], [`Implementation`] | [`schema`] | |
//!
//! # Serve
//!
//! [`serve()`] is a whole program. [`Server`] is the step below it, which says where it listens and
//! ends when it is told to:
//!
//! ```
//! use tidewire::http::Method;
//! use tidewire::{Call, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidewire::Exit {
//! let running = Server::builder()
//!     .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0))) // a port that the system chooses
//!     // .service(GreeterServer::new(Hello))
//!     .route(Method::GET, "/version", async |_: Call| Ok("7"))
//!     .start()
//!     .await?;
//! println!("listens at {}", running.url());
//! assert!(running.drain().await, "every call came to its end");
//! # Ok(())
//! # }
//! ```
//!
//! # Reply
//!
//! A handler takes a [`Context`] and a message or a [`Stream`], and gives a [`Reply`]: a message is
//! one with `.into()`, and [`Reply::with_header`] and its like add what goes along.
//!
//! ```
//! use tidewire::{Reply, Result, Stream};
//!
//! fn count(up_to: u64) -> Result<Reply<Stream<u64>>> {
//!     Reply::new(Stream::from_values(1..=up_to)).with_trailer("x-count", up_to)
//! }
//! assert_eq!(count(3)?.trailers["x-count"], "3");
//! # Ok::<(), tidewire::Error>(())
//! ```
//!
//! # Errors
//!
//! An [`Error`] has a [`Code`], which every protocol has a form of, and a message for the caller.
//! [`ResultExt::internal`] makes one of any other error, whose text only the log has:
//!
//! ```
//! use tidewire::{Code, Error, Result, ResultExt as _};
//!
//! fn stock(item: &str, row: Option<&str>) -> Result<u32> {
//!     let row = row.ok_or_else(|| Error::not_found(format!("there is no item {item}")))?;
//!     row.parse().internal()
//! }
//! assert_eq!(stock("tea", Some("7"))?, 7);
//! assert_eq!(stock("tea", None).unwrap_err().code(), Code::NotFound);
//! assert_eq!(stock("tea", Some("many")).unwrap_err().code(), Code::Internal);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Plain HTTP
//!
//! An async function from a [`Call`] to anything that becomes a [`Reply`] (text, a status, bytes,
//! JSON) is a handler, for [`Builder::route`]:
//!
//! ```
//! use tidewire::{Call, Reply, Result};
//!
//! // GET /double/{number}
//! async fn double(call: Call) -> Result<Reply> {
//!     let number: u64 = call.param("number")?;
//!     Reply::json(&[number, number * 2])
//! }
//! # let _: &dyn tidewire::Service = &double;
//! ```
//!
//! # Gates and layers
//!
//! A [`Gate`] sees the head of every request, before its body is read, and lets it pass or refuses
//! it. A [`Layer`] wraps a service: it sees each call and its reply, and may change both.
//!
//! ```
//! use std::sync::Arc;
//! use tidewire::{Call, Error, Head, Principal, Result, Server, Service};
//!
//! fn authenticate(head: &mut Head) -> Result<()> {
//!     match head.context.header("authorization").map(|value| value.as_bytes()) {
//!         Some(b"Bearer secret") => head.context.set_principal(Principal::new("shop", "ada")),
//!         _ => return Err(Error::unauthenticated("send authorization: Bearer TOKEN")),
//!     }
//!     Ok(())
//! }
//!
//! fn stamp(inner: Arc<dyn Service>) -> Arc<dyn Service> {
//!     Arc::new(move |call: Call| {
//!         let answer = inner.call(call);
//!         async move { answer.await?.with_header("x-served-by", "host-7") }
//!     })
//! }
//!
//! let server = Server::builder().gate(authenticate).layer(stamp);
//! ```
//!
//! # Call
//!
//! A generated client takes any [`service::Channel`]: a [`Client`] of another program, or a service
//! of this one.
//!
//! ```
//! use std::time::Duration;
//! use tidewire::Client;
//! use tidewire::client::Protocol;
//!
//! let client = Client::builder("http://10.0.0.7:50051")
//!     .protocol(Protocol::Grpc)
//!     .timeout(Duration::from_secs(2))
//!     .build()?;
//! // let greeter = GreeterClient::new(client.channel());
//! // let reply = greeter.greet(request).await?;
//! // With headers, by the trait:
//! let context = tidewire::Context::default().with_header("authorization", "Bearer ada")?;
//! // let reply = Greeter::greet(&greeter, context, request).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Memos and cached replies
//!
//! A [`memo::Memo`] runs its function once for each key, until a [`memo::Source`] that it read says
//! that it changed. A [`ReplyCache`] does the same with whole replies: those of methods whose
//! `.proto` says `cache`, and of handlers that say [`Service::cached`].
//!
//! ```
//! use tidewire::memo::{Graph, Memo, Source};
//! use tidewire::{ReplyCache, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidewire::Exit {
//! let rows = Source::<u64>::new("rows");
//! let name = Memo::infallible("name", move |id: u64| async move {
//!     rows.read(&id);
//!     format!("item {id}") // a database would be asked here
//! });
//! assert_eq!(*name.get(7).await?, "item 7");
//! rows.changed(&7); // whoever asks from now on is given a new one
//!
//! let server = Server::builder().memo(ReplyCache::new(&Graph::global()));
//! # Ok(())
//! # }
//! ```
//!
//! # Test
//!
//! A handler, a gate or a layer is tested without a port: it is called.
//!
//! ```
//! use tidewire::http::{Method, Uri};
//! use tidewire::{Body, Call, Context, Result, Service};
//!
//! async fn hello(_: Call) -> Result<&'static str> {
//!     Ok("hello")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidewire::Exit {
//! let call = Call::http(Method::GET, Uri::from_static("/"), Context::default(), Body::Empty);
//! let reply = hello.call(call).await?;
//! assert_eq!(reply.body.collect(1024).await?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! A service of methods is called by its client: `GreeterClient::new(GreeterServer::new(Hello))`.
//!
//! # Mock
//!
//! With the feature `mock`, a `Mock` plays the services of `.proto` files by rules:
//!
//! ```
//! # #[cfg(feature = "mock")] {
//! # let folder = std::env::temp_dir().join("tidewire-mock-doctest");
//! # std::fs::create_dir_all(&folder).unwrap();
//! # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; package shop.v1;
//! # message Item { string name = 1; uint32 cents = 2; }
//! # service Prices { rpc Of(Item) returns (Item); }"#).unwrap();
//! use tidewire::mock::json;
//! use tidewire::server::TokioClock;
//! use tidewire::{Mock, Schema};
//!
//! let schema = Schema::from_folder(&folder).unwrap();
//! let (mock, findings) = Mock::builder(schema, TokioClock)
//!     .on("shop.v1.Prices/Of")
//!     .with("name", "tea")
//!     .reply(json!({"cents": 420}))
//!     .build();
//! assert!(findings.is_empty());
//! // let prices = PricesClient::new(mock.services()[0].clone());
//! # assert_eq!(mock.services().len(), 1);
//! # }
//! ```
//!
//! # Host programs
//!
//! Programs in any language are started by their first call and watched over. [`serve_with`] hosts
//! those of `[[service]]` in `tidewire.toml`; [`hosting::Host`] is the step below.
//!
//! ```
//! use tidewire::hosting::{LifeLimits, Listen, Program};
//!
//! let shop = Program::new("shop", ["node", "server.js"]).listen(Listen::Port).folder("shop");
//! let mut life = LifeLimits::default();
//! life.instances_max = 4;
//! // let service = host.add(shop, life);
//! # let _ = (shop, life);
//! ```
//!
//! # Measure
//!
//! [`serve()`] logs, counts and traces as `tidewire.toml` says. A [`Server`] does what it is given:
//!
//! ```
//! use tidewire::Server;
//! use tidewire::telemetry::{AccessLog, LineFormat, Metrics};
//!
//! let metrics = Metrics::new();
//! let log = AccessLog::new(LineFormat::Text, |line| eprintln!("{line}"));
//! let server = Server::builder().observer(metrics.clone()).observer(log);
//! assert!(metrics.figures().is_empty(), "nothing was called yet");
//! ```

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
    pub use tidewire_cache::{CacheSetting, MethodOverride, Mismatch, OverrideError};
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
///
/// It goes into the root of a crate whose `Cargo.toml` has `tidewire-build` among its
/// `[build-dependencies]`, and whose `build.rs` compiles a folder of `.proto` files:
///
/// ```ignore
/// fn main() -> Result<(), tidewire_build::Error> {
///     tidewire_build::compile("proto")
/// }
/// ```
///
/// For `package hello.v1;` with `service Greeter` and `message GreetRequest`, `hello::v1` has
///
/// | name | is |
/// |---|---|
/// | `GreetRequest` | the message: a struct whose fields are public; write `..Default::default()` behind those that you set |
/// | `Greeter` | the trait to implement: `async fn greet(&self, Context, GreetRequest) -> Result<Reply<GreetReply>>` |
/// | `GreeterPartial` | the trait to implement in its place, where only some methods are served |
/// | `GreeterServer` | the service of an implementation, for [`serve()`], [`Builder::service`] and clients in a test |
/// | `GreeterClient` | calls through a [`Client`] (`GreeterClient::new(client.channel())`) or a `GreeterServer`; it is a `Greeter`, too |
/// | `greeter` | the [`Spec`](service::Spec) of each method: `greeter::GREET` |
///
/// Where a side streams, the message is a [`Stream`] of them: `rpc Count(CountRequest) returns
/// (stream CountReply)` is `async fn count(&self, Context, CountRequest) ->
/// Result<Reply<Stream<CountReply>>>`. Fields are made like this, with what [`types`] has:
///
/// | field | set | read |
/// |---|---|---|
/// | `Item item` | `Item { … }.into()` | `cart.item.as_option()` |
/// | `google.protobuf.Timestamp at` | `Timestamp::now().into()` | the same |
/// | `Status status`, with `STATUS_OPEN` | `Status::Open.into()` | `cart.status == Status::Open` |
/// | `oneof payment { Voucher voucher }` of `Cart` | `Some(Voucher { … }.into())` | `Some(cart::Payment::Voucher(voucher))`, which is a `Box` |
#[macro_export]
macro_rules! include_protos {
    () => {
        include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
    };
}

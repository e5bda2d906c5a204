//! Calling out: typed and dynamic calls over Connect, gRPC, gRPC-Web and plain HTTP.
//!
//! A [`Client`] is a [`Service`](tidewire_service::Service) that another process answers. It takes
//! the place of a local one everywhere: behind a generated client, behind a layer, mounted in a
//! server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tidewire_client::{Client, Protocol};
//! use tidewire_service::{Call, Codec, Context, Service, Spec, StreamKind};
//!
//! // Typed: any generated client takes it.
//! let client = Client::builder("http://127.0.0.1:8080").protocol(Protocol::Grpc).build()?;
//! // let greeter = GreeterClient::new(client.clone());
//! // let reply = greeter.greet(request).await?;
//!
//! // Dynamic: bytes of protobuf or JSON, for a method known by name.
//! let method = Spec::dynamic("shop.v1.Contacts", "Get", StreamKind::Unary, ["", ""]);
//! let method = std::sync::Arc::new(method);
//! let json = r#"{"id":"7"}"#;
//! let call = Call::method(method, Context::default(), Codec::Json, json);
//! let reply = client.call(call).await?;
//!
//! // Plain HTTP, over the same pooled connections.
//! let call = Call::http(http::Method::GET, "/store/a".parse()?, Context::default(), "");
//! let reply = client.call(call).await?;
//! println!("{} {:?}", reply.status, reply.headers);
//! # Ok(())
//! # }
//! ```
//!
//! | what | where |
//! |---|---|
//! | protocol, HTTP version, codec, compression, bounds, TLS | [`Builder`] |
//! | deadline and request headers | the `Context` of a call |
//! | response headers and trailers | the `Reply`, or the `Error`; those of protocols are left out |
//! | remote queries as memos of the caller | [`Replicas`] |
//! | every step of a call, with raw headers and times | [`Trace`] |
//!
//! A deadline is told to the server and kept here too, in every phase; the error names the phase.
//! Dropping the future of a call, or the stream of a reply, cancels the call.

#![doc = include_str!("../README.md")]

mod balance;
mod builder;
mod client;
mod connect;
mod connections;
mod deadline;
mod dial;
mod early_answer;
mod endpoint;
mod exchange;
mod failure;
mod http2;
mod http_version;
mod incoming;
mod keep_alive;
mod limits;
mod live;
mod order;
mod outgoing;
mod plain;
mod pump;
mod raw;
mod replica;
mod resolve;
mod retry;
mod rpc;
mod socket;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod upstream;

pub use builder::Builder;
pub use client::{Client, PassFailure};
pub use endpoint::BuildError;
pub use failure::{is_broken, is_not_http};
pub use http_version::HttpVersion;
pub use limits::ClientLimits;
pub use raw::{RawDialer, RawStream};
pub use replica::{Replicas, WhenLost};
pub use resolve::Resolver;
pub use retry::Retry;
pub use tidewire_service::Protocol;
pub use tidewire_wire::{Compression, Encoding, binary, binary_value};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use trace::{Event, Step, TlsSession, Trace};
pub use upstream::Upstream;

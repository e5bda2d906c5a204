//! What a call, an answer and a service are: the vocabulary of every room.
//!
//! Everything that answers is a [`Service`]: a Rust implementation, a plain HTTP handler, a remote
//! upstream, a mock, a hosted process. It takes a [`Call`] (a target, a [`Context`] and a [`Body`])
//! and gives a [`Reply`] or an [`Error`]; a reply may carry its [`Freshness`]. A [`Layer`] wraps one
//! service into another. A [`Channel`] is a service seen from the calling side: generated clients
//! speak to any.
//!
//! This room opens no socket, reads no clock and no environment: time comes in as an argument.
//! Protocols are in `tidewire-server`, outgoing connections in `tidewire-client`.

mod body;
mod call;
mod channel;
mod code;
mod codec;
mod context;
pub mod dispatch;
mod error;
mod freshness;
mod interface;
mod reply;
mod service;
mod spec;
mod stream;
mod trailers;
mod types;

pub use body::{Body, Frame};
pub use call::{Call, HttpTarget, PathParams, Target};
pub use channel::Channel;
pub use code::Code;
pub use codec::Codec;
pub use context::{Context, Peer, Protocol};
pub use error::{Detail, Error};
pub use freshness::{Freshness, Lifetime, Staleness, Validator};
pub use interface::{Interface, RpcService};
pub use reply::Reply;
pub use service::{
    Answer, Layer, Outcome, ReadyFn, Service, ServiceFn, ready_fn, service_fn, stack,
};
pub use spec::{Idempotency, Method, Names, Scope, Spec, StreamKind};
pub use stream::Stream;
pub use trailers::Trailers;
pub use types::{RegisterTypes, register_types};

/// The outcome of a call: a value, or an [`Error`] with a [`Code`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What generated code reaches through; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use {
        crate as service, buffa, buffa_descriptor, buffa_types, bytes, http, serde, serde_json,
    };
}

//! What a call, an answer and a service are: the vocabulary of every room.
//!
//! Everything that answers is a [`Service`]: a Rust implementation, a plain HTTP handler, a remote
//! upstream, a mock, a hosted process. It takes a [`Call`] (a target, a [`Context`] and a [`Body`])
//! and gives a [`Reply`] or an [`Error`]; a reply may carry its [`Freshness`]. A [`Layer`] wraps
//! one service into another. A [`Channel`] is a service seen from the calling side: generated
//! clients speak to any.
//!
//! This crate opens no socket, reads no clock and no environment: time comes in as an argument.
//! Protocols as bytes are in `tidewire-wire` and `tidewire-live-proto`, the server's connections in
//! `tidewire-server`, outgoing ones in `tidewire-client`.

#![doc = include_str!("../README.md")]

mod access;
mod authorization;
mod body;
mod body_again;
mod body_pass;
mod cached_headers;
mod call;
mod caller_key;
mod channel;
mod code;
mod codec;
mod command_key;
mod context;
mod context_watch;
mod deadline_owner;
pub mod dispatch;
mod duration;
mod end_to_end;
mod error;
mod follow;
mod forms;
mod forwarded;
mod freshness;
mod gate;
mod gated;
mod gateway_headers;
mod head;
mod header_names;
mod headers;
mod if_none_match;
mod interface;
mod interim;
mod late_answer;
mod log_limit;
mod messages;
mod observation;
mod observer;
mod one_line;
mod parent_calls;
mod parent_span;
mod peer;
mod principal;
mod protocol;
mod reply;
mod request;
mod result_ext;
mod script;
mod service;
mod service_source;
mod set_header;
mod signal;
mod spec;
mod stale_set;
mod stream;
mod target;
mod thin_headers;
mod token;
mod typed_stream;
mod types;
mod upgrade;
mod vary;
mod wakers;

pub use access::Access;
pub use authorization::Authorization;
pub use body::{Body, Frame};
pub use body_again::BodyAgain;
pub use body_pass::BodyPass;
pub use call::{Call, Query};
pub use caller_key::{CallerKey, CallerKeyHasher, CallerMap};
pub use channel::Channel;
pub use code::Code;
pub use codec::Codec;
pub use command_key::CommandKey;
pub use context::{CallerKind, Context, WatchMode};
pub use context_watch::{ContextPart, ContextWatch};
pub use deadline_owner::DeadlineOwner;
pub use duration::{DURATION_FORMAT, parse_duration};
pub use end_to_end::{end_to_end, headers_without, is_for_all, is_of_connection};
pub use error::{Detail, Error, ErrorParts, Outcome};
pub use follow::{Clock, FollowOptions, follow, follow_from};
pub use forms::{CachedBody, Coding, Form, Format, Forms, FormsBudget};
pub use forwarded::{Forwarded, is_of_proxy};
pub use freshness::{Freshness, Lifetime, NotAValidator, Staleness, Validator};
pub use gate::{Admission, Gate, GateFuture, admit, ask};
pub use gated::gated;
pub use gateway_headers::{
    CALLER_RIGHTS, PRINCIPAL_HEADER, RIGHTS_HEADER, is_of_gateway, remove_gateway_headers,
};
pub use head::{Head, HeadParts, PermitSource, Permits};
pub use header_names::{InsertName, LookupName};
pub use headers::{
    HeaderEntry, HeaderValues, HeaderValuesIter, Headers, HeadersIntoIter, HeadersIter,
};
pub use if_none_match::HeldTags;
pub use interface::{Interface, LayeredService, RpcService};
pub use interim::{InterimSender, InterimSink};
pub use late_answer::{LATE_ANSWERS_MAX, LateAnswer, LateListener};
pub use log_limit::LogLimit;
pub use messages::{Frames, Messages};
pub use observation::{End, EndReason, Observation, Phase, Phases, Side};
pub use observer::Observer;
pub use one_line::{OneLine, is_steering};
pub use parent_calls::ParentCalls;
pub use parent_span::ParentSpan;
pub use peer::Peer;
pub use principal::Principal;
pub use protocol::Protocol;
pub use reply::Reply;
pub use result_ext::ResultExt;
pub use script::{Fault, Script};
pub use service::{Answer, CachedService, Layer, PendingAnswer, Progress, Service, stack};
pub use service_source::ServiceSource;
pub use signal::Signal;
pub use spec::{CacheScope, Caching, Idempotency, Method, Names, Spec, StreamKind};
pub use stale_set::{StaleNumbers, StaleSet, StaleSetEntry};
pub use stream::{Sender, Stream};
pub use target::{HttpTarget, PathParams, Target, without_prefix};
pub use thin_headers::ThinHeaders;
pub use token::{Token, Tokens};
pub use types::{RegisterTypes, register_types};
pub use upgrade::{Duplex, Upgrade};
pub use vary::{settle_vary, vary, vary_by, vary_line};
pub use wakers::Wakers;

/// The outcome of a call: a value, or an [`Error`] with a [`Code`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crates whose items generated code names: compiler errors show their types by this path.
///
/// A message is a struct that implements `buffa::Message`; a field that is a message is a
/// `buffa::MessageField`, which derefs to the message and is its default where it is not set.
pub mod generated {
    pub use {
        crate as service, buffa, buffa_descriptor, buffa_types, bytes, http, serde, serde_json,
    };
}

//! Connect, gRPC and gRPC-Web as bytes, for the side that calls and the side that answers.
//!
//! Nothing here opens a socket, reads a clock or starts a task; nothing is encoded or decoded
//! beyond envelopes and heads, so that a message passes unchanged. Bytes are pushed into small
//! state machines in whatever pieces they arrive.
//!
//! | side | a request | a reply |
//! |---|---|---|
//! | that answers | [`negotiate`] its head, read its messages by [`Requests`] | written by the [`Exchange`] |
//! | that calls | written by the [`Caller`] | read by [`Replies`] |
//!
//! | matter | file |
//! |---|---|
//! | content types, names of headers | `dialect.rs` |
//! | what a head means, and what is refused | `negotiate.rs` |
//! | what is particular to a protocol | `connect.rs`, `connect_get.rs`, `grpc.rs`, `grpc_web.rs` |
//! | five bytes before a message | `envelope.rs` |
//! | gzip and zstd, with limits before and after | `compression.rs` |
//! | deadlines as headers | `timeout.rs` |
//! | errors | `status.rs` (gRPC), `error_json.rs` (Connect) |
//! | which headers are the protocol's | `headers.rs` |
//! | what counts where a call passes unread | `unread.rs` |
//! | what a `Host` may be | `host.rs` |
//!
//! Sources: the Connect protocol (connectrpc.com/docs/protocol), gRPC's `PROTOCOL-HTTP2.md` and
//! `PROTOCOL-WEB.md`, RFC 9110.

#![doc = include_str!("../README.md")]

mod chunk_buffer;
mod client_call;
mod compression;
mod connect;
mod connect_get;
mod dialect;
mod end;
mod envelope;
mod error_json;
mod grpc;
mod grpc_web;
mod headers;
mod host;
mod negotiate;
mod read_reply;
mod read_request;
mod sender;
mod status;
mod timeout;
pub mod unread;
mod write_reply;

pub use client_call::{Caller, Request};
pub use compression::{AcceptedCoding, Coders, Compression, Encoding, accepted_codings};
pub use dialect::Dialect;
pub use envelope::{HEAD as ENVELOPE_HEAD, Head as EnvelopeHead, Message};
pub use grpc_web::{Decoder as TextDecoder, encode as encode_text};
pub use headers::{binary, binary_value};
pub use host::is_host;
pub use negotiate::{Exchange, Head, Refusal, negotiate, speaks};
pub use read_reply::{Event, Replies};
pub use read_request::{ReadStep, Requests};
pub use write_reply::{Pieces, ReplyEnd, Response, Trailers};

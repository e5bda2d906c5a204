//! The live protocol: frames and session state, without sockets, clocks or tasks.
//!
//! One connection carries calls in both directions, streams with byte credit, and notices that an
//! answer became stale; a session outlives its connections. The protocol is specified in
//! `docs/live-protocol.md`; its byte fixtures are in `tests/fixtures/live/`.
//!
//! A [`Session`] is one end. Its owner (the driver in `tidewire-live`, or a load generator) gives
//! it bytes, time and the application's calls, and takes bytes, events and timeouts out; see
//! [`session`](Session) for the contract.
//!
//! ```
//! use tidewire_live_proto::{Acceptor, Config, Event, OutgoingReply, Request, Session, SessionId};
//! use tidewire_service::Codec;
//!
//! let mut client = Session::dialer(Config::default());
//! let method = client.method("/hello.v1.Greeter/SayHello", Codec::Proto);
//! client.connect(0);
//! let call = client.call(Request::query(method, &b"Ada"[..]), 0).unwrap();
//!
//! let mut wire = Vec::new();
//! client.poll_output(0, &mut wire);
//! let mut acceptor = Acceptor::new(Config::default(), 0);
//! acceptor.input().extend_from_slice(&wire);
//! let hello = acceptor.poll(0).unwrap().expect("the hello is complete");
//! let id = SessionId { id: [1; 16], secret: [2; 32] }; // random in earnest
//! let mut server = acceptor.accept(hello, id, 0);
//!
//! for _ in 0..2 {
//!     wire.clear();
//!     server.poll_output(0, &mut wire);
//!     client.input().extend_from_slice(&wire);
//!     while let Some(event) = client.poll_event(0) {
//!         if let Event::Reply(answer) = event {
//!             assert_eq!((answer.call, answer.payload()), (call, &b"Hello, Ada"[..]));
//!         }
//!     }
//!     wire.clear();
//!     client.poll_output(0, &mut wire);
//!     server.input().extend_from_slice(&wire);
//!     while let Some(event) = server.poll_event(0) {
//!         if let Event::Request(request) = event {
//!             let (call, text) = (request.call, [b"Hello, ", request.payload()].concat());
//!             server.reply(call, OutgoingReply::new(&text));
//!         }
//!     }
//! }
//! ```

#![doc = include_str!("../README.md")]

mod acceptor;
mod admission;
mod answer;
mod backlog_limit;
mod callee;
mod caller;
mod command_ids;
mod command_window;
mod compress;
mod config;
mod credit;
mod ending;
mod event;
pub mod fields;
pub mod frame;
mod handshake;
pub mod hello;
mod hosted;
mod identity;
mod items;
mod message;
pub mod metadata;
mod methods;
mod outcome;
mod output;
mod pending_calls;
mod reader;
mod reason;
mod receive;
mod resume;
mod session;
mod sessions;
mod slots;
mod stream;
pub mod varint;
mod watch;

pub use acceptor::Acceptor;
pub use config::{BoundNames, Config, Micros, SessionId};
pub use event::{
    ChangedSources, Continuation, Event, IncomingReply, IncomingRequest, Items, KeptItems, Piece,
    RequestLine,
};
pub use hello::{Hello, Limits, feature};
pub use message::{
    CallKind, CallRefusal, Change, Destination, Extra, HttpRequest, MethodId, OutgoingReply, Push,
    Refresh, Request, RequestBody, Watch,
};
pub use metadata::{CommandOrigin, Depends, Metadata, MetadataBuilder, MetadataMaps};
pub use methods::PeerMethod;
pub use reason::{Reason, Violation};
pub use session::{Session, Usage};
pub use sessions::{Sessions, Ticket};
pub use slots::CallId;

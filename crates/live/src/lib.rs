//! A live session run over a byte stream or a WebSocket.
//!
//! The session itself (crate `live-proto`) has no socket, clock or task; here it gets them: bytes
//! are read and written with a bound on what waits, time comes from tokio's clock, calls of the
//! peer are polled in place and go on in tasks that their owner joins or aborts.
//!
//! | who | has |
//! |---|---|
//! | an accepting side | [`Links`]: greets connections, resumes or takes over their sessions, keeps those without one |
//! | a dialing side | [`Remote`]: a [`Link`] that is connected again and again |
//! | who runs a connection | [`Connection`], over a [`Transport`]: [`ByteStream`], [`WebSocket`], [`Socket`] |
//! | who calls | [`Link::call`]; who holds the answer, [`Link::call_held`] |
//! | who answers | [`Host`]; watched answers by their `Freshness` |
//! | a program that is hosted | [`Process`], [`depends`] |

#![doc = include_str!("../README.md")]

mod accept;
mod backoff;
mod body;
mod budget;
mod call;
mod credential;
mod dependencies;
mod dial;
mod driver;
mod exchange;
mod expiry;
mod link;
mod partial_items;
mod process;
mod serve;
mod session_clock;
mod shared_writer;
mod socket;
mod stream_out;
mod submit;
mod transport;
mod turn;
mod watch;
mod watch_guard;
mod websocket;

pub use accept::{Arrival, Links, random_boot};
pub use call::{CallFuture, OpenCall};
pub use dependencies::Depends;
pub use dial::{Dial, Remote};
pub use driver::{Connection, ConnectionEnd};
pub use link::{CallMap, Link};
pub use process::{Process, depends, depends_unheard};
pub use serve::{
    AnswerFuture, CallFailure, CallTarget, Host, Identity, IdentityFuture, IncomingCall,
    ProcessMessage,
};
pub use session_clock::SessionClock;
pub use socket::Socket;
pub use tidewire_live_proto::{
    BoundNames, CallId, ChangedSources, Config, Limits, Reason, Violation, feature,
};
pub use transport::{ByteStream, DirectWriter, Transport, TransportEnd};
pub use watch_guard::{AnswerState, WatchGuard, Watcher};
pub use websocket::{PATH, SUBPROTOCOL, WebSocket, accept_key, random_key};

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
mod body;
mod call;
mod dependencies;
mod dial;
mod driver;
mod host;
mod link;
mod process;
mod reply_head;
mod running;
mod serve;
mod session_clock;
mod stream_out;
mod transport;

pub use accept::{Arrival, Links, random_boot};
pub use call::watch_guard::WatchGuard;
pub use call::{CallFuture, OpenCall};
pub use dependencies::Depends;
pub use dial::{Dial, Remote};
pub use driver::{Connection, ConnectionEnd};
pub use host::{
    AnswerFuture, CallFailure, CallTarget, Host, Identity, IdentityFuture, IncomingCall,
    ProcessMessage,
};
pub use link::Link;
pub use link::call_map::CallMap;
pub use link::watcher::{AnswerState, Watcher};
pub use process::Process;
pub use running::{depends, depends_unheard};
pub use session_clock::SessionClock;
pub use tidewire_live_proto::{
    BoundNames, CallId, ChangedSources, Config, Limits, Reason, Violation, feature,
};
pub use transport::socket::Socket;
pub use transport::websocket::{PATH, SUBPROTOCOL, WebSocket, accept_key, random_key};
pub use transport::{ByteStream, DirectWriter, Transport, TransportEnd};

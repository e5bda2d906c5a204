//! A live session run over a byte stream or a WebSocket.
//!
//! The session itself (crate `live-proto`) has no socket, clock or task; here it gets them: bytes are read and
//! written with a bound on what waits, time comes from tokio's clock, calls of the peer are polled in
//! place and go on in tasks that their owner joins or aborts.
//!
//! | who | has |
//! |---|---|
//! | an accepting side | [`Links`]: greets connections, resumes or takes over their sessions, keeps those without one |
//! | a dialing side | [`Remote`]: a [`Link`] that is connected again and again |
//! | who runs a connection | [`Connection`], over a [`Transport`]: [`ByteStream`], [`WebSocket`], [`Socket`] |
//! | who calls | [`Link::call`]; who holds the answer, [`Link::call_held`] |
//! | who answers | [`Host`]; watched answers by their `Freshness` |
//! | a program that is hosted | [`Process`], [`depends`] |

mod accept;
mod beside;
mod body;
mod call;
mod clock;
mod connection;
mod dial;
mod exchange;
mod hold;
mod link;
mod made_of;
mod place;
mod pour;
mod process;
mod serve;
mod socket;
mod transport;
mod turn;
mod watch;
mod websocket;

pub use accept::{Arrival, Links, random_boot};
pub use call::{Calling, Placed};
pub use clock::Clock;
pub use connection::{Connection, Ended};
pub use dial::{Dial, Remote};
pub use hold::{Hold, Watcher, Word};
pub use link::{ByCall, Link};
pub use made_of::Depends;
pub use process::{Process, depends, depends_unheard};
pub use serve::{Answering, Arrived, Asked, Failed, Host, Said};
pub use socket::Socket;
pub use tidewire_live_proto::{CallId, Changed, Config, Limits, Reason, Violation, feature};
pub use transport::{AtOnce, Broken, ByteStream, Transport};
pub use websocket::{PATH, SUBPROTOCOL, WebSocket, accept_key, random_key};

//! Sockets that accept connections: where they are, whose they were, and who the server is on them.
//!
//! ```text
//! LISTEN_FDS ─▶ inherited ─┐
//! address ────────────────▶ listener ─▶ AcceptedSocket ─▶ addresses: a place among those of its network?
//!                                          │
//!                                          └─▶ tls: a certificate for the name that is asked for
//! ```
//!
//! What is spoken on a connection, and how many there may be, is the crate `server`. Whoever
//! started the program is told how it goes by [`notify`].

#![doc = include_str!("../README.md")]

mod address;
mod addresses;
mod listener;
pub mod notify;
mod socket_activation;
#[cfg(feature = "tls")]
mod tls;

pub use address::{Address, ParseAddressError};
pub use addresses::{AddressPermit, Addresses};
pub use listener::{AcceptedSocket, Listener};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError, TlsFiles};

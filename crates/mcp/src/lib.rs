//! What a running system says of itself, as tools for assistants (Model Context Protocol).
//!
//! Whatever answers calls of `tidewire.admin.v1` is behind it: a client of an admin listener for
//! [`Tools::over_stdio`], the services of this program for [`Tools::over_http`]. Tools that change
//! something are there only where that is allowed; who calls is known to whoever made the
//! [`Tools`].

#![doc = include_str!("../README.md")]

mod bound;
mod by_hand;
mod catalog;
mod load;
mod server;
mod shape;
mod tools;

pub use tools::{Allow, Tools};

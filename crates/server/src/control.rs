//! Putting a server together, running it, giving it other settings, and ending it.

pub(crate) mod builder;
mod drain;
pub(crate) mod edition;
pub(crate) mod handle;
pub(crate) mod reload;
pub(crate) mod running_server;
mod signals;
pub(crate) mod start_error;

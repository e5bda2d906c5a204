//! Putting a server together, running it, giving it other settings, and ending it.

pub(crate) mod builder;
pub(crate) mod edition;
pub(crate) mod handle;
pub(crate) mod reload;
pub(crate) mod running_server;
pub(crate) mod start_error;

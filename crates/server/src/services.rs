//! What a server serves: methods by path, plain routes and mounts, services that change while it
//! runs.

pub(crate) mod command_keys;
pub(crate) mod entry;
pub(crate) mod methods;
mod mount;
pub(crate) mod reloadable;
pub(crate) mod routes;
pub(crate) mod tower;

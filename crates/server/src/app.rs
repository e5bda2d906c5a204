//! The server as its protocols see it: its settings for now, and calls that no HTTP request carries.

pub(crate) mod follow;

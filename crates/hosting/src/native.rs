//! Programs that do not listen for HTTP: those that speak the live protocol, as the SDKs do, and
//! those of `pipe-json`.
//!
//! | file | what it decides |
//! |---|---|
//! | `session.rs` | calls of a process that speaks the live protocol, both ways |
//! | `callbacks.rs` | what such a process says by itself |
//! | `caller.rs` | who calls, as a program is told, and with whose rights it calls on |
//! | `commands.rs` | what becomes stale when a process ends with a command under way |
//! | `sources.rs` | what its answers are made of |
//! | `pipe_json.rs` | calls of a program that takes each as one JSON object |

pub(crate) mod callbacks;
pub(crate) mod caller;
pub(crate) mod commands;
pub(crate) mod pipe_json;
pub(crate) mod session;
pub(crate) mod sources;

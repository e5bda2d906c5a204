//! What is run, where it listens, and what it prints.
//!
//! | file | what it decides |
//! |---|---|
//! | `program.rs` | what is run, as whom, and how it listens |
//! | `generation.rs` | a program and its bounds, until another is in its place |
//! //! | `ready.rs`, `accept_state.rs` | when a process can be called |
//! | `listening.rs`, `free_port.rs` | at which ports it listens, or may |
//! //! | `output.rs` | what becomes of the lines that it prints |

mod accept_state;
mod free_port;
pub(crate) mod generation;
pub(crate) mod listening;
pub(crate) mod output;
pub(crate) mod program;
pub(crate) mod ready;

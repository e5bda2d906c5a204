//! Honest load generation and measurement.
//!
//! [`command`] is `tidewire bench` as a library: the `cli` room parses [`command::BenchArgs`] and
//! calls [`command::run`]. Below it, from the outside in:
//!
//! - `measure` turns a plan into a [`result::RunResult`]; `summary`, `markdown` and `html` show it,
//!   `compare` sets two of them side by side.
//! - `engine` runs a plan on epoll; `load` and `recorder` are its core, without sockets or clock.
//! - `codec` with `http1`, `http2` and `websocket` are the protocols, without sockets.
//! - `schedule`, `histogram`, `stall`, `threshold` are what honesty is made of.

pub mod command;
pub mod result;

mod check;
mod clock;
mod codec;
mod cold_start;
mod compare;
mod connection;
mod console;
mod engine;
mod envelope;
mod error;
mod failure;
mod feeder;
mod flight;
mod histogram;
mod html;
mod http1;
mod http2;
mod knee;
mod load;
mod machine;
mod markdown;
mod measure;
mod plan;
mod proc;
mod quantity;
mod recorder;
mod reply;
mod request;
mod scenario;
mod schedule;
mod schema;
mod server;
mod stall;
mod summary;
mod target;
mod template;
mod threshold;
mod timeline;
mod tls;
mod websocket;
mod workload;

pub use console::{Console, View};
pub use engine::Stop;
pub use error::{Error, ErrorKind};
pub use histogram::{Sparse, Summary};
pub use stall::Stall;
pub use timeline::Second;

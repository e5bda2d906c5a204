//! Offered load over HTTP/1.1, HTTP/2, WebSocket, Connect, gRPC and gRPC-Web, and a record of what
//! came back.
//!
//! A [`Plan`] says everything before the first byte is sent; [`run`] runs it and
//! returns a [`Recorder`]. What the figures mean is not judged here.
//!
//! | matter | where |
//! |---|---|
//! | when a request starts: closed and open model, ramps, steps | `schedule`, `generate` |
//! | what is sent: requests, templates, feeders, scenarios, schemas | `workload`, `request`, `template`, `feeder`, `scenario`, `schema` |
//! | what an answer has to be | `verdict`, `check`, `accepted`, `failure` |
//! | protocols, without sockets | `codec`, `http1`, `http2`, `websocket`, `envelope`, `reply` |
//! | sockets, TLS, the event loop | `transport`, `tls`, `engine` |
//! | what is written down | `recorder`, `histogram`, `timeline`, `stall` |
//!
//! Everything but `engine`, `transport` and `run_clock` is free of sockets and of the time, and is
//! tested with bytes cut anywhere and with a virtual clock.

#![doc = include_str!("../README.md")]

mod accepted;
mod check;
mod codec;
mod engine;
mod envelope;
mod error;
mod failure;
mod feeder;
mod flight;
mod generate;
mod histogram;
mod http1;
mod http2;
mod live;
mod plan;
mod recorder;
mod reply;
mod request;
mod run_clock;
mod scenario;
mod schedule;
mod schema;
mod stall;
mod target;
mod template;
mod timeline;
mod tls;
mod transport;
mod verdict;
mod websocket;
mod workload;

pub use accepted::AcceptedStatus;
pub use check::Check;
pub use engine::{Progress, Run, Stop, prepare, run};
pub use error::{Error, ErrorKind};
pub use failure::Failure;
pub use feeder::{Feeder, Order};
pub use histogram::{Histogram, Sparse, Summary};
pub use plan::{Model, Plan, Reuse};
pub use recorder::{Counts, Recorder, StepTotals};
pub use request::{Body, MessageCodec, Protocol, ProtocolSetup, Request, Transport};
pub use run_clock::{Nanos, RunClock, SECOND, nanos, seconds};
pub use scenario::Scenario;
pub use schedule::{ArrivalSpacing, Segment};
pub use schema::{Messages, Services};
pub use stall::Stall;
pub use target::{Address, Target};
pub use template::{Names, Template};
pub use timeline::Second;
pub use tls::{Tls, Trust};
pub use workload::{Composer, Step, Workload};

//! What becomes of calls: rates, errors and durations by method, and a line for each in a log.
//!
//! ```text
//! request ─▶ Metrics, AccessLog (observers) ─▶ phases ─▶ one end ─▶ series.rs: counts and a histogram
//!                                                              ├──▶ line.rs: text or JSON
//!                                                              └──▶ record.rs: the last calls
//! ```
//!
//! Labels come from what is served, never from what callers send: a method that nobody serves is
//! `unknown`, and a page of plain HTTP is its verb. Nothing here prints or listens: a text of
//! Prometheus is made when it is asked for, and a line goes to a function.

#![doc = include_str!("../README.md")]

mod access_log;
mod exemplar;
mod histogram;
mod line;
mod message_capture;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod record;
mod series;
mod text;

pub use access_log::{AccessLog, LineFormat};
pub use histogram::BOUNDS;
pub use message_capture::{Messages, ShowMessage};
pub use metrics::{MethodFigures, Metrics};
#[cfg(feature = "otlp")]
pub use otlp::Spans;
pub use record::{Record, RecordedCall, RecordedCalls, RecordingGuard};
pub use text::{Exposition, Format};

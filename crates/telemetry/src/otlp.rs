//! Traces for a collector of OpenTelemetry: OTLP over HTTP, as protobuf.
//!
//! ```text
//! request ─▶ Spans (an observer) ─▶ queue, bounded ─▶ one task: a second's spans, or 512 ─▶ POST
//! ```
//!
//! Each request of a trace that is sampled is a span: below the caller's, with the id that calls on
//! its behalf have as their parent, and its phases as events. Nobody waits for the collector: what
//! finds the queue full is dropped, and how much that was is said in the log. What ended within the
//! last second of the program may not arrive.
//!
//! The crates of OpenTelemetry do this too: five of them, and the messages of another generator,
//! for one request. So that is made here of ten messages, and their own messages in Python judge it
//! in the tests. Unless the feature `otlp` is on, none of this is built.

mod export;
mod proto;
mod span;

pub use span::Spans;

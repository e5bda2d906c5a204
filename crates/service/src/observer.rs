//! One outcome a request, for logs, metrics and traces.
//!
//! An [`Observer`] sees the beginning of every request, also of those that no service sees: unknown
//! methods, refused heads, broken envelopes. What it returns is told the phases and then exactly
//! one end. Nobody observes: nothing is allocated and nothing is called.
//!
//! One that panics is told no more of that moment, and takes neither the request nor other
//! observers with it. This crate reads no clock: whoever tells an end has looked at one, once for
//! all who observe.

use std::sync::Arc;

use crate::{Head, Observation};

/// Sees every request begin.
pub trait Observer: Send + Sync + 'static {
    /// A request's head has arrived.
    ///
    /// Shared, since what runs inside a service (memoization) has phases to report too.
    fn begin(&self, head: &Head) -> Arc<dyn Observation>;
}

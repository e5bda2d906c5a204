//! Bodies of messages that pass unread.
//!
//! A server bounds the body of a request of plain HTTP as a whole. Whoever passes one on that is a
//! stream of messages says so before it is read, and each message is bounded instead, as one of a
//! method is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells the server of a request that its messages pass unread; clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct BodyPass(Arc<AtomicBool>);

impl BodyPass {
    /// The messages pass unread.
    pub fn pass(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether they do.
    pub fn passes(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

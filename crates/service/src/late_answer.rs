//! Answers that come after their callers were told that they are late.

use std::pin::Pin;

use crate::{Reply, Result};

/// An answer that nobody waits for any more.
pub type LateAnswer = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// Who hears of the answer to a call whose caller was told that it is late: what it says that it
/// has changed, it has changed all the same. See
/// [`Context::set_late_listener`](crate::Context::set_late_listener).
pub trait LateListener: Send + Sync {
    /// Whoever passed the call waits for its answer no longer, and the program goes on with it.
    fn hear(&self, answer: LateAnswer);
}

/// How many late answers of one service are waited for at once. Each has a connection.
pub const LATE_ANSWERS_MAX: usize = 16;

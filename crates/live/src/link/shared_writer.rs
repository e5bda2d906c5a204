//! Calls are written by those who make them, where the transport allows it, without waking the task
//! of the connection: it would be asleep, and on another thread perhaps.
//!
//! One writes at a time, outside the lock; what others have meanwhile, it writes too. What the
//! connection does not take now is left to its task, which waits until it does.
//!
//! On a runtime of one thread that task comes next after what is ready before it, without another
//! thread to wake: while calls are open, those that come together are left to it, and written as
//! one.

use std::fmt;
use std::sync::Arc;

use tidewire_live_proto::Micros;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::transport::DirectWriter;

/// Writing beside the task of the connection.
#[derive(Default)]
pub(crate) struct SharedWriter {
    /// By what; only by the task where there is nothing.
    pub(crate) by: Option<Arc<dyn DirectWriter>>,
    /// All tasks have one thread.
    pub(crate) joins: bool,
    /// Somebody has bytes in hand that come before all others.
    pub(crate) is_writing: bool,
    /// What the connection did not take, for its task.
    pub(crate) left: Vec<u8>,
    /// When the task looks again by itself; never where there is nothing.
    pub(crate) looks_at: Option<Micros>,
    /// A buffer, kept from one call to the next.
    pub(crate) buffer: Vec<u8>,
}

impl SharedWriter {
    /// Nothing is written yet.
    pub(crate) fn of(by: Option<Arc<dyn DirectWriter>>) -> Self {
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        let joins = flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::CurrentThread);
        Self { by, joins, ..Self::default() }
    }

    /// Whether there are bytes that the session has given out and the connection has not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_writing || !self.left.is_empty()
    }
}

impl fmt::Debug for SharedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("is_busy", &self.is_busy()).finish_non_exhaustive()
    }
}

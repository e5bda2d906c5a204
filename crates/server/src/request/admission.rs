//! Whether a request may come in: gates that may have to wait are asked by its head.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tidewire_service::{Error, Gate, Head, Result, admit};

use crate::request::catch_panic::panicked;
use crate::request::failure::EndCause;

/// Asks the gates, of which the first has said that it waits if it is `waiting`: no longer than the
/// caller waits, and a panic refuses.
pub(crate) async fn admitted(
    gates: &[Arc<dyn Gate>],
    head: &mut Head,
    waiting: bool,
) -> Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    let deadline = head.context.deadline();
    let asked = AssertUnwindSafe(admit(gates, head, waiting)).catch_unwind();
    let asked = async { asked.await.unwrap_or_else(|panic| Err(panicked(&*panic))) };
    match deadline {
        None => asked.await,
        Some(at) => tokio::time::timeout_at(at.into(), asked).await.unwrap_or_else(|_| {
            Err(Error::deadline_exceeded("the deadline passed while a gate decided")
                .with_cause(EndCause::Deadline))
        }),
    }
}

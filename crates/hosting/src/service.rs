//! A hosted service: a [`Service`] whose calls a process answers that is started when it is called.
//!
//! | file | what it decides |
//! |---|---|
//! | `inner.rs` | what there is of a service, and what an end of a process comes to |
//! | `keeper.rs` | how what its pool decides is carried out |
//! | `control.rs` | what an operator does to a service |
//! | `status.rs`, `figures.rs` | what there is to say of a service |
//! | `typed_service.rs` | such a process as a service of a schema |

pub(crate) mod control;
pub(crate) mod figures;
pub(crate) mod inner;
mod keeper;
pub(crate) mod status;
pub(crate) mod typed_service;

use std::path::PathBuf;
use std::sync::Arc;

use tidewire_service::{Answer, Call, Service};

use crate::call::hosted_call::HostedCall;
use crate::call::passing;
use crate::limits::LifeLimits;
use crate::native::callbacks::Shared;
use crate::process::output::Line;
use crate::process::program::Program;
use crate::service::inner::Inner;
use crate::service::status::Status;
use crate::supervisor::client::SupervisorClient;

/// A hosted service; cheap to clone.
#[derive(Debug, Clone)]
pub struct HostedService(pub(crate) Arc<Inner>);

impl HostedService {
    pub(crate) fn new(
        program: Program,
        life: LifeLimits,
        supervisor: Arc<SupervisorClient>,
        sockets: PathBuf,
        shared: Arc<Shared>,
    ) -> Self {
        Self(Arc::new(Inner::new(program, life, supervisor, sockets, shared)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// The last lines that its processes printed, the oldest first: 256 KiB of them.
    pub fn output(&self) -> Vec<Line> {
        self.0.output.lines()
    }

    /// Up to `limit` lines that it printed after so many, and the number of the first of them, from
    /// 0.
    pub fn output_after(&self, number: u64, limit: usize) -> (u64, Vec<Line>) {
        self.0.output.after(number, limit)
    }

    /// How many lines are no longer among these.
    pub fn output_dropped(&self) -> u64 {
        self.0.output.dropped()
    }

    /// Waits until it is as `is_so` wants it.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn until(&self, mut is_so: impl FnMut(&Status) -> bool) -> Status {
        let mut changed = self.0.changed.subscribe();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            // The sender is in `self`.
            let _ = changed.changed().await;
        }
    }

    /// Another has its name.
    pub(crate) fn is_followed_by(&self, next: &Self) {
        let _ = self.0.next.set(Arc::clone(&next.0));
    }

    /// Who has its name now.
    pub(crate) fn current(&self) -> &Arc<Inner> {
        let mut current = &self.0;
        while let Some(next) = current.next.get() {
            current = next;
        }
        current
    }

    /// Lets no more calls in, and ends processes once their calls are over.
    pub(crate) fn drain(&self) {
        self.0.pool().drain();
        self.0.wake.notify_one();
    }
}

impl Service for HostedService {
    fn call(&self, call: Call) -> Answer {
        if passing::may_pass(&self.0, &call) {
            return passing::pass(&self.0, call);
        }
        Answer::pending(HostedCall::new(Arc::clone(&self.0), call, None))
    }
}

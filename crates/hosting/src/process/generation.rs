//! What the instances of a service run, and by which bounds: a reload makes another generation.
//!
//! | when it is replaced | calls |
//! |---|---|
//! | and processes run | go to these until one of the new can be called; then these end with their calls |
//! | and the new cannot be started | go on going to these; it is tried again after rests that grow |
//! | and none runs | start one of the new |
//!
//! What was kept of the answers ends once calls go to the new one (`service/NAME` changes): an
//! answer that a process of the old one gives later is not kept, since it was asked before.

use std::sync::Arc;

use tokio::time::Instant;

use crate::limits::LifeLimits;
use crate::process::program::Program;
use crate::service::{HostedService, Inner};

/// A program and its bounds.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Counts from 1.
    pub(crate) number: u64,
    pub(crate) program: Program,
    pub(crate) life: LifeLimits,
}

impl HostedService {
    /// Runs another program in the place of this one, or the same by other bounds, or all of it
    /// anew. No call fails for it, and an error in the new one leaves the old one serving; its name
    /// stays.
    pub fn replace(&self, program: Program, life: LifeLimits) {
        self.0.replace(program, life);
    }

    /// What it runs, and by which bounds.
    pub fn runs(&self) -> (Program, LifeLimits) {
        let generation = self.0.generation();
        (generation.program.clone(), generation.life.clone())
    }
}

impl Inner {
    pub(crate) fn replace(&self, program: Program, life: LifeLimits) {
        let serves = {
            let mut pool = self.pool();
            let serves = pool.replace(life.clone(), Instant::now());
            let number = pool.generation();
            self.set_generation(Arc::new(Generation { number, program, life }));
            serves
        };
        if !serves {
            self.lost_its_memory();
        }
        self.wake.notify_one();
    }
}

//! What an operator does to a hosted service: start, stop, restart, freeze, thaw, close its
//! breaker.
//!
//! | does | instances with calls | doing it twice |
//! |---|---|---|
//! | start | — | is nothing where one runs |
//! | stop | end with their calls, and get no others; the next call starts another | is nothing |
//! | restart | serve until another can be called, then end with their calls | starts one anew |
//! | freeze | are left as they are, and counted | is nothing |
//! | thaw | — | is nothing |
//! | close the breaker | — | is nothing |
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
use crate::process::generation::Generation;
use crate::process::program::Program;
use crate::service::HostedService;
use crate::service::inner::Inner;

impl HostedService {
    /// Starts a process, unless one runs; [`until`](Self::until) waits for it.
    pub fn start(&self) {
        self.0.pool().want(Instant::now());
        self.0.wake.notify_one();
    }

    /// Ends its processes once their calls are over, and returns how many. The next call starts
    /// another.
    pub fn stop(&self) -> usize {
        let retired = self.0.pool().retire();
        self.0.wake.notify_one();
        retired
    }

    /// Starts a process in the place of those that run, as [`replace`](Self::replace) by the same.
    pub fn restart(&self) {
        let (program, life) = self.runs();
        self.replace(program, life);
        self.start();
    }

    /// Freezes processes that have no calls until their next one; returns how many were not, since
    /// they have some.
    pub fn freeze(&self) -> usize {
        let mut pool = self.0.pool();
        let (frozen, busy) = pool.freeze(|instance| instance.is_quiet());
        // Under the lock, so that no call overtakes it.
        frozen.iter().for_each(|instance| instance.freeze());
        drop(pool);
        self.0.wake.notify_one();
        busy
    }

    /// Lets frozen processes run again.
    pub fn thaw(&self) {
        let mut pool = self.0.pool();
        pool.thaw(Instant::now()).iter().for_each(|instance| instance.thaw());
        drop(pool);
        self.0.wake.notify_one();
    }

    /// Forgets crashes: the next call starts a process although the service was broken.
    pub fn close_breaker(&self) {
        self.0.pool().close_breaker();
        self.0.wake.notify_one();
    }

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
            self.end_old_answers();
        }
        self.wake.notify_one();
    }
}

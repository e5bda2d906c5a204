//! When an instance without calls is frozen, and when it is ended.

use std::time::Duration;

use tokio::time::Instant;

use super::Pool;
use super::instance::{Condition, PoolInstance};
use super::step::{Step, earliest};

impl<M: Clone> Pool<M> {
    /// After which time without a call an instance is ended.
    pub(super) fn idle_stop(&self) -> Option<Duration> {
        match self.is_draining {
            true => Some(Duration::ZERO),
            false => self.life.idle_stop,
        }
    }
}

impl<M: Clone> PoolInstance<M> {
    pub(super) fn is_idle(&self) -> bool {
        self.calls == 0 && self.condition != Condition::Stopping
    }

    /// When there is something to do with it, once it is idle.
    pub(super) fn due(
        &self,
        stop: Option<Duration>,
        freeze: Option<Duration>,
        now: Instant,
    ) -> Option<Instant> {
        earliest(self.stop_at(stop, now), self.freeze_at(freeze))
    }

    fn stop_at(&self, after: Option<Duration>, now: Instant) -> Option<Instant> {
        match self.retires {
            true => Some(now),
            false => after.and_then(|after| self.idle_since.checked_add(after)),
        }
    }

    fn freeze_at(&self, after: Option<Duration>) -> Option<Instant> {
        let after = after.filter(|_| self.condition == Condition::Ready)?;
        self.idle_since.checked_add(after)
    }

    /// What to do with it, since it is idle; `next` becomes when to ask again.
    pub(super) fn step(
        &mut self,
        stop: Option<Duration>,
        freeze: Option<Duration>,
        now: Instant,
        next: &mut Option<Instant>,
    ) -> Option<Step<M>> {
        let stop = self.stop_at(stop, now);
        let freeze = self.freeze_at(freeze);
        if stop.is_some_and(|at| at <= now) {
            self.condition = Condition::Stopping;
            return Some(Step::Stop(self.instance.clone()));
        }
        if freeze.is_some_and(|at| at <= now) {
            self.condition = Condition::Frozen;
            return Some(Step::Freeze(self.instance.clone()));
        }
        *next = earliest(*next, earliest(stop, freeze));
        None
    }
}

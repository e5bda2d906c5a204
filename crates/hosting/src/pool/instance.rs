//! One instance as the pool sees it.

use std::time::Duration;

use tokio::time::Instant;

use super::{Step, earliest};

#[derive(Debug)]
pub(super) struct PoolInstance<M> {
    pub(super) id: u64,
    pub(super) instance: M,
    /// Which settings of the service it was started by.
    pub(super) generation: u64,
    pub(super) calls: usize,
    pub(super) idle_since: Instant,
    pub(super) condition: Condition,
    /// It was started ahead, and nothing has called it yet.
    pub(super) is_spare: bool,
    /// It gets no more calls, and ends with those that it has.
    pub(super) retires: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Ready,
    Frozen,
    Stopping,
}

/// A place at an instance, to be given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant<M> {
    pub(crate) id: u64,
    pub(crate) instance: M,
    /// It is frozen, and has to be thawed before it is called.
    pub(crate) is_frozen: bool,
    /// It stood by, so that the next one has to be started.
    pub(crate) was_spare: bool,
}

impl<M: Clone> PoolInstance<M> {
    /// Whether it is given calls.
    pub(super) fn is_active(&self) -> bool {
        !self.is_spare && !self.is_leaving()
    }

    /// Whether it is given calls when there are too many for others.
    pub(super) fn stands_by(&self) -> bool {
        self.is_spare && !self.is_leaving()
    }

    fn is_leaving(&self) -> bool {
        self.condition == Condition::Stopping || self.retires
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls == 0 && self.condition != Condition::Stopping
    }

    /// Gives a place at it.
    pub(super) fn grant(&mut self) -> Grant<M> {
        let (is_frozen, was_spare) = (self.condition == Condition::Frozen, self.is_spare);
        (self.condition, self.is_spare) = (Condition::Ready, false);
        self.calls += 1;
        Grant { id: self.id, instance: self.instance.clone(), is_frozen, was_spare }
    }

    /// Takes a place back that nobody had.
    pub(super) fn take_back(&mut self, grant: &Grant<M>) {
        self.calls -= 1;
        self.is_spare = grant.was_spare;
        if grant.is_frozen {
            self.condition = Condition::Frozen;
        }
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
        let (stop, freeze) = (self.stop_at(stop, now), self.freeze_at(freeze));
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

//! One instance as the pool sees it.

use tidewire_service::CallerKey;
use tokio::time::Instant;

use super::grant::Grant;
use super::state::{InstanceStatus, State};
use crate::limits::LifeLimits;

#[derive(Debug)]
pub(super) struct PoolInstance<M> {
    pub(super) id: u64,
    pub(super) instance: M,
    /// Which settings of the service it was started by.
    pub(super) generation: u64,
    pub(super) calls: usize,
    /// How many calls it was given.
    pub(super) requests: u64,
    pub(super) born: Instant,
    pub(super) idle_since: Instant,
    pub(super) condition: Condition,
    /// It was started ahead, and nothing has called it yet.
    pub(super) is_spare: bool,
    /// It has served for as long as it may, until another takes over.
    pub(super) is_worn: bool,
    /// It gets no more calls, and ends with those that it has.
    pub(super) retires: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Ready,
    Frozen,
    Stopping,
}

impl<M: Clone> PoolInstance<M> {
    pub(super) fn status(&self, now: Instant) -> InstanceStatus {
        let state = match self.condition {
            _ if self.is_leaving() => State::Stopping,
            Condition::Frozen => State::Frozen,
            Condition::Ready | Condition::Stopping => State::Ready,
        };
        let is_spare = self.is_spare;
        let calls = self.calls;
        let requests = self.requests;
        InstanceStatus { state, is_spare, calls, requests, age: now.duration_since(self.born) }
    }

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

    /// Gives a place at it.
    pub(super) fn grant(&mut self, caller: CallerKey) -> Grant<M> {
        let is_frozen = self.condition == Condition::Frozen;
        let was_spare = self.is_spare;
        (self.condition, self.is_spare) = (Condition::Ready, false);
        self.calls += 1;
        self.requests += 1;
        Grant { id: self.id, caller, instance: self.instance.clone(), is_frozen, was_spare }
    }

    /// Takes a place back that nobody had.
    pub(super) fn take_back(&mut self, grant: &Grant<M>) {
        self.calls -= 1;
        self.requests -= 1;
        self.is_spare = grant.was_spare;
        if grant.is_frozen {
            self.condition = Condition::Frozen;
        }
    }

    /// Takes note whether it has served for long enough; returns when it will have, by its age.
    pub(super) fn wears(&mut self, life: &LifeLimits, now: Instant) -> Option<Instant> {
        if !self.is_active() || self.is_worn {
            return None;
        }
        let ends = life.max_age.and_then(|age| self.born.checked_add(age));
        self.is_worn = life.max_requests.is_some_and(|most| self.requests >= most)
            || ends.is_some_and(|at| at <= now);
        ends.filter(|_| !self.is_worn)
    }
}

//! Instances that another takes over from, since they have served for as long as they may or are
//! not well, and calls that give their place up.

use tidewire_service::CallerKey;
use tokio::time::Instant;

use super::Pool;
use super::instance::Condition;

impl<M: Clone> Pool<M> {
    /// Whether calls wait for more places than are about to be given up.
    pub(crate) fn needs_places(&self) -> bool {
        self.waiting.open() > self.vacating
    }

    /// Whether a call is to give its place up for one that waits, which it does now.
    pub(crate) fn vacate(&mut self) -> bool {
        let is_needed = self.needs_places();
        self.vacating += usize::from(is_needed);
        is_needed
    }

    /// The same for a call that has a place for as long as it likes, unless its caller has more of
    /// them than whoever waits.
    pub(crate) fn vacate_share(&mut self, caller: CallerKey) -> bool {
        self.waiting.beyond_share(caller, &self.holders) > self.vacating && self.vacate()
    }

    /// A place that was to be given up is not.
    pub(crate) fn keep(&mut self) {
        self.vacating = self.vacating.saturating_sub(1);
    }

    /// Whether an instance gets further calls once it has places.
    pub(crate) fn gets_calls(&self, id: u64) -> bool {
        self.members.iter().any(|member| member.id == id && member.is_active())
    }

    /// Lets spares take over from those that have served for as long as they may; returns when
    /// another will have, by its age.
    pub(super) fn take_over(&mut self, now: Instant) -> Option<Instant> {
        let life = &self.life;
        let next = self.members.iter_mut().filter_map(|member| member.wears(life, now)).min();
        while self.has_worn() {
            let spare = self.members.iter_mut().find(|member| member.stands_by());
            let Some(spare) = spare else { break };
            spare.is_spare = false;
            self.retire_worn();
        }
        next
    }

    pub(super) fn retire_worn(&mut self) {
        let worn = self.members.iter_mut().find(|m| m.is_active() && m.is_worn);
        worn.into_iter().for_each(|member| member.retires = true);
    }

    pub(super) fn has_worn(&self) -> bool {
        self.members.iter().any(|m| m.is_active() && m.is_worn)
    }

    /// Whether an instance runs and has somebody left to answer by.
    pub(crate) fn can_be_asked(&self, id: u64) -> bool {
        let member = self.members.iter().find(|member| member.id == id);
        member.is_some_and(|m| {
            m.condition == Condition::Ready && !m.retires && m.calls < self.life.concurrency
        })
    }

    /// An instance serves until another takes over.
    pub(crate) fn wears_out(&mut self, id: u64) {
        let member = self.members.iter_mut().find(|member| member.id == id);
        member.into_iter().for_each(|member| {
            member.is_worn = !member.is_spare;
            member.retires |= member.is_spare;
        });
    }
}

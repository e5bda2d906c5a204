//! Which instance takes a call, who waits, and when one is started, frozen or stopped.
//!
//! ```text
//!            first call            can be called          no calls for a while
//!  (nothing) ─────────▶ starting ────────────────▶ ready ───────────────────▶ frozen
//!      ▲                   │ fails                  │ ▲ └──────┐ for longer     │
//!      │                   ▼                        │ └────────┼── a call ──────┤
//!      └──── rest ◀── crashed ◀─────────────────────┘          ▼                ▼
//!      └──────────────────────────────────────────────────── stopping ◀─────────┘
//! ```
//!
//! One that has had `max_requests` or `max_age` serves until a spare, or one that is started for
//! it, takes over (`pool/replacement.rs`).
//!
//! Spares are started ahead and stand by, ready or frozen, until a call finds no place at another.
//! New settings make a new generation of instances: those of the one before serve until one of the
//! new can be called, and then end with their calls.
//!
//! Here are the decisions, by the time that is given; [`Step`] says what to do. Processes, sockets
//! and tasks are in `service/keeper.rs`, so that all of this is tested without any.

use std::time::Duration;

use tidewire_service::CallerKey;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limits::LifeLimits;
use crate::supervisor::message::End;

mod breaker;
mod callers;
pub(crate) mod failure;
pub(crate) mod grant;
mod idle;
mod instance;
mod replacement;
pub(crate) mod state;
pub(crate) mod step;

use self::breaker::Breaker;
use self::callers::{Holders, WaitQueue};
use self::failure::Failure;
use self::grant::{Grant, Refusal};
use self::instance::{Condition, PoolInstance};
use self::state::{Count, InstanceStatus};
use self::step::{Step, earliest};

/// The instances of a service and the calls that wait for one.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    life: LifeLimits,
    members: Vec<PoolInstance<M>>,
    waiting: WaitQueue<M>,
    holders: Holders,
    /// How many places are about to be given up for these.
    vacating: usize,
    /// Since when somebody has been waiting.
    waiting_since: Option<Instant>,
    is_starting: bool,
    /// Counts the settings that it was given.
    generation: u64,
    /// Whether instances are started ahead: not while an operator wants none.
    keeps_spares: bool,
    /// Since when an operator wants an instance, whether or not anybody calls.
    wanted_since: Option<Instant>,
    is_draining: bool,
    breaker: Breaker,
    failure: Option<Failure>,
    /// When that was.
    failed_at: Option<Instant>,
    starts: u64,
    /// Calls of instances that are gone.
    requests: u64,
    /// When the next step is, as the last one had it.
    planned: Option<Instant>,
}

/// What [`Pool::take`] came to.
#[derive(Debug)]
pub(crate) enum TakeResult<M> {
    /// A place.
    Granted(Grant<M>),
    /// One will be there, or a refusal.
    Later(oneshot::Receiver<Result<Grant<M>, Refusal>>),
    /// There will be none.
    Refused(Refusal),
}

impl<M: Clone> Pool<M> {
    pub(crate) fn new(life: LifeLimits) -> Self {
        Self {
            life,
            members: Vec::new(),
            waiting: WaitQueue::default(),
            holders: Holders::default(),
            vacating: 0,
            waiting_since: None,
            is_starting: false,
            generation: 1,
            keeps_spares: true,
            wanted_since: None,
            is_draining: false,
            breaker: Breaker::default(),
            failure: None,
            failed_at: None,
            starts: 0,
            requests: 0,
            planned: None,
        }
    }

    /// Takes a place for a call of this caller.
    pub(crate) fn take(&mut self, caller: CallerKey, now: Instant) -> TakeResult<M> {
        if self.is_draining {
            return TakeResult::Refused(Refusal::Draining);
        }
        self.keeps_spares = true;
        if let Some(grant) = self.grant(caller) {
            return TakeResult::Granted(grant);
        }
        let failure = self.failure.clone();
        if let (Some(until), Some(failure)) = (self.breaker.is_broken_until(now), failure)
            && self.active() == 0
        {
            return TakeResult::Refused(Refusal::Failed(failure, until - now));
        }
        if !self.waiting.has_room(caller, self.life.queue_max) {
            return TakeResult::Refused(Refusal::QueueFull);
        }
        let receiver = self.waiting.add(caller);
        self.waiting_since.get_or_insert(now);
        TakeResult::Later(receiver)
    }

    /// Takes a place at one of these instances, the first that is there, above its concurrency: it
    /// serves a call that waits for this one.
    pub(crate) fn take_above(
        &mut self,
        caller: CallerKey,
        ids: impl Iterator<Item = u64>,
    ) -> Option<Grant<M>> {
        let mut ids = ids;
        let at = ids.find_map(|id| self.members.iter().position(|member| member.id == id))?;
        let member = &mut self.members[at];
        member.calls += 1;
        member.requests += 1;
        let id = member.id;
        let instance = member.instance.clone();
        self.holders.take(caller);
        Some(Grant { id, caller, instance, is_frozen: false, was_spare: false })
    }

    /// An instance that was to be frozen or ended has work that is not a call; returns whether it
    /// goes on.
    pub(crate) fn goes_on(&mut self, id: u64, now: Instant) -> bool {
        let member = self.members.iter_mut().find(|member| member.id == id);
        let Some(member) = member.filter(|member| !member.retires) else { return false };
        (member.condition, member.idle_since) = (Condition::Ready, now);
        true
    }

    /// Wants an instance to run, as a call would; returns whether one has to be started.
    pub(crate) fn want(&mut self, now: Instant) -> bool {
        self.keeps_spares = true;
        let is_missing = self.active() == 0 && !self.is_draining;
        if is_missing {
            self.wanted_since.get_or_insert(now);
        }
        is_missing
    }

    /// Gives no more calls to the instances that there are, which end with those that they have;
    /// returns how many.
    pub(crate) fn retire(&mut self) -> usize {
        (self.wanted_since, self.keeps_spares) = (None, false);
        let running = self.members.iter_mut().filter(|m| m.is_active() || m.stands_by());
        running.map(|member| member.retires = true).count()
    }

    /// An instance takes no more calls, by its own word.
    pub(crate) fn leaves(&mut self, id: u64, now: Instant) {
        self.members.iter_mut().filter(|m| m.id == id).for_each(|m| m.retires = true);
        // A spare may serve in its place.
        self.hand_out(now);
    }

    /// Starts instances by other settings from now on; returns whether any serve by those before.
    /// These do so until one of the new can be called, and for good if none ever can.
    pub(crate) fn replace(&mut self, life: LifeLimits, now: Instant) -> bool {
        (self.life, self.generation) = (life, self.generation + 1);
        self.close_breaker();
        let serves = self.active() > 0;
        if serves {
            self.wanted_since.get_or_insert(now);
        }
        self.members.iter_mut().filter(|m| m.stands_by()).for_each(|m| m.retires = true);
        serves
    }

    /// Which settings it has.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Freezes instances that have no calls until their next one; returns those, and how many are
    /// busy.
    pub(crate) fn freeze(&mut self, is_quiet: impl Fn(&M) -> bool) -> (Vec<M>, usize) {
        let mut frozen = Vec::new();
        let mut busy = 0;
        for member in &mut self.members {
            let runs = member.is_active() || member.stands_by();
            if !runs || member.condition != Condition::Ready {
                continue;
            }
            if member.calls > 0 || !is_quiet(&member.instance) {
                busy += 1;
                continue;
            }
            member.condition = Condition::Frozen;
            frozen.push(member.instance.clone());
        }
        (frozen, busy)
    }

    /// Lets frozen instances run again, and returns them.
    pub(crate) fn thaw(&mut self, now: Instant) -> Vec<M> {
        let frozen = self.members.iter_mut().filter(|m| m.condition == Condition::Frozen);
        let thawed = frozen.map(|member| {
            (member.condition, member.idle_since) = (Condition::Ready, now);
            member.instance.clone()
        });
        thawed.collect()
    }

    /// Forgets crashes, so that the next call starts an instance.
    pub(crate) fn close_breaker(&mut self) {
        self.breaker = Breaker::default();
        self.failure = None;
        self.failed_at = None;
    }

    /// Whether no more calls are let in.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// A call of this caller at an instance is over; returns whether there is a step before the one
    /// that is planned.
    pub(crate) fn give_back(&mut self, id: u64, caller: CallerKey, now: Instant) -> bool {
        self.holders.give_back(caller);
        let idle_stop = self.idle_stop();
        let member = self.members.iter_mut().find(|member| member.id == id);
        let Some(member) = member else { return false };
        member.calls -= 1;
        member.idle_since = now;
        self.vacating = self.vacating.saturating_sub(1);
        let due = member.due(idle_stop, self.life.idle_freeze, now);
        let is_sooner = |due: Instant| self.planned.is_none_or(|planned| due < planned);
        let brings_forward = member.is_idle() && due.is_some_and(is_sooner);
        let is_worn = self.life.max_requests.is_some_and(|most| member.requests >= most);
        let is_waited_for = !self.waiting.is_empty();
        self.hand_out(now);
        brings_forward || is_waited_for || is_worn
    }

    /// An instance can be called, that was started by settings of this generation. Returns whether
    /// it takes the place of those before.
    pub(crate) fn started(&mut self, id: u64, instance: M, generation: u64, now: Instant) -> bool {
        self.is_starting = false;
        self.starts += 1;
        let is_newest = generation == self.generation;
        let replaces = is_newest && self.has_older();
        if is_newest {
            self.breaker.started(now);
        }
        self.waiting.retain_open();
        // What was started to spare calls the wait, and is not needed by now.
        let is_wanted = self.wanted_since.is_some() || !self.waiting.is_empty() || self.has_worn();
        let is_full = self.current() >= self.life.instances_max;
        let is_spare = is_full || !replaces && !is_wanted;
        self.wanted_since = (!is_newest).then_some(now);
        if replaces {
            let older = self.members.iter_mut().filter(|m| m.generation < generation);
            older.for_each(|member| member.retires = true);
        }
        let is_short = self.is_short_of_spares();
        let serves = !is_spare;
        self.members.push(PoolInstance {
            id,
            instance,
            generation,
            calls: 0,
            requests: 0,
            born: now,
            idle_since: now,
            condition: Condition::Ready,
            is_worn: false,
            is_spare: is_spare && is_short,
            retires: is_full && !is_short,
        });
        if serves {
            self.retire_worn();
        }
        self.hand_out(now);
        replaces
    }

    /// An instance could not be started by settings of this generation; whoever waits is told,
    /// unless there are newer ones to try.
    pub(crate) fn start_failed(&mut self, failure: Failure, generation: u64, now: Instant) {
        self.is_starting = false;
        if generation < self.generation {
            return;
        }
        // What has to be replaced still has to be, after a rest.
        self.wanted_since = self.has_older().then_some(now);
        match failure.is_hopeless {
            true => self.breaker.give_up(now),
            false => self.breaker.crashed(now),
        }
        self.fail(failure, now);
        // Others still serve, so that it is worth while to wait.
        if self.active() == 0 {
            self.refuse(now);
        }
    }

    /// An instance has ended; returns whether it crashed. The end of the supervisor is no
    /// crash of a program: it is started again at once.
    pub(crate) fn ended(&mut self, id: u64, end: End, now: Instant) -> bool {
        let Some(index) = self.members.iter().position(|member| member.id == id) else {
            return false;
        };
        let member = self.members.remove(index);
        self.requests += member.requests;
        // A spare may serve in its place.
        self.hand_out(now);
        let is_leaving = end == End::Code(0) && member.calls == 0;
        let is_wanted = member.condition != Condition::Stopping && !member.retires;
        if !is_wanted || is_leaving && !member.is_spare {
            // Its successor serves; why it did not end as it should is told all the same.
            let is_told = member.condition != Condition::Stopping && end.is_own_doing();
            if is_told && end != End::Code(0) {
                self.fail(Failure::text(end.to_string()), now);
            }
            return false;
        }
        let is_of_call = end.is_own_doing() && member.calls == 1;
        match end {
            End::Lost => {}
            _ if is_of_call && member.requests > 1 => self.breaker.crashed_in_a_call(now),
            _ => self.breaker.crashed(now),
        }
        self.fail(Failure::text(end.to_string()), now);
        if self.breaker.is_broken_until(now).is_some() && self.active() == 0 {
            self.refuse(now);
        }
        true
    }

    /// How many calls an instance has.
    pub(crate) fn calls_of(&self, id: u64) -> Option<usize> {
        self.members.iter().find(|member| member.id == id).map(|member| member.calls)
    }

    /// What there is to say of the last failure.
    pub(crate) fn failed_since(&mut self, why: &str, now: Instant) {
        self.fail(Failure::text(why.to_owned()), now);
    }

    /// The last failure was in this call.
    pub(crate) fn failed_in(&mut self, end: End, call: &str) {
        let text = end.to_string();
        if let Some(failure) = self.failure.as_mut().filter(|failure| failure.text == text) {
            failure.text = format!("{text}, in its one call, {call}");
        }
    }

    /// Lets no more calls in; instances end when they have no calls.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        self.waiting.refuse_all(&Refusal::Draining);
    }

    /// What to do next.
    pub(crate) fn step(&mut self, now: Instant) -> Step<M> {
        self.waiting.retain_open();
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
        let idle_stop = self.idle_stop();
        let mut next = self.take_over(now);
        for member in self.members.iter_mut().filter(|member| member.is_idle()) {
            let idle_stop = idle_stop.filter(|_| !member.is_spare || self.is_draining);
            if let Some(step) = member.step(idle_stop, self.life.idle_freeze, now, &mut next) {
                return step;
            }
        }
        if self.is_draining {
            let is_done = self.members.is_empty() && !self.is_starting;
            self.planned = None;
            return if is_done { Step::Done } else { Step::Wait(None) };
        }
        match self.start_at(now) {
            Some(at) if at <= now => {
                self.is_starting = true;
                Step::Start
            }
            at => {
                self.planned = earliest(next, at);
                Step::Wait(self.planned)
            }
        }
    }

    /// What instances there are, by their place in their lives.
    pub(crate) fn count(&self) -> Count {
        let of = |condition| {
            self.members.iter().filter(|m| m.is_active() && m.condition == condition).count()
        };
        Count {
            is_starting: self.is_starting,
            ready: of(Condition::Ready),
            frozen: of(Condition::Frozen),
            spares: self.members.iter().filter(|member| member.stands_by()).count(),
            stopping: self.members.iter().filter(|m| !m.is_active() && !m.stands_by()).count(),
            calls: self.members.iter().map(|member| member.calls).sum(),
            waiting: self.waiting.open(),
            starts: self.starts,
        }
    }

    /// Whether calls wait for a start, and not for a place at an instance that serves.
    pub(crate) fn awaits_start(&self) -> bool {
        self.is_starting && self.active() == 0
    }

    /// The instances that there are.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &M> {
        self.members.iter().map(|member| &member.instance)
    }

    /// How many calls instances were given.
    pub(crate) fn requests(&self) -> u64 {
        self.requests + self.members.iter().map(|member| member.requests).sum::<u64>()
    }

    /// How each instance is.
    pub(crate) fn each(&self, now: Instant) -> impl Iterator<Item = (&M, InstanceStatus)> {
        self.members.iter().map(move |member| (&member.instance, member.status(now)))
    }

    /// Until when it is broken.
    pub(crate) fn is_broken_until(&self, now: Instant) -> Option<Instant> {
        self.breaker.is_broken_until(now)
    }

    /// The last failure.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// How long ago the last failure was.
    pub(crate) fn failure_age(&self, now: Instant) -> Option<Duration> {
        self.failed_at.map(|at| now.saturating_duration_since(at))
    }

    fn fail(&mut self, failure: Failure, now: Instant) {
        self.failure = Some(failure);
        self.failed_at = Some(now);
    }

    /// When an instance is to be started, if any is.
    fn start_at(&self, now: Instant) -> Option<Instant> {
        if self.is_starting {
            return None;
        }
        let current = self.current();
        let needed = earliest(self.waiting_since, self.wanted_since)
            .filter(|_| current < self.life.instances_max)
            .map(|since| if current == 0 { since } else { since + PATIENCE });
        let ahead = (self.is_short_of_spares() || self.has_worn()).then_some(now);
        let wanted = earliest(needed, ahead)?;
        Some(self.breaker.rests_until(now).map_or(wanted, |until| until.max(wanted)))
    }

    /// How many instances serve. Those of older settings, and those that are worn, are about to
    /// leave, and take no place.
    fn current(&self) -> usize {
        let current =
            |m: &&PoolInstance<M>| m.is_active() && !m.is_worn && m.generation == self.generation;
        self.members.iter().filter(current).count()
    }

    /// Whether instances serve that are to be replaced.
    fn has_older(&self) -> bool {
        self.members.iter().any(|m| m.is_active() && m.generation < self.generation)
    }

    fn is_short_of_spares(&self) -> bool {
        let spares = self.members.iter().filter(|member| member.stands_by()).count();
        self.keeps_spares && spares < self.life.spares
    }

    fn active(&self) -> usize {
        self.members.iter().filter(|member| member.is_active()).count()
    }

    /// A place at the instance with the fewest calls: one that is frozen if there is no other, one
    /// that was started ahead if all others are busy.
    fn grant(&mut self, caller: CallerKey) -> Option<Grant<M>> {
        let concurrency = self.life.concurrency;
        let has_room = self.active() < self.life.instances_max;
        let is_free = |member: &&mut PoolInstance<M>| {
            (member.is_active() || has_room && member.stands_by()) && member.calls < concurrency
        };
        let free = self.members.iter_mut().filter(is_free);
        let member = free
            .min_by_key(|m| (m.is_spare, m.is_worn, m.condition == Condition::Frozen, m.calls))?;
        let grant = member.grant(caller);
        self.holders.take(caller);
        Some(grant)
    }

    /// Gives places to those who wait: to a call of the caller that has the fewest, of these to the
    /// first.
    fn hand_out(&mut self, now: Instant) {
        self.waiting.retain_open();
        while let Some(next) = self.waiting.next(&self.holders) {
            let Some(grant) = self.grant(next.caller) else { return };
            if let Err(grant) = self.waiting.tell(next, grant) {
                self.holders.give_back(grant.caller);
                let member = self.members.iter_mut().find(|member| member.id == grant.id);
                member.expect("it was just granted").take_back(&grant);
            }
            // Whoever is next waits anew for its own instance.
            self.waiting_since = Some(now);
        }
        self.waiting_since = None;
    }

    fn refuse(&mut self, now: Instant) {
        let Some(failure) = &self.failure else { return };
        let rest = self.breaker.rests_until(now).map_or(Duration::ZERO, |until| until - now);
        self.waiting.refuse_all(&Refusal::Failed(failure.clone(), rest));
        self.waiting_since = None;
    }
}

/// How long calls wait for a place at a busy instance before another one is started.
const PATIENCE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;

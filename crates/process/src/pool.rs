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
//! Here are the decisions, by the time that is given; [`Step`] says what to do. Processes, sockets and
//! tasks are in `hosted.rs`, so that all of this is tested without any.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::breaker::Breaker;
use crate::life::Life;
use crate::message::End;

/// The instances of a service and the calls that wait for one.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    life: Life,
    members: Vec<Member<M>>,
    waiting: VecDeque<oneshot::Sender<Result<Grant<M>, Refusal>>>,
    /// Since when somebody has been waiting.
    waiting_since: Option<Instant>,
    is_starting: bool,
    /// Since when an operator wants an instance, whether or not anybody calls.
    wanted_since: Option<Instant>,
    is_draining: bool,
    breaker: Breaker,
    failure: Option<Failure>,
    starts: u64,
}

#[derive(Debug)]
struct Member<M> {
    id: u64,
    instance: M,
    calls: usize,
    idle_since: Instant,
    condition: Condition,
    /// It gets no more calls, and ends with those that it has.
    retires: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
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
}

/// What [`Pool::take`] came to.
#[derive(Debug)]
pub(crate) enum Taken<M> {
    /// A place.
    Granted(Grant<M>),
    /// One will be there, or a refusal.
    Later(oneshot::Receiver<Result<Grant<M>, Refusal>>),
    /// There will be none.
    Refused(Refusal),
}

/// Why a call gets no instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many wait.
    QueueFull,
    /// It could not be started; the next attempt is not before this.
    Failed(Failure, Duration),
    /// It is being ended.
    Draining,
}

/// Why an instance could not be started, or crashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What there is to say: `it ended with exit code 1`.
    pub(crate) text: String,
    /// The program itself cannot be run.
    pub(crate) is_hopeless: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<M> {
    /// Start an instance, and tell by `started` or `start_failed`.
    Start,
    /// Freeze this one.
    Freeze(M),
    /// End this one, and tell by `ended`.
    Stop(M),
    /// Nothing before this, unless something happens.
    Wait(Option<Instant>),
    /// Nothing ever again.
    Done,
}

impl<M: Clone> Pool<M> {
    pub(crate) fn new(life: Life) -> Self {
        Self {
            life,
            members: Vec::new(),
            waiting: VecDeque::new(),
            waiting_since: None,
            is_starting: false,
            wanted_since: None,
            is_draining: false,
            breaker: Breaker::default(),
            failure: None,
            starts: 0,
        }
    }

    /// Takes a place for a call.
    pub(crate) fn take(&mut self, now: Instant) -> Taken<M> {
        if self.is_draining {
            return Taken::Refused(Refusal::Draining);
        }
        if let Some(grant) = self.grant() {
            return Taken::Granted(grant);
        }
        let failure = self.failure.clone();
        if let (Some(until), Some(failure)) = (self.breaker.is_broken_until(now), failure) {
            return Taken::Refused(Refusal::Failed(failure, until - now));
        }
        self.waiting.retain(|waiting| !waiting.is_closed());
        if self.waiting.len() >= self.life.queue_max {
            return Taken::Refused(Refusal::QueueFull);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(sender);
        self.waiting_since.get_or_insert(now);
        Taken::Later(receiver)
    }

    /// Takes a place at one of these instances, the first that is there, above its concurrency: it serves
    /// a call that waits for this one.
    pub(crate) fn take_above(&mut self, ids: impl Iterator<Item = u64>) -> Option<Grant<M>> {
        let mut ids = ids;
        let at = ids.find_map(|id| self.members.iter().position(|member| member.id == id))?;
        let member = &mut self.members[at];
        member.calls += 1;
        Some(Grant { id: member.id, instance: member.instance.clone(), is_frozen: false })
    }

    /// An instance that was to be frozen or ended has work that is no call; returns whether it goes on.
    pub(crate) fn goes_on(&mut self, id: u64, now: Instant) -> bool {
        let member = self.members.iter_mut().find(|member| member.id == id);
        let Some(member) = member.filter(|member| !member.retires) else { return false };
        (member.condition, member.idle_since) = (Condition::Ready, now);
        true
    }

    /// Wants an instance to run, as a call would; returns whether one has to be started.
    pub(crate) fn want(&mut self, now: Instant) -> bool {
        let is_missing = self.active() == 0 && !self.is_draining;
        if is_missing {
            self.wanted_since.get_or_insert(now);
        }
        is_missing
    }

    /// Gives no more calls to the instances that there are, which end with those that they have; returns
    /// how many.
    pub(crate) fn retire(&mut self) -> usize {
        self.wanted_since = None;
        let running = self.members.iter_mut().filter(|member| member.is_active());
        running.map(|member| member.retires = true).count()
    }

    /// Freezes instances that have no calls until their next one; returns those, and how many are busy.
    pub(crate) fn freeze(&mut self, is_quiet: impl Fn(&M) -> bool) -> (Vec<M>, usize) {
        let (mut frozen, mut busy) = (Vec::new(), 0);
        for member in &mut self.members {
            if !member.is_active() || member.condition != Condition::Ready {
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
        (self.breaker, self.failure) = (Breaker::default(), None);
    }

    /// Whether no more calls are let in.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// A call of an instance is over.
    pub(crate) fn give_back(&mut self, id: u64, now: Instant) {
        let Some(member) = self.members.iter_mut().find(|member| member.id == id) else { return };
        member.calls -= 1;
        member.idle_since = now;
        self.hand_out(now);
    }

    /// An instance can be called.
    pub(crate) fn started(&mut self, id: u64, instance: M, now: Instant) {
        (self.is_starting, self.wanted_since) = (false, None);
        self.starts += 1;
        self.breaker.started(now);
        let condition = Condition::Ready;
        let (calls, retires) = (0, false);
        self.members.push(Member { id, instance, calls, idle_since: now, condition, retires });
        self.hand_out(now);
    }

    /// An instance could not be started; whoever waits is told.
    pub(crate) fn start_failed(&mut self, failure: Failure, now: Instant) {
        (self.is_starting, self.wanted_since) = (false, None);
        match failure.is_hopeless {
            true => self.breaker.give_up(now),
            false => self.breaker.crashed(now),
        }
        self.failure = Some(failure);
        // Others still serve, so that it is worth while to wait.
        if self.active() == 0 {
            self.refuse(now);
        }
    }

    /// An instance has ended; returns whether that was a crash.
    pub(crate) fn ended(&mut self, id: u64, end: End, now: Instant) -> bool {
        let Some(index) = self.members.iter().position(|member| member.id == id) else {
            return false;
        };
        let member = self.members.remove(index);
        let is_leaving = end == End::Code(0) && member.calls == 0;
        if member.condition == Condition::Stopping || is_leaving {
            return false;
        }
        self.breaker.crashed(now);
        self.failure = Some(Failure { text: end.to_string(), is_hopeless: false });
        if self.breaker.is_broken_until(now).is_some() && self.active() == 0 {
            self.refuse(now);
        }
        true
    }

    /// Lets no more calls in; instances end when they have no calls.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(Err(Refusal::Draining));
        }
    }

    /// What to do next.
    pub(crate) fn step(&mut self, now: Instant) -> Step<M> {
        self.waiting.retain(|waiting| !waiting.is_closed());
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
        let idle_stop = match self.is_draining {
            true => Some(Duration::ZERO),
            false => self.life.idle_stop,
        };
        let mut next = None;
        for member in self.members.iter_mut().filter(|member| member.is_idle()) {
            if let Some(step) = member.step(idle_stop, self.life.idle_freeze, now, &mut next) {
                return step;
            }
        }
        if self.is_draining {
            let is_done = self.members.is_empty() && !self.is_starting;
            return if is_done { Step::Done } else { Step::Wait(None) };
        }
        match self.start_at(now) {
            Some(at) if at <= now => {
                self.is_starting = true;
                Step::Start
            }
            at => Step::Wait(earliest(next, at)),
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
            stopping: self.members.iter().filter(|member| !member.is_active()).count(),
            calls: self.members.iter().map(|member| member.calls).sum(),
            waiting: self.waiting.iter().filter(|waiting| !waiting.is_closed()).count(),
            starts: self.starts,
        }
    }

    /// The instances that there are.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &M> {
        self.members.iter().map(|member| &member.instance)
    }

    /// Until when it is broken.
    pub(crate) fn is_broken_until(&self, now: Instant) -> Option<Instant> {
        self.breaker.is_broken_until(now)
    }

    /// The last failure.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// When an instance is to be started, if any is.
    fn start_at(&self, now: Instant) -> Option<Instant> {
        let since = earliest(self.waiting_since, self.wanted_since)?;
        if self.is_starting || self.active() >= self.life.instances_max {
            return None;
        }
        let wanted = if self.active() == 0 { since } else { since + PATIENCE };
        Some(self.breaker.rests_until(now).map_or(wanted, |until| until.max(wanted)))
    }

    fn active(&self) -> usize {
        self.members.iter().filter(|member| member.is_active()).count()
    }

    /// A place at the instance with the fewest calls, a frozen one if there is no other.
    fn grant(&mut self) -> Option<Grant<M>> {
        let concurrency = self.life.concurrency;
        let free = self
            .members
            .iter_mut()
            .filter(|member| member.is_active() && member.calls < concurrency);
        let member =
            free.min_by_key(|member| (member.condition == Condition::Frozen, member.calls))?;
        let is_frozen = member.condition == Condition::Frozen;
        member.condition = Condition::Ready;
        member.calls += 1;
        Some(Grant { id: member.id, instance: member.instance.clone(), is_frozen })
    }

    /// Gives places to those who wait, the first first.
    fn hand_out(&mut self, now: Instant) {
        self.waiting.retain(|waiting| !waiting.is_closed());
        while !self.waiting.is_empty() {
            let Some(grant) = self.grant() else { return };
            let id = grant.id;
            let first = self.waiting.pop_front().expect("it is not empty");
            if first.send(Ok(grant)).is_err() {
                let member = self.members.iter_mut().find(|member| member.id == id);
                member.expect("it was just granted").calls -= 1;
            }
            // Whoever is next waits anew for an instance of its own.
            self.waiting_since = Some(now);
        }
        self.waiting_since = None;
    }

    fn refuse(&mut self, now: Instant) {
        let Some(failure) = &self.failure else { return };
        let rest = self.breaker.rests_until(now).map_or(Duration::ZERO, |until| until - now);
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(Err(Refusal::Failed(failure.clone(), rest)));
        }
        self.waiting_since = None;
    }
}

impl<M: Clone> Member<M> {
    /// Whether it is given calls.
    fn is_active(&self) -> bool {
        self.condition != Condition::Stopping && !self.retires
    }

    fn is_idle(&self) -> bool {
        self.calls == 0 && self.condition != Condition::Stopping
    }

    /// What to do with it, since it is idle; `next` becomes when to ask again.
    fn step(
        &mut self,
        stop: Option<Duration>,
        freeze: Option<Duration>,
        now: Instant,
        next: &mut Option<Instant>,
    ) -> Option<Step<M>> {
        let due =
            |after: Option<Duration>| after.and_then(|after| self.idle_since.checked_add(after));
        let (stop, freeze) =
            (due(stop), due(freeze).filter(|_| self.condition == Condition::Ready));
        if self.retires || stop.is_some_and(|at| at <= now) {
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

/// How many instances are where, and how many were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) is_starting: bool,
    pub(crate) ready: usize,
    pub(crate) frozen: usize,
    pub(crate) stopping: usize,
    pub(crate) waiting: usize,
    /// Calls that instances have.
    pub(crate) calls: usize,
    pub(crate) starts: u64,
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// How long calls wait for a place at a busy instance before another one is started.
const PATIENCE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;

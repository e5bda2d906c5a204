//! Hosts that follow a change log, and their database, in a virtual clock.
//!
//! A host does what `postgres/session.rs` does: it waits for a wake-up or for its timer, tells the
//! others if it wrote, polls, and now and then checks its triggers and trims. It has one statement
//! under way at most, and wake-ups that come meanwhile are one. The database is a number of
//! cores with one queue. Not in the model: locks other than that of `NOTIFY`, a disk, packets that
//! are lost, and that one backend does one thing at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Virtual nanoseconds.
pub(crate) type Nanoseconds = u64;

pub(crate) const MICROSECOND: Nanoseconds = 1_000;
pub(crate) const MILLISECOND: Nanoseconds = 1_000_000;
pub(crate) const SECOND: Nanoseconds = 1_000_000_000;

/// How long a core of the database is busy with something.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Costs {
    /// A poll that finds nothing.
    pub(crate) poll: Nanoseconds,
    /// Each row that a poll finds.
    pub(crate) row: Nanoseconds,
    /// A `NOTIFY`, but for its listeners.
    pub(crate) notify: Nanoseconds,
    /// What a `NOTIFY` costs its sender for each backend that listens.
    pub(crate) signal: Nanoseconds,
    /// A backend that listens hears a notification and passes it on.
    pub(crate) hear: Nanoseconds,
    /// Whether every trigger is in place.
    pub(crate) check: Nanoseconds,
    /// A trim that finds nothing to remove.
    pub(crate) trim: Nanoseconds,
    /// A captured row is written.
    pub(crate) write: Nanoseconds,
    /// From a host to the database, or back; no core is busy.
    pub(crate) network: Nanoseconds,
    /// A timer is late by up to this.
    pub(crate) grain: Nanoseconds,
}

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) hosts: usize,
    pub(crate) cores: usize,
    pub(crate) costs: Costs,
    pub(crate) poll: Nanoseconds,
    pub(crate) check: Nanoseconds,
    pub(crate) trim: Nanoseconds,
    /// A host that is woken sooner after its last poll waits until then; ours do so only after one
    /// that they were woken for.
    pub(crate) rest: Nanoseconds,
    /// Whether hosts wake each other; otherwise every write is as one of `psql`.
    pub(crate) wake: bool,
    /// At random moments, each through a random host.
    pub(crate) writes_per_second: f64,
    pub(crate) length: Nanoseconds,
    pub(crate) seed: u64,
}

/// What came of it, but for the first tenth, in which it settles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) polls_per_second: f64,
    /// Of all cores, what the log takes: polls, wake-ups, checks, trims.
    pub(crate) log_share: f64,
    /// Of all cores, what writers take.
    pub(crate) write_share: f64,
    /// From the acknowledgement of a commit until it is stale on another host; sorted.
    pub(crate) delays: Vec<Nanoseconds>,
}

impl Outcome {
    /// `None` where no commit has come to another host.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Nanoseconds> {
        let last = self.delays.len().checked_sub(1)?;
        Some(self.delays[last * percent / 100])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Poll { seen: usize },
    Notify,
    Hear,
    Check,
    Trim,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    kind: Kind,
    host: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Somebody begins to write.
    Writes,
    /// A statement is at the database.
    Arrives(Job),
    /// A core is done with it.
    Ends(Job),
    /// Its answer is at the host.
    Answered(Job),
    /// A timer of a host, and for which of its waits.
    Timer(usize, u64),
    /// A host has rested; the same.
    Rested(usize, u64),
    /// A notification is at the host.
    Heard(usize),
}

/// What happens when; events of one moment in the order in which they were caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanoseconds,
    number: u64,
    event: Event,
}

#[derive(Debug, Default, Clone)]
struct Host {
    is_waiting: bool,
    wait: u64,
    has_written: bool,
    has_heard: bool,
    is_signalled: bool,
    rested: Nanoseconds,
    /// How many commits it has applied.
    applied: usize,
    next_check: Nanoseconds,
    next_trim: Nanoseconds,
}

#[derive(Debug)]
struct Commit {
    acknowledged: Nanoseconds,
    host: usize,
}

struct World {
    scenario: Scenario,
    now: Nanoseconds,
    number: u64,
    events: BinaryHeap<Reverse<Due>>,
    random: Random,
    hosts: Vec<Host>,
    commits: Vec<Commit>,
    idle_cores: usize,
    queue: VecDeque<Job>,
    /// `NOTIFY`s wait for each other: each holds a lock of the whole database.
    notifies: VecDeque<Job>,
    is_notifying: bool,
    polls: u64,
    log_busy: Nanoseconds,
    write_busy: Nanoseconds,
    delays: Vec<Nanoseconds>,
}

/// Runs a scenario to its end. The same scenario has the same outcome.
pub(crate) fn run(scenario: &Scenario) -> Outcome {
    let mut world = World::new(*scenario);
    while let Some(Reverse(Due { at, event, .. })) = world.events.pop() {
        if at > scenario.length {
            break;
        }
        world.now = at;
        world.happens(event);
    }
    let settled = (scenario.length - scenario.length / 10) as f64 / SECOND as f64;
    let capacity = settled * scenario.cores as f64 * SECOND as f64;
    world.delays.sort_unstable();
    Outcome {
        polls_per_second: world.polls as f64 / settled,
        log_share: world.log_busy as f64 / capacity,
        write_share: world.write_busy as f64 / capacity,
        delays: world.delays,
    }
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let mut world = Self {
            scenario,
            now: 0,
            number: 0,
            events: BinaryHeap::new(),
            random: Random(scenario.seed),
            hosts: vec![Host::default(); scenario.hosts],
            commits: Vec::new(),
            idle_cores: scenario.cores,
            queue: VecDeque::new(),
            notifies: VecDeque::new(),
            is_notifying: false,
            polls: 0,
            log_busy: 0,
            write_busy: 0,
            delays: Vec::new(),
        };
        for host in 0..scenario.hosts {
            // They started at any time.
            let phase = world.random.below(scenario.poll);
            let next_check = world.random.below(scenario.check);
            let next_trim = world.random.below(scenario.trim);
            world.hosts[host] = Host { is_waiting: true, next_check, next_trim, ..Host::default() };
            world.after(phase, Event::Timer(host, 0));
        }
        if scenario.writes_per_second > 0.0 {
            world.next_write();
        }
        world
    }

    fn after(&mut self, pause: Nanoseconds, event: Event) {
        self.number += 1;
        self.events.push(Reverse(Due { at: self.now + pause, number: self.number, event }));
    }

    fn is_settled(&self) -> bool {
        self.now >= self.scenario.length / 10
    }

    fn next_write(&mut self) {
        let mean = SECOND as f64 / self.scenario.writes_per_second;
        let pause = (-mean * self.random.share().ln()) as Nanoseconds;
        self.after(pause, Event::Writes);
    }

    fn happens(&mut self, event: Event) {
        let network = self.scenario.costs.network;
        match event {
            Event::Writes => {
                let host = self.random.below(self.hosts.len() as u64) as usize;
                self.send(Kind::Write, host);
                self.next_write();
            }
            Event::Arrives(job) if job.kind == Kind::Notify && self.is_notifying => {
                self.notifies.push_back(job);
            }
            Event::Arrives(job) => {
                self.is_notifying |= job.kind == Kind::Notify;
                self.queue.push_back(job);
                self.serve();
            }
            Event::Ends(job) => {
                self.idle_cores += 1;
                self.end(job);
                self.after(network, Event::Answered(job));
                self.serve();
            }
            Event::Answered(job) => self.answer(job),
            Event::Timer(host, wait) => {
                if self.hosts[host].is_waiting && self.hosts[host].wait == wait {
                    self.poll(host);
                }
            }
            Event::Rested(host, wait) => {
                if self.hosts[host].wait == wait {
                    self.look(host);
                }
            }
            Event::Heard(host) => {
                self.hosts[host].has_heard = true;
                self.look(host);
            }
        }
    }

    fn send(&mut self, kind: Kind, host: usize) {
        self.after(self.scenario.costs.network, Event::Arrives(Job { kind, host }));
    }

    /// Idle cores take what waits.
    fn serve(&mut self) {
        while self.idle_cores > 0 {
            let Some(mut job) = self.queue.pop_front() else { return };
            self.idle_cores -= 1;
            let costs = &self.scenario.costs;
            let cost = match &mut job.kind {
                Kind::Poll { seen } => {
                    // The statement's snapshot.
                    *seen = self.commits.len();
                    let rows = *seen - self.hosts[job.host].applied;
                    costs.poll + costs.row * rows as u64
                }
                Kind::Notify => costs.notify + costs.signal * self.hosts.len() as u64,
                Kind::Hear => costs.hear,
                Kind::Check => costs.check,
                Kind::Trim => costs.trim,
                Kind::Write => costs.write,
            };
            if self.is_settled() {
                match job.kind {
                    Kind::Write => self.write_busy += cost,
                    _ => self.log_busy += cost,
                }
            }
            self.after(cost, Event::Ends(job));
        }
    }

    /// What the database does when a statement ends.
    fn end(&mut self, job: Job) {
        match job.kind {
            Kind::Write => {
                let acknowledged = self.now + self.scenario.costs.network;
                self.commits.push(Commit { acknowledged, host: job.host });
            }
            Kind::Notify => {
                for host in 0..self.hosts.len() {
                    // A backend that was signalled already hears both at once.
                    if !std::mem::replace(&mut self.hosts[host].is_signalled, true) {
                        self.queue.push_back(Job { kind: Kind::Hear, host });
                    }
                }
                match self.notifies.pop_front() {
                    Some(next) => self.queue.push_back(next),
                    None => self.is_notifying = false,
                }
            }
            Kind::Hear => self.hosts[job.host].is_signalled = false,
            Kind::Poll { .. } | Kind::Check | Kind::Trim => {}
        }
    }

    fn answer(&mut self, Job { kind, host }: Job) {
        match kind {
            Kind::Write => {
                if self.scenario.wake {
                    self.hosts[host].has_written = true;
                    self.look(host);
                }
            }
            Kind::Hear => self.happens(Event::Heard(host)),
            Kind::Notify => self.poll(host),
            Kind::Poll { seen } => {
                self.apply(host, seen);
                self.keep_house(host);
            }
            Kind::Check => {
                self.hosts[host].next_check = self.now + self.scenario.check;
                self.keep_house(host);
            }
            Kind::Trim => {
                self.hosts[host].next_trim = self.now + self.scenario.trim;
                self.wait(host);
            }
        }
    }

    fn apply(&mut self, host: usize, seen: usize) {
        let applied = std::mem::replace(&mut self.hosts[host].applied, seen);
        if !self.is_settled() {
            return;
        }
        self.polls += 1;
        for commit in &self.commits[applied..seen] {
            // A writer with `psql` is on no host; one that is told of has marked its own.
            if commit.host != host || !self.scenario.wake {
                self.delays.push(self.now.saturating_sub(commit.acknowledged));
            }
        }
    }

    fn keep_house(&mut self, host: usize) {
        if self.hosts[host].next_check <= self.now {
            self.send(Kind::Check, host);
        } else if self.hosts[host].next_trim <= self.now {
            self.send(Kind::Trim, host);
        } else {
            self.wait(host);
        }
    }

    fn wait(&mut self, host: usize) {
        let late = self.random.below(self.scenario.costs.grain + 1);
        let state = &mut self.hosts[host];
        state.is_waiting = true;
        state.wait += 1;
        let wait = state.wait;
        state.rested = self.now + self.scenario.rest;
        self.after(self.scenario.poll + late, Event::Timer(host, wait));
        if self.scenario.rest > 0 {
            self.after(self.scenario.rest, Event::Rested(host, wait));
        }
        self.look(host);
    }

    /// Whether a host that waits has a reason to go on.
    fn look(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        if !state.is_waiting || self.now < state.rested {
            return;
        }
        if std::mem::take(&mut state.has_written) {
            state.is_waiting = false;
            self.send(Kind::Notify, host);
        } else if std::mem::take(&mut state.has_heard) {
            self.poll(host);
        }
    }

    fn poll(&mut self, host: usize) {
        self.hosts[host].is_waiting = false;
        self.send(Kind::Poll { seen: 0 }, host);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Above 0, and at most 1.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

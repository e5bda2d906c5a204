//! What there is to say of a hosted service.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::pool::state::State;
use crate::service::inner::Inner;
use crate::supervisor::usage;

/// What there is to say of a hosted service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Where it is in its life.
    pub state: State,
    /// The ids of its processes.
    pub pids: Vec<i32>,
    /// How many processes were started and could be called.
    pub starts: u64,
    /// How many processes were started ahead and stand by.
    pub spares: usize,
    /// How many calls wait for a process.
    pub waiting: usize,
    /// How many calls processes have.
    pub calls: usize,
    /// Why the last start failed, or the last process crashed.
    pub failure: Option<String>,
    /// How long ago that was.
    pub failure_age: Option<Duration>,
    /// Each process that can be called, or could.
    pub processes: Vec<ProcessStatus>,
    /// How often a process ran out of `memory_max`.
    pub out_of_memory: u64,
    /// How many processes crashed, or could not be started.
    pub crashes: u64,
    /// How many calls processes were given.
    pub requests: u64,
    /// How long starts took, all together, until their process could be called.
    pub start_time: Duration,
    /// How many calls waited for a process.
    pub queued: u64,
    /// How long these waited, all together, until they had a process.
    pub queue_time: Duration,
}

/// What there is to say of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessStatus {
    /// Its id.
    pub pid: i32,
    /// Whether it is ready, frozen, or ends with the calls that it has.
    pub state: State,
    /// Whether it was started ahead and stands by.
    pub is_spare: bool,
    /// How many calls it has.
    pub calls: usize,
    /// How many calls it was given.
    pub requests: u64,
    /// How often it was asked whether it is well.
    pub health_checks: u64,
    /// Since when it can be called.
    pub age: Duration,
    /// What keeps its bounds: `memory by cgroup v1`; empty where it has none.
    pub limits: String,
    /// Its bytes that are in memory, without those of what it has started.
    pub memory_bytes: u64,
    /// For how long it has run on a core, all its threads together.
    pub cpu_time: Duration,
}

impl Inner {
    pub(crate) fn status(&self) -> Status {
        let pool = self.pool();
        let count = pool.count();
        let now = Instant::now();
        let figures = &self.figures;
        let processes = pool.each(now).map(|(instance, status)| ProcessStatus {
            memory_bytes: usage::resident(instance.pid()),
            cpu_time: usage::cpu_time(instance.pid()),
            pid: instance.pid(),
            state: status.state,
            is_spare: status.is_spare,
            calls: status.calls,
            requests: status.requests,
            health_checks: instance.health_checks.load(Ordering::Relaxed),
            age: status.age,
            limits: instance.bounded().to_string(),
        });
        let state = match pool.is_broken_until(now) {
            Some(_) if count.ready + count.frozen == 0 => State::Broken,
            _ => count.state(),
        };
        Status {
            state,
            pids: pool.instances().map(|instance| instance.pid()).collect(),
            starts: count.starts,
            spares: count.spares,
            waiting: count.waiting,
            calls: count.calls,
            failure: pool.failure().map(|failure| failure.text.clone()),
            failure_age: pool.failure_age(now),
            processes: processes.collect(),
            out_of_memory: figures.out_of_memory.load(Ordering::Relaxed),
            crashes: figures.crashes.load(Ordering::Relaxed),
            requests: pool.requests(),
            start_time: Duration::from_micros(figures.start_us.load(Ordering::Relaxed)),
            queued: figures.queued.load(Ordering::Relaxed),
            queue_time: Duration::from_micros(figures.queue_us.load(Ordering::Relaxed)),
        }
    }
}

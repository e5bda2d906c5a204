//! Every bound of a hosted service's life, with its default.
//!
//! | field | default | what happens past it |
//! |---|---|---|
//! | `instances_max` | 1 | calls wait |
//! | `spares` | 0 | that many are started ahead, beside `instances_max`, and taken when a call finds no place |
//! | `concurrency` | 64 calls an instance | another instance is started, or calls wait |
//! | `queue_max` | 100 calls that wait | `resource_exhausted`, 503 with `Retry-After` |
//! | `queue_timeout` | 30 s | `unavailable`, 503 |
//! | `start_timeout` | 10 s until it can be called | it is killed; who waited gets 503 |
//! | `request_timeout` | 30 s from the request, all of it, to the head of its answer; none for methods that answer with a stream | `deadline_exceeded`, 504 |
//! | `response_bytes_max` | 16 MiB of JSON, of a program of `pipe-json` | 502, and another instance takes over |
//! | `idle_freeze` | never | an unused instance is stopped by SIGSTOP, until its next call |
//! | `idle_stop` | 5 min | an unused instance is ended |
//! | `stop_grace` | 5 s from SIGTERM | SIGKILL |
//! | `health_interval` | 10 s, where [`Program::health`](crate::Program::health) is set | after three failures in a row another instance takes over |
//! | `max_requests` | none | another instance takes over, then it ends with the calls that it has |
//! | `max_age` | none | the same |
//! | `memory_max` | none, of an instance and all that it starts | it is killed; calls and `ps` say that it ran out of memory |
//! | `processes_max` | none, threads counted | it can start no others; without cgroups it is killed |
//! | `cpu_percent_max` | none, 100 is one core | it waits |
//!
//! The last three are kept by cgroups of version 2 or 1 where this user may write them, else by
//! `RLIMIT_DATA`, `RLIMIT_NPROC` and a look each second; `cpu_percent_max` by cgroups alone.

use std::time::Duration;

use crate::supervisor::message::Bounds;

/// The bounds of a hosted service's life.
///
/// ```
/// # mod tidewire { pub mod hosting { pub use tidewire_hosting::*; } }
/// use std::time::Duration;
/// use tidewire::hosting::LifeLimits;
///
/// let mut life = LifeLimits::default();
/// life.instances_max = 4;
/// life.spares = 1;
/// life.idle_stop = Some(Duration::from_secs(300));
/// # let _ = life;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LifeLimits {
    /// How many processes run at once.
    pub instances_max: usize,
    /// How many processes are started ahead and stand by, beside these.
    pub spares: usize,
    /// How many calls one process has at once.
    pub concurrency: usize,
    /// How many calls wait at once for a process.
    pub queue_max: usize,
    /// How long a call waits for a process.
    pub queue_timeout: Duration,
    /// How long a process may take until it can be called.
    pub start_timeout: Duration,
    /// How long a process may take until the head of its answer.
    pub request_timeout: Duration,
    /// How many bytes a response of `pipe-json` may have, which is JSON with its body in base64.
    pub response_bytes_max: usize,
    /// After which time without a call a process is frozen; never where it is not set.
    pub idle_freeze: Option<Duration>,
    /// After which time without a call a process is ended; never where it is not set.
    pub idle_stop: Option<Duration>,
    /// How long a process may take to end when it is asked to.
    pub stop_grace: Duration,
    /// How often it is asked whether it is well, if it is.
    pub health_interval: Duration,
    /// After how many calls another process takes over from it.
    pub max_requests: Option<u64>,
    /// At which age another process takes over from it.
    pub max_age: Option<Duration>,
    /// How many bytes of memory a process may have, with all that it starts.
    pub memory_max: Option<u64>,
    /// How many processes and threads there may be of a process, itself among them.
    pub processes_max: Option<u32>,
    /// How much CPU time a process may have, with all that it starts, in percent of one core.
    pub cpu_percent_max: Option<u32>,
    /// Whether these three are kept by cgroups where they can be.
    pub cgroups: bool,
}

impl Default for LifeLimits {
    fn default() -> Self {
        Self {
            instances_max: 1,
            spares: 0,
            concurrency: 64,
            queue_max: 100,
            queue_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            response_bytes_max: 16 << 20,
            idle_freeze: None,
            idle_stop: Some(Duration::from_secs(300)),
            stop_grace: Duration::from_secs(5),
            health_interval: Duration::from_secs(10),
            max_requests: None,
            max_age: None,
            memory_max: None,
            processes_max: None,
            cpu_percent_max: None,
            cgroups: true,
        }
    }
}

impl LifeLimits {
    /// What a process and all that it starts may have.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            memory: self.memory_max,
            processes: self.processes_max,
            cpu_percent: self.cpu_percent_max,
            cgroups: self.cgroups,
        }
    }
}

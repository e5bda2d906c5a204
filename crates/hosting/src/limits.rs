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
//! | `idle_freeze` | never | an unused instance is stopped by SIGSTOP, until its next call |
//! | `idle_stop` | 5 min | an unused instance is ended |
//! | `stop_grace` | 5 s from SIGTERM | SIGKILL |

use std::time::Duration;

/// The bounds of a hosted service's life.
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
    /// After which time without a call a process is frozen; never where it is not set.
    pub idle_freeze: Option<Duration>,
    /// After which time without a call a process is ended; never where it is not set.
    pub idle_stop: Option<Duration>,
    /// How long a process may take to end when it is asked to.
    pub stop_grace: Duration,
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
            idle_freeze: None,
            idle_stop: Some(Duration::from_secs(300)),
            stop_grace: Duration::from_secs(5),
        }
    }
}

//! One run of the engine, fully decided: what to send, how much of it, for how long.

use std::time::Duration;

use crate::run_clock::{Nanos, nanos};
use crate::schedule::{ArrivalSpacing, Segment};
use crate::target::Target;
use crate::tls::Tls;
use crate::workload::Workload;

/// How load is offered.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    /// Every connection sends its next request when it has room.
    Closed {
        /// Connections at the start of the measured part; more are added evenly up to
        /// [`Plan::connections`] over [`Plan::duration`].
        connections_from: usize,
    },
    /// Requests are due by schedule.
    Open {
        /// The measured part; a warm-up at its first rate is put in front.
        segments: Vec<Segment>,
        /// How arrivals are spaced.
        spacing: ArrivalSpacing,
        /// Requests waiting or under way beyond this number are dropped and counted.
        in_flight_max: usize,
    },
}

/// How long a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// As long as the run.
    KeepAlive,
    /// One request.
    NewPerRequest,
}

/// A run of the engine.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where to.
    pub target: Target,
    /// TLS, if the target wants it.
    pub tls: Option<Tls>,
    /// What is sent.
    pub workload: Workload,
    /// When it is sent.
    pub model: Model,
    /// Connections, at the end of a ramp.
    pub connections: usize,
    /// Requests under way per connection: pipelining depth or streams.
    pub depth: usize,
    /// How long a connection lives.
    pub reuse: Reuse,
    /// Worker threads; each has its share of the connections.
    pub threads: usize,
    /// Unmeasured load before the measured part.
    pub warm_up: Duration,
    /// Length of the measured part; without one, `requests` alone end it (closed model, no ramp).
    pub duration: Option<Duration>,
    /// Stop after this many requests, warm-up included.
    pub requests: Option<u64>,
    /// A request is given up after this time.
    pub timeout: Duration,
}

impl Plan {
    /// The end of the warm-up.
    pub fn origin(&self) -> Nanos {
        nanos(self.warm_up)
    }

    /// The end of the measured part.
    pub fn until(&self) -> Nanos {
        self.duration.map_or(Nanos::MAX, |duration| nanos(self.warm_up + duration))
    }

    /// When connection `number` joins: at once, or later in a ramp of connections.
    pub(crate) fn opens_at(&self, number: usize) -> Nanos {
        match self.model {
            Model::Closed { connections_from } if number >= connections_from => {
                let added = (self.connections - connections_from).max(1) as f64;
                let share = (number + 1 - connections_from) as f64 / added;
                self.origin() + (share * nanos(self.duration.unwrap_or_default()) as f64) as Nanos
            }
            _ => 0,
        }
    }
}

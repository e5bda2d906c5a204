//! One run of the engine, fully decided: what to send, how much of it, for how long.

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::{Nanos, nanos};
use crate::schedule::{Segment, Spacing};
use crate::target::Target;
use crate::tls::Tls;
use crate::workload::Workload;

/// How load is offered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Model {
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
        spacing: Spacing,
        in_flight_max: usize,
    },
}

/// How long a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    KeepAlive,
    NewPerRequest,
}

/// A run of the engine.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) tls: Option<Tls>,
    pub(crate) workload: Workload,
    pub(crate) model: Model,
    pub(crate) connections: usize,
    /// Requests under way per connection: pipelining depth or streams.
    pub(crate) depth: usize,
    pub(crate) reuse: Reuse,
    pub(crate) threads: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Stop after this many requests, warm-up included.
    pub(crate) requests: Option<u64>,
    pub(crate) timeout: Duration,
    pub(crate) server: ServerPlan,
}

/// How the server under test is found and watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerPlan {
    pub(crate) pid: Option<u32>,
    pub(crate) port: Option<u16>,
    pub(crate) command: Option<String>,
    pub(crate) cpus: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) cgroup_root: Option<PathBuf>,
    pub(crate) start_timeout: Duration,
}

impl Plan {
    /// The end of the warm-up.
    pub(crate) fn origin(&self) -> Nanos {
        nanos(self.warm_up)
    }

    /// The end of the measured part.
    pub(crate) fn until(&self) -> Nanos {
        nanos(self.warm_up + self.duration)
    }
}

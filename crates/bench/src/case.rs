//! What is measured: the load, and the server that it is offered to.

use std::path::PathBuf;
use std::time::Duration;

use tidewire_loadgen::Plan;

/// A load and the server that it is offered to.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) load: Plan,
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

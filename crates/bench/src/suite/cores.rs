//! Cores: one for servers and one for the load, or as many for servers as somebody says; what is
//! started inherits where its starter stands.

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::machine;

pub(super) struct Cores {
    servers: CpuSet,
    load: CpuSet,
    all: CpuSet,
}

impl Cores {
    /// A core for each side, or `capped` for servers and the others for the load, which has all
    /// where none is left. `None` on a machine with one core, or where it may not be asked for.
    pub(super) fn divide(capped: Option<usize>) -> Option<Self> {
        // Those that this process began with, of which one of its threads may have some.
        let allowed = sched_getaffinity(Some(getpid())).ok()?;
        let own: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let cores = own.len().min(machine::cores());
        if cores < 2 {
            return None;
        }
        let of = |range: std::ops::Range<usize>| {
            let mut set = CpuSet::new();
            own[range].iter().for_each(|core| set.set(*core));
            set
        };
        let (servers, load) = match capped.unwrap_or(1).clamp(1, cores) {
            servers if servers == cores => (0..cores, 0..cores),
            servers if capped.is_none() => (0..servers, servers..servers + 1),
            servers => (0..servers, servers..cores),
        };
        let divided = Self { servers: of(servers), load: of(load), all: of(0..cores) };
        sched_setaffinity(None, &divided.load).ok()?;
        Some(divided)
    }

    pub(super) fn to_servers(&self) {
        let _ = sched_setaffinity(None, &self.servers);
    }

    pub(super) fn to_all(&self) {
        let _ = sched_setaffinity(None, &self.all);
    }

    pub(super) fn to_load(&self) {
        let _ = sched_setaffinity(None, &self.load);
    }
}

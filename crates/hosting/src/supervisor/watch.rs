//! Bounds of instances that no cgroup keeps: a look each second at what they have, and the end of
//! those that have more.
//!
//! Memory is what is resident, over the instance and all that it has started, pages that they share
//! counted for each. Between two looks it may have more: then `RLIMIT_DATA` bounds the memory of
//! each process, and `RLIMIT_NPROC` how many the user has, by as many as it had at the start and
//! those that the instance may have.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Uid};

use super::sweep;
use crate::supervisor::message::{BoundEnforcement, Bounds, End, Enforcement};
use crate::supervisor::usage;

/// What is looked at.
#[derive(Debug, Default)]
pub(super) struct WatchedInstances(HashMap<Pid, Bounds>);

impl WatchedInstances {
    /// Looks at an instance from now on, if something of it is to be looked at.
    pub(super) fn add(&mut self, leader: Pid, bounds: &Bounds, bounded: &BoundEnforcement) {
        let is_watched = |means| means == Some(Enforcement::Watched);
        let memory = bounds.memory.filter(|_| is_watched(bounded.memory));
        let processes = bounds.processes.filter(|_| is_watched(bounded.processes));
        if memory.is_some() || processes.is_some() {
            self.0.insert(leader, Bounds { memory, processes, ..Bounds::default() });
        }
    }

    pub(super) fn remove(&mut self, leader: Pid) {
        self.0.remove(&leader);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that have too much, and how that end is called.
    pub(super) fn over(&self, instances: &HashMap<Pid, u64>) -> Vec<(Pid, End)> {
        let over = self.0.iter().filter_map(|(leader, bounds)| {
            let all = sweep::all_of(*leader, instances);
            let memory = bounds.memory.filter(|most| all.iter().map(resident).sum::<u64>() > *most);
            if let Some(most) = memory {
                return Some((*leader, End::OutOfMemory(most)));
            }
            let most = bounds.processes?;
            let threads: usize = all.iter().map(threads).sum();
            (threads > most as usize).then_some((*leader, End::TooManyProcesses(most)))
        });
        over.collect()
    }
}

fn resident(pid: &Pid) -> u64 {
    usage::resident(pid.as_raw_nonzero().get())
}

fn threads(pid: &Pid) -> usize {
    threads_in(format!("/proc/{}", pid.as_raw_nonzero()).as_ref())
}

fn threads_in(process: &Path) -> usize {
    fs::read_dir(process.join("task")).map_or(0, Iterator::count)
}

/// How many processes and threads a user has.
pub(super) fn threads_of(user: Uid) -> usize {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf| fs::metadata(path).is_ok_and(|of| of.uid() == user.as_raw());
    // What is no process has no threads.
    all.filter(is_of).map(|path| threads_in(&path)).sum()
}

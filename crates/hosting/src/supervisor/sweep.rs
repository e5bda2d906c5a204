//! What is below the supervisor and belongs to nobody any more.
//!
//! Processes that lose their parent become children of the supervisor. Which instance one belonged
//! to say its marks (`process_mark.rs`); what has none is let be until the gateway ends.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use crate::supervisor::process_mark;

/// Kills adopted processes whose instance is over.
pub(super) fn orphans(instances: &HashMap<Pid, u64>) {
    for pid in children() {
        if !instances.contains_key(&pid) && !is_of(pid, instances) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Kills all that is below, again and again until nothing is: what forks meanwhile is adopted.
pub(super) fn everything() {
    loop {
        for pid in children() {
            let _ = kill_process(pid, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Whether the process belongs to an instance that runs, or does not say.
fn is_of(pid: Pid, instances: &HashMap<Pid, u64>) -> bool {
    process_mark::instance_of(pid)
        .is_none_or(|instance| instances.values().any(|it| *it == instance))
}

/// Signals an instance and all that it has started, in its group or not; returns how many these
/// are.
///
/// Other instances are children of the supervisor too: whose they are is known, and what they start
/// is theirs.
pub(super) fn signal_below(leader: Pid, instances: &HashMap<Pid, u64>, signal: Signal) -> usize {
    // Whatever is stopped starts no others.
    each_of(leader, instances, |pid| _ = kill_process(pid, signal)).len()
}

/// An instance and all that it has started.
pub(super) fn all_of(leader: Pid, instances: &HashMap<Pid, u64>) -> Vec<Pid> {
    each_of(leader, instances, |_| ())
}

/// Each of these, before what it has started is looked for.
fn each_of(leader: Pid, instances: &HashMap<Pid, u64>, act: impl Fn(Pid)) -> Vec<Pid> {
    let instance = instances.get(&leader).copied();
    let of_it = |pid: &Pid| instance.is_some() && process_mark::instance_of(*pid) == instance;
    let adopted = children().into_iter().filter(|pid| !instances.contains_key(pid));
    let mut found: Vec<_> = [leader].into_iter().chain(adopted.filter(of_it)).collect();
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        act(pid);
        let below = children_of(pid).into_iter().filter(|pid| !found.contains(pid));
        found.extend(below.collect::<Vec<_>>());
    }
    found
}

/// The children of this process.
fn children() -> Vec<Pid> {
    children_of(rustix::process::getpid())
}

/// The children of a process, which each of its threads has some of.
fn children_of(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return Vec::new();
    };
    let texts = threads.flatten().map(|thread| thread.path().join("children"));
    let texts = texts.filter_map(|path| std::fs::read_to_string(path).ok());
    let all: String = texts.collect();
    all.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

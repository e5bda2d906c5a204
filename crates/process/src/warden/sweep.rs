//! What is below the warden and belongs to nobody any more.
//!
//! Processes that lose their parent become children of the warden. Which instance one belonged to says
//! its mark (`mark.rs`); what has none is let be until the gateway ends.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use crate::mark::Mark;

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
    Mark::of(pid).is_none_or(|mark| instances.values().any(|running| *running == mark.instance))
}

/// The children of this process, which has one thread.
fn children() -> Vec<Pid> {
    let pid = rustix::process::getpid().as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

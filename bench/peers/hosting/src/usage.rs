//! What the kernel says of processes.

use std::fs;
use std::time::{Duration, Instant};

use crate::Result;

fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn state(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// A zombie has ended.
pub fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// By a signal, or as a whole control group.
pub fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
        || fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("freez"))
}

/// Waits for what comes without being asked for.
pub fn until(is_so: impl Fn() -> bool, what: &str) -> Result<()> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("10 s, and not yet: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // What its end takes is not a part of the next request.
    std::thread::sleep(Duration::from_millis(10));
    Ok(())
}

/// The process and everything below it.
pub fn tree(root: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> =
        pids.filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?))).collect();
    let mut members = vec![root];
    let mut at = 0;
    while at < members.len() {
        let parent = members[at];
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    members
}

/// CPU seconds of processes, by the nanoseconds of their threads; of what ended none are left.
pub fn cpu(pids: &[u32]) -> f64 {
    let threads =
        |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let spent = |thread: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    pids.iter().flat_map(threads).filter_map(spent).sum::<f64>() / 1e9
}

/// RSS of the one list, PSS of the other.
pub fn memory(fronts: &[u32], all: &[u32]) -> (u64, u64) {
    let sum = |pids: &[u32], file: &str, key: &str| -> u64 {
        pids.iter().filter_map(|pid| kilobytes(&format!("/proc/{pid}/{file}"), key)).sum::<u64>()
            * 1024
    };
    (sum(fronts, "status", "VmRSS:"), sum(all, "smaps_rollup", "Pss:"))
}

fn kilobytes(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().trim_end_matches(" kB").parse().ok()
}

//! What the kernel says about processes: CPU time, context switches, memory, who listens where.

use std::collections::HashSet;
use std::fs;

/// CPU time and memory of a process and its descendants, since they started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: u64,
}

/// The process and everything below it, in no particular order.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            parents.push((pid, parent));
        }
    }
    let mut members = vec![root];
    let mut at = 0;
    while at < members.len() {
        let parent = members[at];
        members.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    members
}

/// The usage of `pids`; `None` when none of them lives.
pub(crate) fn usage(pids: &[u32]) -> Option<Usage> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let mut total = Usage::default();
    let mut alive = false;
    for pid in pids {
        let Some(fields) = stat(*pid) else { continue };
        alive = true;
        // Fields 14 to 17 of proc(5): user and system time, also of children waited for.
        let ticks_used: f64 =
            fields.iter().skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
        total.cpu_seconds += ticks_used / ticks;
        total.rss_bytes += kilobytes(&format!("/proc/{pid}/status"), "VmRSS:").unwrap_or(0);
    }
    alive.then_some(total)
}

/// Proportional memory of `pids`; `None` where it may not be read.
pub(crate) fn pss(pids: &[u32]) -> Option<u64> {
    pids.iter()
        .map(|pid| kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:"))
        .try_fold(0, |sum, one| Some(sum + one?))
}

/// The command line of a process.
pub(crate) fn command(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    // The path of a program says where it was built, not what it is.
    let name = words.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    std::iter::once(name)
        .chain(words.iter().skip(1).map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The process that listens on a TCP port; of several that hold the socket, the one that began the
/// others.
pub(crate) fn listener(port: u16) -> Option<u32> {
    let inodes: HashSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| listening_inodes(&fs::read_to_string(table).unwrap_or_default(), port))
        .collect();
    let mut holders: Vec<(u32, u32)> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| holds(*pid, &inodes))
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    holders.sort_unstable();
    outermost(&holders)
}

/// The first process whose parent is none of them. A process that begins another one shares its
/// sockets with it until that runs its own program, and numbers of processes begin anew when they
/// are used up.
fn outermost(holders: &[(u32, u32)]) -> Option<u32> {
    let is_among = |pid: u32| holders.iter().any(|(holder, _)| *holder == pid);
    holders.iter().find(|(_, parent)| !is_among(*parent)).map(|(pid, _)| *pid)
}

fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.len() > 9 && fields[1].ends_with(&suffix) && fields[3] == "0A")
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect()
}

fn holds(pid: u32, inodes: &HashSet<String>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        link.to_str().is_some_and(|name| inodes.contains(name))
    })
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The fields of `/proc/PID/stat` after the name, from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Context switches of both kinds so far, by thread. A thread that ends takes its count along.
pub(crate) fn switches(pid: u32) -> Vec<(u32, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let thread = task.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let count = status
                .lines()
                .filter(|line| line.contains("ctxt_switches:"))
                .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
                .sum();
            Some((thread, count))
        })
        .collect()
}

fn kilobytes(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilo| kilo * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_port_and_its_usage_read() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let pid = std::process::id();
        assert_eq!(listener(socket.local_addr().unwrap().port()), Some(pid));
        assert!(tree(pid).contains(&pid));
        assert!(usage(&[pid]).unwrap().rss_bytes > 100_000);
        assert!(!command(pid).is_empty());
        assert!(usage(&[u32::MAX]).is_none());
    }

    #[test]
    fn of_those_who_hold_a_socket_the_one_is_found_that_began_the_others() {
        assert_eq!(outermost(&[(1019, 32_674), (32_674, 1)]), Some(32_674));
        assert_eq!(outermost(&[(20, 1), (21, 20), (22, 20)]), Some(20));
        assert_eq!(outermost(&[(30, 2), (31, 3)]), Some(30));
        assert_eq!(outermost(&[]), None);
    }
}

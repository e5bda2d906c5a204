//! Which supervisor and instance a process belongs to: a variable in its environment, which daemons
//! keep through `fork`, `setsid` and `exec`. What emptied its environment is known to the
//! supervisor above it by a limit that it inherited, on the time of a real-time process
//! (`RLIMIT_RTTIME`): so high that it limits nothing.
//!
//! A supervisor kills all that is below it, unless it is killed itself. What it then leaves is
//! found by this mark: at once, where its gateway lives, and else when the next gateway of this
//! user starts. A supervisor is known by its process id, the time of its start, and the namespace
//! that the id is of: neither a number that was given again nor the supervisor of a container is
//! taken for it.
//!
//! What cannot be found so, once its supervisor is gone: a process that wrote over its environment,
//! and one that was started without it.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
};

/// The variable. It does not begin with `TIDEWIRE_`, since a program that is one of ours takes that
/// for a setting.
pub(crate) const VARIABLE: &str = "HOSTED_BY_TIDEWIRE";

/// A process of this user that may be gone: a supervisor, a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: i32,
    /// When it was started, in ticks since the system was.
    started: u64,
    /// The namespace of process ids.
    namespace: u64,
}

/// The mark of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMark {
    pub(crate) supervisor: Owner,
    pub(crate) instance: u64,
}

impl Owner {
    /// A process as it is now.
    pub(crate) fn of(pid: i32) -> Self {
        Self { pid, started: started(pid).unwrap_or_default(), namespace: namespace() }
    }

    /// This process.
    pub(crate) fn this() -> Self {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// A child that may have ended, and is not waited for yet.
    pub(crate) fn of_ended(pid: i32) -> Option<Self> {
        Some(Self { pid, started: field_of_start(pid)?.1, namespace: namespace() })
    }

    /// Whether it is certain that it is gone.
    pub(crate) fn is_gone(self) -> bool {
        self.namespace != 0
            && self.namespace == namespace()
            && started(self.pid) != Some(self.started)
    }

    /// As text of a variable or a name of a file.
    pub(crate) fn text(self) -> String {
        format!("{:x}.{:x}.{:x}", self.pid, self.started, self.namespace)
    }

    /// Reads [`text`](Self::text), and what follows it after a dot.
    pub(crate) fn parse(text: &str) -> Option<(Self, &str)> {
        let mut parts = text.splitn(4, '.');
        let pid = i32::from_str_radix(parts.next()?, 16).ok()?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let started = number()?;
        let namespace = number()?;
        Some((Self { pid, started, namespace }, parts.next()?))
    }
}

impl ProcessMark {
    /// The value of the variable.
    pub(crate) fn value(self) -> String {
        format!("{}.{}", self.supervisor.text(), self.instance)
    }

    /// The mark of a process, if it has one and its environment may be read.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables
            .find_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
        let (supervisor, instance) = Owner::parse(std::str::from_utf8(value).ok()?)?;
        Some(Self { supervisor, instance: instance.parse().ok()? })
    }
}

/// Marks this process, and whatever it starts, as of an instance, without the allocator.
pub(crate) fn limit(instance: u64) {
    let maximum = getrlimit(Resource::Rttime).maximum;
    // A system without such a limit, or with a lower one, has the variable.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(LIMIT + instance), maximum });
}

/// The instance that a process below this supervisor is of, if it says so or inherited that.
pub(crate) fn instance_of(pid: Pid) -> Option<u64> {
    if let Some(mark) = ProcessMark::of(pid) {
        return Some(mark.instance);
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    limit.split_whitespace().next()?.parse::<u64>().ok()?.checked_sub(LIMIT)
}

/// Kills every process whose supervisor `is_gone`, and what those forked meanwhile: none where this
/// process is one of them itself, started by hand from what was left.
pub(crate) fn sweep(is_gone: impl Fn(Owner) -> bool) {
    if ProcessMark::of(rustix::process::getpid()).is_some_and(|mark| is_gone(mark.supervisor)) {
        return;
    }
    for _ in 0..ROUNDS_MAX {
        let killed = sweep_once(&is_gone);
        if killed.is_empty() {
            return;
        }
        for process in killed {
            // One that hangs in the system is not waited for.
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&END_WAIT));
        }
    }
}

/// Returns those that were killed.
fn sweep_once(is_gone: impl Fn(Owner) -> bool) -> Vec<OwnedFd> {
    let mut killed = Vec::new();
    let Ok(folders) = std::fs::read_dir("/proc") else { return killed };
    for folder in folders.flatten() {
        let pid = folder.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        // First, so that the mark that is read is that of the process that is killed.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // One that has ended has no environment any more.
        if ProcessMark::of(pid).is_some_and(|mark| is_gone(mark.supervisor))
            && pidfd_send_signal(&process, Signal::KILL).is_ok()
        {
            tracing::warn!(pid = %pid.as_raw_nonzero(), "killed what a gateway left");
            killed.push(process);
        }
    }
    killed
}

/// When a process was started: field 22 of its `stat`, of which the second may hold anything.
fn started(pid: i32) -> Option<u64> {
    // A zombie has ended.
    field_of_start(pid).filter(|(is_zombie, _)| !is_zombie).map(|(_, started)| started)
}

/// Whether it is a zombie, and when it was started.
fn field_of_start(pid: i32) -> Option<(bool, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit(") ").next()?;
    Some((fields.starts_with('Z'), fields.split(' ').nth(19)?.parse().ok()?))
}

/// The namespace of process ids that this process and `/proc` are in; 0 where that cannot be told.
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

/// Microseconds, of which nothing runs as many.
const LIMIT: u64 = 1 << 62;

/// What is killed may have forked just before, and what it forked too.
const ROUNDS_MAX: usize = 16;
const END_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_gone_once_its_number_is_given_again_and_one_of_elsewhere_never() {
        let this = Owner::this();
        assert!(!this.is_gone() && this.started > 0 && this.namespace > 0);
        assert!(Owner { started: this.started + 1, ..this }.is_gone());
        let elsewhere = Owner { started: 1, namespace: this.namespace + 1, ..this };
        assert!(!elsewhere.is_gone(), "it cannot be seen from here");
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_another_value_is_none() {
        let mark =
            ProcessMark { supervisor: Owner { pid: 7, started: 8, namespace: 9 }, instance: 10 };
        assert_eq!(mark.value(), "7.8.9.10");
        assert_eq!(Owner::parse(&mark.value()), Some((mark.supervisor, "10")));
        for text in ["", "7", "7.8.9", "x.8.9.10"] {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }
}

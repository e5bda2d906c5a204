//! Groups of the kernel (cgroups) in which an instance and all that it starts are kept within
//! bounds.
//!
//! | version | where | what |
//! |---|---|---|
//! | 2 | below the group of the supervisor, or beside it | `memory.max`, `pids.max`, `cpu.max` |
//! | 1 | the same, in the hierarchy of each controller | `memory.limit_in_bytes`, `pids.max`, `cpu.cfs_quota_us` |
//!
//! Version 2 gives a group controllers only if no process is in the group above it: a service of
//! systemd has that with `Delegate=yes` and `DelegateSubgroup=gateway`. What cannot be had so is
//! left to other means (`watch.rs`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use crate::supervisor::message::{BoundEnforcement, Bounds, Enforcement};
use crate::supervisor::process_mark::Owner;

/// The groups of one instance.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Each of them once, and where a process joins it.
    folders: Vec<(PathBuf, File)>,
    /// That which bounds memory, and where it counts what it killed.
    memory: Option<PathBuf>,
}

/// One thing that is bounded.
struct Controller {
    name: &'static str,
    /// What is written into which file, by version.
    v2: Vec<(&'static str, String)>,
    v1: Vec<(&'static str, String)>,
}

impl Groups {
    /// Makes groups of this instance for as much as can be; says what each bound is kept by.
    pub(super) fn new(bounds: &Bounds, owner: Owner, id: u64) -> (Self, BoundEnforcement) {
        let name = &format!("{PREFIX}{}.{id}", owner.text());
        let mut groups = Self::default();
        let mut bounded = BoundEnforcement::default();
        let hierarchies = hierarchies();
        let mut keep = |controller: Option<Controller>, means: &mut Option<Enforcement>, other| {
            let Some(controller) = controller else { return };
            let kept = if bounds.cgroups {
                hierarchies.iter().find_map(|it| groups.keep(it, &controller, name))
            } else {
                None
            };
            *means = Some(kept.unwrap_or(other));
        };
        keep(bounds.memory.map(memory), &mut bounded.memory, Enforcement::Watched);
        keep(bounds.processes.map(processes), &mut bounded.processes, Enforcement::Watched);
        keep(bounds.cpu_percent.map(cpu), &mut bounded.cpu, Enforcement::Nothing);
        (groups, bounded)
    }

    /// Removes them; returns whether they are gone. One in which something still ends is not.
    pub(super) fn remove(&mut self) -> bool {
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        self.folders.retain(|(folder, _)| match fs::remove_dir(folder) {
            Ok(()) => false,
            Err(error) => !is_gone(&error),
        });
        self.folders.is_empty()
    }

    /// The descriptors by which a process joins them.
    pub(super) fn doors(&self) -> Vec<RawFd> {
        self.folders.iter().map(|(_, door)| door.as_raw_fd()).collect()
    }

    /// Where what memory killed is counted.
    pub(super) fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    fn keep(&mut self, at: &Hierarchy, controller: &Controller, name: &str) -> Option<Enforcement> {
        if !at.has(controller.name) {
            return None;
        }
        let settings = if at.is_v2 { &controller.v2 } else { &controller.v1 };
        let folder = at.parents().find_map(|parent| {
            let folder = parent.join(name);
            if self.folders.iter().any(|(known, _)| *known == folder) {
                return folder.join(settings.first()?.0).exists().then_some(folder);
            }
            if at.is_v2 {
                for name in ["memory", "pids", "cpu"] {
                    // One that it has already, or cannot have.
                    let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{name}"));
                }
            }
            self.make(folder, settings.first()?.0)
        })?;
        let (must, may) = settings.split_first()?;
        write(&folder, must).ok()?;
        // What not every kernel has.
        may.iter().for_each(|setting| _ = write(&folder, setting));
        if controller.name == "memory" {
            let counter = if at.is_v2 { "memory.events" } else { "memory.oom_control" };
            self.memory = Some(folder.join(counter));
        }
        Some(if at.is_v2 { Enforcement::Cgroup2 } else { Enforcement::Cgroup1 })
    }

    /// A new group that has this file.
    fn make(&mut self, folder: PathBuf, file: &str) -> Option<PathBuf> {
        folder.parent().into_iter().for_each(sweep);
        fs::create_dir(&folder).ok()?;
        let door = OpenOptions::new().write(true).open(folder.join("cgroup.procs"));
        match door {
            Ok(door) if folder.join(file).exists() => {
                self.folders.push((folder.clone(), door));
                Some(folder)
            }
            _ => {
                let _ = fs::remove_dir(&folder);
                None
            }
        }
    }
}

/// Removes groups of supervisors that are gone, of which nothing is left.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| Owner::parse(name.strip_prefix(PREFIX)?));
        if owner.is_some_and(|(owner, _)| owner.is_gone()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// How many processes were killed for memory, by the file that counts them.
pub(crate) fn memory_kills(counter: &Path) -> u64 {
    let text = fs::read_to_string(counter).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn memory(bytes: u64) -> Controller {
    let bytes = bytes.to_string();
    Controller {
        name: "memory",
        // Half a program is of no use to anybody.
        v2: vec![
            ("memory.max", bytes.clone()),
            ("memory.swap.max", "0".to_owned()),
            ("memory.oom.group", "1".to_owned()),
        ],
        v1: vec![("memory.limit_in_bytes", bytes.clone()), ("memory.memsw.limit_in_bytes", bytes)],
    }
}

fn processes(most: u32) -> Controller {
    let setting = vec![("pids.max", most.to_string())];
    Controller { name: "pids", v2: setting.clone(), v1: setting }
}

fn cpu(percent: u32) -> Controller {
    let quota = u64::from(percent) * PERIOD / 100;
    Controller {
        name: "cpu",
        v2: vec![("cpu.max", format!("{quota} {PERIOD}"))],
        v1: vec![("cpu.cfs_quota_us", quota.to_string())],
    }
}

fn write(folder: &Path, (file, value): &(&'static str, String)) -> io::Result<()> {
    fs::write(folder.join(file), value)
}

/// A tree of groups, and the group of this process in it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    is_v2: bool,
    /// None for version 2, where each group says it.
    controllers: Vec<String>,
    mount: PathBuf,
    own: PathBuf,
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        self.is_v2 || self.controllers.iter().any(|it| it == controller)
    }

    /// Where a group may be made: in that of this process, or beside it.
    fn parents(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take(2).filter(|folder| folder.starts_with(&self.mount))
    }
}

/// Those of this process, that of version 2 first.
fn hierarchies() -> Vec<Hierarchy> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"))
}

fn parse(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    let mut found: Vec<_> = mounts.lines().filter_map(|line| hierarchy(line, groups)).collect();
    found.sort_by_key(|hierarchy| !hierarchy.is_v2);
    found
}

fn hierarchy(mount: &str, groups: &str) -> Option<Hierarchy> {
    let (before, after) = mount.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let mut after = after.split(' ');
    let root = before.next()?;
    let mount = before.next()?;
    let kind = after.next()?;
    let options: Vec<_> = after.nth(1)?.split(',').map(str::to_owned).collect();
    let is_v2 = match kind {
        "cgroup2" => true,
        "cgroup" => false,
        _ => return None,
    };
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        let is_of = |name: &str| options.iter().any(|option| option == name);
        let is_it = match is_v2 {
            true => controllers.is_empty(),
            false => !controllers.is_empty() && controllers.split(',').all(is_of),
        };
        is_it.then_some(path)
    })?;
    let below = own.strip_prefix(root.trim_end_matches('/'))?.trim_start_matches('/');
    let mount = PathBuf::from(mount);
    let own = if below.is_empty() { mount.clone() } else { mount.join(below) };
    Some(Hierarchy { is_v2, controllers: if is_v2 { Vec::new() } else { options }, mount, own })
}

/// What the name of each begins with, before that of its supervisor and instance.
const PREFIX: &str = "tidewire-";
/// Over which CPU time is counted, in microseconds: the default of the kernel.
const PERIOD: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_this_process_are_found_in_both_versions() {
        let mounts = "\
            31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/docker/a/b\n1:cpu,cpuacct:/\n0::/x.slice/y\n";
        let found = parse(mounts, groups);
        let own: Vec<_> = found.iter().map(|it| it.own.to_str().unwrap()).collect();
        let expected =
            ["/sys/fs/cgroup/unified/x.slice/y", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory/b"];
        assert_eq!(own, expected);
        assert!(found[0].has("memory") && found[1].has("cpu") && !found[1].has("memory"));
        let beside = |at: usize| found[at].parents().count();
        assert_eq!([beside(0), beside(1), beside(2)], [2, 1, 2]);
    }

    #[test]
    fn what_was_killed_for_memory_is_counted_in_both_versions() {
        let folder = std::env::temp_dir().join(format!("tidewire-kills-{}", std::process::id()));
        for text in ["low 0\noom 3\noom_kill 2\noom_group_kill 1\n", "under_oom 0\noom_kill 2\n"] {
            fs::write(&folder, text).unwrap();
            assert_eq!(memory_kills(&folder), 2);
        }
        fs::remove_file(&folder).unwrap();
        assert_eq!(memory_kills(&folder), 0);
    }
}

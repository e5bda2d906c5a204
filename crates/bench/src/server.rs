//! The server under test: found by PID or port, or started here, and watched while load runs.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::case::ServerPlan;
use crate::proc::{self, Usage};
use crate::result::{Phase, Server, ServerSample};
use tidewire_loadgen::{Error, Nanos, RunClock, SECOND, seconds};

const GRACE: Duration = Duration::from_secs(2);
/// Threads are looked at this often, so that little is lost when one ends.
const LOOK: Duration = Duration::from_millis(200);

/// A server that is running.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) pid: u32,
    child: Option<Child>,
    cgroup: Option<PathBuf>,
    pub(crate) caps: Option<String>,
    pub(crate) spawned_at: Instant,
}

impl ServerProcess {
    /// Finds or starts the server a plan names; `None` if it names none.
    pub(crate) fn begin(plan: &ServerPlan) -> Result<Option<Self>, Error> {
        let found = |pid| Self {
            pid,
            child: None,
            cgroup: None,
            caps: wants_caps(plan)
                .then(|| "not applied: only a server started by --server-command is capped".into()),
            spawned_at: Instant::now(),
        };
        if let Some(command) = &plan.command {
            return Self::spawn(command, plan).map(Some);
        }
        if let Some(pid) = plan.pid {
            if proc::usage(&[pid]).is_none() {
                return Err(Error::usage(format!("--server-pid {pid}: no such process")));
            }
            return Ok(Some(found(pid)));
        }
        let Some(port) = plan.port else { return Ok(None) };
        match proc::listener(port) {
            Some(pid) => Ok(Some(found(pid))),
            None => Err(Error::usage(format!(
                "--server-port {port}: no process that may be inspected listens there"
            ))),
        }
    }

    /// Starts `command` in its own process group, capped if asked and allowed.
    pub(crate) fn spawn(command: &str, plan: &ServerPlan) -> Result<Self, Error> {
        let (cgroup, caps) = match cap(plan) {
            None => (None, None),
            Some(Ok((path, text))) => (Some(path), Some(text)),
            Some(Err(text)) => (None, Some(text)),
        };
        let enter = cgroup.as_ref().map_or_else(String::new, |path| {
            format!("echo $$ > '{}/cgroup.procs' && ", path.display())
        });
        let spawned_at = Instant::now();
        let child = Command::new("sh")
            .arg("-c")
            .arg(format!("{enter}exec {command}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::system(format!("--server-command: {error}")))?;
        Ok(Self { pid: child.id(), child: Some(child), cgroup, caps, spawned_at })
    }

    /// Whether it was started here and has ended.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(status.to_string())
    }
}

impl Drop for ServerProcess {
    /// Ends what was started here, politely first.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let group = Pid::from_child(child);
            let _ = kill_process_group(group, Signal::TERM);
            let until = Instant::now() + GRACE;
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
        if let Some(path) = &self.cgroup {
            let _ = std::fs::remove_dir(path);
        }
    }
}

fn wants_caps(plan: &ServerPlan) -> bool {
    plan.cpus.is_some() || plan.memory_bytes.is_some()
}

/// Makes a cgroup with the caps; the text says what is in force, or why nothing is.
fn cap(plan: &ServerPlan) -> Option<Result<(PathBuf, String), String>> {
    if !wants_caps(plan) {
        return None;
    }
    let root = plan.cgroup_root.as_deref().unwrap_or_else(|| Path::new("/sys/fs/cgroup"));
    let path = root.join(format!("tidewire-bench-{}", std::process::id()));
    let made = make_cgroup(root, &path, plan);
    Some(made.map(|text| (path.clone(), text)).map_err(|error| {
        let _ = std::fs::remove_dir(&path);
        format!("not applied: this machine does not allow it ({error})")
    }))
}

fn make_cgroup(root: &Path, path: &Path, plan: &ServerPlan) -> std::io::Result<String> {
    if !root.join("cgroup.controllers").exists() {
        return Err(std::io::Error::other("no cgroup v2"));
    }
    // Already enabled, or not allowed: the writes below tell.
    let _ = std::fs::write(root.join("cgroup.subtree_control"), "+cpu +memory");
    std::fs::create_dir(path)?;
    let mut caps = Vec::new();
    if let Some(cpus) = plan.cpus {
        let quota = (cpus * 100_000.0).max(1000.0) as u64;
        std::fs::write(path.join("cpu.max"), format!("{quota} 100000"))?;
        caps.push(format!("{cpus} CPUs"));
    }
    if let Some(bytes) = plan.memory_bytes {
        std::fs::write(path.join("memory.max"), bytes.to_string())?;
        caps.push(crate::quantity::size(bytes as f64));
    }
    Ok(caps.join(", "))
}

/// Samples a server on its own thread.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Record>,
}

/// What a watch saw.
#[derive(Debug, Default)]
pub(crate) struct Record {
    phases: Vec<Phase>,
    samples: Vec<ServerSample>,
}

impl Watch {
    /// Watches the tree of `pid`; the warm-up ends at `origin`.
    pub(crate) fn begin(pid: u32, clock: RunClock, origin: Nanos) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut watcher = Watcher::new(pid, clock, origin);
            loop {
                let now = clock.now();
                let next = watcher.next_sample;
                let wait = Duration::from_nanos(next.saturating_sub(now)).min(LOOK);
                match stopped.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => watcher.look(),
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return watcher.end(),
                }
            }
        });
        Self { stop, thread }
    }

    pub(crate) fn end(self) -> Record {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

struct Watcher {
    pid: u32,
    clock: RunClock,
    origin: Nanos,
    next_sample: Nanos,
    phase_began: (Nanos, Usage),
    last: (Nanos, Usage),
    rss_peak: u64,
    /// Context switches by thread, ended ones included.
    switches: HashMap<u32, u64>,
    switches_before: u64,
    record: Record,
}

impl Watcher {
    fn new(pid: u32, clock: RunClock, origin: Nanos) -> Self {
        let now = (clock.now(), proc::usage(&proc::tree(pid)).unwrap_or_default());
        let next_sample = if origin > 0 { origin } else { SECOND };
        let mut watcher = Self {
            pid,
            clock,
            origin,
            next_sample,
            phase_began: now,
            last: now,
            rss_peak: 0,
            switches: HashMap::new(),
            switches_before: 0,
            record: Record::default(),
        };
        watcher.count_switches();
        watcher.switches_before = watcher.switches.values().sum();
        watcher
    }

    fn look(&mut self) {
        self.count_switches();
        if self.clock.now() >= self.next_sample {
            self.sample();
        }
    }

    fn count_switches(&mut self) {
        for pid in proc::tree(self.pid) {
            self.switches.extend(proc::switches(pid));
        }
    }

    fn sample(&mut self) {
        let now = self.clock.now();
        let Some(usage) = proc::usage(&proc::tree(self.pid)) else {
            self.next_sample += SECOND;
            return;
        };
        if self.next_sample == self.origin && self.origin > 0 {
            self.close("warm-up", now, usage);
        } else {
            let cores = (usage.cpu_seconds - self.last.1.cpu_seconds)
                / seconds(now.saturating_sub(self.last.0)).max(1e-9);
            let at = seconds(now.saturating_sub(self.origin));
            self.record.samples.push(ServerSample { at, cores, rss_bytes: usage.rss_bytes });
        }
        self.rss_peak = self.rss_peak.max(usage.rss_bytes);
        self.last = (now, usage);
        self.next_sample += SECOND;
    }

    fn close(&mut self, name: &str, now: Nanos, usage: Usage) {
        let (began, before) = self.phase_began;
        self.count_switches();
        let switches: u64 = self.switches.values().sum();
        self.record.phases.push(Phase {
            name: name.to_owned(),
            seconds: seconds(now.saturating_sub(began)),
            cpu_seconds: (usage.cpu_seconds - before.cpu_seconds).max(0.0),
            context_switches: switches.saturating_sub(self.switches_before),
            rss_bytes: usage.rss_bytes,
            pss_bytes: proc::pss(&proc::tree(self.pid)),
            rss_peak_bytes: self.rss_peak.max(usage.rss_bytes),
            ..Phase::default()
        });
        self.phase_began = (now, usage);
        self.switches_before = switches;
        self.rss_peak = 0;
    }

    fn end(mut self) -> Record {
        let now = self.clock.now();
        // A server that is gone is described by what was seen last.
        let usage = proc::usage(&proc::tree(self.pid)).unwrap_or(self.last.1);
        let name = if now < self.origin { "warm-up" } else { "measured" };
        self.close(name, now, usage);
        self.record
    }
}

/// How many requests were sent.
pub(crate) struct RequestCounts {
    pub(crate) warm_up: u64,
    pub(crate) measured: u64,
}

/// Puts a record into figures.
pub(crate) fn describe(
    running: &ServerProcess,
    record: Record,
    start: Option<Phase>,
    requests: &RequestCounts,
) -> Server {
    let mut phases: Vec<Phase> = start.into_iter().chain(record.phases).collect();
    for phase in &mut phases {
        let count = match phase.name.as_str() {
            "warm-up" => requests.warm_up,
            "measured" => requests.measured,
            _ => 0,
        };
        if count > 0 {
            phase.cpu_seconds_per_request = Some(phase.cpu_seconds / count as f64);
            phase.context_switches_per_request = Some(phase.context_switches as f64 / count as f64);
        }
    }
    Server {
        pid: running.pid,
        command: proc::command(running.pid),
        start_seconds: phases.first().filter(|one| one.name == "start").map(|one| one.seconds),
        caps: running.caps.clone(),
        phases,
        samples: record.samples,
    }
}

/// The phase from the spawn to the first answer.
pub(crate) fn start_phase(running: &ServerProcess, took: Duration) -> Phase {
    let pids = proc::tree(running.pid);
    let usage = proc::usage(&pids).unwrap_or_default();
    Phase {
        name: "start".to_owned(),
        seconds: took.as_secs_f64(),
        cpu_seconds: usage.cpu_seconds,
        context_switches: pids
            .iter()
            .flat_map(|pid| proc::switches(*pid))
            .map(|(_, count)| count)
            .sum(),
        rss_bytes: usage.rss_bytes,
        pss_bytes: proc::pss(&pids),
        rss_peak_bytes: usage.rss_bytes,
        ..Phase::default()
    }
}

//! The supervisor: a process of this program that does nothing but start and end hosted processes.
//!
//! The gateway runs itself again once, under the name `tidewire-supervisor`. The supervisor starts
//! everything in the thread of its `main`, so that the signal that a child gets with the death of
//! its parent's thread can be relied on, and has its own session. It adopts whatever below it loses
//! its parent. When its gateway is gone, be it by `kill -9`, everything below it is killed, daemons
//! too, and it ends.
//!
//! | event | what is done |
//! |---|---|
//! | order to start | clone and exec (`spawn.rs`); the answer is the pid or the error of the system |
//! | order to signal | the process group, as long as its leader was not reaped; to stop or go on, all of its descendants too |
//! | a child ended | its group is killed, what it left is swept (`sweep.rs`), the gateway is told |
//! | an instance has more than it may, and no cgroup keeps it from that | it is killed (`watch.rs`) |
//! | the gateway's end of the socket is closed | all is killed, until nothing is below |

pub(crate) mod cgroups;
pub(crate) mod client;
pub(crate) mod message;
pub(crate) mod process_mark;
mod spawn;
mod sweep;
pub(crate) mod usage;
mod watch;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use self::cgroups::Groups;
use self::message::{Bounds, End, Order, Start, SupervisorNotice};
use self::process_mark::Owner;
use self::watch::WatchedInstances;

/// What the process is called.
pub(crate) const NAME: &str = "tidewire-supervisor";

static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// Becomes the supervisor where this process was started as one, and then never returns.
///
/// It has to be the first line of `main`, before any runtime or thread: a program that hosts
/// processes starts itself a second time for them. In the program itself it does next to nothing.
///
/// ```no_run
/// // The first line of `main`:
/// tidewire_hosting::supervisor();
/// ```
pub fn supervisor() {
    let name = std::env::args_os().next();
    if name.as_deref() != Some(OsStr::new(NAME)) {
        WAS_CALLED.store(true, Ordering::Relaxed);
        return;
    }
    let outcome = run();
    sweep::everything();
    #[expect(
        clippy::exit,
        reason = "the supervisor is a separate process that runs instead of `main`"
    )]
    // tidy: allow-exit the same
    std::process::exit(i32::from(outcome.is_err()));
}

/// Whether `main` began as it should.
pub(crate) fn was_called() -> bool {
    WAS_CALLED.load(Ordering::Relaxed)
}

/// Serves the gateway, whose socket is standard input, until it is gone.
fn run() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // A socket for a child becomes its descriptor 3, so that nothing else may be there; see
    // `spawn.rs`.
    let _place = File::open("/dev/null")?;
    // Packets keep their bounds on it, whatever the type says.
    let socket = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(socket))
}

async fn serve(socket: std::os::unix::net::UnixStream) -> io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    spawn::hear_of_ends_alone()?;
    let socket = UnixStream::from_std(socket)?;
    let mut supervisor = Supervisor::new(socket);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            order = supervisor.receive() => order?,
            _ = ended.recv() => {
                supervisor.reap()?;
                continue;
            }
            _ = looks.tick(), if !supervisor.watched.is_empty() => {
                supervisor.kill_what_has_too_much();
                continue;
            }
        };
        match order {
            None => return Ok(()),
            Some((Order::Start(start), fds)) => supervisor.start(&start, fds)?,
            Some((Order::Signal { id, signal }, _)) => supervisor.signal(id, signal),
        }
    }
}

struct Supervisor {
    socket: UnixStream,
    itself: Owner,
    /// What is received, from one order to the next.
    text: Vec<u8>,
    /// The processes that were started and not reaped.
    instances: HashMap<Pid, u64>,
    /// Those that had started no others when they were stopped, and could start none since.
    alone: HashSet<u64>,
    groups: HashMap<Pid, (Groups, Bounds)>,
    watched: WatchedInstances,
    /// Why those end that were killed here.
    killed: HashMap<Pid, End>,
}

impl Supervisor {
    fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            itself: Owner::this(),
            text: Vec::new(),
            instances: HashMap::new(),
            alone: HashSet::new(),
            groups: HashMap::new(),
            watched: WatchedInstances::default(),
            killed: HashMap::new(),
        }
    }

    async fn receive(&mut self) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
        let Self { socket, text, .. } = self;
        socket.async_io(Interest::READABLE, || message::receive(&*socket, text)).await
    }

    fn start(&mut self, start: &Start, fds: Vec<OwnedFd>) -> io::Result<()> {
        let id = start.id;
        let (groups, bounded) = Groups::new(&start.bounds, self.itself, id);
        match spawn::spawn(start, &fds, self.itself, (&groups, &bounded)) {
            Ok(pid) => {
                let memory_kills = groups.memory().map(Path::to_owned);
                self.instances.insert(pid, id);
                self.watched.add(pid, &start.bounds, &bounded);
                self.groups.insert(pid, (groups, start.bounds.clone()));
                let pid = pid.as_raw_nonzero().get();
                self.tell(&SupervisorNotice::Started { id, pid, bounded, memory_kills })
            }
            Err(error) => {
                let mut groups = groups;
                groups.remove();
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                self.tell(&SupervisorNotice::NotStarted { id, errno })
            }
        }
    }

    fn signal(&mut self, id: u64, signal: i32) {
        let pid = self.instances.iter().find(|(_, known)| **known == id).map(|(pid, _)| *pid);
        if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
            // It may have ended just now, which the next round finds out.
            let _ = kill_process_group(pid, signal);
            // What left the group would run on, or stay stopped.
            let below = || sweep::signal_below(pid, &self.instances, signal);
            if signal == Signal::STOP && below() == 1 {
                self.alone.insert(id);
            } else if signal == Signal::CONT && !self.alone.remove(&id) {
                below();
            }
        }
    }

    /// Takes note of all that ended, and of what that leaves without a parent.
    fn reap(&mut self) -> io::Result<()> {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let Some(id) = self.instances.remove(&pid) else { continue };
            self.alone.remove(&id);
            let _ = kill_process_group(pid, Signal::KILL);
            let end = self.why_ended(pid).unwrap_or_else(|| end(status));
            self.tell(&SupervisorNotice::Ended { id, end })?;
        }
        sweep::orphans(&self.instances);
        // Those of instances that are over go once all in them has ended.
        self.groups.retain(|pid, (groups, _)| self.instances.contains_key(pid) || !groups.remove());
        Ok(())
    }

    /// Why a process ended that had too much of something.
    fn why_ended(&mut self, pid: Pid) -> Option<End> {
        self.watched.remove(pid);
        let killed = self.killed.remove(&pid);
        let (groups, bounds) = self.groups.get(&pid)?;
        let is_memory = groups.memory().is_some_and(|counter| cgroups::memory_kills(counter) > 0);
        killed.or_else(|| bounds.memory.filter(|_| is_memory).map(End::OutOfMemory))
    }

    fn kill_what_has_too_much(&mut self) {
        for (leader, end) in self.watched.over(&self.instances) {
            self.killed.insert(leader, end);
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    /// Waits for the gateway to read, which it always does.
    fn tell(&self, notice: &SupervisorNotice) -> io::Result<()> {
        loop {
            match message::send(&self.socket, notice, &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None)?;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        sweep::everything();
        self.groups.retain(|_, (groups, _)| !groups.remove());
    }
}

/// Between two looks at what instances have.
const LOOK: Duration = Duration::from_secs(1);

fn end(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Lost,
    }
}

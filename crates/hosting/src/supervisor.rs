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
//! | the gateway's end of the socket is closed | all is killed, until nothing is below |

mod spawn;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::process_mark::Owner;
use crate::supervisor_message::{self, End, Order, Start, SupervisorNotice};

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(socket))
}

async fn serve(socket: std::os::unix::net::UnixStream) -> io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    spawn::hear_of_ends_alone()?;
    let socket = UnixStream::from_std(socket)?;
    let mut supervisor = Supervisor::new(socket);
    loop {
        let order = tokio::select! {
            order = supervisor.receive() => order?,
            _ = ended.recv() => {
                supervisor.reap()?;
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
}

impl Supervisor {
    fn new(socket: UnixStream) -> Self {
        let (instances, alone) = (HashMap::new(), HashSet::new());
        Self { socket, itself: Owner::this(), text: Vec::new(), instances, alone }
    }

    async fn receive(&mut self) -> io::Result<Option<(Order, Vec<OwnedFd>)>> {
        let Self { socket, text, .. } = self;
        socket.async_io(Interest::READABLE, || supervisor_message::receive(&*socket, text)).await
    }

    fn start(&mut self, start: &Start, fds: Vec<OwnedFd>) -> io::Result<()> {
        let id = start.id;
        match spawn::spawn(start, &fds, self.itself) {
            Ok(pid) => {
                self.instances.insert(pid, id);
                self.tell(&SupervisorNotice::Started { id, pid: pid.as_raw_nonzero().get() })
            }
            Err(error) => {
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
            self.tell(&SupervisorNotice::Ended { id, end: end(status) })?;
        }
        sweep::orphans(&self.instances);
        Ok(())
    }

    /// Waits for the gateway to read, which it always does.
    fn tell(&self, notice: &SupervisorNotice) -> io::Result<()> {
        loop {
            match supervisor_message::send(&self.socket, notice, &[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None)?;
                }
                outcome => return outcome,
            }
        }
    }
}

fn end(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Lost,
    }
}

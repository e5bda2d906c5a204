//! The gateway's side of the supervisor: one socket, on which all instances are started and
//! signalled.
//!
//! A supervisor that died is noticed by the end of its socket: every instance of it counts as ended
//! (the kernel killed it with its parent), and the next start starts another supervisor.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::supervisor::message::{self, BoundEnforcement, End, Order, Start, SupervisorNotice};
use crate::supervisor::process_mark::{self, Owner};
use crate::supervisor::{self, cgroups};

/// Starts processes by a supervisor, of which there is one at a time.
#[derive(Debug)]
pub(crate) struct SupervisorClient {
    /// The program whose `main` begins with [`supervisor()`](crate::supervisor()).
    program: PathBuf,
    current: Mutex<Option<Current>>,
    ids: AtomicU64,
}

#[derive(Debug)]
struct Current {
    wire: Arc<Wire>,
    reader: AbortHandle,
}

/// A process that was started. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    id: u64,
    pid: i32,
    bounded: BoundEnforcement,
    memory_kills: Option<PathBuf>,
    ended: watch::Receiver<Option<End>>,
    wire: Arc<Wire>,
}

/// The socket to a supervisor, and who waits for what it says.
#[derive(Debug)]
struct Wire {
    socket: UnixStream,
    /// The supervisor itself: no descriptor of it, which a gateway may be short of.
    supervisor: Pid,
    waiting: Mutex<HashMap<u64, PendingStart>>,
    is_closed: watch::Sender<bool>,
}

#[derive(Debug)]
struct PendingStart {
    started: Option<oneshot::Sender<io::Result<StartedProcess>>>,
    ended: watch::Sender<Option<End>>,
}

/// What is known of a process that was started.
#[derive(Debug)]
struct StartedProcess {
    pid: i32,
    bounded: BoundEnforcement,
    memory_kills: Option<PathBuf>,
}

impl SupervisorClient {
    /// Starts a supervisor.
    ///
    /// # Errors
    /// When that process cannot be started.
    pub(crate) fn new(program: &Path) -> io::Result<Self> {
        let current = Mutex::new(Some(Current::open(program)?));
        Ok(Self { program: program.to_owned(), current, ids: AtomicU64::new(1) })
    }

    /// An identity that no other instance of this gateway has.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a process with these descriptors: standard output, standard error, perhaps a socket.
    ///
    /// # Errors
    /// What the system says of the program, or of the supervisor.
    pub(crate) async fn start(&self, start: Start, fds: Vec<OwnedFd>) -> io::Result<Process> {
        let wire = self.wire()?;
        let id = start.id;
        let (say_started, started) = oneshot::channel();
        let (say_ended, ended) = watch::channel(None);
        wire.waiting
            .lock()
            .insert(id, PendingStart { started: Some(say_started), ended: say_ended });
        // Whoever gives up from here on drops it, and thereby kills what may have been started.
        let bounded = BoundEnforcement::default();
        let memory_kills = None;
        let wire_of = Arc::clone(&wire);
        let mut process = Process { id, pid: 0, bounded, memory_kills, ended, wire: wire_of };
        wire.send(&Order::Start(start), &fds).await?;
        drop(fds);
        let started = started.await.map_err(|_| io::Error::other("the supervisor ended"))?;
        let StartedProcess { pid, bounded, memory_kills } = started?;
        (process.pid, process.bounded, process.memory_kills) = (pid, bounded, memory_kills);
        Ok(process)
    }

    /// As [`start`](Self::start), and tries again until `within` is over while the file of the
    /// program is open for writing, which the system does not run (`ETXTBSY`): it is just being
    /// replaced, or a child of whoever replaced it inherited it open.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_when_written(
        &self,
        start: Start,
        fds: Vec<OwnedFd>,
        within: Duration,
    ) -> io::Result<Process> {
        let began = Instant::now();
        let mut was_said = false;
        loop {
            let copies = fds.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
            match self.start(start.clone(), copies).await {
                Err(error)
                    if error.kind() == io::ErrorKind::ExecutableFileBusy
                        && began.elapsed() < within =>
                {
                    if !was_said {
                        let program = start.command.first();
                        tracing::warn!(
                            program,
                            "its file is open for writing; it starts once that is over"
                        );
                        was_said = true;
                    }
                    tokio::time::sleep(WRITTEN_WAIT).await;
                }
                done => return done,
            }
        }
    }

    /// Its processes are to end: a supervisor that somebody stopped goes on for it.
    pub(crate) fn ends(&self) {
        self.current.lock().iter().for_each(|current| current.wire.goes_on());
    }

    /// Ends the supervisor and with it all processes, and waits until none is left.
    pub(crate) async fn close(&self) {
        let Some(current) = self.current.lock().take() else { return };
        current.wire.hang_up();
        let mut is_closed = current.wire.is_closed.subscribe();
        // The sender is in the wire, which is held here.
        let _ = is_closed.wait_for(|is_closed| *is_closed).await;
    }

    fn wire(&self) -> io::Result<Arc<Wire>> {
        let mut current = self.current.lock();
        match &*current {
            Some(current) if !*current.wire.is_closed.borrow() => Ok(Arc::clone(&current.wire)),
            _ => Ok(Arc::clone(&current.insert(Current::open(&self.program)?).wire)),
        }
    }
}

impl Drop for SupervisorClient {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl SupervisorClient {
    /// Ends the supervisor, which ends all processes, without waiting for it.
    pub(crate) fn hang_up(&self) {
        if let Some(current) = self.current.lock().take() {
            current.wire.hang_up();
            current.reader.abort();
        }
    }
}

impl Process {
    /// Its process id, also that of its session and group.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// What keeps its bounds.
    pub(crate) fn bounded(&self) -> BoundEnforcement {
        self.bounded
    }

    /// How many processes of it were killed for memory so far.
    pub(crate) fn memory_kills(&self) -> u64 {
        self.memory_kills.as_deref().map_or(0, cgroups::memory_kills)
    }

    /// Lets its group run again: at once, and by the supervisor what has left the group.
    pub(crate) fn go_on(&self) {
        // Whose it is by now, if it has just ended, is not stopped.
        if let Some(group) = Pid::from_raw(self.pid).filter(|_| self.ended.borrow().is_none()) {
            let _ = kill_process_group(group, Signal::CONT);
        }
        self.signal(Signal::CONT);
    }

    /// Sends a signal to its group.
    pub(crate) fn signal(&self, signal: Signal) {
        let order = Order::Signal { id: self.id, signal: signal.as_raw() };
        // A supervisor that is gone has taken the process with it.
        if let Err(error) = message::send(&self.wire.socket, &order, &[]) {
            tracing::debug!(%error, pid = self.pid, "the supervisor takes no signal");
        }
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    /// Cancel safe; it may be waited for by many, and again.
    pub(crate) fn ended(&self) -> impl Future<Output = End> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let end = ended.wait_for(Option::is_some).await.map(|end| *end);
            end.ok().flatten().unwrap_or(End::Lost)
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.borrow().is_none() {
            self.signal(Signal::KILL);
        }
    }
}

impl Current {
    /// Starts a supervisor and a task that reads what it says.
    fn open(program: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let mut command = Command::new(program);
        command.arg0(supervisor::NAME).stdin(theirs).stdout(Stdio::null());
        let child = command.spawn()?;
        drop(command);
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true)?;
        let wire = Arc::new(Wire {
            socket: UnixStream::from_std(ours)?,
            supervisor: Pid::from_child(&child),
            waiting: Mutex::default(),
            is_closed: watch::Sender::new(false),
        });
        let reader = tokio::spawn(read(Arc::clone(&wire), child)).abort_handle();
        Ok(Self { wire, reader })
    }
}

/// Passes on what a supervisor says, until it ends.
async fn read(wire: Arc<Wire>, mut child: Child) {
    let mut text = Vec::new();
    loop {
        let receive = || message::receive(&wire.socket, &mut text);
        match wire.socket.async_io(Interest::READABLE, receive).await {
            Ok(Some((notice, _))) => wire.notice(notice),
            Ok(None) => break,
            Err(error) => {
                tracing::error!(%error, "the supervisor of hosted processes makes no sense");
                break;
            }
        }
    }
    let ended = tokio::task::spawn_blocking(move || {
        // As it was started, as long as it is not waited for.
        let supervisor = i32::try_from(child.id()).map(Owner::of_ended);
        // Its end of the socket closes when it ends, so that this does not take long.
        let end = child.wait();
        // One that was killed has left what is below it.
        if !end.is_ok_and(|end| end.success()) {
            supervisor
                .into_iter()
                .flatten()
                .for_each(|supervisor| process_mark::sweep(|owner| owner == supervisor));
        }
    });
    let _ = ended.await;
    wire.is_closed.send_replace(true);
    for (_, waiting) in wire.waiting.lock().drain() {
        waiting.ended.send_replace(Some(End::Lost));
    }
}

impl Wire {
    async fn send(&self, order: &Order, fds: &[OwnedFd]) -> io::Result<()> {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        self.socket.async_io(Interest::WRITABLE, || message::send(&self.socket, order, &fds)).await
    }

    fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        self.goes_on();
    }

    /// Lets the supervisor run, in case that somebody stopped it.
    fn goes_on(&self) {
        if !*self.is_closed.borrow() {
            let _ = kill_process(self.supervisor, Signal::CONT);
        }
    }

    fn notice(&self, notice: SupervisorNotice) {
        let mut waiting = self.waiting.lock();
        let mut send_started = |id: u64, started: io::Result<StartedProcess>| {
            let started_by = waiting.get_mut(&id).and_then(|waiting| waiting.started.take());
            // Whoever gave up does not want to know.
            started_by.map(|started_by| started_by.send(started));
        };
        match notice {
            SupervisorNotice::Started { id, pid, bounded, memory_kills } => {
                send_started(id, Ok(StartedProcess { pid, bounded, memory_kills }));
            }
            SupervisorNotice::NotStarted { id, errno } => {
                send_started(id, Err(io::Error::from_raw_os_error(errno)));
                if let Some(waiting) = waiting.remove(&id) {
                    waiting.ended.send_replace(Some(End::Lost));
                }
            }
            SupervisorNotice::Ended { id, end } => {
                if let Some(waiting) = waiting.remove(&id) {
                    waiting.ended.send_replace(Some(end));
                }
            }
        }
    }
}

/// Between two tries to start a program whose file is being written.
const WRITTEN_WAIT: Duration = Duration::from_millis(20);

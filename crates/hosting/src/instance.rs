//! One process of a hosted service, from its start to its end.
//!
//! It is started with pipes for its output, which are read from then on, and counts as started once
//! it can be called. It ends by itself, or by SIGTERM and after a grace by SIGKILL; its whole group
//! does. Dropping it kills it.

pub(crate) mod health;
mod launch;
pub(crate) mod overdue;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::Signal;
use tidewire_client::Client;
use tidewire_proxy::{pass_upgrade, refused_upgrade, upgrade_header};
use tidewire_service::{Call, Code, Error, Outcome, Reply, Service};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::instance::launch::{LaunchedProcess, client, launch};
use crate::instance::overdue::WaitingCalls;
use crate::native::callbacks::Shared;
use crate::native::commands::NamedSources;
use crate::native::pipe_json::PipeJson;
use crate::native::session::Native;
use crate::pool::failure::Failure;
use crate::process::generation::Generation;
use crate::process::output::{OutputTail, Pipes};
use crate::process::program::{Listen, Program};
use crate::process::ready::{Address, ListenPlace};
use crate::supervisor::client::{Process, SupervisorClient};
use crate::supervisor::message::{BoundEnforcement, End};

/// What an instance is started in.
pub(crate) struct StartContext<'a> {
    pub(crate) supervisor: &'a SupervisorClient,
    pub(crate) generation: &'a Arc<Generation>,
    /// The folder of sockets.
    pub(crate) sockets: &'a Path,
    pub(crate) output: &'a OutputTail,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) named: &'a Arc<NamedSources>,
}

/// A process that can be called.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: u64,
    /// What it is an instance of.
    pub(crate) generation: Arc<Generation>,
    way: CallMode,
    process: Process,
    drain: Drain,
    /// Calls in a row that were not answered in time.
    overdue: AtomicU32,
    has_answered: AtomicBool,
    /// How often it was asked whether it is well.
    pub(crate) health_checks: AtomicU64,
    /// Processes of it that were killed for memory, as far as they are known.
    memory_kills: AtomicU64,
    /// How many calls it had when it ended.
    pub(crate) calls_at_end: OnceLock<usize>,
    /// Why the gateway killed it, if it did.
    killed: OnceLock<String>,
    /// Calls of plain HTTP that wait for their answer.
    pub(crate) waiting: Arc<WaitingCalls>,
    _place: ListenPlace,
}

/// How a process is called.
#[derive(Debug)]
enum CallMode {
    Http(Client, Address),
    Native(Native),
    PipeJson(PipeJson),
}

/// The task that reads what a process prints, which ends with its owner.
#[derive(Debug)]
struct Drain {
    task: Mutex<JoinHandle<()>>,
    last: Arc<Notify>,
}

impl Instance {
    /// Starts a process and waits until it can be called.
    ///
    /// # Errors
    /// It cannot be run, it ended, or it took longer than `start_timeout`; it is over then.
    pub(crate) async fn start(context: &StartContext<'_>) -> Result<Self, Failure> {
        let StartContext { supervisor, generation, sockets, .. } = context;
        let Generation { program, life, .. } = &***generation;
        let id = supervisor.next_id();
        let user = program.runs_as().map_err(|error| Failure::of(&error))?;
        let place = ListenPlace::new(program.listen, sockets, id, user.as_ref());
        let (place, socket) = place.map_err(|error| {
            Failure::of_user(&error, user.is_some()).unwrap_or_else(|| Failure::for_now(error))
        })?;
        let told = place.environment_variable();
        let told: Vec<_> = told.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut order = program.order(id, &told).map_err(|error| Failure::of(&error))?;
        order.bounds = life.bounds();
        let (pipes, writers) = Pipes::new().map_err(Failure::for_now)?;
        let fds = writers.into_iter().chain(socket).collect();
        let LaunchedProcess { process, drain, way } =
            launch(&place, context, order, (pipes, fds)).await?;
        let generation = Arc::clone(generation);
        let overdue = AtomicU32::new(0);
        let has_answered = AtomicBool::new(false);
        let memory_kills = AtomicU64::new(0);
        Ok(Self {
            id,
            generation,
            way,
            process,
            drain,
            overdue,
            has_answered,
            memory_kills,
            calls_at_end: OnceLock::new(),
            killed: OnceLock::new(),
            health_checks: AtomicU64::new(0),
            waiting: Arc::default(),
            _place: place,
        })
    }

    /// Makes a call.
    pub(crate) async fn call(&self, call: Call) -> tidewire_service::Result<Reply> {
        match &self.way {
            CallMode::Http(client, address) => match upgrade_header(&call) {
                None => client.call(call).await,
                Some(_) if self.generation.program.speaks_http2 => Err(refused_upgrade("h2c")),
                Some(wanted) => Box::pin(pass_upgrade(&address.of_upgrade(), call, wanted)).await,
            },
            // Boxed, so that a call of plain HTTP is not the larger for either.
            CallMode::Native(native) => Box::pin(native.call(call)).await?.await,
            CallMode::PipeJson(program) => Box::pin(program.call(call)).await,
        }
    }

    /// What calls it by HTTP, if it listens for that.
    pub(crate) fn http_client(&self) -> Option<&Client> {
        match &self.way {
            CallMode::Http(client, _) => Some(client),
            CallMode::Native(_) | CallMode::PipeJson(_) => None,
        }
    }

    /// Wakes calls that are overdue; returns when to look again.
    pub(crate) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        match &self.way {
            CallMode::Native(native) => native.wake_overdue(now),
            CallMode::Http(..) | CallMode::PipeJson(_) => self.waiting.wake_overdue(now),
        }
    }

    /// Another client, for what is not a call, if it listens for HTTP.
    pub(crate) fn other_client(&self) -> Option<Client> {
        match &self.way {
            CallMode::Http(_, address) => client(&address.url(), &self.generation).ok(),
            CallMode::Native(_) | CallMode::PipeJson(_) => None,
        }
    }

    /// Its session, if it speaks the live protocol.
    pub(crate) fn native(&self) -> Option<&Native> {
        match &self.way {
            CallMode::Http(..) | CallMode::PipeJson(_) => None,
            CallMode::Native(native) => Some(native),
        }
    }

    /// Whether an error of a call says that the process cannot be reached.
    pub(crate) fn is_out_of_reach(&self, error: &Error) -> bool {
        match &self.way {
            CallMode::Http(..) | CallMode::PipeJson(_) => error.code() == Code::Unavailable,
            CallMode::Native(native) => native.is_over() && error.outcome() != Outcome::Answered,
        }
    }

    /// Whether it has no work that is not a call.
    pub(crate) fn is_quiet(&self) -> bool {
        match &self.way {
            CallMode::Http(..) | CallMode::PipeJson(_) => true,
            CallMode::Native(native) => native.is_quiet(),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// What keeps its bounds.
    pub(crate) fn bounded(&self) -> BoundEnforcement {
        self.process.bounded()
    }

    /// Whether processes of it were killed for memory since this was asked last.
    pub(crate) fn has_memory_kills(&self) -> bool {
        let kills = self.process.memory_kills();
        self.memory_kills.fetch_max(kills, Ordering::Relaxed) < kills
    }

    /// Asks it to end, and makes it after a grace.
    pub(crate) async fn stop(&self) {
        let grace = self.generation.life.stop_grace;
        if let CallMode::Native(native) = &self.way {
            native.drain(grace);
        }
        self.process.signal(Signal::TERM);
        // A frozen one does not hear it before.
        self.process.signal(Signal::CONT);
        if tokio::time::timeout(grace, self.process.ended()).await.is_err() {
            let service = self.generation.program.name();
            tracing::warn!(
                service,
                pid = self.pid(),
                "did not end within {grace:?} of SIGTERM; killed"
            );
            self.process.signal(Signal::KILL);
            self.process.ended().await;
        }
    }

    /// Stops it from running, until it is thawed.
    pub(crate) fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets it run again.
    pub(crate) fn thaw(&self) {
        self.process.go_on();
    }

    /// Waits for its end, and until what it printed was read.
    pub(crate) async fn ended(&self) -> End {
        if let CallMode::Native(native) = &self.way {
            tokio::select! {
                _ = self.process.ended() => {}
                () = native.over() => self.follows_its_session().await,
            }
        }
        let end = self.process.ended().await;
        if let CallMode::Native(native) = &self.way {
            native.process_ended();
        }
        self.drain.to_its_end().await;
        end
    }

    /// Whether it said that it takes no more calls.
    pub(crate) fn has_left(&self) -> bool {
        self.native().is_some_and(Native::has_left)
    }

    /// Waits until it takes no more calls, by its own word.
    pub(crate) async fn leaves(&self) {
        match &self.way {
            CallMode::Http(..) | CallMode::PipeJson(_) => std::future::pending().await,
            CallMode::Native(native) => native.leaves().await,
        }
    }

    /// A process whose session is over cannot be called any more: it ends, or is killed.
    async fn follows_its_session(&self) {
        let grace = if self.has_left() { self.generation.life.stop_grace } else { LAST_WORDS };
        if tokio::time::timeout(grace, self.process.ended()).await.is_err() {
            self.kill(format!("its session was over, and it went on for {grace:?}"));
        }
    }

    fn kill(&self, why: String) {
        // The first reason is the one.
        let _ = self.killed.set(why);
        self.process.signal(Signal::KILL);
    }

    /// Why the gateway killed it, if it ended so.
    pub(crate) fn was_killed(&self, end: End) -> Option<String> {
        let is_kill = end == End::Signal(Signal::KILL.as_raw());
        let why = self.killed.get().filter(|_| is_kill)?;
        Some(format!("the gateway killed it: {why}"))
    }

    /// It answered a call.
    pub(crate) fn note_reply(&self) {
        self.overdue.store(0, Ordering::Relaxed);
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// What may be wrong with a program that does not answer.
    pub(crate) fn hint(&self) -> Option<NeverAccepted> {
        let has_answered = self.has_answered.load(Ordering::Relaxed);
        let program = &self.generation.program;
        (!has_answered && program.listen == Listen::Inherited)
            .then(|| NeverAccepted::of(self.pid(), program))
    }

    /// It did not answer a call in time. One that does so again and again hangs, and is killed.
    pub(crate) fn did_not_answer(&self) {
        if self.overdue.fetch_add(1, Ordering::Relaxed) + 1 == OVERDUE_MAX {
            let timeout = self.generation.life.request_timeout;
            let why = format!(
                "{OVERDUE_MAX} calls in a row had no answer within request_timeout = {timeout:?}"
            );
            let service = self.generation.program.name();
            tracing::warn!(service, pid = self.pid(), "{why}; killed");
            self.kill(why);
        }
    }
}

impl Drain {
    fn start(pipes: Pipes, service: &str, process: &Process, output: &OutputTail) -> Self {
        let service = service.to_owned();
        let output = output.clone();
        let pid = process.pid();
        let ended = process.ended();
        let last = Arc::new(Notify::new());
        let told = Arc::clone(&last);
        let task =
            tokio::spawn(async move { pipes.drain(&service, pid, &output, ended, &told).await });
        Self { task: Mutex::new(task), last }
    }

    /// Waits until all that the process wrote was read, and all who had the pipes closed them. They
    /// are killed with the process, but for those that hid, which are not waited for.
    async fn to_its_end(&self) {
        let mut task = self.task.lock().await;
        if task.is_finished() {
            return;
        }
        if tokio::time::timeout(LAST_LINES, &mut *task).await.is_err() {
            self.last.notify_one();
            // A panic of it would be its own.
            let _ = (&mut *task).await;
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.task.get_mut().abort();
    }
}

/// A process has never answered a call that waits in the socket that it inherited.
#[derive(Debug)]
pub(crate) struct NeverAccepted {
    pid: i32,
    executable: String,
}

impl NeverAccepted {
    fn of(pid: i32, program: &Program) -> Self {
        Self { pid, executable: program.executable().to_owned() }
    }
}

impl fmt::Display for NeverAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it has not taken a call from descriptor 3 yet; LISTEN_PID is {}, that of {}: a program that this \
             only starts takes none, write exec in a shell or listen = \"port\"",
            self.pid, self.executable
        )
    }
}

impl std::error::Error for NeverAccepted {}

const OVERDUE_MAX: u32 = 3;
/// How long those who have the pipes of a process that ended may take to close them.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long a process may take to end once its session is over, and its session once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

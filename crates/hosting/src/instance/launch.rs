//! How a process begins: started, greeted where it speaks the live protocol, and asked until it can
//! be called; and what there is to say of one that never could.

use std::fmt;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tidewire_client::{BuildError, Client, ClientLimits, HttpVersion, Retry};
use tidewire_proxy::ask;
use tidewire_service::LATE_ANSWERS_MAX;

use super::{CallMode, Drain, LAST_WORDS, NeverAccepted, StartContext};
use crate::native::callbacks::Peer;
use crate::native::pipe_json::PipeJson;
use crate::native::session::Native;
use crate::pool::failure::Failure;
use crate::process::generation::Generation;
use crate::process::listening;
use crate::process::output::Pipes;
use crate::process::program::Listen;
use crate::process::ready::{Address, ListenPlace};
use crate::supervisor::client::Process;
use crate::supervisor::message::Start;
use crate::supervisor::usage;

/// A process that can be called.
pub(super) struct LaunchedProcess {
    pub(super) process: Process,
    pub(super) drain: Drain,
    pub(super) way: CallMode,
}

/// Starts a process and waits until it can be called.
///
/// # Errors
/// As [`Instance::start`].
pub(super) async fn launch(
    place: &ListenPlace,
    context: &StartContext<'_>,
    order: Start,
    (pipes, fds): (Pipes, Vec<OwnedFd>),
) -> Result<LaunchedProcess, Failure> {
    let StartContext { supervisor, generation, output, .. } = context;
    let Generation { program, life, .. } = &***generation;
    let peer = Arc::new(Peer::new(context.named, order.id, context.shared));
    let not_ready = parking_lot::Mutex::new(NotReady::Silent);
    let mut way = pin!(reach(place, context, &peer, &not_ready));
    // It is greeted while it starts.
    let launching = supervisor.start_when_written(order, fds, life.start_timeout);
    let mut early = None;
    let process = {
        let mut launching = pin!(launching);
        loop {
            tokio::select! {
                biased;
                process = &mut launching => break process.map_err(|error| {
                    let is_of_another = program.runs_as().is_ok_and(|user| user.is_some());
                    let of_user = Failure::of_user(&error, is_of_another);
                    of_user.unwrap_or_else(|| Failure::of(&error))
                })?,
                way = &mut way, if place.is_native() && early.is_none() => early = Some(way),
            }
        }
    };
    peer.runs_as(process.pid());
    let drain = Drain::start(pipes, program.name(), &process, output);
    let limits = Some(process.bounded().to_string()).filter(|limits| !limits.is_empty());
    tracing::info!(service = program.name(), pid = process.pid(), limits, "started");
    let end = process.ended();
    let mut reached = pin!(async {
        match early {
            Some(way) => way,
            None => way.await,
        }
    });
    let way = tokio::select! {
        biased;
        way = &mut reached => way,
        end = end => {
            let refused = if place.is_native() { refusal(reached).await } else { None };
            drain.to_its_end().await;
            return Err(ended(refused, &end.to_string(), &output.last_words(process.pid())));
        }
        () = tokio::time::sleep(life.start_timeout) => {
            let elsewhere = elsewhere(place, &not_ready.lock(), process.pid());
            process.signal(Signal::KILL);
            process.ended().await;
            drain.to_its_end().await;
            let not_ready = not_ready.lock().clone();
            return Err(late(not_ready, &elsewhere, generation, process.pid()));
        }
    };
    let way = match way {
        Ok(way) => way,
        Err(said) => {
            // Its end says more, if it is ending.
            let end = usage::known_end(process.pid(), process.ended(), LAST_WORDS).await;
            if end.is_none() {
                process.signal(Signal::KILL);
                process.ended().await;
            }
            drain.to_its_end().await;
            return Err(match end {
                Some(end) => ended(said, &end.to_string(), &output.last_words(process.pid())),
                None => Failure::text(said.unwrap_or_else(|| NO_HELLO.to_owned())),
            });
        }
    };
    Ok(LaunchedProcess { process, drain, way })
}

/// Why a process that has ended was refused: what its session says may be known later than its end.
async fn refusal(
    reached: impl Future<Output = Result<CallMode, Option<String>>>,
) -> Option<String> {
    tokio::time::timeout(LAST_WORDS, reached).await.ok()?.err()?
}

/// Why a process could not be called that ended by itself.
fn ended(refused: Option<String>, end: &str, last_words: &str) -> Failure {
    Failure::text(match refused {
        Some(text) => format!("{text}; {end}{last_words}"),
        None => format!("{end} before it listened{last_words}"),
    })
}

/// Why a process is ended that could not be called in time.
fn late(not_ready: NotReady, elsewhere: &str, generation: &Generation, pid: i32) -> Failure {
    let Generation { program, life, .. } = generation;
    let hint = match (program.listen, &not_ready) {
        (Listen::Inherited, NotReady::Silent | NotReady::Listens) => {
            format!(": {}", NeverAccepted::of(pid, program))
        }
        _ => String::new(),
    };
    let timeout = life.start_timeout;
    let text = format!("it {not_ready} within start_timeout = {timeout:?}{elsewhere}{hint}");
    Failure { late_after: Some(timeout), ..Failure::text(text) }
}

/// Where a process listens that was expected at a port and is not there.
fn elsewhere(place: &ListenPlace, not_ready: &NotReady, pid: i32) -> String {
    let (ListenPlace::Port(port), NotReady::Silent) = (place, not_ready) else {
        return String::new();
    };
    let found: Vec<_> = listening::addresses_of(pid).iter().map(ToString::to_string).collect();
    match found.is_empty() {
        true => format!(", at port {port}"),
        false => format!(", at port {port}: it listens at {}", found.join(" and ")),
    }
}

/// Waits until a process can be called.
///
/// # Errors
/// It will never be; `None` where it is a native one that said nothing.
async fn reach(
    place: &ListenPlace,
    context: &StartContext<'_>,
    peer: &Arc<Peer>,
    not_ready: &parking_lot::Mutex<NotReady>,
) -> Result<CallMode, Option<String>> {
    let StartContext { generation, .. } = context;
    if let Some(socket) = place.take_socket() {
        return Native::greet(socket, peer).await.map(CallMode::Native);
    }
    let address = place.until_open(&|| *not_ready.lock() = NotReady::Listens).await;
    let address = match address {
        Address::Unix(socket) if generation.program.listen == Listen::PipeJson => {
            return Ok(CallMode::PipeJson(PipeJson::new(socket, &generation.life)));
        }
        address => address,
    };
    let client = client(&address.url(), generation);
    let client = client.map_err(|error| Some(error.to_string()))?;
    if let Some(path) = generation.program.ready_path() {
        until_ready(&client, path, not_ready).await.map_err(Some)?;
    }
    Ok(CallMode::Http(client, address))
}

/// Waits until a path is answered with a status below 400, and notes what it was answered last.
///
/// # Errors
/// It is not a path.
async fn until_ready(
    client: &Client,
    path: &str,
    not_ready: &parking_lot::Mutex<NotReady>,
) -> Result<(), String> {
    let target = path.parse::<http::Uri>().map_err(|error| format!("ready = {path:?}: {error}"))?;
    let mut wait = READY_FIRST_WAIT;
    loop {
        let Err(told) = ask(client, &target).await else { return Ok(()) };
        *not_ready.lock() = NotReady::Answers { path: path.to_owned(), told };
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(READY_LONGEST_WAIT);
    }
}

/// What calls a process of plain HTTP by this URL.
pub(super) fn client(url: &str, generation: &Generation) -> Result<Client, BuildError> {
    let life = &generation.life;
    let mut limits = ClientLimits::default();
    // Late answers to commands are waited for beside the calls that have a place.
    limits.http1_connections_max = life.concurrency.saturating_add(LATE_ANSWERS_MAX);
    limits.waiting_max = life.concurrency;
    limits.idle_timeout = UNUSED_MAX;
    limits.keep_alive_interval = Some(ClientLimits::KEEP_ALIVE_GRPC);
    let version = match generation.program.speaks_http2 {
        true => HttpVersion::Http2,
        false => HttpVersion::Http1,
    };
    let mut client = Client::builder(url).http(version).retry(Retry::none());
    if !generation.program.reuses_after_body {
        client = client.close_after_bodies();
    }
    client.pass_host().limits(limits).build()
}

/// How far a process has come that cannot be called yet.
#[derive(Debug, Clone)]
enum NotReady {
    /// Nothing listens.
    Silent,
    /// Something does, and accepts nothing.
    Listens,
    /// The path that says whether it is ready was answered otherwise.
    Answers { path: String, told: String },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("did not listen"),
            Self::Listens => f.write_str("accepted no connection"),
            Self::Answers { path, told } => write!(f, "was not ready (GET {path} {told})"),
        }
    }
}

/// Between two questions whether a program is ready.
const READY_FIRST_WAIT: Duration = Duration::from_millis(10);
const READY_LONGEST_WAIT: Duration = Duration::from_millis(250);
/// How long a connection of plain HTTP waits for its next call. Programs close theirs after 2 s
/// (gunicorn) or 5 s (Node), one that was frozen as soon as it goes on: a call that is sent in that
/// moment would be lost.
const UNUSED_MAX: Duration = Duration::from_secs(1);
/// What there is to say of a native process that closed its socket and went on.
const NO_HELLO: &str = "it did not send a hello of the live protocol";

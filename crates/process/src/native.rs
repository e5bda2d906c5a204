//! A process that speaks the live protocol on the socket that it inherited.
//!
//! ```text
//!  gateway: hello ─▶ process: hello, ready ─▶ calls, both ways ─▶ end of the socket
//! ```
//!
//! The process dials, in the terms of the protocol, and finds the gateway's hello in its socket when it starts,
//! which saves a round trip. There is no keep-alive and nothing is resumed: the end
//! of the socket is the end of the session, and what was not answered by then ends *not run* or *unknown*:
//! `commands.rs` has what becomes of a command then.
//! What a call is told of its caller is in `headers.rs`, what the process says by itself in `peer.rs`.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tidewire_link::{
    Arrival, CallId, Config, Depends, Limits, Link, Links, Reason, feature, random_boot,
};
use tidewire_service::{Call, Enclosing, Headers, Outcome, Reply, Result, Target, end_to_end};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::commands;
use crate::peer::{Peer, Shared};
use crate::socket::Socket;

/// The session with one process.
#[derive(Debug)]
pub(crate) struct Native {
    link: Link,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    over: watch::Receiver<bool>,
    runs: JoinHandle<()>,
}

/// Both ends of the socket: the gateway's, and that which the process inherits.
///
/// # Errors
/// When there are no more.
pub(crate) fn sockets() -> io::Result<(std::os::unix::net::UnixStream, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

impl Native {
    /// Greets a process, and waits until it takes calls.
    ///
    /// # Errors
    /// What there is to say of one that does not speak the protocol, or says that it cannot start.
    ///
    /// # Cancel safety
    /// Dropped, the session is over.
    pub(crate) async fn greet(
        socket: std::os::unix::net::UnixStream,
        peer: &Arc<Peer>,
        shared: &Arc<Shared>,
    ) -> Result<Self, String> {
        let transport = UnixStream::from_std(socket).map_err(|error| error.to_string())?;
        let (peer, tasks) = (Arc::clone(peer), TaskTracker::new());
        let links = Links::new(config(), Arc::clone(&peer) as _, tasks, 0);
        let anybody = async |_| Ok(bytes::Bytes::new());
        let arrival = Arrival { is_started_here: true, ..Arrival::default() };
        let greeted = links.greet(Socket::new(transport), arrival, anybody).await;
        let (link, connection) = greeted.ok_or("it said no hello of the live protocol")?;
        let (ends, over) = watch::channel(false);
        let (ended, of) = (link.clone(), Arc::clone(&peer));
        let runs = tokio::spawn(async move {
            connection.run().await;
            if let Some(why) = violation(&ended) {
                of.broke_the_protocol(&why);
            }
            of.commands.end();
            ends.send_replace(true);
        });
        let native = Self { link, peer, shared: Arc::clone(shared), over, runs };
        tokio::select! {
            biased;
            () = native.peer.ready() => Ok(native),
            () = native.over() => {
                let why = native.link.why_over().map(|why| why.to_string());
                let why = why.unwrap_or_else(|| "it closed its socket".to_owned());
                Err(format!("it did not become ready: {why}"))
            }
        }
    }

    /// Whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        self.link.is_over()
    }

    /// Waits for the end of the session.
    pub(crate) fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut over = self.over.clone();
        async move {
            // Who says so is gone when it is over, too.
            let _ = over.wait_for(|over| *over).await;
        }
    }

    /// Whether it may be frozen or stopped: no call in either direction, and no other work.
    pub(crate) fn is_quiet(&self) -> bool {
        let usage = self.link.usage();
        usage.calls_in == 0 && usage.calls_out == 0 && !self.peer.is_busy()
    }

    /// The process is gone, whoever else has its socket open.
    pub(crate) fn process_ended(&self) {
        self.peer.commands.end();
    }

    /// Tells the process that no calls come any more.
    pub(crate) fn drain(&self, grace: Duration) {
        self.link.drain(u32::try_from(grace.as_millis()).unwrap_or(u32::MAX), 0);
    }

    /// Makes a call, and answers what the process calls meanwhile as a part of it.
    pub(crate) async fn call(&self, call: Call) -> Result<Reply> {
        let is_command = is_command(&call.target);
        let is_kept = call.spec().is_some_and(|spec| spec.ttl_ms.is_some() || spec.immutable);
        let enclosing = Enclosing::within(call.context.enclosing(), self.peer.holder);
        let opened = Opened { peer: &self.peer, id: OnceLock::new() };
        let command = OnceLock::new();
        let begins = |id: CallId| {
            self.peer.opens(id, enclosing);
            // It begins once.
            let _ = opened.id.set(id);
            if is_command {
                let _ = command.set(self.peer.commands.begin());
            }
        };
        let mut depends = Vec::new();
        let outcome = {
            let mut answer = std::pin::pin!(self.link.call_hosted(call, begins, &mut depends));
            // Most calls have none within them.
            let mut running = None;
            poll_fn(|cx| match answer.as_mut().poll(cx) {
                Poll::Pending => {
                    opened.poll_nested(&self.shared, &mut running, cx);
                    Poll::Pending
                }
                outcome => outcome,
            })
            .await
        };
        let command = command.into_inner();
        match outcome {
            Ok(reply) => {
                self.made_of(&depends, is_kept || reply.freshness.is_known());
                let mut reply = commands::settled_by(reply, command, self.link.clone());
                reply.headers = from_process(std::mem::take(&mut reply.headers));
                Ok(reply)
            }
            Err(mut error) => {
                command.into_iter().for_each(|command| command.failed(&error, &self.link));
                if error.outcome() == Outcome::Answered {
                    self.made_of(&depends, false);
                    let headers = from_process(std::mem::take(error.headers_mut()));
                    *error.headers_mut() = headers;
                }
                Err(error)
            }
        }
    }

    /// Records what an answer was made of: an answer that names nothing ends with nothing, unless its
    /// method says how long it lasts.
    fn made_of(&self, depends: &[Depends], is_kept: bool) {
        depends.iter().for_each(|read| self.peer.depends(read));
        if is_kept || !depends.is_empty() {
            self.peer.depends_on_service();
        }
    }
}

/// Why a session is over, if the process broke a rule of the protocol.
fn violation(link: &Link) -> Option<String> {
    let why = link.why_over()?;
    let is_end = matches!(why.reason, Reason::Bye | Reason::Drain | Reason::InitFailed);
    (!is_end).then(|| why.to_string())
}

/// Whether a call may change something.
fn is_command(target: &Target) -> bool {
    match target {
        Target::Method(method) => !method.is_query(),
        Target::Http(http) => !http.method.is_safe(),
        _ => true,
    }
}

fn from_process(headers: Headers) -> Headers {
    end_to_end(headers.into_map()).into()
}

/// The protocol's settings of the gateway's side.
fn config() -> Config {
    Config {
        limits: Limits { body_max: BODY_BYTES_MAX, ..Limits::default() },
        features: feature::HTTP | feature::HOSTED,
        required: feature::HOSTED,
        boot: Some(random_boot()),
        agent: concat!("tidewire/", env!("CARGO_PKG_VERSION")).to_owned(),
        // The end of the socket says it.
        ping_after: Duration::MAX,
        silence_max: Duration::MAX,
        ..Config::default()
    }
}

/// A call that the process knows by its name, until it is over for whoever made it.
struct Opened<'a> {
    peer: &'a Peer,
    id: OnceLock<CallId>,
}

/// The calls that are part of one, under way.
type Running = FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl Opened<'_> {
    /// Answers what came that is part of it, as far as that goes now.
    fn poll_nested(
        &self,
        shared: &Arc<Shared>,
        running: &mut Option<Running>,
        cx: &mut Context<'_>,
    ) {
        let Some(id) = self.id.get() else { return };
        for nested in self.peer.nested(*id, cx.waker()) {
            running.get_or_insert_default().push(Box::pin(nested.run(Arc::clone(shared))));
        }
        let Some(running) = running else { return };
        while let Poll::Ready(Some(())) = running.poll_next_unpin(cx) {}
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.get() {
            self.peer.closes(*id);
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        self.runs.abort();
        self.peer.commands.end();
    }
}

/// The largest message of a process.
const BODY_BYTES_MAX: u32 = 64 << 20;

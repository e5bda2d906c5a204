//! A process that speaks the live protocol on the socket that it inherited.
//!
//! ```text
//!  gateway: hello ─▶ process: hello, ready ─▶ calls, both ways ─▶ end of the socket
//! ```
//!
//! The process dials, in the terms of the protocol, and finds the gateway's hello in its socket
//! when it starts, which saves a round trip. There is no keep-alive and nothing is resumed: the end
//! of the socket is the end of the session, and what was not answered by then ends *not run* or
//! *unknown*: `commands.rs` has what becomes of a command then. What a call is told of its caller
//! is in `call/headers.rs`, what the process says by itself in `callbacks.rs`.

use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use tidewire_live::{
    Arrival, CallId, Config, Identity, Limits, Link, Links, OpenCall, Reason, Socket, feature,
    random_boot,
};
use tidewire_memo::read_untracked;
use tidewire_service::{Body, Call, Outcome, Reply, Result, Target, ThinHeaders, end_to_end};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::native::callbacks::{Parent, Peer};
use crate::native::caller::Caller;
use crate::native::commands::{self, Command};

/// The session with one process.
#[derive(Debug)]
pub(crate) struct Native {
    link: Link,
    peer: Arc<Peer>,
    over: watch::Receiver<bool>,
    runs: JoinHandle<()>,
}

impl Native {
    /// Greets a process, and waits until it takes calls.
    ///
    /// # Errors
    /// What there is to say of one that does not speak the protocol, or says that it cannot start;
    /// `None` where it closed its socket before it said anything.
    ///
    /// # Cancel safety
    /// Dropped, the session is over.
    pub(crate) async fn greet(
        socket: UnixStream,
        peer: &Arc<Peer>,
    ) -> Result<Self, Option<String>> {
        let transport = Socket::new(socket).map_err(|error| Some(error.to_string()))?;
        let peer = Arc::clone(peer);
        let tasks = TaskTracker::new();
        let links = Links::new(config(), Arc::clone(&peer) as _, tasks, 0);
        let anybody = async |_| Ok(Identity::default());
        let arrival = Arrival { is_started_here: true, ..Arrival::default() };
        let greeted = links.greet(transport, arrival, anybody).await;
        let (link, connection) = greeted.map_err(|refused| {
            refused.map(|violation| format!("its hello is refused: {violation}"))
        })?;
        let (ends, over) = watch::channel(false);
        let ended = link.clone();
        let of = Arc::clone(&peer);
        let runs = tokio::spawn(async move {
            connection.run().await;
            if let Some(why) = violation(&ended) {
                of.broke_the_protocol(&why);
            }
            of.commands.end();
            ends.send_replace(true);
        });
        let native = Self { link, peer, over, runs };
        tokio::select! {
            biased;
            () = native.peer.ready() => Ok(native),
            () = native.over() => {
                let why = native.link.why_over().map(|why| why.to_string());
                let why = why.unwrap_or_else(|| "it closed its socket".to_owned());
                Err(Some(format!("it did not become ready: {why}")))
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

    /// Whether it takes calls.
    pub(crate) fn serves(&self) -> bool {
        !self.has_left() && !self.is_over()
    }

    /// Waits until the process takes no more calls, by its own word.
    pub(crate) async fn leaves(&self) {
        self.peer.leaves().await;
    }

    /// Whether it said that it takes no more calls.
    pub(crate) fn has_left(&self) -> bool {
        self.peer.has_left()
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

    /// Gives a call to the process, once its session has room.
    ///
    /// # Errors
    /// The session is over.
    ///
    /// # Cancel safety
    /// Dropped, the call is not made.
    pub(crate) async fn call(&self, call: Call) -> Result<PendingReply> {
        let asked = CallParts::new(&call);
        let mut begun = None;
        let begins = self.begins(&call, None, None, &mut begun);
        let placed = self.link.call_hosted(call, begins).await?;
        Ok(PendingReply::new(begun, placed, asked))
    }

    /// Gives a call whose body is not a stream to the process here and now, if its session has
    /// room: the body is taken out. `cx` is woken by the answer, and when the call is `due`.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(crate) fn try_call(
        &self,
        call: &mut Call,
        due: Option<Instant>,
        cx: &Context<'_>,
    ) -> Poll<Result<PendingReply>> {
        let asked = CallParts::new(call);
        let mut begun = None;
        let begins = self.begins(call, due, Some(cx.waker().clone()), &mut begun);
        let placed = ready!(self.link.try_call_hosted(call, begins, cx))?;
        Poll::Ready(Ok(PendingReply::new(begun, placed, asked)))
    }

    /// Takes note of a call as it is placed.
    fn begins<'a>(
        &'a self,
        call: &Call,
        due: Option<Instant>,
        waits: Option<Waker>,
        begun: &'a mut Option<PlacedCall>,
    ) -> impl FnOnce(CallId) + Send + use<'a> {
        let is_command = is_command(&call.target);
        let outer = call.context.enclosing().cloned();
        let parent = Parent::new(outer, Caller::of(call), waits, due);
        move |id| {
            let is_due_first = self.peer.opens(id, parent);
            let opened = NamedCall { peer: Arc::clone(&self.peer), id };
            let command = is_command.then(|| self.peer.commands.begin(&self.link));
            *begun = Some(PlacedCall { command, opened, is_due_first });
        }
    }

    /// Wakes those whose call is overdue; returns when to look again.
    pub(crate) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        self.peer.wake_overdue(now)
    }
}

/// A call that the process has, until its answer begins: what the process calls meanwhile as a part
/// of it is answered here. Dropped, it is cancelled.
#[derive(Debug)]
pub(crate) struct PendingReply {
    /// Most calls have none within them.
    running: Option<NestedCalls>,
    placed: OpenCall,
    /// None once it is answered.
    begun: Option<PlacedCall>,
    asked: CallParts,
}

/// What of a call matters for its answer.
#[derive(Debug, Clone, Copy)]
struct CallParts {
    /// Its method says how long an answer lasts.
    is_kept: bool,
    /// Its answer has no body, whatever its headers say.
    is_head: bool,
}

/// What is noted of a call as it is placed.
#[derive(Debug)]
struct PlacedCall {
    command: Option<Command>,
    opened: NamedCall,
    /// It is overdue before all that are looked for.
    is_due_first: bool,
}

/// The calls that are part of one, under way.
type NestedCalls = FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl PendingReply {
    fn new(begun: Option<PlacedCall>, placed: OpenCall, asked: CallParts) -> Self {
        Self { running: None, placed, begun, asked }
    }

    /// Whether it is overdue sooner than the keeper of its service looks for that.
    pub(crate) fn is_due_first(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.is_due_first)
    }

    /// The answer, or the head of it.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        let mut depends = Vec::new();
        let Poll::Ready(outcome) = self.placed.poll_answer(cx, &mut depends) else {
            self.poll_nested(cx);
            return Poll::Pending;
        };
        let PlacedCall { command, opened, .. } = self.begun.take().expect(TAKEN);
        // What runs within it ends with it. An answer that did not wait for one of its parts is
        // told of no change of that.
        if self.running.take().is_some_and(|running| !running.is_empty()) {
            read_untracked();
        }
        Poll::Ready(match outcome {
            Ok(reply) => {
                opened.peer.made_of(&depends, self.asked.is_kept || reply.freshness.is_known());
                let mut reply = commands::settled_by(reply, command);
                from_process(&mut reply.headers);
                self.asked.correct_length(&mut reply);
                Ok(reply)
            }
            Err(mut error) => {
                command.into_iter().for_each(|command| command.fail(&error));
                if error.outcome() == Outcome::Answered {
                    opened.peer.made_of(&depends, false);
                    from_process(error.headers_mut());
                }
                Err(error)
            }
        })
    }

    /// Answers what came that is part of it, as far as that goes now.
    fn poll_nested(&mut self, cx: &mut Context<'_>) {
        let Some(PlacedCall { opened: NamedCall { peer, id }, .. }) = &self.begun else { return };
        for nested in peer.nested(*id, cx.waker()) {
            let running = self.running.get_or_insert_default();
            running.push(Box::pin(nested.run(Arc::clone(peer.shared()))));
        }
        let Some(running) = &mut self.running else { return };
        while let Poll::Ready(Some(())) = running.poll_next_unpin(cx) {}
    }
}

impl Future for PendingReply {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx)
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

impl CallParts {
    fn new(call: &Call) -> Self {
        let is_kept = call.spec().is_some_and(|spec| spec.ttl_ms.is_some() || spec.immutable);
        let is_head = call.http_target().is_some_and(|http| http.method == http::Method::HEAD);
        Self { is_kept, is_head }
    }

    /// A length that a process says beside a whole body could be another, and what is after it the
    /// next answer of its connection: the server says the right one. That of a stream is watched
    /// over as it goes by.
    fn correct_length(self, reply: &mut Reply) {
        let is_whole = !matches!(reply.body, Body::Stream(_));
        if is_whole && !self.is_head && reply.status != StatusCode::NOT_MODIFIED {
            reply.headers.remove(CONTENT_LENGTH);
        }
    }
}

fn from_process(headers: &mut ThinHeaders) {
    if !headers.is_empty() {
        *headers = end_to_end(std::mem::take(headers).into()).into();
    }
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
#[derive(Debug)]
struct NamedCall {
    peer: Arc<Peer>,
    id: CallId,
}

impl Drop for NamedCall {
    fn drop(&mut self) {
        self.peer.closes(self.id);
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

const TAKEN: &str = "a call is polled until it is answered, once";

//! What a hosted process says and asks: it is ready, it is busy, it logs, sources changed, and it
//! calls.
//!
//! A call that is part of one that the process serves (`parent`) is answered within that: in the
//! scope of its memoization, by its deadline, and above the concurrency of services that wait for
//! it. So it is handed to whoever waits for the call outside ([`NestedCall`]), who polls it in
//! place. A call on its own is answered like anybody's.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use tidewire_live::{
    AnswerFuture, CallFailure, CallId, CallMap, ChangedSources, Depends, Host, IncomingCall,
    ProcessMessage,
};
use tidewire_memo::{Graph, read_untracked};
use tidewire_service::{Code, Error, Outcome, ParentCalls, Principal, Reply};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

use crate::native::caller::{self, Caller, Rights};
use crate::native::commands::{Commands, NamedSources};
use crate::native::sources::Sources;
use crate::process::output::{Rate, printable};

/// What processes of a gateway have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sources: Arc<Sources>,
    /// Who answers what processes call; nobody before the server is started.
    pub(crate) callee: OnceLock<Callee>,
    /// How many bytes a second of a body have to pass while others wait.
    pub(crate) transfer_rate_min: AtomicU64,
    /// Starts that no call waits for.
    pub(crate) starts: Semaphore,
}

impl Shared {
    pub(crate) fn new(graph: &Graph) -> Self {
        let sources = Arc::new(Sources::new(graph));
        let callee = OnceLock::new();
        let transfer_rate_min = AtomicU64::new(TRANSFER_RATE_MIN);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { sources, callee, transfer_rate_min, starts: Semaphore::new(cores) }
    }
}

/// Who answers what processes call.
pub(crate) struct Callee(pub(crate) Box<dyn Host>);

/// One process, as the other side of its session.
pub(crate) struct Peer {
    /// The service's name.
    service: String,
    /// Who it is where it calls as itself.
    itself: Principal,
    /// Names the instance among all of this gateway.
    pub(crate) holder: u64,
    pid: AtomicI32,
    shared: Arc<Shared>,
    is_ready: watch::Sender<bool>,
    leaves: watch::Sender<bool>,
    logged: Mutex<Rate>,
    jobs: AtomicU64,
    parents: Mutex<Parents>,
    pub(crate) commands: Arc<Commands>,
}

/// The calls that the process serves.
#[derive(Debug, Default)]
struct Parents {
    open: CallMap<Parent>,
    /// When those are looked for that are overdue.
    looks_at: Option<Instant>,
}

/// A call that the process serves.
#[derive(Debug)]
pub(crate) struct Parent {
    /// What waits for it.
    outer: Option<ParentCalls>,
    caller: Caller,
    /// What is part of it and nobody has begun to answer.
    nested: Vec<NestedCall>,
    /// Who waits for it.
    waits: Option<Waker>,
    /// When whoever waits for it is woken, should it not be answered by then.
    due: Option<Instant>,
}

impl Parent {
    /// A call of `caller` inside of `outer`, for which `waits` waits.
    pub(crate) fn new(
        outer: Option<ParentCalls>,
        caller: Caller,
        waits: Option<Waker>,
        due: Option<Instant>,
    ) -> Self {
        Self { outer, caller, nested: Vec::new(), waits, due }
    }
}

/// A call that is part of one that the process serves.
#[derive(Debug)]
pub(crate) struct NestedCall {
    arrived: IncomingCall,
    answer: oneshot::Sender<Result<Reply, CallFailure>>,
}

impl Drop for Peer {
    /// It says no more.
    fn drop(&mut self) {
        self.logged.get_mut().tell(&self.service, *self.pid.get_mut(), &"log");
    }
}

impl Peer {
    pub(crate) fn new(named: &Arc<NamedSources>, holder: u64, shared: &Arc<Shared>) -> Self {
        Self {
            service: named.service().to_owned(),
            itself: caller::itself(named.service()),
            holder,
            pid: AtomicI32::new(0),
            shared: Arc::clone(shared),
            is_ready: watch::Sender::new(false),
            leaves: watch::Sender::new(false),
            logged: Mutex::default(),
            jobs: AtomicU64::new(0),
            parents: Mutex::default(),
            commands: Arc::new(Commands::new(named)),
        }
    }

    /// It was started, as this process.
    pub(crate) fn runs_as(&self, pid: i32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// What it has in common with others.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until it takes calls.
    pub(crate) async fn ready(&self) {
        // The sender is in `self`.
        let _ = self.is_ready.subscribe().wait_for(|is_ready| *is_ready).await;
    }

    /// Logs a line of it, with its level and fields; no more of them than of what it prints.
    fn log(&self, level: u64, text: &str, fields: &tidewire_service::Headers) {
        let Some(left_out) = self.logged.lock().takes(Instant::now()) else { return };
        let mut fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        if left_out > 0 {
            fields.push(format!("left_out={left_out}"));
        }
        let service = &self.service;
        let pid = self.pid();
        let text = printable(text);
        let fields = fields.join(" ");
        match level {
            1 => tracing::trace!(service, pid, fields, "{text}"),
            2 => tracing::debug!(service, pid, fields, "{text}"),
            4 => tracing::warn!(service, pid, fields, "{text}"),
            5 => tracing::error!(service, pid, fields, "{text}"),
            _ => tracing::info!(service, pid, fields, "{text}"),
        }
    }

    /// Waits until it takes no more calls.
    pub(crate) async fn leaves(&self) {
        let _ = self.leaves.subscribe().wait_for(|leaves| *leaves).await;
    }

    /// Whether it said that it takes no more calls.
    pub(crate) fn has_left(&self) -> bool {
        *self.leaves.borrow()
    }

    /// Whether it has work that is not a call.
    pub(crate) fn is_busy(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) > 0
    }

    /// It begins to serve a call, of which others may be part; returns whether those that are
    /// overdue have to be looked for sooner than is planned.
    pub(crate) fn opens(&self, call: CallId, parent: Parent) -> bool {
        let mut parents = self.parents();
        let is_sooner = |due: Instant| parents.looks_at.is_none_or(|at| due < at);
        let looks_at = parent.due.filter(|due| is_sooner(*due));
        parents.looks_at = looks_at.or(parents.looks_at);
        parents.open.insert(call, parent);
        looks_at.is_some()
    }

    /// Wakes those whose call is overdue; returns when to look again.
    pub(crate) fn wake_overdue(&self, now: Instant) -> Option<Instant> {
        let mut parents = self.parents();
        for parent in parents.open.values_mut().filter(|parent| parent.due <= Some(now)) {
            if parent.due.take().is_some() {
                parent.waits.iter().for_each(Waker::wake_by_ref);
            }
        }
        parents.looks_at = parents.open.values().filter_map(|parent| parent.due).min();
        parents.looks_at
    }

    /// What came that is part of a call; `waits` is woken when more does.
    pub(crate) fn nested(&self, call: CallId, waits: &Waker) -> Vec<NestedCall> {
        let mut parents = self.parents();
        let Some(parent) = parents.open.get_mut(&call) else { return Vec::new() };
        if !parent.waits.as_ref().is_some_and(|known| known.will_wake(waits)) {
            parent.waits = Some(waits.clone());
        }
        std::mem::take(&mut parent.nested)
    }

    /// It answered a call, or nobody waits for it any more.
    pub(crate) fn closes(&self, call: CallId) {
        // What it still has may use the link as it is dropped, whose lock is taken before this one.
        let closed = self.parents().open.remove(&call);
        if closed.is_some_and(|parent| !parent.nested.is_empty()) {
            // Asked for and not waited for, as what runs already.
            read_untracked();
        }
    }

    /// An answer was made of this: what is running depends on it.
    fn depends(&self, read: &Depends) {
        let (source, key) = match read {
            Depends::Key(source, key) => (str::from_utf8(source), Some(str::from_utf8(key))),
            Depends::Source(source) => (str::from_utf8(source), None),
            Depends::Untold => return read_untracked(),
        };
        let sources = &self.shared.sources;
        // Both are text by the protocol.
        let Ok(source) = source else { return read_untracked() };
        self.commands.named().add(source);
        match key {
            Some(Ok(key)) => sources.read(source, key),
            Some(Err(_)) => read_untracked(),
            None => sources.read_all(source),
        }
    }

    /// Records what an answer was made of: an answer that names nothing ends with nothing, unless
    /// its method says how long it lasts.
    pub(crate) fn made_of(&self, depends: &[Depends], is_kept: bool) {
        depends.iter().for_each(|read| self.depends(read));
        if is_kept || !depends.is_empty() {
            self.shared.sources.read_service(&self.service);
        }
    }

    /// What came from it made no sense.
    pub(crate) fn broke_the_protocol(&self, why: &str) {
        let service = &self.service;
        let pid = self.pid();
        tracing::error!(service, pid, "it broke the live protocol: {why}");
    }

    fn changed(&self, changed: &ChangedSources) {
        for (source, key) in changed.iter() {
            // Nothing is kept that was made of what is not text; an empty key is any.
            if let Ok(source) = str::from_utf8(source) {
                self.commands.named().add(source);
                self.shared.sources.changed(source, str::from_utf8(key).unwrap_or_default());
            }
        }
    }

    fn parents(&self) -> MutexGuard<'_, Parents> {
        self.parents.lock()
    }

    /// Hands a call to whoever waits for the one that it is part of.
    fn nest(&self, parent: CallId, rights: Rights, mut arrived: IncomingCall) -> AnswerFuture {
        let mut parents = self.parents();
        let Some(Parent { outer, caller, nested, waits, .. }) = parents.open.get_mut(&parent)
        else {
            let text = "the call that this one is part of is not open";
            return refusal(Error::failed_precondition(text));
        };
        match rights {
            Rights::Own => arrived.context.set_default_principal(self.itself.clone()),
            Rights::Caller => {
                if let Err(error) = caller.lend(&mut arrived.context) {
                    return refusal(error);
                }
            }
        }
        let enclosing = ParentCalls::within(outer.as_ref(), self.holder);
        arrived.context.set_enclosing(enclosing);
        let (answer, answered) = oneshot::channel();
        // Whoever waits and is gone by now drops what would answer.
        nested.push(NestedCall { arrived, answer });
        waits.iter().for_each(Waker::wake_by_ref);
        Box::pin(async move {
            let gone = || Err(CallFailure::not_run(Error::canceled("the call outside is over")));
            answered.await.unwrap_or_else(|_| gone())
        })
    }

    fn answer_now(shared: &Arc<Shared>, arrived: IncomingCall) -> AnswerFuture {
        match shared.callee.get() {
            Some(callee) => callee.0.answer(arrived),
            None => Box::pin(async {
                Err(CallFailure::not_run(Error::unavailable("the server takes no calls yet")))
            }),
        }
    }
}

fn refusal(error: Error) -> AnswerFuture {
    Box::pin(async { Err(CallFailure::not_run(error)) })
}

impl NestedCall {
    /// Answers it here and now, unless the process gives it up. The call outside, in whose task
    /// this is, is told of changes of what is kept alone: it is made of what cannot be told by any
    /// other end.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        let Self { arrived, answer } = self;
        let mut begun = PendingNested(Some(answer));
        let is_too_deep = arrived.context.enclosing().is_some_and(|it| it.depth() >= REENTRANCY);
        let outcome = match is_too_deep {
            true => {
                let text = format!("calls within calls are over reentrancy = {REENTRANCY}");
                Err(CallFailure::not_run(Error::failed_precondition(text)))
            }
            false => tokio::select! {
                outcome = Peer::answer_now(&shared, arrived) => outcome,
                () = begun.0.as_mut().expect("it is taken once").closed() => {
                    return read_untracked();
                }
            },
        };
        if outcome.as_ref().is_err_and(is_of_the_moment) {
            read_untracked();
        }
        begun.end(outcome);
    }
}

/// Whether an error says nothing about the next call: a refusal of the gateway, which no method
/// answered, or one that is not kept.
fn is_of_the_moment(failed: &CallFailure) -> bool {
    use Code::{FailedPrecondition, InvalidArgument, NotFound, OutOfRange};
    let lasting = [NotFound, InvalidArgument, FailedPrecondition, OutOfRange];
    failed.outcome != Outcome::Answered || !lasting.contains(&failed.error.code())
}

/// Who is to have the answer of a nested call that may have run: that nobody knows, if it ends
/// without one.
struct PendingNested(Option<oneshot::Sender<Result<Reply, CallFailure>>>);

impl PendingNested {
    fn end(&mut self, outcome: Result<Reply, CallFailure>) {
        if let Some(answer) = self.0.take() {
            // The process may have given it up.
            let _ = answer.send(outcome);
        }
    }
}

impl Drop for PendingNested {
    fn drop(&mut self) {
        let text = "the call outside was over before this one was answered";
        self.end(Err(CallFailure::unknown(Error::aborted(text))));
    }
}

impl Host for Peer {
    fn answer(&self, mut arrived: IncomingCall) -> AnswerFuture {
        let rights = match Rights::take(arrived.context.headers_mut()) {
            Ok(rights) => rights,
            Err(error) => return refusal(error),
        };
        match (arrived.parent, rights) {
            (Some(parent), rights) => self.nest(parent, rights, arrived),
            (None, Rights::Own) => {
                arrived.context.set_default_principal(self.itself.clone());
                Self::answer_now(&self.shared, arrived)
            }
            (None, Rights::Caller) => {
                let text = "a call that is part of no other has no caller's rights; make it by \
                            the context of the call that is answered, before its answer";
                refusal(Error::failed_precondition(text))
            }
        }
    }

    fn hear(&self, said: ProcessMessage) {
        match said {
            ProcessMessage::Ready => {
                self.is_ready.send_replace(true);
            }
            ProcessMessage::Busy(jobs) => self.jobs.store(jobs, Ordering::Relaxed),
            ProcessMessage::Log { level, text, fields } => self.log(level, &text, &fields),
            ProcessMessage::Changed(changed) => self.changed(&changed),
            ProcessMessage::Leaves => _ = self.leaves.send_replace(true),
            _ => {}
        }
    }
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callee")
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("service", &self.service).finish_non_exhaustive()
    }
}

/// In bytes a second.
const TRANSFER_RATE_MIN: u64 = 16 << 10;
/// How many calls may wait for each other.
const REENTRANCY: usize = 8;

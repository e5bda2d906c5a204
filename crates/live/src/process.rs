//! The side of a hosted process: what it says of itself, and what belongs to the call that it
//! answers.
//!
//! The process dials, over the socket that it inherited, and says that it is ready as soon as it is
//! greeted. While it answers a call, two things are known in the task that does: what the answer is
//! made of ([`depends`]) goes with the reply, and a call back names the call as its parent. What is
//! read, or asked for, anywhere else may be for any of the calls that are answered then: nobody can
//! be told of what these are made of.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use tidewire_live_proto::{CallId, Config, Metadata, Session, Violation};
use tidewire_service::{Call, Reply, Result};
use tokio_util::task::TaskTracker;

use crate::dependencies::Depends;
use crate::driver::Connection;
use crate::link::Link;
use crate::serve::{AnswerFuture, CallFailure, Host};
use crate::session_clock::SessionClock;
use crate::transport::Transport;

tokio::task_local! {
    /// The call that the task answers.
    static RUNNING: CurrentCall;
}

/// How often something was read, or asked for, that no call could be told to be made of.
static ELSEWHERE: AtomicU64 = AtomicU64::new(0);
/// No answer can be told any more to be made of all that it is.
static IS_UNTOLD: AtomicBool = AtomicBool::new(false);

struct CurrentCall {
    call: CallId,
    depends: RefCell<Vec<Depends>>,
}

/// A hosted process, as its own program has it; clones are the same.
#[derive(Debug, Clone)]
pub struct Process(Link);

impl Process {
    /// A process whose calls are answered by `host`. `config` offers and requires `HOSTED`.
    pub fn new(config: Config, host: Arc<dyn Host>) -> Self {
        let session = Session::dialer(config);
        Self(Link::of_process(session, SessionClock::start(), host, TaskTracker::new()))
    }

    /// Serves until the host ends the connection: why, if that was not an ordinary end.
    pub async fn run(&self, transport: impl Transport) -> Option<Violation> {
        let now = self.0.0.clock.now();
        self.0.lock().session.connect(now);
        Connection::new(&self.0, transport, None).run().await;
        self.0.expire();
        self.0.why_over()
    }

    /// Says that sources changed: the host hears it before any later reply.
    pub fn changed(&self, source: &str, key: &str) {
        let mut state = self.0.lock();
        state.session.changed([(source.as_bytes(), key.as_bytes())]);
        state.wake();
    }

    /// Says how many jobs run that are not calls.
    pub fn busy(&self, jobs: u64) {
        let mut state = self.0.lock();
        state.session.busy(jobs);
        state.wake();
    }

    /// Writes a line to the log of the host: 1 trace, 2 debug, 3 info, 4 warn, 5 error.
    pub fn log(&self, level: u8, text: &str, fields: &HeaderMap) {
        let fields = Metadata::from_maps(fields, &HeaderMap::new());
        let mut state = self.0.lock();
        state.session.log(level, text, &fields);
        state.wake();
    }

    /// Calls the host: as a part of the call that this task answers, if it does.
    ///
    /// # Errors
    /// As [`Link::call`].
    ///
    /// # Cancel safety
    /// As [`Link::call`].
    pub async fn call(&self, call: Call) -> Result<Reply> {
        self.0.call(call).await
    }
}

/// The answer that this task makes is made of this. Where it makes none, and `false` is returned,
/// no answer is kept that is made meanwhile.
pub fn depends(source: &str, key: &str) -> bool {
    let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let depends = Depends::Key(copy(source), copy(key));
    let heard = RUNNING.try_with(|running| running.depends.borrow_mut().push(depends)).is_ok();
    if !heard {
        ELSEWHERE.fetch_add(1, Ordering::SeqCst);
    }
    heard
}

/// Answers are made of what this program keeps itself, and nobody hears of that: no answer is kept
/// from now on. Whether it was the first to say so.
pub fn depends_unheard() -> bool {
    !IS_UNTOLD.swap(true, Ordering::SeqCst)
}

/// The call that a call of this task is part of.
pub(crate) fn parent(link: &Link) -> Option<CallId> {
    if !link.0.is_process {
        return None;
    }
    let running = RUNNING.try_with(|running| running.call).ok();
    if running.is_none() {
        ELSEWHERE.fetch_add(1, Ordering::SeqCst);
    }
    running
}

/// The outcome of a call, and what it depended on.
pub(crate) async fn answer_with_dependencies(
    link: &Link,
    call: CallId,
    answering: AnswerFuture,
) -> (Result<Reply, CallFailure>, Vec<Depends>) {
    if !link.0.is_process {
        return (answering.await, Vec::new());
    }
    let elsewhere = ELSEWHERE.load(Ordering::SeqCst);
    let running = CurrentCall { call, depends: RefCell::default() };
    let within = async {
        let outcome = answering.await;
        (outcome, RUNNING.with(|running| running.depends.take()))
    };
    let (outcome, mut depends) = RUNNING.scope(running, within).await;
    if IS_UNTOLD.load(Ordering::SeqCst) || ELSEWHERE.load(Ordering::SeqCst) != elsewhere {
        depends.push(Depends::Untold);
    }
    (outcome, depends)
}

//! What belongs to the call that a task of a hosted process answers.
//!
//! Two things are known in that task: what the answer is made of ([`depends`]) goes with the reply,
//! and a call back names the call as its parent. What is read, or asked for, anywhere else may be
//! for any of the calls that are answered then: nobody can be told of what these are made of.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidewire_live_proto::CallId;
use tidewire_service::{Reply, Result};

use crate::dependencies::Depends;
use crate::host::{AnswerFuture, CallFailure};

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
pub(crate) fn parent(is_process: bool) -> Option<CallId> {
    if !is_process {
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
    is_process: bool,
    call: CallId,
    answering: AnswerFuture,
) -> (Result<Reply, CallFailure>, Vec<Depends>) {
    if !is_process {
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

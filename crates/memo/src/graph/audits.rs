//! What `verify` runs beside hits: futures that nobody waits for.
//!
//! They are few. One that never ends takes a place for ever and holds nobody up; when all places are taken
//! no further hit is audited.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};

use crate::memory::sync::{self, Mutex};
use crate::memory::wake::quietly;

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Audits {
    running: Mutex<Vec<Arc<Audit>>>,
}

type AuditFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Audit {
    /// `None` while it is polled, and when it is over.
    running: Mutex<Option<AuditFuture>>,
    is_woken: AtomicBool,
}

impl Wake for Audit {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, SeqCst);
    }
}

impl Audits {
    /// Adds a future, if there is a place.
    pub(crate) fn add(&self, audit: AuditFuture) {
        let (running, is_woken) = (Mutex::new(Some(audit)), AtomicBool::new(true));
        let audit = Arc::new(Audit { running, is_woken });
        let mut all = self.running.lock();
        if all.len() < PLACES {
            all.push(audit);
        }
    }

    /// Polls those that were woken. Call it with no lock held.
    pub(crate) fn poll(&self) {
        let woken = |audit: &&Arc<Audit>| audit.is_woken.load(SeqCst);
        let woken: Vec<_> = self.running.lock().iter().filter(woken).cloned().collect();
        for audit in woken {
            if audit.poll() {
                self.running.lock().retain(|known| !Arc::ptr_eq(known, &audit));
            }
        }
    }

    /// Drops all. Call it with no lock held.
    pub(crate) fn close(&self) {
        let all = std::mem::take(&mut *self.running.lock());
        quietly(|| drop(all));
    }
}

impl Audit {
    /// Whether it is over.
    fn poll(self: &Arc<Self>) -> bool {
        self.is_woken.store(false, SeqCst);
        let Some(mut running) = self.running.lock().take() else {
            // Somebody else polls, and may have done so before the wake.
            self.is_woken.store(true, SeqCst);
            return false;
        };
        let waker = Waker::from(self.clone());
        let poll = || running.as_mut().poll(&mut Context::from_waker(&waker));
        let polled = catch_unwind(AssertUnwindSafe(poll));
        if matches!(polled, Ok(Poll::Pending)) {
            *self.running.lock() = Some(running);
            return false;
        }
        quietly(|| drop((running, polled)));
        true
    }
}

/// Audits that wait, at most.
const PLACES: usize = 64;

/// Whether an audit is polled on this thread.
pub(crate) fn is_polled() -> bool {
    AUDITING.with(Cell::get)
}

/// Hits inside of an audit are not audited: a diamond of memos would multiply them.
pub(crate) struct AuditGuard {
    before: bool,
}

impl AuditGuard {
    pub(crate) fn new() -> Self {
        Self { before: AUDITING.with(|auditing| auditing.replace(true)) }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        AUDITING.with(|auditing| auditing.set(self.before));
    }
}

sync::thread_local! {
    static AUDITING: Cell<bool> = const { Cell::new(false) };
}

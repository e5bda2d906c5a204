//! The clock of programs that do not want to call `advance` themselves: one thread, joined on drop.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

use crate::graph::{Graph, Shared};

/// Expires values of a graph while it lives. All drivers of a graph share one thread; dropping the last
/// one joins it.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use std::time::Duration;
/// use tidewire::memo::{Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let driver = graph.drive()?; // without one nothing expires
/// let rate = Memo::infallible_in(&graph, "rate", async |_: u32| 7).ttl(Duration::from_millis(1));
/// rate.get(1).await?;
/// while rate.cached(&1).is_some() {
///     std::thread::yield_now();
/// }
/// drop(driver);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[must_use = "nothing expires after the driver is dropped"]
pub struct Driver {
    _running: Arc<dyn Any + Send + Sync>,
}

/// The thread of a graph.
struct DriverThread {
    shared: &'static Shared,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Graph {
    /// Starts a thread that calls [`Graph::advance`] whenever a deadline is due, unless there is one.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn drive(&self) -> std::io::Result<Driver> {
        let shared = self.shared;
        let mut known = shared.driver.lock();
        if let Some(running) = known.upgrade() {
            return Ok(Driver { _running: running });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let builder = std::thread::Builder::new().name("tidewire-memo".to_owned());
        let thread = builder.spawn(move || run(shared, &stopped))?;
        let sleeper: Thread = thread.thread().clone();
        shared.set_alarm(Some(Arc::new(move || sleeper.unpark())));
        thread.thread().unpark();
        let running: Arc<dyn Any + Send + Sync> =
            Arc::new(DriverThread { shared, stop, thread: Some(thread) });
        *known = Arc::downgrade(&running);
        Ok(Driver { _running: running })
    }
}

fn run(shared: &Shared, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        // tidy: allow-clock this optional thread is what drives the graph's time
        let now = Instant::now();
        let next = shared.advance(now);
        if stop.load(SeqCst) {
            // A report has dropped the last driver, or somebody waits: whoever ends does not sleep.
            break;
        }
        if !shared.sleep(next) {
            continue;
        }
        match next {
            Some(next) => std::thread::park_timeout(next.saturating_duration_since(now)),
            None => std::thread::park(),
        }
    }
}

impl Drop for DriverThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A report may drop the last driver on the thread itself, which ends after it.
            if thread.thread().id() != std::thread::current().id() {
                // The thread runs no user code but what is caught, so it does not panic.
                let _ = thread.join();
            }
        }
        let known = self.shared.driver.lock();
        // Only now that the thread has ended, which might let the graph sleep once more. Another may
        // have been started since the last driver went.
        if known.strong_count() == 0 {
            self.shared.set_alarm(None);
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

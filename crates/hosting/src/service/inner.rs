//! A service as all its calls and its keeper have it.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::call::download::OpenReplies;
use crate::instance::Instance;
use crate::limits::LifeLimits;
use crate::native::callbacks::Shared;
use crate::native::commands::NamedSources;
use crate::pool::Pool;
use crate::process::generation::Generation;
use crate::process::output::OutputTail;
use crate::process::program::{Listen, Program};
use crate::service::figures::Figures;
use crate::supervisor::client::SupervisorClient;
use crate::supervisor::message::End;

/// What there is of a service.
pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    generation: Mutex<Arc<Generation>>,
    pub(super) supervisor: Arc<SupervisorClient>,
    pub(super) sockets: PathBuf,
    pool: Mutex<Pool<Arc<Instance>>>,
    pub(crate) wake: Notify,
    /// Calls wait for a place.
    pub(crate) waits: Notify,
    pub(crate) replies: OpenReplies,
    pub(crate) figures: Figures,
    pub(crate) changed: watch::Sender<()>,
    pub(super) output: OutputTail,
    pub(super) shared: Arc<Shared>,
    pub(super) named: Arc<NamedSources>,
    /// Who has its name since it was removed.
    pub(super) next: OnceLock<Arc<Self>>,
}

impl Inner {
    pub(crate) fn new(
        program: Program,
        life: LifeLimits,
        supervisor: Arc<SupervisorClient>,
        sockets: PathBuf,
        shared: Arc<Shared>,
    ) -> Self {
        let named = Arc::new(NamedSources::new(program.name(), &shared.sources));
        Self {
            pool: Mutex::new(Pool::new(life.clone())),
            name: program.name().into(),
            generation: Mutex::new(Arc::new(Generation { number: 1, program, life })),
            supervisor,
            sockets,
            wake: Notify::new(),
            waits: Notify::new(),
            replies: OpenReplies::default(),
            figures: Figures::default(),
            changed: watch::Sender::new(()),
            output: OutputTail::default(),
            named,
            shared,
            next: OnceLock::new(),
        }
    }

    /// Whether a process of an instance that goes on was killed for memory, which is noted.
    pub(crate) fn ran_out_of_memory(&self, instance: &Instance) -> bool {
        let is_so = instance.has_memory_kills();
        if is_so {
            let service = self.name();
            let pid = instance.pid();
            tracing::error!(service, pid, "one of its processes ran out of memory_max");
            self.figures.out_of_memory.fetch_add(1, Ordering::Relaxed);
        }
        is_so
    }

    /// An instance takes no more calls; it may be told more than once.
    pub(crate) fn leaves(&self, instance: &Instance) {
        self.pool().leaves(instance.id, Instant::now());
        self.wake.notify_one();
    }

    /// An instance has ended; it may be told more than once.
    pub(crate) fn ended(&self, id: u64, end: End) {
        let mut killed = None;
        let is_crash = {
            let mut pool = self.pool();
            let of_id = pool.instances().find(|instance| instance.id == id).cloned();
            if let Some((instance, calls)) = of_id.zip(pool.calls_of(id)) {
                killed = instance.was_killed(end);
                let _ = instance.calls_at_end.set(calls);
                if instance.has_left() {
                    // Its word may be older than its end, and come after it.
                    pool.leaves(id, Instant::now());
                }
            }
            let is_crash = pool.ended(id, end, Instant::now());
            if is_crash && let Some(why) = &killed {
                pool.failed_since(why, Instant::now());
            }
            is_crash
        };
        if is_crash {
            if matches!(end, End::OutOfMemory(_)) {
                self.figures.out_of_memory.fetch_add(1, Ordering::Relaxed);
            }
            match end {
                End::Lost => tracing::error!(service = self.name(), "{end}; it is started again"),
                _ => {
                    match &killed {
                        Some(why) => tracing::error!(service = self.name(), "{why}"),
                        None => tracing::error!(service = self.name(), "crashed: {end}"),
                    }
                    self.figures.crashes.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.lost_its_memory();
        }
        self.wake.notify_one();
    }

    pub(crate) fn transfer_rate_min(&self) -> u64 {
        self.shared.transfer_rate_min.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether what is run from now on speaks the live protocol.
    pub(crate) fn is_native(&self) -> bool {
        self.lock_generation().program.listen == Listen::Native
    }

    /// What is run from now on.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.lock_generation())
    }

    /// Says what is run from now on; the pool is locked.
    pub(crate) fn set_generation(&self, generation: Arc<Generation>) {
        *self.lock_generation() = generation;
    }

    fn lock_generation(&self) -> MutexGuard<'_, Arc<Generation>> {
        self.generation.lock()
    }

    /// What was kept of its answers ends.
    pub(crate) fn lost_its_memory(&self) {
        self.shared.sources.service_changed(self.name());
    }

    /// Calls go to another program from now on, or to the same anew: what was kept of the old one
    /// ends, pages too.
    pub(crate) fn end_old_answers(&self) {
        self.shared.sources.service_replaced(self.name());
    }

    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool<Arc<Instance>>> {
        self.pool.lock()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("name", &self.name).finish_non_exhaustive()
    }
}

//! A hosted service: a [`Service`] whose calls a process answers that is started when it is called.
//!
//! The pool decides (`pool.rs`); here is the one task a service that carries it out, the keeper.
//! Whoever waits for a permit (`permit.rs`) wakes the keeper; nothing is polled.

pub(crate) mod control;
pub(crate) mod status;
pub(crate) mod typed_service;

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use tidewire_service::{Answer, Call, Service};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::call::download::OpenReplies;
use crate::call::warm::WarmCall;
use crate::instance::health;
use crate::instance::{Instance, StartContext};
use crate::limits::LifeLimits;
use crate::native::callbacks::Shared;
use crate::native::commands::NamedSources;
use crate::pool::{Failure, Pool, Step};
use crate::process::generation::Generation;
use crate::process::output::{Line, OutputTail};
use crate::process::program::{Listen, Program};
use crate::service::status::{Figures, Status, micros};
use crate::supervisor::client::SupervisorClient;
use crate::supervisor::message::End;

/// A hosted service; cheap to clone.
#[derive(Debug, Clone)]
pub struct HostedService(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) name: Arc<str>,
    generation: Mutex<Arc<Generation>>,
    supervisor: Arc<SupervisorClient>,
    sockets: PathBuf,
    pool: Mutex<Pool<Arc<Instance>>>,
    pub(crate) wake: Notify,
    /// Calls wait for a place.
    pub(crate) waits: Notify,
    pub(crate) replies: OpenReplies,
    pub(crate) figures: Figures,
    pub(crate) changed: watch::Sender<()>,
    output: OutputTail,
    shared: Arc<Shared>,
    named: Arc<NamedSources>,
    /// Who has its name since it was removed.
    next: OnceLock<HostedService>,
}

impl HostedService {
    pub(crate) fn new(
        program: Program,
        life: LifeLimits,
        supervisor: Arc<SupervisorClient>,
        sockets: PathBuf,
        shared: Arc<Shared>,
    ) -> Self {
        let named = Arc::new(NamedSources::new(program.name(), &shared.sources));
        Self(Arc::new(Inner {
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
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// The last lines that its processes printed, the oldest first: 256 KiB of them.
    pub fn output(&self) -> Vec<Line> {
        self.0.output.lines()
    }

    /// Up to `limit` lines that it printed after so many, and the number of the first of them, from
    /// 0.
    pub fn output_after(&self, number: u64, limit: usize) -> (u64, Vec<Line>) {
        self.0.output.after(number, limit)
    }

    /// How many lines are no longer among these.
    pub fn output_dropped(&self) -> u64 {
        self.0.output.dropped()
    }

    /// Waits until it is as `is_so` wants it.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn until(&self, mut is_so: impl FnMut(&Status) -> bool) -> Status {
        let mut changed = self.0.changed.subscribe();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            // The sender is in `self`.
            let _ = changed.changed().await;
        }
    }

    /// Lets no more calls in, and ends processes once their calls are over.
    /// Another has its name.
    pub(crate) fn is_followed_by(&self, next: Self) {
        let _ = self.0.next.set(next);
    }

    /// Who has its name now.
    pub(crate) fn current(&self) -> &Arc<Inner> {
        let mut current = &self.0;
        while let Some(next) = current.next.get() {
            current = &next.0;
        }
        current
    }

    pub(crate) fn drain(&self) {
        self.0.pool().drain();
        self.0.wake.notify_one();
    }
}

impl Service for HostedService {
    fn call(&self, call: Call) -> Answer {
        Answer::pending(WarmCall::new(Arc::clone(&self.0), call, None))
    }
}

/// What happened to an instance.
enum Event {
    Started(u64, Result<Arc<Instance>, Failure>),
    Ended(u64, End),
    Leaves(Arc<Instance>),
    IsUnwell(Arc<Instance>, String),
    Stopped,
}

impl Inner {
    /// Carries out what the pool decides, until it is drained.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        loop {
            let step = self.next_step();
            self.changed.send_replace(());
            let until = match step {
                Step::Start => {
                    let inner = Arc::clone(&self);
                    let generation = self.generation();
                    tasks.spawn(async move {
                        Event::Started(generation.number, inner.start(generation).await)
                    });
                    continue;
                }
                Step::Stop(instance) => {
                    tasks.spawn(async move {
                        instance.stop().await;
                        Event::Stopped
                    });
                    continue;
                }
                Step::Freeze(_) => continue,
                Step::Wait(until) => until.into_iter().chain(self.make_room(Instant::now())).min(),
                Step::Done => break,
            };
            tokio::select! {
                () = self.wake.notified() => {}
                Some(event) = tasks.join_next() => {
                    if let Ok(event) = event {
                        self.take_note(event, &mut tasks);
                    }
                }
                () = reached(until) => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// The next step; signals that must not be overtaken by a call are sent under the lock.
    fn next_step(&self) -> Step<Arc<Instance>> {
        let mut pool = self.pool();
        loop {
            let now = Instant::now();
            match pool.step(now) {
                Step::Freeze(instance) | Step::Stop(instance)
                    if !instance.is_quiet()
                        && !pool.is_draining()
                        && pool.goes_on(instance.id, now) => {}
                Step::Freeze(instance) => {
                    instance.freeze();
                    return Step::Freeze(instance);
                }
                Step::Wait(until) => {
                    if pool.needs_places() || pool.is_draining() {
                        self.waits.notify_waiters();
                    }
                    let native = pool.instances().filter_map(|instance| instance.native());
                    let due = native.filter_map(|native| native.wake_overdue(now));
                    return Step::Wait(until.into_iter().chain(due).min());
                }
                step => return step,
            }
        }
    }

    /// Starts an instance: at once for a call that waits, else when few others are being started.
    async fn start(&self, generation: Arc<Generation>) -> Result<Arc<Instance>, Failure> {
        let _turn = tokio::select! {
            biased;
            () = self.until_start_is_urgent() => None,
            turn = self.shared.starts.acquire() => turn.ok(),
        };
        let context = StartContext {
            supervisor: &self.supervisor,
            generation: &generation,
            sockets: &self.sockets,
            output: &self.output,
            shared: &self.shared,
            named: &self.named,
        };
        let began = Instant::now();
        let instance = Instance::start(&context).await.map(Arc::new)?;
        let service = self.name();
        let pid = instance.pid();
        let cold_start = began.elapsed();
        tracing::info!(service, pid, ?cold_start, "can be called");
        self.figures.start_us.fetch_add(micros(cold_start), Ordering::Relaxed);
        Ok(instance)
    }

    fn take_note(self: &Arc<Self>, event: Event, tasks: &mut JoinSet<Event>) {
        match event {
            Event::Started(generation, Ok(instance)) => {
                let id = instance.id;
                let now = Instant::now();
                if self.pool().started(id, Arc::clone(&instance), generation, now) {
                    tracing::info!(service = self.name(), "the new one is called from now on");
                    self.lost_its_memory();
                }
                let inner = Arc::clone(self);
                tasks.spawn(async move {
                    tokio::select! {
                        biased;
                        end = instance.ended() => Event::Ended(instance.id, end),
                        () = instance.leaves() => Event::Leaves(Arc::clone(&instance)),
                        told = health::fails(&inner, &instance) => {
                            Event::IsUnwell(Arc::clone(&instance), told)
                        }
                    }
                });
            }
            Event::Started(generation, Err(failure)) => {
                tracing::error!(service = self.name(), "{}", failure.text);
                self.figures.crashes.fetch_add(1, Ordering::Relaxed);
                self.pool().start_failed(failure, generation, Instant::now());
            }
            Event::Leaves(instance) => {
                tracing::info!(service = self.name(), pid = instance.pid(), "takes no more calls");
                self.leaves(&instance);
                tasks.spawn(async move { Event::Ended(instance.id, instance.ended().await) });
            }
            Event::IsUnwell(instance, told) => {
                let pid = instance.pid();
                tracing::warn!(
                    service = self.name(),
                    pid,
                    "another takes over, it is not well: {told}"
                );
                self.pool().wears_out(instance.id);
                tasks.spawn(async move { Event::Ended(instance.id, instance.ended().await) });
            }
            Event::Ended(id, end) => self.ended(id, end),
            Event::Stopped => {}
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
                pool.failed_since(why);
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

    /// Waits until a call waits, or until the service is being ended, which waits for all starts.
    async fn until_start_is_urgent(&self) {
        loop {
            let waits = self.waits.notified();
            let is_urgent = |pool: &Pool<_>| pool.needs_places() || pool.is_draining();
            if is_urgent(&self.pool()) {
                return;
            }
            waits.await;
        }
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

    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool<Arc<Instance>>> {
        self.pool.lock()
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

//! The keeper: the one task of a service that carries out what its pool decides.
//!
//! Whoever waits for a permit (`call/permit.rs`) wakes it; nothing is polled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::instance::{Instance, StartContext, health};
use crate::pool::Pool;
use crate::pool::failure::Failure;
use crate::pool::step::Step;
use crate::process::generation::Generation;
use crate::service::figures::micros;
use crate::service::inner::Inner;
use crate::supervisor::message::End;

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
                    let due = pool.instances().filter_map(|instance| instance.wake_overdue(now));
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
                    self.end_old_answers();
                    tracing::info!(service = self.name(), "the new one is called from now on");
                }
                let inner = Arc::clone(self);
                tasks.spawn(async move {
                    tokio::select! {
                        biased;
                        end = instance.ended() => Event::Ended(instance.id, end),
                        () = instance.leaves() => Event::Leaves(Arc::clone(&instance)),
                        told = health::fails(&instance, || inner.pool().can_be_asked(instance.id)) => {
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
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

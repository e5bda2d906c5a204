//! `Tail`: what happens, as it happens. The only stream of the admin listener.
//!
//! It looks ten times a second for what is new, and sends nothing where nothing is: what there is
//! at first, then whole states, never differences. A watcher who reads too slowly holds nothing up:
//! the calls that it misses give way in the ring, and it learns how many. While one watches calls,
//! they are recorded.

use std::sync::Arc;
use std::time::Duration;

use tidewire_server::Handle;
use tidewire_service::{Context, Error, Reply, Result, Stream};
use tidewire_telemetry::RecordingGuard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Interval, MissedTickBehavior};

use crate::proto::tidewire::admin::v1::{
    MemoOverviewReply, OverviewReply, Process, Tail, TailBatch, WatchRequest,
};
use crate::{Admin, calls, memo, processes, system};

pub(crate) struct TailApi {
    admin: Admin,
    handle: Handle,
    watchers: Arc<Semaphore>,
}

impl TailApi {
    pub(crate) fn new(admin: Admin, handle: Handle) -> Self {
        Self { admin, handle, watchers: Arc::new(Semaphore::new(WATCHERS_MAX)) }
    }
}

impl Tail for TailApi {
    async fn watch(
        &self,
        context: Context,
        request: WatchRequest,
    ) -> Result<Reply<Stream<TailBatch>>> {
        let known = |topic: &String| TOPICS.contains(&topic.as_str());
        if let Some(topic) = request.topics.iter().find(|topic| !known(topic)) {
            let text = format!("{topic:?} is not a topic; there are {}", TOPICS.join(", "));
            return Err(Error::invalid_argument(text));
        }
        let place = Arc::clone(&self.watchers).try_acquire_owned().map_err(|_| {
            let text = format!("{WATCHERS_MAX} watch already; end one of them");
            Error::resource_exhausted(text)
        })?;
        let wants =
            |topic| request.topics.is_empty() || request.topics.iter().any(|of| of == topic);
        let record = self.admin.metrics.record();
        let after = if request.after == 0 { record.last() } else { request.after };
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watcher = Watcher {
            wants: TOPICS.map(wants),
            recording: wants(TOPICS[0]).then(|| record.watch()),
            request,
            after,
            seq: 0,
            ticks,
            last: LastSent::default(),
            admin: self.admin.clone(),
            handle: self.handle.clone(),
            _place: place,
        };
        let stopping = Box::pin(context.stopping());
        let batches = Stream::unfold((watcher, stopping), async |(mut watcher, mut stopping)| {
            tokio::select! {
                batch = watcher.next() => Some((Ok(batch), (watcher, stopping))),
                () = &mut stopping => None,
            }
        });
        Ok(Reply::new(batches))
    }
}

/// Somebody who watches.
struct Watcher {
    admin: Admin,
    handle: Handle,
    request: WatchRequest,
    /// In the order of [`TOPICS`].
    wants: [bool; TOPICS.len()],
    recording: Option<RecordingGuard>,
    after: u64,
    seq: u64,
    ticks: Interval,
    last: LastSent,
    _place: OwnedSemaphorePermit,
}

/// What was sent last.
#[derive(Default)]
struct LastSent {
    system: Option<OverviewReply>,
    memo: Option<MemoOverviewReply>,
    processes: Vec<Process>,
}

impl Watcher {
    /// Waits for something that is new.
    async fn next(&mut self) -> TailBatch {
        loop {
            self.ticks.tick().await;
            let mut batch = self.calls();
            let mut is_news = self.seq == 0;
            is_news |= !batch.calls.is_empty() || batch.dropped > 0;
            let [_, wants_system, wants_memo, wants_processes] = self.wants;
            if wants_system {
                let now = system::overview(&self.admin, &self.handle);
                // Time passes whether anything happens or not.
                let as_before = self.last.system.as_ref().is_some_and(|before| {
                    OverviewReply { uptime_ms: before.uptime_ms, ..now.clone() } == *before
                });
                if !as_before {
                    self.last.system = Some(now.clone());
                    batch.system = now.into();
                    is_news = true;
                }
            }
            if wants_memo {
                let now = memo::overview(&self.admin.graph, &self.admin.metrics);
                if self.last.memo.as_ref() != Some(&now) {
                    self.last.memo = Some(now.clone());
                    batch.memo = now.into();
                    is_news = true;
                }
            }
            if wants_processes {
                let programs = self.admin.inventory.programs();
                let to_message = |it| processes::to_message(&self.admin.inventory, it);
                let now: Vec<_> = programs.iter().map(to_message).collect();
                // That they grow older is no change.
                let mut ageless = now.clone();
                let instances = ageless.iter_mut().flat_map(|process| &mut process.instances);
                instances.for_each(|instance| instance.age_ms = 0);
                if self.last.processes != ageless {
                    self.last.processes = ageless;
                    batch.processes = now;
                    is_news = true;
                }
            }
            if is_news {
                self.seq += 1;
                batch.seq = self.seq;
                return batch;
            }
        }
    }

    fn calls(&mut self) -> TailBatch {
        if self.recording.is_none() {
            return TailBatch::default();
        }
        let WatchRequest { method, failed, .. } = &self.request;
        let record = self.admin.metrics.record();
        let wanted = |call: &_| calls::is_wanted(call, method, *failed);
        let recorded = record.after(self.after, ROWS_MAX, wanted);
        self.after = recorded.next;
        TailBatch {
            calls: recorded.calls.iter().map(|call| calls::to_message(call)).collect(),
            dropped: recorded.dropped,
            ..Default::default()
        }
    }
}

const TOPICS: [&str; 4] = ["calls", "system", "memo", "processes"];
const WATCHERS_MAX: usize = 32;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Of one batch: 500 a second.
const ROWS_MAX: usize = 50;

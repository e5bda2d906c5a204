//! `Memo`: what is kept, of what it was made, and why it was made again.
//!
//! What happened is known only from observed events (`invalidation_causes.rs`), never guessed.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Cause, Entry, EntryState, Graph};
use tidewire_service::{Context, Error, Reply, Result};
use tidewire_telemetry::Metrics;
use tokio::task::AbortHandle;

use crate::calls::SECONDS_MAX;
use crate::invalidation_causes::{Causes, KeyEvent};
use crate::limit;
use crate::proto::tidewire::admin::v1::{
    CountHitsReply, CountHitsRequest, ExplainReply, ExplainRequest, GetEntryReply, GetEntryRequest,
    Invalidator, InvalidatorsReply, InvalidatorsRequest, ListEntriesReply, ListEntriesRequest,
    ListMemosReply, ListMemosRequest, Memo, MemoEntry, MemoEvent, MemoInfo, MemoOverviewReply,
    MemoOverviewRequest, ObserveMemoReply, ObserveMemoRequest, SteerMemoReply, SteerMemoRequest,
};

pub(crate) struct MemoApi {
    graph: Graph,
    metrics: Metrics,
    causes: Arc<Causes>,
    /// Ends the count of hits at its time.
    counts: Arc<Mutex<Option<HitCount>>>,
}

/// The count of hits of a graph; it ends with this.
struct HitCount {
    graph: Graph,
    timer: AbortHandle,
}

impl Drop for HitCount {
    fn drop(&mut self) {
        self.timer.abort();
        self.graph.count_hits(false);
    }
}

impl MemoApi {
    pub(crate) fn new(graph: Graph, metrics: Metrics) -> Self {
        let causes = Arc::new(Causes::new(graph.clone()));
        Self { graph, metrics, causes, counts: Arc::default() }
    }
}

impl Memo for MemoApi {
    async fn overview(
        &self,
        _: Context,
        _: MemoOverviewRequest,
    ) -> Result<Reply<MemoOverviewReply>> {
        Ok(overview(&self.graph, &self.metrics).into())
    }

    async fn list_memos(&self, _: Context, _: ListMemosRequest) -> Result<Reply<ListMemosReply>> {
        let figures = self.metrics.figures();
        let memos = self.graph.owners().into_iter().map(|owner| {
            let of_method =
                figures.iter().filter(|of| *of.method == *owner.name.trim_start_matches('/'));
            let (asked, hits) = of_method
                .fold((0, 0), |(asked, hits), of| (asked + of.asked_memory, hits + of.from_memory));
            MemoInfo {
                name: owner.name.to_string(),
                source: owner.is_source,
                entries: owner.entries as u64,
                bytes: owner.bytes as u64,
                asked,
                hits,
                served: owner.hits,
                ..Default::default()
            }
        });
        let counting = self.counts.lock().is_some();
        Ok(ListMemosReply { memos: memos.collect(), counting, ..Default::default() }.into())
    }

    async fn list_entries(
        &self,
        _: Context,
        request: ListEntriesRequest,
    ) -> Result<Reply<ListEntriesReply>> {
        let page = self.graph.entries(&request.memo, request.after, limit(request.limit));
        let entries = page.entries.into_iter().filter(|entry| entry.key.contains(&request.key));
        let reply = ListEntriesReply {
            entries: entries.map(to_message).collect(),
            next: page.next.unwrap_or(0),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn get_entry(
        &self,
        _: Context,
        request: GetEntryRequest,
    ) -> Result<Reply<GetEntryReply>> {
        let around = self.graph.entry(request.id).ok_or_else(no_such_entry)?;
        let reply = GetEntryReply {
            age_ms: self.causes.age_ms(&around.entry.memo, &around.entry.key),
            entry: to_message(around.entry).into(),
            dependencies: around.dependencies.into_iter().map(to_message).collect(),
            dependants: around.dependants.into_iter().map(to_message).collect(),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn explain(&self, _: Context, request: ExplainRequest) -> Result<Reply<ExplainReply>> {
        let entry = self.graph.entry(request.id).ok_or_else(no_such_entry)?.entry;
        let events = self.causes.of(&entry.memo, &entry.key);
        let reply = ExplainReply {
            observing: self.causes.is_on(),
            events: events.into_iter().map(event).collect(),
            dropped: self.causes.dropped(),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn invalidators(
        &self,
        _: Context,
        request: InvalidatorsRequest,
    ) -> Result<Reply<InvalidatorsReply>> {
        let most = if request.limit == 0 { 20 } else { limit(request.limit) };
        let invalidators = self.causes.invalidators().into_iter().take(most);
        let invalidators = invalidators.map(|count| Invalidator {
            changed: count.changed,
            times: count.times,
            marked: count.marked,
            ..Default::default()
        });
        let reply = InvalidatorsReply {
            invalidators: invalidators.collect(),
            observing: self.causes.is_on(),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn observe(
        &self,
        _: Context,
        request: ObserveMemoRequest,
    ) -> Result<Reply<ObserveMemoReply>> {
        let seconds = request.seconds.min(SECONDS_MAX);
        Arc::clone(&self.causes).observe(Duration::from_secs(seconds.into()));
        tracing::warn!(seconds, "the admin listener observes the cache");
        Ok(ObserveMemoReply::default().into())
    }

    async fn count_hits(
        &self,
        _: Context,
        request: CountHitsRequest,
    ) -> Result<Reply<CountHitsReply>> {
        let seconds = request.seconds.min(COUNT_SECONDS_MAX);
        tracing::warn!(seconds, "the admin listener counts cache hits");
        let mut counts = self.counts.lock();
        *counts = None;
        if seconds > 0 {
            self.graph.count_hits(true);
            let ends = Arc::downgrade(&self.counts);
            let timer = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(seconds.into())).await;
                if let Some(counts) = ends.upgrade() {
                    *counts.lock() = None;
                }
            });
            *counts = Some(HitCount { graph: self.graph.clone(), timer: timer.abort_handle() });
        }
        Ok(CountHitsReply { seconds, ..Default::default() }.into())
    }

    async fn invalidate(
        &self,
        _: Context,
        request: SteerMemoRequest,
    ) -> Result<Reply<SteerMemoReply>> {
        self.steer(&request, "made stale", |id| self.graph.invalidate(id))
    }

    async fn evict(&self, _: Context, request: SteerMemoRequest) -> Result<Reply<SteerMemoReply>> {
        self.steer(&request, "dropped", |id| self.graph.evict(id).then_some(0))
    }
}

impl MemoApi {
    /// Does something to all entries that are asked for; `act` says how many values it made
    /// suspect.
    fn steer(
        &self,
        request: &SteerMemoRequest,
        what: &str,
        act: impl Fn(u64) -> Option<usize>,
    ) -> Result<Reply<SteerMemoReply>> {
        let SteerMemoRequest { ids, memo, .. } = request;
        if ids.is_empty() && memo.is_empty() {
            return Err(Error::invalid_argument("name entries by ids, or a memo"));
        }
        if !memo.is_empty() && !self.graph.owners().iter().any(|owner| *owner.name == **memo) {
            return Err(Error::not_found(format!("there is no memo {memo:?}; list the memos")));
        }
        let mut reply = SteerMemoReply::default();
        let mut steer = |id: u64| {
            let marked = act(id);
            reply.entries += u64::from(marked.is_some());
            reply.marked += marked.unwrap_or_default() as u64;
        };
        ids.iter().copied().for_each(&mut steer);
        let mut after = (!memo.is_empty()).then_some(0);
        while let Some(from) = after {
            let page = self.graph.entries(memo, from, PAGE);
            page.entries.iter().for_each(|entry| steer(entry.id));
            after = page.next;
        }
        let entries = reply.entries;
        tracing::warn!(memo, entries, "cache entries were {what} by the admin listener");
        Ok(reply.into())
    }
}

/// How much is kept, and how often that helped.
pub(crate) fn overview(graph: &Graph, metrics: &Metrics) -> MemoOverviewReply {
    let stats = graph.stats();
    let figures = metrics.figures();
    MemoOverviewReply {
        bytes: stats.bytes as u64,
        entries: stats.nodes as u64,
        computed: stats.started,
        joined: stats.joined,
        verified: stats.verified,
        evicted: stats.removed,
        cut_off: stats.cut_off,
        expired: stats.expired,
        asked: figures.iter().map(|of| of.asked_memory).sum(),
        hits: figures.iter().map(|of| of.from_memory).sum(),
        ..Default::default()
    }
}

/// A minute: hits are slow while they are counted.
const COUNT_SECONDS_MAX: u32 = 60;

/// Entries that are looked at before something is done to them.
const PAGE: usize = 512;

fn no_such_entry() -> Error {
    Error::not_found("this entry does not exist any longer; list the entries again")
}

fn to_message(entry: Entry) -> MemoEntry {
    let state = match entry.state {
        EntryState::Empty => "empty",
        EntryState::Fresh => "fresh",
        EntryState::Suspect => "suspect",
        EntryState::Ghost => "ghost",
        EntryState::Faded => "faded",
        EntryState::Dirty => "dirty",
        _ => "unknown",
    };
    MemoEntry {
        id: entry.id,
        memo: entry.memo.to_string(),
        key: entry.key,
        state: state.to_owned(),
        version: entry.version,
        bytes: entry.bytes as u64,
        dependencies: entry.dependencies as u64,
        dependants: entry.dependants as u64,
        computing: entry.is_computing,
        watched: entry.is_watched,
        ..Default::default()
    }
}

fn event(noted: KeyEvent) -> MemoEvent {
    let (dependency, dependencies) = match noted.event.cause {
        Some(Cause::Dependency { number, of }) => (number, of),
        _ => (0, 0),
    };
    let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    MemoEvent {
        what: noted.event.kind.to_string(),
        at_ms: noted.at_ms,
        tick: noted.event.tick,
        changed: noted.changed.unwrap_or_default(),
        dependency: short(dependency),
        dependencies: short(dependencies),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    use tidewire_memo::{Memo as Memoized, Source};
    use tidewire_service::Code;

    fn of(graph: &Graph) -> MemoApi {
        MemoApi::new(graph.clone(), Metrics::new())
    }

    async fn listed(
        memo: &MemoApi,
        name: &str,
        after: u32,
        limit: u32,
    ) -> Result<ListEntriesReply> {
        let request = ListEntriesRequest { memo: name.into(), after, limit, ..Default::default() };
        memo.list_entries(Context::default(), request).await.map(|reply| reply.body)
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Unencodable;

    impl fmt::Debug for Unencodable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no word of it")
        }
    }

    #[tokio::test]
    async fn a_key_whose_debug_panics_is_listed_as_such() {
        let graph = Graph::new();
        let (bad, good) = (Source::new_in(&graph, "bad"), Source::new_in(&graph, "good"));
        let row = Memoized::infallible_in(&graph, "row", move |id: u32| async move {
            bad.read(&Unencodable);
            good.read(&id);
        });
        row.get(1).await.unwrap();
        let memo = of(&graph);
        let entries = listed(&memo, "bad", 0, 0).await.unwrap().entries;
        assert_eq!(entries[0].key, "a key whose Debug panics");
        assert_eq!(listed(&memo, "good", 0, 0).await.unwrap().entries[0].key, "1");
        let observed = ObserveMemoRequest { seconds: 60, ..Default::default() };
        memo.observe(Context::default(), observed).await.unwrap();
        bad.changed(&Unencodable);
        let asked = InvalidatorsRequest::default();
        let top = memo.invalidators(Context::default(), asked).await.unwrap().body;
        assert_eq!(top.invalidators[0].changed, "bad(a key whose Debug panics)");
    }

    #[tokio::test]
    async fn entries_are_made_stale_or_dropped_by_number_or_all_of_a_memo() {
        let graph = Graph::new();
        let row = Memoized::infallible_in(&graph, "row", |id: u32| async move { id });
        let memo = of(&graph);
        let computed = async || {
            for id in 0..3 {
                row.get(id).await.unwrap();
            }
            graph.stats().started
        };
        assert_eq!(computed().await, 3);
        let steer = |ids: &[u64], memo: &str| SteerMemoRequest {
            ids: ids.to_vec(),
            memo: memo.to_owned(),
            ..Default::default()
        };
        let number = |index: usize| graph.entries("row", 0, 9).entries[index].id;
        let one = memo.invalidate(Context::default(), steer(&[number(1), u64::MAX], "")).await;
        assert_eq!(one.unwrap().body.entries, 1, "another is gone");
        assert_eq!(computed().await, 4);
        for times in [3, 1] {
            let before = computed().await;
            let request = if times == 3 { steer(&[], "row") } else { steer(&[number(0)], "") };
            let dropped = memo.evict(Context::default(), request).await.unwrap().body;
            assert_eq!((dropped.entries, computed().await), (times, before + times));
        }
        for (request, code) in
            [(steer(&[], ""), Code::InvalidArgument), (steer(&[], "nowhere"), Code::NotFound)]
        {
            let refused = memo.evict(Context::default(), request).await.unwrap_err();
            assert_eq!(refused.code(), code);
        }
    }

    #[tokio::test]
    async fn a_hundred_thousand_keys_come_a_page_at_a_time_and_of_dependants_a_hundred() {
        const KEYS: u32 = 100_000;
        let graph = Graph::new();
        let all = Source::<u8>::new_in(&graph, "all");
        let row = Memoized::infallible_in(&graph, "row", move |id: u32| async move {
            all.read(&0);
            id
        });
        for id in 0..KEYS {
            row.get(id).await.unwrap();
        }
        let memo = of(&graph);
        let (mut after, mut found) = (0, 0);
        loop {
            let page = listed(&memo, "row", after, u32::MAX).await.unwrap();
            assert!(page.entries.len() <= 1000, "{}", page.entries.len());
            found += page.entries.len();
            after = page.next;
            if after == 0 {
                break;
            }
        }
        assert_eq!(found, KEYS as usize);
        let id = listed(&memo, "all", 0, 1).await.unwrap().entries[0].id;
        let request = GetEntryRequest { id, ..Default::default() };
        let around = memo.get_entry(Context::default(), request).await.unwrap().body;
        assert_eq!((around.dependants.len(), around.entry.dependants), (100, KEYS.into()));
        // More happens than is kept: what went is counted, and the latest is listed.
        let observed = ObserveMemoRequest { seconds: 60, ..Default::default() };
        memo.observe(Context::default(), observed).await.unwrap();
        all.changed(&0);
        row.get(KEYS - 1).await.unwrap();
        let request = ExplainRequest { id, ..Default::default() };
        let why = memo.explain(Context::default(), request).await.unwrap().body;
        assert!(why.observing);
        assert!(why.dropped >= u64::from(KEYS) - (1 << 16), "{}", why.dropped);
    }

    #[tokio::test]
    async fn of_a_million_keys_no_answer_is_long_and_each_is_found() {
        const KEYS: u32 = 1_000_000;
        let graph = Graph::new();
        let row = Memoized::infallible_in(&graph, "row", async |id: u32| id);
        for id in 0..KEYS {
            row.get(id).await.unwrap();
        }
        let memo = of(&graph);
        let listed_memos = memo.list_memos(Context::default(), ListMemosRequest::default()).await;
        assert_eq!(listed_memos.unwrap().body.memos[0].entries, u64::from(KEYS));
        let (mut after, mut pages, mut found) = (0, 0, Vec::new());
        loop {
            let request = ListEntriesRequest {
                memo: "row".into(),
                key: "99999".into(),
                after,
                limit: u32::MAX,
                ..Default::default()
            };
            let page = memo.list_entries(Context::default(), request).await.unwrap().body;
            found.extend(page.entries.into_iter().map(|entry| entry.key));
            (after, pages) = (page.next, pages + 1);
            if after == 0 {
                break;
            }
        }
        found.sort_unstable();
        // 99999 itself, and with a digit before or behind it; 999999 is both.
        assert_eq!(found.len(), 19, "{found:?}");
        assert!((1000..1100).contains(&pages), "a page looks at a bounded number of keys: {pages}");
        let steer = SteerMemoRequest { memo: "row".into(), ..Default::default() };
        let dropped = memo.evict(Context::default(), steer).await.unwrap().body;
        assert_eq!(dropped.entries, u64::from(KEYS));
    }
}

//! What happened to what is kept, while somebody observes it: the reasons behind computing again.
//!
//! Nothing is noted unless it is asked for, for a stated time. Then a task takes the events of the
//! graph once a second, all kinds but hits, which stay off every lock; the latest 65,536 stay. Of
//! what one change marked the first is what changed: the graph marks it before what depends on it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidewire_memo::{Cause, Event, EventKind, Graph, Recording};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// What happened in one graph.
pub(crate) struct Causes {
    graph: Graph,
    known: Mutex<EventLog>,
}

#[derive(Default)]
struct EventLog {
    events: VecDeque<(u64, Event)>,
    dropped: u64,
    /// How many the graph had dropped when this began.
    dropped_before: u64,
    /// What ends the observation at its time.
    observer: Option<Observer>,
}

/// The task that takes events; it ends with this.
struct Observer(AbortHandle);

/// Something that happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyEvent {
    /// In milliseconds since 1970, to a second.
    pub(crate) at_ms: u64,
    pub(crate) event: Event,
    /// Of a mark: what changed.
    pub(crate) changed: Option<String>,
}

/// A change, by what it made suspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidatorCount {
    /// What changed.
    pub(crate) changed: String,
    /// How often.
    pub(crate) times: u64,
    /// How many values that made suspect.
    pub(crate) marked: u64,
}

impl Causes {
    pub(crate) fn new(graph: Graph) -> Self {
        Self { graph, known: Mutex::default() }
    }

    /// Observes for this long from now on; [`Duration::ZERO`] ends it and forgets what was noted.
    pub(crate) fn observe(self: Arc<Self>, time: Duration) {
        let mut known = self.lock();
        if time.is_zero() {
            *known = EventLog::default();
            return self.graph.record_events(Recording::nothing());
        }
        if known.observer.is_none() {
            // What was noted before may have a gap behind it.
            *known = EventLog::default();
            let kinds = Recording::everything().without(EventKind::Hit);
            known.dropped_before = self.graph.stats().events_dropped;
            self.graph.record_events(kinds.keep(EVENTS_MAX));
        }
        let causes = Arc::downgrade(&self);
        let until = Instant::now() + time;
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1));
            while Instant::now() < until {
                ticks.tick().await;
                let Some(causes) = causes.upgrade() else { return };
                drop(causes.current());
            }
            if let Some(causes) = causes.upgrade() {
                causes.current().observer = None;
                causes.graph.record_events(Recording::nothing());
            }
        });
        known.observer = Some(Observer(task.abort_handle()));
    }

    /// Whether what happens is noted now.
    pub(crate) fn is_on(&self) -> bool {
        self.lock().observer.is_some()
    }

    /// How many notes went because newer ones came.
    pub(crate) fn dropped(&self) -> u64 {
        let of_graph = self.graph.stats().events_dropped;
        let known = self.lock();
        known.dropped + of_graph.saturating_sub(known.dropped_before)
    }

    /// What happened to one key, the latest last.
    pub(crate) fn of(&self, memo: &str, key: &str) -> Vec<KeyEvent> {
        let known = self.current();
        let its = |event: &Event| *event.memo == *memo && event.key == key;
        let mut changes: HashMap<u64, Option<String>> = HashMap::new();
        for (_, event) in known.events.iter().filter(|(_, event)| its(event)) {
            changes.extend(change(event).map(|tick| (tick, None)));
        }
        for (_, event) in &known.events {
            if let Some(tick) = change(event)
                && let Some(first) = changes.get_mut(&tick)
            {
                first.get_or_insert_with(|| label(event));
            }
        }
        let noted = known.events.iter().filter(|(_, event)| its(event)).map(|(at_ms, event)| {
            let changed = change(event).and_then(|tick| changes.get(&tick).cloned().flatten());
            KeyEvent { at_ms: *at_ms, event: event.clone(), changed }
        });
        noted.collect()
    }

    /// How old the value of a key is, where its becoming was observed and it is still observed that
    /// there is no other.
    pub(crate) fn age_ms(&self, memo: &str, key: &str) -> Option<u64> {
        let known = self.current();
        known.observer.as_ref()?;
        let its = known.events.iter().rev().find(|(_, event)| {
            let is_made = matches!(event.kind, EventKind::Published | EventKind::CutOff);
            is_made && *event.memo == *memo && event.key == key
        });
        its.map(|(at_ms, _)| now_ms().saturating_sub(*at_ms))
    }

    /// What changed: what made the most suspect first.
    pub(crate) fn invalidators(&self) -> Vec<InvalidatorCount> {
        let known = self.current();
        let mut by_change: HashMap<u64, (String, u64)> = HashMap::new();
        for (_, event) in &known.events {
            let Some(tick) = change(event) else { continue };
            match by_change.get_mut(&tick) {
                Some((_, marked)) => *marked += 1,
                None => _ = by_change.insert(tick, (label(event), 0)),
            }
        }
        let mut by_name: HashMap<String, InvalidatorCount> = HashMap::new();
        for (changed, marked) in by_change.into_values() {
            let zero = || InvalidatorCount { changed: changed.clone(), times: 0, marked: 0 };
            let count = by_name.entry(changed.clone()).or_insert_with(zero);
            count.times += 1;
            count.marked += marked;
        }
        let mut all: Vec<_> = by_name.into_values().collect();
        all.sort_by(|a, b| (b.marked, b.times, &a.changed).cmp(&(a.marked, a.times, &b.changed)));
        all
    }

    /// What is known, with what happened until now.
    fn current(&self) -> MutexGuard<'_, EventLog> {
        let events = self.graph.take_events();
        let at_ms = now_ms();
        let mut known = self.lock();
        known.events.extend(events.into_iter().map(|event| (at_ms, event)));
        let over = known.events.len().saturating_sub(EVENTS_MAX);
        known.events.drain(..over);
        known.dropped += over as u64;
        known
    }

    fn lock(&self) -> MutexGuard<'_, EventLog> {
        self.known.lock()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The change that an event of a mark belongs to.
fn change(event: &Event) -> Option<u64> {
    match (event.kind, event.cause) {
        (EventKind::Marked, Some(Cause::Change { tick })) => Some(tick),
        _ => None,
    }
}

fn label(event: &Event) -> String {
    format!("{}({})", event.memo, event.key)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

const EVENTS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_memo::{Memo, Source};

    #[tokio::test]
    async fn what_changed_is_listed_for_what_was_computed_again_and_nothing_of_what_was_not_seen() {
        let graph = Graph::new();
        let rows = Source::<u32>::new_in(&graph, "rows");
        let row = Memo::infallible_in(&graph, "row", move |id: u32| async move {
            rows.read(&id);
            id
        });
        let causes = Arc::new(Causes::new(graph.clone()));
        row.get(7).await.unwrap();
        assert!(causes.of("row", "7").is_empty(), "nobody observed");
        Arc::clone(&causes).observe(Duration::from_secs(60));
        for _ in 0..2 {
            rows.changed(&7);
            row.get(7).await.unwrap();
        }
        rows.changed(&8);
        let events = causes.of("row", "7");
        let kinds: Vec<_> =
            events.iter().map(|noted| (noted.event.kind, noted.changed.as_deref())).collect();
        let marks: Vec<_> = kinds.iter().filter(|(kind, _)| *kind == EventKind::Marked).collect();
        assert_eq!(marks, [&(EventKind::Marked, Some("rows(7)")); 2], "{kinds:?}");
        let again = events.iter().find(|noted| noted.event.kind == EventKind::Started).unwrap();
        assert_eq!(again.event.cause, Some(Cause::Dependency { number: 1, of: 1 }));
        let rows = InvalidatorCount { changed: "rows(7)".to_owned(), times: 2, marked: 2 };
        assert_eq!(causes.invalidators()[0], rows);
        assert!(causes.age_ms("row", "7").is_some_and(|age| age < 60_000));
        assert_eq!(causes.age_ms("row", "8"), None);
        Arc::clone(&causes).observe(Duration::ZERO);
        assert!(!causes.is_on() && causes.of("row", "7").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_observation_ends_at_its_time_and_what_it_noted_stays() {
        let graph = Graph::new();
        let row = Memo::infallible_in(&graph, "row", |id: u32| async move { id });
        let causes = Arc::new(Causes::new(graph));
        Arc::clone(&causes).observe(Duration::from_secs(5));
        row.get(7).await.unwrap();
        tokio::time::advance(Duration::from_secs(7)).await;
        while causes.is_on() {
            tokio::task::yield_now().await;
        }
        let seen = causes.of("row", "7").len();
        assert!(seen > 0);
        row.get(8).await.unwrap();
        assert!(causes.of("row", "8").is_empty());
        assert_eq!(causes.of("row", "7").len(), seen);
    }

    #[tokio::test]
    async fn a_clock_that_goes_back_makes_nothing_older_than_it_is_and_ends_nothing() {
        let graph = Graph::new();
        let row = Memo::infallible_in(&graph, "row", async |id: u32| id);
        let causes = Arc::new(Causes::new(graph));
        Arc::clone(&causes).observe(Duration::from_secs(60));
        row.get(7).await.unwrap();
        assert!(causes.age_ms("row", "7").is_some());
        // As if it had happened before the clock went back by a year.
        causes.lock().events.iter_mut().for_each(|(at_ms, _)| *at_ms += 31_536_000_000);
        assert_eq!(causes.age_ms("row", "7"), Some(0));
        row.get(8).await.unwrap();
        let order: Vec<_> = ["7", "8"].map(|key| causes.of("row", key)[0].event.tick).into();
        assert!(order.is_sorted(), "what is later is later in the list: {order:?}");
        assert!(causes.is_on());
    }
}

//! What the edge, the operation log and the console stand on.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tidewire_memo::{Ambient, Cause, EntryState, EventKind, Graph, Memo, Recording, Source};

use crate::support::{Gate, now, poll};

struct World {
    graph: Graph,
    rows: Source<u64>,
    data: Arc<AtomicU64>,
    memo: Memo<String, u64>,
}

/// A memo of names whose value is that of row 0.
fn world() -> World {
    let graph = Graph::new();
    let rows = Source::new_in(&graph, "rows");
    let data = Arc::new(AtomicU64::new(5));
    let load = data.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |_: String| {
        let load = load.clone();
        async move {
            rows.read(&0);
            load.load(SeqCst)
        }
    })
    .fingerprint(|value| value + 100);
    World { graph, rows, data, memo }
}

impl World {
    fn get(&self) -> tidewire_memo::CachedValue<u64> {
        now(self.memo.get("name".to_owned())).unwrap()
    }
}

#[test]
fn a_key_may_be_borrowed_wherever_nothing_is_computed() {
    let world = world();
    let version = world.get().version();
    assert_eq!(world.memo.cached("name").map(|value| *value), Some(5));
    assert_eq!(world.memo.with("name", |value| *value), Some(5));
    assert_eq!(world.memo.copied("other"), None);
    assert!(world.memo.validate("name", version));
    assert_eq!(world.memo.invalidate("name"), 0);
    assert!(world.memo.cached("name").is_none());
    assert!(world.memo.evict("name"));
}

#[test]
fn a_version_validates_while_the_value_is_current_evicted_or_not() {
    let world = world();
    let value = world.get();
    assert_eq!(value.fingerprint(), Some(105));
    assert!(world.memo.validate("name", value.version()));
    assert!(!world.memo.validate("name", value.version() + 1));
    assert!(!world.memo.validate("other", value.version()));
    let above = Memo::infallible_in(&world.graph, "above", {
        let memo = world.memo;
        move |_: ()| async move { *memo.get("name".to_owned()).await.unwrap() }
    });
    let seen = now(above.get(())).unwrap().version();
    world.memo.evict("name");
    assert!(world.memo.validate("name", value.version()), "a ghost has its version still");
    world.rows.changed(&0);
    assert!(!above.validate(&(), seen), "to know, the value below would have to be computed");
    now(world.memo.get("name".to_owned())).unwrap();
    assert!(above.validate(&(), seen), "the value below came out equal");
    world.data.store(6, SeqCst);
    world.rows.changed(&0);
    now(world.memo.get("name".to_owned())).unwrap();
    assert!(!above.validate(&(), seen));
}

#[test]
fn an_early_answer_never_validates() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let gate = Gate::default();
    let wait = gate.clone();
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            wait.pass().await;
            key
        }
    });
    let mut get = memo.get(1);
    assert!(poll(&mut get).is_pending());
    rows.changed(&1);
    gate.open();
    let early = now(get).unwrap();
    assert_eq!(early.version(), 0);
    assert!(!memo.validate(&1, 0));
    now(memo.get(1)).unwrap();
    assert!(!memo.validate(&1, early.version()));
}

#[test]
fn a_life_says_since_when_and_until_when() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key })
        .ttl(Duration::from_secs(60));
    assert_eq!(memo.lifetime(&1), None);
    now(memo.get(1)).unwrap();
    let life = memo.lifetime(&1).unwrap();
    assert_eq!((life.since, life.until), (start, start + Duration::from_secs(60)));
    let timeless = Memo::infallible_in(&graph, "timeless", |key: u64| async move { key });
    now(timeless.get(1)).unwrap();
    assert_eq!(timeless.lifetime(&1), None);
}

#[test]
fn what_is_made_of_an_external_source_lives_for_a_bounded_time_also_through_others() {
    let graph = Graph::new();
    let start = Instant::now();
    graph.advance(start);
    let rows = Source::<u64>::new_in(&graph, "rows").external();
    let own = Source::<u64>::new_in(&graph, "own");
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| async move {
        if key == 0 {
            own.read(&0)
        } else {
            rows.read(&key)
        }
        key
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key).await.unwrap()
    });
    (0..2).for_each(|key| _ = now(above.get(key)).unwrap());
    assert_eq!(above.lifetime(&0), None);
    assert_eq!(above.lifetime(&1).unwrap().until, start + Duration::from_secs(5));
    graph.advance(start + Duration::from_secs(6));
    assert!(above.cached(&0).is_some());
    assert!(above.cached(&1).is_none() && leaf.cached(&1).is_none());
    graph.set_external_life(None);
    now(above.get(1)).unwrap();
    assert_eq!(above.lifetime(&1), None);
}

#[test]
fn a_change_of_all_keys_marks_every_reader_of_keys_and_of_intervals() {
    let graph = Graph::new();
    graph.set_walk_chunk(2, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let others = Source::<u64>::new_in(&graph, "others");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        match key {
            0 => rows.range(10..20),
            1 => others.read(&1),
            key => rows.read(&key),
        }
        key
    });
    (0..6).for_each(|key| _ = now(memo.get(key)).unwrap());
    assert_eq!(rows.changed_all(), 5);
    let fresh: Vec<u64> = (0..6).filter(|key| memo.cached(key).is_some()).collect();
    assert_eq!(fresh, [1]);
}

#[test]
fn a_change_of_all_keys_rejects_what_had_loaded_before_and_declares_after() {
    let world = world();
    let gate = Gate::default();
    let (wait, load, rows) = (gate.clone(), world.data.clone(), world.rows);
    let memo = Memo::infallible_in(&world.graph, "late", move |key: u64| {
        let (wait, load) = (wait.clone(), load.clone());
        async move {
            let seen = load.load(SeqCst);
            wait.pass().await;
            rows.read(&key);
            seen
        }
    });
    let mut get = memo.get(7);
    assert!(poll(&mut get).is_pending());
    world.data.store(6, SeqCst);
    world.rows.changed_all();
    gate.open();
    now(get).unwrap();
    assert_eq!(*now(memo.get(7)).unwrap(), 6);
}

#[test]
fn a_change_that_was_announced_after_a_tick_covers_what_was_true_at_it() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let other = Source::<u64>::new_in(&graph, "other");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        match key {
            0 => rows.range(10..20),
            key => rows.read(&key),
        }
        key
    });
    for key in [0, 1, 12] {
        now(memo.get(key)).unwrap();
        let tick = rows.tick();
        assert!(!rows.changed_since(&12, tick), "nothing was announced");
        rows.changed(&1);
        other.changed(&12);
        assert!(rows.changed_since(&1, tick));
        assert!(!rows.changed_since(&12, tick), "others were announced");
        let later = rows.tick();
        rows.changed(&12);
        assert!(rows.changed_since(&12, tick) && rows.changed_since(&12, later));
        assert!(!rows.changed_since(&12, rows.tick()));
        let tick = rows.tick();
        rows.changed_all();
        assert!(rows.changed_since(&12, tick));
    }
    // Who reads the interval again is covered; a guard that is open has announced nothing.
    let tick = rows.tick();
    let write = rows.write(&15);
    now(memo.get(0)).unwrap();
    assert!(!rows.changed_since(&15, tick));
    write.finish();
    now(memo.get(0)).unwrap();
    assert!(rows.changed_since(&15, tick));
    assert!(memo.cached(&0).is_some());
}

#[test]
fn nothing_that_reads_a_suspended_source_is_memoized() {
    let world = world();
    world.get();
    let suspension = world.rows.suspend();
    assert!(world.memo.cached("name").is_none());
    assert_eq!(world.get().version(), 0);
    assert!(world.memo.cached("name").is_none());
    let second = world.rows.suspend();
    drop(suspension);
    assert_eq!(world.get().version(), 0, "one suspension goes on");
    drop(second);
    assert_ne!(world.get().version(), 0);
    assert!(world.memo.cached("name").is_some());
}

#[test]
fn a_context_reaches_the_function_of_who_starts_it_and_is_no_part_of_the_key() {
    struct Deadline(u64);
    let graph = Graph::new();
    let inner = Memo::infallible_in(&graph, "inner", |_: u64| async move {
        Ambient::current().get::<Deadline>().map_or(0, |deadline| deadline.0)
    });
    let outer = Memo::infallible_in(&graph, "outer", move |key: u64| async move {
        crate::support::yield_once().await;
        *inner.get(key).await.unwrap()
    });
    let call = |deadline| Ambient::new(7).with(Deadline(deadline)).scope(outer.get(1));
    assert_eq!(*now(call(30)).unwrap(), 30);
    assert_eq!(*now(call(40)).unwrap(), 30, "the key is the same, so this is a hit");
    assert!(Ambient::current().get::<Deadline>().is_none());
}

#[test]
fn events_say_when_why_and_for_whom() {
    let world = world();
    world.get();
    world.graph.record_events(Recording::everything().without(EventKind::Hit));
    world.data.store(6, SeqCst);
    now(Ambient::new(42).scope(async { world.rows.changed(&0) }));
    now(Ambient::new(43).scope(world.memo.get("name".to_owned()))).unwrap();
    world.get();
    let events = world.graph.take_events();
    let told: Vec<_> =
        events.iter().map(|event| (event.to_string(), event.tag, event.cause)).collect();
    let change = Some(Cause::Change { tick: events[0].tick });
    assert_eq!(
        told,
        [
            ("marked rows(0)".to_owned(), 42, change),
            ("marked memo(\"name\")".to_owned(), 42, change),
            ("started memo(\"name\")".to_owned(), 43, Some(Cause::Dependency { number: 1, of: 1 })),
            ("published memo(\"name\")".to_owned(), 43, None),
        ]
    );
    assert!(events.is_sorted_by_key(|event| event.tick));
}

#[test]
fn the_ring_of_events_keeps_the_latest_and_counts_the_rest() {
    let world = world();
    world.graph.record_events(Recording::everything().keep(3));
    for _ in 0..10 {
        world.rows.changed(&0);
        world.get();
    }
    let events = world.graph.take_events();
    assert_eq!(events.len(), 3);
    assert!(world.graph.stats().events_dropped > 20);
    world.graph.record_events(Recording::nothing());
    world.get();
    assert!(world.graph.take_events().is_empty());
}

#[test]
fn a_graph_is_inspected_a_page_at_a_time() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&(key % 10));
        key
    });
    (0..100).for_each(|key| _ = now(memo.get(key)).unwrap());
    rows.changed(&3);
    let owners = graph.owners();
    let counts: Vec<_> =
        owners.iter().map(|owner| (&*owner.name, owner.is_source, owner.entries)).collect();
    assert_eq!(counts, [("rows", true, 10), ("memo", false, 100)]);
    let (mut after, mut all, mut pages) = (Some(0), Vec::new(), 0);
    while let Some(from) = after {
        let page = graph.entries("memo", from, 7);
        assert!(page.entries.len() <= 7);
        all.extend(page.entries);
        after = page.next;
        pages += 1;
    }
    assert!(pages >= 15);
    assert_eq!(all.len(), 100);
    assert_eq!(all.iter().filter(|entry| entry.state == EntryState::Suspect).count(), 10);
    let entry = all.iter().find(|entry| entry.key == "4").unwrap();
    let around = graph.entry(entry.id).unwrap();
    assert_eq!(&around.entry, entry);
    let below: Vec<_> = around.dependencies.iter().map(|below| below.key.as_str()).collect();
    assert_eq!(below, ["4"]);
    assert_eq!(graph.entry(around.dependencies[0].id).unwrap().dependants.len(), 10);
    memo.evict(&4);
    assert!(graph.entry(entry.id).is_none());
}

#[test]
fn a_task_in_a_scope_has_the_context_of_its_computation() {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "memo", |_: u64| async move {
        let task = tidewire_memo::scope(async { Ambient::current().tag() });
        std::thread::spawn(move || now(task)).join().unwrap()
    });
    assert_eq!(*now(Ambient::new(7).scope(memo.get(1))).unwrap(), 7);
}

#[test]
fn a_graph_that_starts_at_the_last_number_there_is_goes_on() {
    let graph = Graph::starting_at(u64::MAX);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let first = now(memo.get(1)).unwrap().version();
    rows.changed(&1);
    memo.invalidate(&1);
    assert!(now(memo.get(1)).unwrap().version() >= first && first > 1 << 62);
}

#[test]
fn a_change_covers_nothing_while_who_reads_an_interval_around_the_key_is_not_marked() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        match key {
            0 => rows.range(10..20),
            key => rows.read(&key),
        }
        key
    });
    now(memo.get(0)).unwrap();
    let tick = rows.tick();
    // Of keys that nobody has read many share a place, so that this says of 12 what is true of another one.
    rows.changed_many(&(20..20_000).collect::<Vec<_>>());
    assert!(memo.cached(&0).is_some() && !rows.changed_since(&12, tick), "nobody has marked it");
    rows.changed(&12);
    assert!(rows.changed_since(&12, tick) && memo.cached(&0).is_none());
}

#[test]
fn who_joins_a_computation_brings_his_context_in_vain_also_where_it_has_none() {
    for starts in [Ambient::default(), Ambient::new(7)] {
        let (graph, gate) = (Graph::new(), Gate::default());
        let wait = gate.clone();
        let memo = Memo::infallible_in(&graph, "memo", move |_: u64| {
            let wait = wait.clone();
            async move {
                wait.pass().await;
                Ambient::current().tag()
            }
        });
        let mut first = Box::pin(starts.clone().scope(memo.get(1)));
        assert!(poll(&mut first).is_pending());
        gate.open();
        assert_eq!(*now(Ambient::new(5).scope(memo.get(1))).unwrap(), starts.tag());
        assert_eq!(*now(first).unwrap(), starts.tag());
    }
}

#[test]
fn a_change_is_known_to_be_announced_since_a_tick_only_if_it_was_announced_later() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let others = Source::<u64>::new_in(&graph, "others");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        match key {
            0 => rows.range(10..20),
            key => rows.read(&key),
        }
        key
    });
    for is_read in [false, true] {
        if is_read {
            now(memo.get(0)).unwrap();
            now(memo.get(12)).unwrap();
        }
        rows.changed(&12);
        let tick = rows.tick();
        assert!(!rows.changed_since(&12, tick), "it was announced before");
        // Enough that whatever is noted of keys that nobody has read is of these.
        (0..30_000).for_each(|key| _ = others.changed(&key));
        assert!(!rows.changed_since(&13, tick), "it is another source that has changed");
        rows.changed(&12);
        assert!(rows.changed_since(&12, tick));
    }
    now(memo.get(40)).unwrap();
    // The second one marks nobody, so that it is the last thing that has happened.
    rows.changed(&40);
    rows.changed(&40);
    let tick = rows.tick();
    rows.changed(&30);
    assert!(!rows.changed_since(&40, tick), "it is another key that has changed since");
}

#[test]
fn a_change_is_not_known_to_be_announced_before_everything_is_marked() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |_: u64| async move { rows.read(&1) });
    (0..20).for_each(|key| now(memo.get(key)).map(|_| ()).unwrap());
    let tick = rows.tick();
    let mut change = Box::pin(rows.changed_async(&1));
    assert!(poll(&mut change).is_pending());
    assert!((0..20).any(|key| memo.cached(&key).is_some()), "it goes on");
    assert!(rows.changed_since(&1, tick));
    assert!((0..20).all(|key| memo.cached(&key).is_none()));
    now(change);
}

#[test]
fn a_context_ends_with_its_scope_and_keeps_its_number_when_it_is_given_a_value() {
    let outer = Ambient::new(1).with("outer".to_owned());
    now(outer.scope(async {
        assert_eq!(Ambient::current().tag(), 1);
        Ambient::new(2).scope(async { assert_eq!(Ambient::current().tag(), 2) }).await;
        assert_eq!(Ambient::current().tag(), 1);
        assert_eq!(
            Ambient::current().get::<String>().as_deref().map(String::as_str),
            Some("outer")
        );
        assert!(Ambient::current().get::<u64>().is_none());
    }));
    assert_eq!(Ambient::current().tag(), 0);
}

#[test]
fn entries_tell_how_they_stand() {
    let graph = Graph::new();
    graph.set_external_life(None);
    let rows = Source::<u64>::new_in(&graph, "rows").external();
    let wait = Gate::default();
    let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
        let wait = wait.clone();
        async move {
            rows.read(&key);
            if key == 5 {
                wait.pass().await;
            }
            key
        }
    });
    let above = Memo::infallible_in(&graph, "above", move |key: u64| async move {
        *leaf.get(key % 1000).await.unwrap()
    });
    (0..4).for_each(|key| _ = now(above.get(key)).unwrap());
    (0..150).for_each(|key| _ = now(above.get(key * 1000)).unwrap());
    let _notify = leaf.notify(4);
    let mut get = leaf.get(5);
    assert!(poll(&mut get).is_pending());
    leaf.invalidate(&0);
    assert!(leaf.evict(&1) && leaf.evict(&2));
    let nothing_there = [1, 4, 5, 9];
    assert!(nothing_there.iter().all(|key| !leaf.evict(key)));
    rows.changed(&2);
    rows.changed(&3);
    let state = |key: u64| leaf.entry(&key).unwrap().entry.state;
    use EntryState::{Dirty, Empty, Faded, Ghost, Suspect};
    assert_eq!([0, 1, 2, 3, 4, 5].map(state), [Dirty, Ghost, Faded, Suspect, Empty, Empty]);
    let entry = |key: u64| leaf.entry(&key).unwrap().entry;
    assert_eq!([3, 4, 5].map(|key| entry(key).is_watched), [false, true, false]);
    assert_eq!([3, 4, 5].map(|key| entry(key).is_computing), [false, false, true]);
    assert!(!entry(3).is_external, "it lives for ever");
    graph.set_external_life(Some(Duration::from_secs(1)));
    assert!(entry(3).is_external);
    let row = &leaf.entry(&3).unwrap().dependencies[0];
    assert_eq!((&*row.memo, row.key.as_str(), row.state), ("rows", "3", EntryState::Fresh));
    let around = above.entry(&1).unwrap();
    assert_eq!((around.dependencies.len(), around.dependants.len()), (1, 0));
    assert_eq!(around.dependencies[0].key, "1");
    let around = leaf.entry(&1).unwrap();
    assert_eq!((around.dependencies[0].key.as_str(), &*around.dependants[0].memo), ("1", "above"));
    now(above.get(0)).unwrap();
    (1..150).for_each(|key| _ = now(above.get(key * 1000)).unwrap());
    assert_eq!(leaf.entry(&0).unwrap().dependants.len(), 100, "no more are told of");
    assert!(leaf.entry(&9).is_none());
    let bytes: usize = graph.entries("leaf", 0, 1000).entries.iter().map(|entry| entry.bytes).sum();
    let owners = graph.owners();
    let owner = owners.iter().find(|owner| &*owner.name == "leaf").unwrap();
    assert_eq!((owner.bytes, owner.entries), (bytes, 6));
}

#[test]
fn all_marks_of_a_change_have_it_for_their_cause_and_are_counted_however_small_its_steps() {
    let graph = Graph::new();
    graph.set_walk_chunk(1, false);
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |_: u64| async move { rows.read(&1) });
    (0..20).for_each(|key| drop(now(memo.get(key)).unwrap()));
    graph.record_events(Recording::everything());
    assert_eq!(rows.changed(&1), 20);
    let events = graph.take_events();
    assert_eq!(events.len(), 21);
    let cause = Some(Cause::Change { tick: events[0].tick });
    assert!(events.iter().all(|event| event.kind == EventKind::Marked && event.cause == cause));
    assert!(graph.take_events().is_empty(), "they were taken");
}

#[test]
fn the_latest_events_are_kept_and_a_memo_that_is_made_later_is_recorded_too() {
    let graph = Graph::new();
    graph.record_events(Recording::everything().keep(2));
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    now(memo.get(1)).unwrap();
    now(memo.get(2)).unwrap();
    now(memo.get(1)).unwrap();
    let told: Vec<_> = graph.take_events().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["published memo(2)", "hit memo(1)"]);
    assert_eq!(graph.stats().events_dropped, 3);
}

/// An object whose memos are its own.
struct Contacts {
    memos: tidewire_memo::Methods,
}

impl Contacts {
    #[tidewire_memo::memo]
    async fn number(self: &Arc<Self>, text: String) -> Result<u64, std::num::ParseIntError> {
        text.parse()
    }

    #[tidewire_memo::memo]
    async fn sum(
        self: &Arc<Self>,
        this: u64,
        memo: u64,
        mut key: u64,
    ) -> Result<u64, std::fmt::Error> {
        key += this;
        Ok(key + memo)
    }

    #[tidewire_memo::memo]
    async fn never(self: &Arc<Self>, key: u64) -> Result<u64, std::fmt::Error> {
        std::future::pending::<()>().await;
        Ok(key)
    }
}

#[test]
fn methods_of_an_object_are_closed_with_it_and_their_errors_keep_their_cause() {
    use std::error::Error;
    let graph = Graph::new();
    let contacts = Arc::new(Contacts { memos: tidewire_memo::Methods::new_in(&graph) });
    assert_eq!(*now(contacts.number("7".to_owned())).unwrap(), 7);
    let error = now(contacts.number("seven".to_owned())).unwrap_err();
    let cause = error.source().unwrap().downcast_ref::<std::num::ParseIntError>();
    assert_eq!(cause, error.downcast_ref());
    assert!(cause.is_some() && error.downcast_ref::<std::fmt::Error>().is_none());
    assert_eq!(*now(contacts.sum(1, 2, 4)).unwrap(), 7, "arguments have any names");
    let mut waits = Box::pin(contacts.never(1));
    assert!(poll(&mut waits).is_pending());
    assert_eq!(graph.owners().len(), 3);
    // The run that waits has the object until it is closed.
    drop(contacts);
    drop(waits);
    assert!(graph.owners().is_empty());
}

#[test]
fn a_method_of_an_object_that_is_in_no_arc_any_more_is_closed() {
    let contacts = Arc::new(Contacts { memos: tidewire_memo::Methods::new_in(&Graph::new()) });
    let get = contacts.number("7".to_owned());
    let contacts = Arc::into_inner(contacts).unwrap();
    assert_eq!(now(get).unwrap_err().kind(), tidewire_memo::ErrorKind::Closed);
    drop(contacts);
}

#[test]
fn pages_of_entries_go_on_past_those_of_many_others() {
    const OTHERS: u64 = if cfg!(miri) { 100 } else { 40_000 };
    let graph = Graph::new();
    let others = Memo::infallible_in(&graph, "others", |key: u64| async move { key });
    let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move { key });
    (0..OTHERS).for_each(|key| _ = now(others.get(key)).unwrap());
    now(memo.get(7)).unwrap();
    let (mut found, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = graph.entries("memo", from, 10);
        found.extend(page.entries.into_iter().map(|entry| entry.key));
        next = page.next;
    }
    assert_eq!(found, ["7"]);
}

#[test]
fn a_memo_that_is_closed_twice_closes_no_other_one() {
    let graph = Graph::new();
    let first = Memo::infallible_in(&graph, "first", |key: String| async move { key });
    now(first.get("a".to_owned())).unwrap();
    first.close();
    let second = Memo::infallible_in(&graph, "second", |key: u64| async move { key });
    now(second.get(7)).unwrap();
    first.close();
    let third = Memo::infallible_in(&graph, "third", |key: String| async move { key });
    now(third.get("b".to_owned())).unwrap();
    let names = graph.owners().iter().map(|owner| owner.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names, ["second", "third"]);
    assert_eq!(graph.entries("second", 0, 9).entries[0].key, "7");
    assert_eq!(*second.cached(&7).unwrap(), 7);
}

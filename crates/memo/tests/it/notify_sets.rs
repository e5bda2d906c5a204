//! Notifications of many values in one set: nothing is lost, and nothing is told of what is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;

use tidewire_memo::{Graph, Member, Memo, NotifySet, Source};

use crate::support::{Wakes, now};

struct World {
    graph: Graph,
    rows: Source<u64>,
    memo: Memo<u64, u64>,
}

fn world() -> World {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    World { graph, rows, memo }
}

impl World {
    fn add(&self, set: &NotifySet, key: u64, number: u32) -> Member {
        let version = now(self.memo.get(key)).unwrap().version();
        set.add(&self.memo, &key, version, number)
    }
}

fn rung(set: &NotifySet) -> Vec<u32> {
    let mut rung = Vec::new();
    set.take(&mut rung);
    rung
}

#[test]
fn each_that_rang_is_told_once_and_wakes_the_task_once() {
    let world = world();
    let (set, woken) = (NotifySet::new(), Wakes::new());
    let members: Vec<_> = (0..1000).map(|key| world.add(&set, key, key as u32)).collect();
    set.wakes(&Waker::from(woken.clone()));
    assert!(rung(&set).is_empty());
    world.rows.changed_many(&[700, 3, 700, 5000]);
    world.rows.changed(&4);
    assert_eq!(woken.count(), 1);
    assert_eq!(rung(&set), [3, 4, 700]);
    assert!(rung(&set).is_empty());
    assert!(!members[3].is_current() && members[5].is_current());
}

#[test]
fn what_was_brought_up_to_date_is_still_in_its_set() {
    let world = world();
    let set = NotifySet::new();
    let member = world.add(&set, 1, 1);
    world.rows.changed(&1);
    world.rows.changed(&1);
    assert_eq!(rung(&set), [1]);
    world.rows.changed(&1);
    assert!(rung(&set).is_empty(), "it is suspect already");
    now(world.memo.get(1)).unwrap();
    world.rows.changed(&1);
    assert_eq!(rung(&set), [1]);
    drop(member);
}

#[test]
fn a_value_that_goes_takes_no_ring_of_another_of_its_number_along() {
    let world = world();
    let set = NotifySet::new();
    let (first, second) = (world.add(&set, 1, 7), world.add(&set, 2, 7));
    world.rows.changed(&2);
    drop(first);
    world.rows.changed(&1);
    assert_eq!(rung(&set), [7]);
    assert!(!second.is_current());
    let third = world.add(&set, 1, 7);
    world.rows.changed(&1);
    drop(third);
    let fourth = world.add(&set, 3, 7);
    assert_eq!(rung(&set), [7], "that was the one before");
    assert!(fourth.is_current());
    world.rows.changed(&1);
    assert!(rung(&set).is_empty(), "nobody has it any more");
}

#[test]
fn a_value_in_many_sets_rings_in_each_and_one_that_goes_takes_no_other_along() {
    let world = world();
    let sets: Vec<_> = (0..10).map(|_| NotifySet::new()).collect();
    let mut members: Vec<_> = sets.iter().map(|set| world.add(set, 1, 1)).collect();
    members.push(world.add(&sets[9], 1, 2));
    world.rows.changed(&1);
    for (at, set) in sets.iter().enumerate() {
        assert_eq!(rung(set), if at == 9 { vec![1, 2] } else { vec![1] });
    }
    now(world.memo.get(1)).unwrap();
    members.truncate(1);
    world.rows.changed(&1);
    assert_eq!(rung(&sets[0]), [1]);
    assert!(sets[1..].iter().all(|set| rung(set).is_empty()));
}

#[test]
fn an_evicted_value_is_told_of_and_one_that_is_forced_out_is_over() {
    let world = world();
    let set = NotifySet::new();
    let evicted = world.add(&set, 1, 1);
    let forced = world.add(&set, 2, 2);
    world.memo.evict(&1);
    assert!(evicted.is_current() && rung(&set).is_empty());
    world.rows.changed(&1);
    assert_eq!(rung(&set), [1]);
    world.memo.force_out(&2);
    assert_eq!(rung(&set), [2]);
    assert!(!evicted.is_current() && !forced.is_current());
}

#[test]
fn a_graph_that_ends_rings_all_and_one_that_is_over_has_nothing_current() {
    let World { graph, rows, memo } = world();
    let set = NotifySet::new();
    let version = now(memo.get(1)).unwrap().version();
    let member = set.add(&memo, &1, version, 1);
    rows.changed(&2);
    drop(graph);
    assert_eq!(rung(&set), [1]);
    assert!(!member.is_current());
    assert!(!set.add(&memo, &1, version, 2).is_current());
    assert!(!set.add(&memo, &1, 0, 3).is_current(), "an early answer never is");
}

#[test]
fn a_set_that_goes_leaves_nothing_in_the_graph() {
    let world = world();
    let before = world.graph.stats().bytes;
    let members: Vec<_> = {
        let set = NotifySet::new();
        (0..100).map(|key| set.add(&world.memo, &(key % 10), 1, key as u32)).collect()
    };
    assert!(world.graph.stats().bytes > before);
    world.rows.changed(&1);
    (0..10).for_each(|key| _ = world.memo.force_out(&key));
    drop(members);
    assert_eq!(world.graph.stats().bytes, before);
}

/// What a set must say, found out by asking the memo of each key each time.
#[derive(Default)]
struct Oracle {
    members: BTreeMap<u32, Held>,
    /// Numbers of values to which something happened since the set was asked last.
    may_ring: BTreeSet<u32>,
}

struct Held {
    key: u64,
    version: u64,
    member: Member,
    /// It was current, and its key has not changed since. (Evicted and computed again it has a new version,
    /// which says less than that.)
    is_right: bool,
    /// It was right, and is not since the set was asked last.
    must_ring: bool,
}

impl Oracle {
    fn touch(&mut self, key: u64) {
        for (number, held) in self.members.iter_mut().filter(|(_, held)| held.key == key) {
            self.may_ring.insert(*number);
            held.must_ring |= std::mem::take(&mut held.is_right);
        }
    }

    fn check(&mut self, memo: Memo<u64, u64>, rung: &[u32], what: &str) {
        let rung: BTreeSet<u32> = rung.iter().copied().collect();
        assert!(rung.is_subset(&self.may_ring), "{what}: one rang for nothing");
        self.may_ring.clear();
        for (number, held) in &mut self.members {
            assert!(!held.must_ring || rung.contains(number), "{what}: {number} is lost");
            let is_current = memo.validate(&held.key, held.version);
            assert_eq!(held.member.is_current(), is_current, "{what}: {number}");
            held.is_right |= is_current;
            held.must_ring = false;
        }
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn whatever_happens_in_whatever_order_a_set_says_what_asking_each_time_would() {
    const KEYS: u64 = 6;
    for seed in 0..if cfg!(miri) { 3 } else { 500 } {
        let mut random = random(seed);
        let graph = Graph::new();
        let rows = Source::<u64>::new_in(&graph, "rows");
        let values: Arc<[AtomicU64; KEYS as usize]> = Arc::default();
        let load = values.clone();
        let leaf = Memo::infallible_in(&graph, "leaf", move |key: u64| {
            rows.read(&key);
            std::future::ready(load[key as usize].load(SeqCst) / 2)
        });
        // Half of all changes leave it as it was.
        let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
            *leaf.get(key).await.unwrap()
        });
        let (set, mut oracle) = (NotifySet::new(), Oracle::default());
        for step in 0..200 {
            let (key, number) = (random(KEYS), random(12) as u32 * 37);
            let what = format!("seed {seed}, step {step}");
            match random(10) {
                0 | 1 => {
                    let version = now(memo.get(key)).unwrap().version();
                    oracle.members.remove(&number);
                    let member = set.add(&memo, &key, version, number);
                    let is_right = member.is_current();
                    let held = Held { key, version, member, is_right, must_ring: false };
                    oracle.members.insert(number, held);
                }
                2 => drop(oracle.members.remove(&number)),
                3 | 4 => {
                    values[key as usize].fetch_add(1, SeqCst);
                    rows.changed(&key);
                    oracle.touch(key);
                }
                5 => _ = now(memo.get(key)).unwrap(),
                6 => _ = memo.evict(&key),
                7 => {
                    leaf.evict(&key);
                    memo.evict(&key);
                    now(memo.get(key)).unwrap();
                }
                8 => {
                    memo.force_out(&key);
                    oracle.touch(key);
                }
                _ => oracle.check(memo, &rung(&set), &what),
            }
        }
        oracle.check(memo, &rung(&set), "the end");
        oracle.members.clear();
        (0..KEYS).for_each(|key| _ = rows.changed(&key));
        assert!(rung(&set).is_empty(), "seed {seed}: what is gone rings");
    }
}

#[test]
fn a_member_outlives_another_of_its_number() {
    let graph = Graph::new();
    let rows = Source::<u64>::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    let (set, mut rung) = (NotifySet::new(), Vec::new());
    let mut member = None;
    for round in 0..3 {
        let version = now(memo.get(1)).unwrap().version();
        // The new one comes before the old one goes.
        member = Some(set.add(&memo, &1, version, 3));
        assert!(member.as_ref().is_some_and(Member::is_current));
        rows.changed(&1);
        set.take(&mut rung);
        assert_eq!(std::mem::take(&mut rung), [3], "round {round}");
    }
    drop(member);
}

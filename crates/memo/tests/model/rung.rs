//! A set of notifications that several threads change, take and leave.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use tidewire_memo::{Graph, Member, Memo, NotifySet, Source};

struct Set {
    rows: Source<u64>,
    memo: Memo<u64, u64>,
    set: NotifySet,
    told: Mutex<Vec<u32>>,
}

fn set() -> Arc<Set> {
    let graph = std::mem::ManuallyDrop::new(Graph::new());
    let rows = Source::new_in(&graph, "rows");
    let memo = Memo::infallible_in(&graph, "memo", move |key: u64| async move {
        rows.read(&key);
        key
    });
    Arc::new(Set { rows, memo, set: NotifySet::new(), told: Mutex::default() })
}

impl Set {
    fn add(&self, key: u64, number: u32) -> Member {
        let version = block_on(self.memo.get(key)).unwrap().version();
        self.set.add(&self.memo, &key, version, number)
    }

    /// Whether this number rang by now.
    fn has_told(&self, number: u32) -> bool {
        let mut told = self.told.lock().unwrap();
        self.set.take(&mut told);
        told.contains(&number)
    }
}

/// Whoever changed something finds in the set what that made suspect, also when another, whose change has not
/// returned yet, was the one who marked it.
pub(crate) fn before_any_change_returns() {
    let world = set();
    let _member = world.add(0, 3);
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                world.rows.changed(&0);
                assert!(world.has_told(3), "a writer does not know what it made stale");
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

/// A member that goes while another of its number rings takes nothing along, and what is left is told of.
pub(crate) fn while_others_go() {
    let world = set();
    let (first, second) = (world.add(0, 3), world.add(1, 3));
    let writers: Vec<_> = (0..2)
        .map(|key| {
            let world = world.clone();
            thread::spawn(move || _ = world.rows.changed(&key))
        })
        .collect();
    drop(first);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(world.has_told(3) && !second.is_current());
    drop(second);
    block_on(world.memo.get(1)).unwrap();
    world.told.lock().unwrap().clear();
    world.rows.changed(&1);
    assert!(!world.has_told(3), "nobody has it any more");
}

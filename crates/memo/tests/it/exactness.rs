//! A paged list with a count: which of them a change recomputes.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, RwLock};

use tidewire_memo::{Graph, Memo, Recording, Source, batch};

use crate::support::{now, work};

const SIZE: usize = 3;

struct List {
    graph: Graph,
    rows: Arc<RwLock<BTreeMap<u64, &'static str>>>,
    ids: Source<u64>,
    count_of: Source<()>,
    page: Memo<u64, Vec<(u64, &'static str)>>,
    count: Memo<(), usize>,
}

fn list(keys: impl IntoIterator<Item = u64>) -> List {
    let graph = Graph::new();
    let rows: BTreeMap<u64, &'static str> = keys.into_iter().map(|key| (key, "old")).collect();
    let rows = Arc::new(RwLock::new(rows));
    let ids = Source::new_in(&graph, "ids");
    let count_of = Source::new_in(&graph, "count");
    let table = rows.clone();
    let page = Memo::infallible_in(&graph, "page", move |after: u64| {
        let table = table.clone();
        async move {
            let table = table.read().unwrap();
            let rows: Vec<_> = table
                .range((Excluded(after), Unbounded))
                .take(SIZE)
                .map(|(k, v)| (*k, *v))
                .collect();
            // A full page ends at its last row; what comes behind that is not its business.
            let end = match rows.last() {
                Some(&(last, _)) if rows.len() == SIZE => Included(last),
                _ => Unbounded,
            };
            ids.range((Excluded(after), end));
            rows
        }
    });
    let table = rows.clone();
    let count = Memo::infallible_in(&graph, "count", move |_: ()| {
        let table = table.clone();
        async move {
            count_of.read(&());
            table.read().unwrap().len()
        }
    });
    List { graph, rows, ids, count_of, page, count }
}

impl List {
    fn read_all(&self) {
        let mut after = 0;
        loop {
            let page = now(self.page.get(after)).unwrap();
            match page.last() {
                Some(&(last, _)) if page.len() == SIZE => after = last,
                _ => break,
            }
        }
        now(self.count.get(())).unwrap();
    }
}

#[test]
fn an_insert_at_the_end_recomputes_only_the_last_page_and_the_count() {
    let list = list((1..=8).map(|i| i * 10));
    list.read_all();
    list.graph.record_events(Recording::everything());
    list.rows.write().unwrap().insert(90, "new");
    batch(|batch| {
        batch.changed(&list.ids, &90);
        batch.changed(&list.count_of, &());
    });
    list.read_all();
    let events = work(&list.graph);
    assert_eq!(
        events,
        [
            "started page(60)",
            "published page(60)",
            "started page(90)",
            "published page(90)",
            "started count(())",
            "published count(())",
        ],
        "page(90) is the new, empty end of the list"
    );
}

#[test]
fn an_update_recomputes_one_page() {
    let list = list((1..=8).map(|i| i * 10));
    list.read_all();
    list.graph.record_events(Recording::everything());
    list.rows.write().unwrap().insert(50, "new");
    list.ids.changed(&50);
    list.read_all();
    assert_eq!(work(&list.graph), ["started page(30)", "published page(30)"]);
}

#[test]
fn an_update_that_changes_nothing_is_cut_off_at_its_page() {
    let list = list((1..=8).map(|i| i * 10));
    let pages = list.page;
    let total = Memo::infallible_in(&list.graph, "total", move |_: ()| async move {
        pages.get(0).await.unwrap().len() + pages.get(30).await.unwrap().len()
    });
    now(total.get(())).unwrap();
    list.graph.record_events(Recording::everything());
    list.ids.changed(&20);
    now(total.get(())).unwrap();
    assert_eq!(work(&list.graph), ["started page(0)", "cut off page(0)", "verified total(())"]);
}

#[test]
fn a_change_of_every_key_of_one_source_disturbs_no_reader_of_another() {
    let graph = Graph::new();
    let (rows, others) =
        (Source::<u64>::new_in(&graph, "rows"), Source::<u64>::new_in(&graph, "others"));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let memo = Memo::infallible_in(&graph, "row", move |id: u64| {
        counted.fetch_add(1, Relaxed);
        async move {
            std::thread::spawn(move || others.changed_all()).join().unwrap();
            // A key that nobody has read before.
            rows.read(&id);
            id
        }
    });
    for id in 1..=3 {
        now(memo.get(id)).unwrap();
        assert!(memo.cached(&id).is_some());
    }
    assert_eq!(runs.load(Relaxed), 3);
}

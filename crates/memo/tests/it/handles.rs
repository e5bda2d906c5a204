//! What handles that are held have to do with: the slots of their thread, which name a value in use.

use tidewire_memo::{Graph, Memo, Source};

use crate::support::{Gate, now, poll};

#[test]
fn what_a_computation_reads_is_noted_however_many_handles_its_thread_holds() {
    let graph = Graph::new();
    let others = Memo::infallible_in(&graph, "others", |key: u64| async move { key });
    let mut handles = Vec::new();
    for held in 1..=MORE_THAN_SLOTS {
        now(others.get(held)).unwrap();
        handles.push(others.cached(&held).unwrap());
        let rows = Source::<u64>::new_in(&graph, "rows");
        let below = Memo::infallible_in(&graph, "below", move |key: u64| async move {
            rows.read(&key);
            key
        });
        let gate = Gate::default();
        let wait = gate.clone();
        let above = Memo::infallible_in(&graph, "above", move |pauses: bool| {
            let wait = wait.clone();
            async move {
                if pauses {
                    wait.pass().await;
                }
                *below.get(1).await.unwrap()
            }
        });
        now(below.get(1)).unwrap();
        let mut pausing = above.get(true);
        assert!(poll(&mut pausing).is_pending());
        gate.open();
        now(pausing).unwrap();
        now(above.get(false)).unwrap();
        assert!(above.cached(&false).is_some() && above.cached(&true).is_some());
        rows.changed(&1);
        assert!(above.cached(&false).is_none(), "read by the first poll, {held} handles");
        assert!(above.cached(&true).is_none(), "read after a pause, {held} handles");
    }
}

const MORE_THAN_SLOTS: u64 = 40;

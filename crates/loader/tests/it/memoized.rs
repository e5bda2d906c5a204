//! A memoized function over a loader is as exact as one that asks by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidewire_loader::Loader;
use tidewire_memo::{Memo, Source};

const ROWS: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_is_given_a_value_older_than_a_write_that_ended_before() {
    let rows: Arc<Mutex<HashMap<u32, u64>>> = Arc::default();
    let table = Arc::clone(&rows);
    let loader = Loader::new(3, move |keys: Vec<u32>| {
        let found: Vec<_> = {
            let rows = table.lock().unwrap();
            keys.iter().filter_map(|key| Some((*key, *rows.get(key)?))).collect()
        };
        async move {
            // The answer is on its way while others write.
            tokio::task::yield_now().await;
            Ok::<_, String>(found)
        }
    })
    .batches_max(2);
    let source = Source::new("rows");
    let read = source;
    let memo = Memo::new("row", move |key: u32| {
        let loader = loader.clone();
        async move {
            read.read(&key);
            Ok::<_, String>(loader.load(key).await?.unwrap_or(0))
        }
    });
    let tasks = (0..8).map(|task| {
        let rows = Arc::clone(&rows);
        tokio::spawn(async move {
            for step in 0..2_000 {
                let key = (task + step) % ROWS;
                if step % 3 > 0 {
                    memo.get(key).await.unwrap();
                    continue;
                }
                let write = source.write(&key);
                let written = {
                    let mut rows = rows.lock().unwrap();
                    let row = rows.entry(key).or_default();
                    *row += 1;
                    *row
                };
                write.finish();
                let seen = *memo.get(key).await.unwrap();
                assert!(seen >= written, "row {key}: {seen} after {written}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for key in 0..ROWS {
        let now = rows.lock().unwrap()[&key];
        assert_eq!(*memo.get(key).await.unwrap(), now, "row {key} at rest");
    }
}

//! Many keys of one caller.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::{join_all, poll_fn};

use crate::{calls, tenfold};

#[tokio::test]
async fn a_key_that_is_given_twice_is_asked_for_once() {
    let (loader, asked) = tenfold(2);
    let values = loader.load_many([1, 2, 3, 1, 2, 3, 3]).await.unwrap();
    assert_eq!(values, HashMap::from([(1, 10), (2, 20), (3, 30)]));
    assert_eq!(calls(&asked), [vec![1, 2], vec![3]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_begins_before_all_keys_have_joined_it() {
    // The future of a test is none of the workers' tasks: they run while it does.
    for _ in 0..1_000 {
        let (loader, asked) = tenfold(100);
        assert_eq!(loader.load_many(0..20).await.unwrap().len(), 20);
        assert_eq!(calls(&asked), [(0..20).collect::<Vec<_>>()]);
    }
}

#[tokio::test]
async fn keys_may_come_from_an_iterator_that_loads() {
    let (loader, asked) = tenfold(100);
    let within = loader.clone();
    let keys = (0..3).inspect(|key| assert!(within.load(key + 100).now_or_never().is_none()));
    assert_eq!(loader.load_many(keys).await.unwrap().len(), 3);
    assert_eq!(calls(&asked), [[0, 1, 2]]);
}

#[tokio::test]
async fn thousands_of_loads_of_one_task_are_polled_a_few_times_each() {
    const LOADS: u32 = 5_000;
    let (loader, asked) = tenfold(usize::MAX);
    let polls = AtomicUsize::new(0);
    let loads = join_all((0..LOADS).map(|key| {
        let mut load = Box::pin(loader.load(key));
        let polls = &polls;
        poll_fn(move |cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            load.poll_unpin(cx)
        })
    }));
    let values: Vec<_> = loads.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(values, (0..LOADS).map(|key| Some(key * 10)).collect::<Vec<_>>());
    assert_eq!(calls(&asked).len(), 1);
    let polls = polls.into_inner();
    assert!(polls <= 3 * LOADS as usize, "{polls} polls of {LOADS} loads");
}

//! Loads that come together, as those who wait for them see it.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod abandoned;
mod many;
mod memoized;
mod panics;
mod random;
mod runtimes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use tidewire_loader::Loader;
use tokio::sync::{Notify, Semaphore};

type Keys = Arc<Mutex<Vec<Vec<u32>>>>;

/// A loader that gives ten times the key, and the keys of each call.
fn tenfold(keys_max: usize) -> (Loader<u32, u32, String>, Keys) {
    let asked = Keys::default();
    let log = Arc::clone(&asked);
    let loader = Loader::new(keys_max, move |keys: Vec<u32>| {
        log.lock().unwrap().push(keys.clone());
        async move { Ok(keys.into_iter().map(|key| (key, key * 10))) }
    });
    (loader, asked)
}

fn calls(asked: &Keys) -> Vec<Vec<u32>> {
    std::mem::take(&mut *asked.lock().unwrap())
}

#[tokio::test]
async fn loads_of_one_turn_are_one_call_with_each_key_once() {
    let (loader, asked) = tenfold(100);
    let (a, b, again, c) =
        tokio::join!(loader.load(3), loader.load(1), loader.load(3), loader.load(2));
    assert_eq!([a, b, again, c], [30, 10, 30, 20].map(|value| Ok(Some(value))));
    assert_eq!(calls(&asked), [[3, 1, 2]]);
    assert_eq!(loader.load(3).await, Ok(Some(30)));
    assert_eq!(calls(&asked), [[3]], "nothing is kept");
}

#[tokio::test]
async fn tasks_that_are_ready_in_one_turn_share_a_call() {
    let (loader, asked) = tenfold(100);
    let tasks: Vec<_> = (0..10)
        .map(|key| {
            let loader = loader.clone();
            tokio::spawn(async move { loader.load(key).await })
        })
        .collect();
    for (key, task) in (0..10).zip(tasks) {
        assert_eq!(task.await.unwrap(), Ok(Some(key * 10)));
    }
    assert_eq!(calls(&asked), [(0..10).collect::<Vec<_>>()]);
}

#[tokio::test]
async fn more_keys_than_fit_are_several_calls() {
    let (loader, asked) = tenfold(3);
    let values = loader.load_many(0..8).await.unwrap();
    assert_eq!(values, (0..8).map(|key| (key, key * 10)).collect::<HashMap<_, _>>());
    assert_eq!(calls(&asked), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
    let (one_by_one, asked) = tenfold(0);
    assert_eq!(one_by_one.load_many([1, 2]).await.unwrap().len(), 2);
    assert_eq!(calls(&asked), [[1], [2]]);
}

#[tokio::test]
async fn a_key_has_its_value_or_none_or_its_error() {
    let loader = Loader::with_errors(10, async |keys: Vec<u32>| match keys.contains(&9) {
        true => Err("no database".to_owned()),
        false => Ok(vec![(1, Ok("one")), (2, Err("two is locked".to_owned())), (7, Ok("unasked"))]),
    });
    let (one, two, three) = tokio::join!(loader.load(1), loader.load(2), loader.load(3));
    assert_eq!((one, two, three), (Ok(Some("one")), Err("two is locked".into()), Ok(None)));
    assert_eq!(loader.load_many([1, 3]).await.unwrap(), HashMap::from([(1, "one")]));
    assert_eq!(loader.load_many([1, 2]).await.unwrap_err(), "two is locked");
    let (one, nine) = tokio::join!(loader.load(1), loader.load(9));
    assert_eq!((one, nine), (Err("no database".into()), Err("no database".into())));
    assert!(loader.load_many([]).await.unwrap().is_empty());
}

/// A loader whose calls say when they begin and wait until they may go on.
fn gated(batches_max: usize) -> (Loader<u32, u32, String>, Keys, Arc<Semaphore>, Arc<Notify>) {
    let (asked, may, begun) =
        (Keys::default(), Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let (log, gate, begins) = (Arc::clone(&asked), Arc::clone(&may), Arc::clone(&begun));
    let loader = Loader::new(3, move |keys: Vec<u32>| {
        log.lock().unwrap().push(keys.clone());
        begins.notify_one();
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(keys.into_iter().map(|key| (key, key)))
        }
    });
    (loader.batches_max(batches_max), asked, may, begun)
}

#[tokio::test]
async fn loads_gather_while_as_many_calls_as_may_be_are_under_way() {
    let (loader, asked, may, begun) = gated(1);
    let mut first = Box::pin(loader.load(0));
    assert!(first.as_mut().now_or_never().is_none());
    begun.notified().await;
    let later = tokio::spawn({
        let loader = loader.clone();
        async move { loader.load_many(1..6).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(calls(&asked), [[0]], "the others wait");
    may.add_permits(3);
    assert_eq!(first.await, Ok(Some(0)));
    assert_eq!(later.await.unwrap().unwrap().len(), 5);
    assert_eq!(calls(&asked), [vec![1, 2, 3], vec![4, 5]]);
}

#[tokio::test]
async fn a_load_joins_no_call_that_has_begun() {
    let (loader, asked, may, begun) = gated(2);
    let mut before = Box::pin(loader.load(1));
    assert!(before.as_mut().now_or_never().is_none());
    begun.notified().await;
    let mut after = Box::pin(loader.load(1));
    assert!(after.as_mut().now_or_never().is_none());
    begun.notified().await;
    assert_eq!(calls(&asked), [[1], [1]]);
    may.add_permits(2);
    assert_eq!((before.await, after.await), (Ok(Some(1)), Ok(Some(1))));
}

#[tokio::test]
async fn a_key_that_nobody_waits_for_is_not_asked_for() {
    let (loader, asked) = tenfold(100);
    let mut gone = Box::pin(loader.load(1));
    assert!(gone.as_mut().now_or_never().is_none());
    drop(gone);
    assert_eq!(loader.load(2).await, Ok(Some(20)));
    assert_eq!(calls(&asked), [[2]]);
    let mut gone = Box::pin(loader.load(1));
    assert!(gone.as_mut().now_or_never().is_none());
    drop(gone);
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(calls(&asked), [[0; 0]; 0]);
}

/// Tells when it is dropped.
struct Told(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn a_call_is_dropped_once_nobody_waits_for_any_of_its_keys() {
    let (told, dropped) = tokio::sync::oneshot::channel();
    let (told, begun) = (Mutex::new(Some(Told(Some(told)))), Arc::new(Notify::new()));
    let begins = Arc::clone(&begun);
    let loader: Loader<u32, u32, String> = Loader::new(10, move |_| {
        begins.notify_one();
        let told = told.lock().unwrap().take();
        async move {
            std::future::pending::<()>().await;
            drop(told);
            Ok([])
        }
    });
    let (mut one, mut two) = (Box::pin(loader.load(1)), Box::pin(loader.load(2)));
    assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
    begun.notified().await;
    drop(one);
    tokio::task::yield_now().await;
    assert!(two.as_mut().now_or_never().is_none(), "it goes on for the other");
    drop(two);
    dropped.await.unwrap();
}

#[tokio::test]
async fn a_panic_is_one_of_each_load_that_waits_for_it_and_of_no_other() {
    let loader: Loader<u32, u32, String> = Loader::new(10, |keys: Vec<u32>| {
        assert!(!keys.contains(&13), "thirteen");
        async move {
            assert!(!keys.contains(&14), "fourteen");
            Ok(keys.into_iter().map(|key| (key, key)))
        }
    });
    for (bad, text) in [(13, "thirteen"), (14, "fourteen")] {
        for key in [1, bad] {
            let others = loader.clone();
            let together = tokio::spawn(async move { others.load_many([1, bad]).await });
            let panic = together.await.unwrap_err().into_panic();
            let said = panic.downcast_ref::<String>().unwrap();
            assert_eq!(*said, format!("the function of a loader panicked: {text}"), "{key}");
        }
        assert_eq!(loader.load(1).await, Ok(Some(1)));
    }
}

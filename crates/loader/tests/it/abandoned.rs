//! Loads that are dropped before they have an answer leave nothing behind.

use std::sync::Arc;

use futures_util::FutureExt as _;
use tidewire_loader::Loader;

use crate::{calls, tenfold};

#[tokio::test]
async fn a_key_that_nobody_waits_for_takes_no_place_in_a_batch() {
    let (loader, asked) = tenfold(2);
    for key in 1..4 {
        assert!(loader.load(key).now_or_never().is_none());
    }
    let (four, five) = tokio::join!(loader.load(4), loader.load(5));
    assert_eq!((four, five), (Ok(Some(40)), Ok(Some(50))));
    assert_eq!(calls(&asked), [[4, 5]]);
}

/// A loader of one call at a time that never ends, and a load that it is busy with.
fn stuck(keys_max: usize) -> Loader<Arc<u32>, u32, String> {
    Loader::new(keys_max, |_| async {
        std::future::pending::<()>().await;
        Ok([])
    })
    .batches_max(1)
}

#[tokio::test]
async fn what_callers_gave_up_while_the_database_hangs_does_not_add_up() {
    for keys_max in [10, usize::MAX] {
        let loader = stuck(keys_max);
        let mut busy = Box::pin(loader.load(Arc::new(0)));
        assert!(busy.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        let keys: Vec<_> = (1..1_000).map(Arc::new).collect();
        for key in &keys {
            assert!(loader.load(Arc::clone(key)).now_or_never().is_none());
        }
        let held = keys.iter().filter(|key| Arc::strong_count(key) > 1).count();
        assert!(held <= 64, "{held} of {} keys are held, {keys_max} a batch", keys.len());
        assert!(busy.as_mut().now_or_never().is_none());
    }
}

#[tokio::test]
async fn a_full_batch_that_is_given_up_does_not_wait_for_its_turn() {
    let loader = stuck(10);
    let mut busy = Box::pin(loader.load(Arc::new(0)));
    assert!(busy.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    let keys: Vec<_> = (1..95).map(Arc::new).collect();
    let mut loads = Box::pin(loader.load_many(keys.clone()));
    assert!(loads.as_mut().now_or_never().is_none());
    drop(loads);
    tokio::task::yield_now().await;
    assert!(keys.iter().all(|key| Arc::strong_count(key) == 1));
    assert!(busy.as_mut().now_or_never().is_none());
}

//! A loader that several runtimes use, some of which end or stand still.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Runtime};

use crate::{calls, tenfold};

/// A runtime whose clock is virtual: what can never be ready is late at once.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn in_time<T>(runtime: &Runtime, load: impl Future<Output = T>) -> T {
    let load =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), load).await });
    load.expect("a load hangs")
}

#[test]
fn a_loader_outlives_a_runtime_that_ends_before_a_batch_began() {
    let (loader, asked) = tenfold(10);
    let first = runtime();
    first.block_on(async {
        assert!(loader.load(1).now_or_never().is_none());
    });
    drop(first);
    assert_eq!(in_time(&runtime(), loader.load(2)), Ok(Some(20)));
    assert_eq!(calls(&asked), [[2]]);
}

#[test]
fn a_runtime_that_stands_still_holds_up_no_other() {
    let (loader, asked) = tenfold(10);
    let still = runtime();
    let mut waiting = Box::pin(loader.load(1));
    still.block_on(async { assert!(waiting.as_mut().now_or_never().is_none()) });
    assert_eq!(in_time(&runtime(), loader.load(2)), Ok(Some(20)));
    assert_eq!(in_time(&still, waiting), Ok(Some(10)));
    assert_eq!(calls(&asked), [[2], [1]]);
}

#[test]
fn a_load_whose_runtime_has_ended_panics() {
    let (loader, _) = tenfold(10);
    let first = runtime();
    let mut load = Box::pin(loader.load(1));
    first.block_on(async { assert!(load.as_mut().now_or_never().is_none()) });
    drop(first);
    let panic = catch_unwind(AssertUnwindSafe(|| load.now_or_never())).unwrap_err();
    let said = panic.downcast_ref::<&str>().unwrap();
    assert!(said.starts_with("the runtime in which a loader was used has ended"), "{said}");
}

#[test]
fn a_load_outside_of_a_runtime_panics_and_harms_no_other() {
    let (loader, _) = tenfold(10);
    catch_unwind(AssertUnwindSafe(|| loader.load(1).now_or_never())).unwrap_err();
    assert_eq!(in_time(&runtime(), loader.load(2)), Ok(Some(20)));
}

//! Whether a process that runs is well, where its program names a path that says so.
//!
//! | it | is asked |
//! |---|---|
//! | has as many calls as it may have at once | later: it may have nobody left to answer |
//! | is frozen, or ends | not at all |
//! | otherwise | each `health_interval`, on another connection |
//!
//! It is not well after [`FAILURES_MAX`] failures in a row. It serves until another takes over.

use std::sync::atomic::Ordering;

use http::Uri;
use tidewire_proxy::ask;

use crate::instance::Instance;

/// Waits until an instance is not well, if it has a path for that; returns what it was answered
/// last. `can_be_asked` says whether it runs and has somebody left to answer.
pub(crate) async fn fails(instance: &Instance, can_be_asked: impl Fn() -> bool) -> String {
    let generation = &instance.generation;
    let path = generation.program.health_path().and_then(|path| path.parse::<Uri>().ok());
    let asked = path.zip(instance.other_client());
    let Some((path, client)) = asked else { return std::future::pending().await };
    let mut failures = 0;
    loop {
        tokio::time::sleep(generation.life.health_interval).await;
        if !can_be_asked() {
            continue;
        }
        let answer = ask(&client, &path).await;
        instance.health_checks.fetch_add(1, Ordering::Relaxed);
        match answer {
            Ok(()) => failures = 0,
            // It was frozen meanwhile.
            Err(_) if !can_be_asked() => {}
            Err(told) => {
                failures += 1;
                if failures == FAILURES_MAX {
                    return format!("GET {path} {told}");
                }
            }
        }
    }
}

const FAILURES_MAX: u32 = 3;

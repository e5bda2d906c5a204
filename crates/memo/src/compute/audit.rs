//! `verify`: re-executing a share of the hits, to find functions that read what no source covers.
//!
//! A sampled hit is served at once. Its function runs once more beside it, on behalf of nobody, and the
//! results are compared. When they differ although the value in memory is still the same and still
//! current, the function depends on something undeclared (or is not a function); that is reported.
//!
//! There is no runtime here to run it: the hit that was sampled polls it once, and one that must wait is
//! polled again by later sampled hits and by [`Graph::advance`], once it was woken.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::compute::cached_value::CachedValue;
use crate::compute::capture::FrameGuard;
use crate::compute::inner::{Inner, Node};
use crate::graph::ambient::Ambient;
use crate::graph::audits::{self, AuditGuard};
use crate::graph::event::Mismatch;
use crate::graph::{Graph, Shared};
use crate::memory::line::pin;
use crate::memory::sync;
use crate::memory::wake::quietly;
use crate::store::key::{self, Key};

impl Graph {
    /// Sets who is told when `Memo::verify` finds a mismatch. Without it mismatches are only counted.
    pub fn on_mismatch(&self, report: impl Fn(&Mismatch) + Send + Sync + 'static) {
        let old = self.shared.on_mismatch.lock().replace(Arc::new(report));
        drop(old);
    }
}

/// Has a hit audited when its turn has come; [`Audits::poll`](crate::graph::audits::Audits::poll) begins.
pub(crate) fn sample<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    value: &CachedValue<V>,
) {
    let turn = TURN.with(|turn| {
        turn.set(turn.get().wrapping_add(STEP));
        turn.get()
    });
    let due = u64::from(turn) < memo.options.audit_share() && !audits::is_polled();
    let Some(equal) = memo.equal.filter(|_| due) else { return };
    quietly(|| {
        let audit = beside(audit(memo, key.clone(), value.clone(), equal));
        memo.shared().audits.add(Box::pin(Ambient::current().scope(audit)));
    });
}

/// Keeps an audit to itself, from its call of the function to its report: the computation that happens to
/// poll it has read nothing of what it looks at.
async fn beside(audit: impl Future<Output = ()>) {
    let mut audit = pin!(audit);
    let polled = poll_fn(|context| {
        let _auditing = AuditGuard::new();
        let _hidden = FrameGuard::new(None);
        audit.as_mut().poll(context)
    });
    polled.await;
}

async fn audit<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: K,
    value: CachedValue<V>,
    equal: fn(&V, &V) -> bool,
) {
    let before = last_verified(memo, &key);
    let mut running = None;
    // A panic is a result that differs.
    let same = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if running.is_none() {
                running = memo.call(key.clone());
            }
            let Some(running) = running.as_mut() else { return Poll::Ready(true) };
            let again = std::task::ready!(running.poll(context));
            Poll::Ready(again.is_ok_and(|again| equal(&again, &value)))
        }));
        polled.unwrap_or_else(|payload| {
            quietly(|| drop(payload));
            Poll::Ready(false)
        })
    });
    let same = same.await;
    memo.shared().core.lock().stats.audited += 1;
    if !same && is_still(memo, &key, &value) && last_verified(memo, &key) == before {
        report(memo, &key);
    }
}

/// When the value in memory was last made or verified, which it is again after a change that it outlives.
fn last_verified<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
) -> Option<u64> {
    let _pin = pin();
    let node = memo.find(memo.hash(key), key)?;
    let _core = memo.shared().core.lock();
    Some(node.header.verified.get())
}

/// Whether the value in memory is current and the same one that was served, no write or change goes on, and it
/// is made of nothing external, which may change without saying so.
fn is_still<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    value: &CachedValue<V>,
) -> bool {
    let _pin = pin();
    let bounds_external = memo.shared().core.lock().expiry.bounds_external();
    let is_external = |node: &Node<K, V>| bounds_external && node.header.is_external();
    // While somebody writes, what is loaded may be newer than what is announced.
    !memo.shared().has_writes()
        && !memo.shared().is_announcing()
        && memo.cached(key).is_some_and(|now| now.version() == value.version())
        && !memo.find(memo.hash(key), key).is_some_and(is_external)
}

fn report<K: Key, V: Send + Sync + 'static>(memo: &'static Inner<K, V>, key: &K) {
    let shared = memo.shared();
    let mismatch = Mismatch {
        memo: memo.name().to_owned(),
        key: key::text(key),
        dependencies: dependencies(memo, key, shared),
    };
    shared.core.lock().stats.mismatched += 1;
    let on_mismatch = shared.on_mismatch.lock().clone();
    if let Some(on_mismatch) = on_mismatch {
        on_mismatch(&mismatch);
    }
}

fn dependencies<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    shared: &Shared,
) -> Vec<String> {
    let _pin = pin();
    let Some(node) = memo.find(memo.hash(key), key) else { return Vec::new() };
    let nodes: Vec<_> = {
        let core = shared.core.lock();
        let ids = node.header.dependencies(&core.slots).iter();
        let nodes = ids.filter_map(|id| core.node(id));
        nodes.map(|node| (core.owner(node), core.whole(node))).collect()
    };
    let name = |(owner, node): (&crate::graph::owner::Owner, *const crate::store::node::Header)| {
        // SAFETY: a whole node of this owner, alive because of the pin.
        format!("{}({})", owner.name, unsafe { (owner.functions.label)(node) })
    };
    nodes.into_iter().map(name).collect()
}

/// From one turn to the next: 2^32 by the golden ratio. So the turns of each memo are spread evenly
/// over the numbers, also when several are asked in turn.
const STEP: u32 = 0x9E37_79B9;
/// Before the first turn.
const FIRST: u32 = STEP / 2;

sync::thread_local! {
    static TURN: Cell<u32> = const { Cell::new(FIRST) };
}

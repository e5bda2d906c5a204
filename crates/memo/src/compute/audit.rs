//! `verify`: re-executing a share of the hits, to find functions that read what no source covers.
//!
//! A sampled hit runs the function once more, beside the graph, and compares. When the result differs
//! although the value in memory is still the same and still current, the function depends on something
//! undeclared (or is not a function); that is reported and the hit is served as it was.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use crate::compute::cached::Cached;
use crate::compute::inner::{Inner, Running};
use crate::graph::event::Mismatch;
use crate::graph::{Graph, Shared};
use crate::memory::line::pin;
use crate::store::error::Error;
use crate::store::key::Key;

use crate::memory::sync;

/// The rest of an audited hit.
pub(crate) type Audit<V> = Pin<Box<dyn Future<Output = Result<Cached<V>, Error>> + Send>>;

impl Graph {
    /// Sets who is told when `Memo::verify` finds a mismatch. Without it mismatches are only counted.
    pub fn on_mismatch(&self, report: impl Fn(&Mismatch) + Send + Sync + 'static) {
        *self.shared.on_mismatch.lock() = Some(Arc::new(report));
    }
}

/// Serves a hit, or audits it when its turn has come.
pub(crate) fn sample<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    value: Cached<V>,
) -> Result<Cached<V>, Audit<V>> {
    let one_in = memo.options.audit_one_in();
    let turn = TURN.with(|turn| {
        turn.set(turn.get().wrapping_add(1));
        turn.get()
    });
    let due = one_in != 0 && turn.is_multiple_of(one_in) && !AUDITING.with(Cell::get);
    match memo.equal {
        Some(equal) if due => Err(Box::pin(audit(memo, key.clone(), value, equal))),
        _ => Ok(value),
    }
}

async fn audit<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: K,
    value: Cached<V>,
    equal: fn(&V, &V) -> bool,
) -> Result<Cached<V>, Error> {
    let Some(mut running) = start(memo, key.clone()) else { return Ok(value) };
    let again = poll_fn(|context| {
        let _auditing = Auditing::new();
        running.poll(context)
    });
    let again = again.await;
    memo.shared().core.lock().stats.audited += 1;
    let same = again.is_ok_and(|again| equal(&again, &value));
    if !same && is_still(memo, &key, &value) {
        report(memo, &key);
    }
    Ok(value)
}

/// Runs the function with whatever frame is current: what it reads, the hit depends on anyway.
fn start<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: K,
) -> Option<Running<V>> {
    let _pin = pin();
    let function = memo.function.load(Acquire);
    // SAFETY: retired when it is replaced by null, and the pin holds.
    (!function.is_null()).then(|| unsafe { (*function)(key) })
}

/// Whether the value in memory is current and the same one that was served.
fn is_still<K: Key, V: Send + Sync + 'static>(
    memo: &'static Inner<K, V>,
    key: &K,
    value: &Cached<V>,
) -> bool {
    memo.cached(key).is_some_and(|now| now.version() == value.version())
}

fn report<K: Key, V: Send + Sync + 'static>(memo: &'static Inner<K, V>, key: &K) {
    let shared = memo.shared();
    let mismatch = Mismatch {
        memo: memo.name().to_owned(),
        key: format!("{key:?}"),
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

/// Hits inside of an audit are not audited: a diamond of memos would multiply them.
struct Auditing {
    before: bool,
}

impl Auditing {
    fn new() -> Self {
        Self { before: AUDITING.with(|auditing| auditing.replace(true)) }
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        AUDITING.with(|auditing| auditing.set(self.before));
    }
}

sync::thread_local! {
    static AUDITING: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<u32> = const { Cell::new(0) };
}

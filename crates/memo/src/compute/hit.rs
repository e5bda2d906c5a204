//! Hits: a value that is in memory and current is found by one search without a lock.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::hash::Hash;

use crate::compute::cached_value::CachedValue;
use crate::compute::capture::{self, Unread};
use crate::compute::inner::{Inner, Node};
use crate::memory::line::{self, Line, ShortPin, pin};
use crate::store::key::Key;
use crate::store::slots::Id;
use crate::store::value::Head;

impl<K: Key, V: Send + Sync + 'static> Inner<K, V> {
    /// The lock-free path: no read-modify-write, no allocation, one relaxed bit at the first visit.
    ///
    /// `serve` is called pinned, with a current value and the line of this thread.
    #[inline(always)]
    pub(crate) fn hit<Q, R>(
        &'static self,
        key: &Q,
        serve: impl FnOnce(*const Head, &Line) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some((_pin, head, line)) = self.find_hot(key) {
            return Some(serve(head, line));
        }
        self.hit_slow(key, serve)
    }

    /// What nearly every hit finds. The pin keeps it.
    #[inline(always)]
    fn find_hot<Q>(&'static self, key: &Q) -> Option<(ShortPin, *const Head, &'static Line)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if cfg!(shuttle) {
            return None;
        }
        // SAFETY: the line of this thread, used only while it runs.
        let line = unsafe { &*line::mine() };
        let pin = line.try_pin()?;
        let node = self.table.find_first(self.hash(key))?;
        if node.key.borrow() != key {
            return None;
        }
        Some((pin, node.header.hot()?, line))
    }

    /// The value of `key` if it can be served the short way.
    #[inline(always)]
    pub(crate) fn hot<Q>(&'static self, key: &Q) -> Option<CachedValue<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (_pin, head, line) = self.find_hot(key)?;
        // SAFETY: pinned, the head of a value.
        Some(unsafe { CachedValue::pinned(head, line) })
    }

    /// The value of a node if it is current, the long way. Pinned.
    pub(crate) fn long_hit(&'static self, node: &Node<K, V>) -> Option<CachedValue<V>> {
        let head = self.visit(node)?;
        // SAFETY: pinned, the head of a value; the line of this thread, which is running.
        Some(unsafe { CachedValue::pinned(head, &*line::mine()) })
    }

    /// The value of `key` if it is in memory and current.
    #[inline(always)]
    pub(crate) fn cached<Q>(&'static self, key: &Q) -> Option<CachedValue<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: `hit` calls it pinned, with the head of a value.
        self.hit(key, |head, line| unsafe { CachedValue::pinned(head, line) })
    }

    /// The same, of which an absence is not noted.
    pub(crate) fn peek<Q>(&'static self, key: &Q) -> Option<CachedValue<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _pin = pin();
        let unread = capture::current().map(Unread);
        let found = self.find(self.hash(key), key);
        std::mem::forget(unread);
        self.long_hit(found?)
    }

    /// The same where something is unusual: a computation reads, the key is not where the search begins,
    /// nobody has asked for it yet, or somebody wants to hear of hits.
    #[inline(never)]
    fn hit_slow<Q, R>(
        &'static self,
        key: &Q,
        serve: impl FnOnce(*const Head, &Line) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _pin = pin();
        let unread = capture::current().map(Unread);
        let hash = self.hash(key);
        let found = self.find(hash, key);
        std::mem::forget(unread);
        let Some(head) = found.and_then(|node| self.visit(node)) else {
            if let Some(frame) = capture::current() {
                frame.misses((self.owner.number, hash));
            }
            return None;
        };
        // SAFETY: the line of this thread, which is running.
        Some(serve(head, unsafe { &*line::mine() }))
    }

    /// A current value, with everything that a read of it entails. Pinned.
    fn visit(&'static self, node: &Node<K, V>) -> Option<*const Head> {
        let head = node.header.visited_hot()?;
        if let Some(frame) = capture::current() {
            // SAFETY: a value is retired after it was replaced, and the pin holds.
            frame.record(self.owner.graph, node.header.id, unsafe { &*head }.version());
        }
        if self.owner.is_probed() {
            self.note_hit(node.header.id);
        }
        Some(head)
    }

    #[cold]
    fn note_hit(&self, id: Id) {
        let mut core = self.shared().core.lock();
        if let Some(node) = core.node(id) {
            core.note_hit(node);
        }
    }
}

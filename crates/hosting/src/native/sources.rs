//! What answers of hosted processes are made of: sources of the graph, by their names as text.
//!
//! | a process names | that is |
//! |---|---|
//! | a source that the gateway shares ([`Sources::share`]) | that one: a change on either side is one for both |
//! | any other | a source of keys as text, made with its first use; others may change what it stands for unseen, so it is [external](tidewire_memo::Source::external) |
//! | a key that a shared source has no form for | what cannot be told: the answer is not kept; its change is one of all keys |
//! | a source without a key, or with an empty one | each of its keys, read or changed |
//! | nothing | what cannot be told |
//!
//! Beside what it names, an answer that is kept reads its service, which changes when a process of
//! it crashes.

use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tidewire_memo::{Graph, Source, SourceKey, read_untracked};

/// The sources that processes name.
pub struct Sources {
    graph: Graph,
    by_name: Mutex<HashMap<String, Arc<dyn TextSource>>>,
    services: Source<String>,
    /// Hears of each change that a process names.
    listener: OnceLock<Listener>,
    /// Hears of each service that another process answers for from now on.
    on_replace: OnceLock<ReplaceListener>,
    /// Makes what is held while commands are under way.
    holds: OnceLock<Box<dyn Fn() -> Hold + Send + Sync>>,
}

/// What is held while commands are under way.
pub(crate) type Hold = Box<dyn Any + Send + Sync>;

/// Is told a source and a key; an empty key is all of them.
type Listener = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Is told the name of a service.
type ReplaceListener = Box<dyn Fn(&str) + Send + Sync>;

/// A source with its keys as text.
trait TextSource: Send + Sync {
    /// Whether there is such a key.
    fn read(&self, key: &str) -> bool;
    fn read_all(&self);
    fn changed(&self, key: &str);
    fn changed_all(&self);
}

impl<K: SourceKey + Ord> TextSource for Source<K> {
    fn read(&self, key: &str) -> bool {
        let key = K::from_text(key);
        key.inspect(|key| Self::read(self, key)).is_some()
    }

    fn read_all(&self) {
        self.range(..);
    }

    fn changed(&self, key: &str) {
        match K::from_text(key) {
            Some(key) => Self::changed(self, &key),
            None => Self::changed_all(self),
        };
    }

    fn changed_all(&self) {
        Self::changed_all(self);
    }
}

/// A source that processes alone name: any text is a key.
struct ForeignSource(Source<String>);

impl TextSource for ForeignSource {
    fn read(&self, key: &str) -> bool {
        self.0.read(&key.to_owned());
        true
    }

    fn read_all(&self) {
        self.0.range(..);
    }

    fn changed(&self, key: &str) {
        self.0.changed(&key.to_owned());
    }

    fn changed_all(&self) {
        self.0.changed_all();
    }
}

impl Sources {
    /// No sources yet; those of processes are made in `graph`.
    pub fn new(graph: &Graph) -> Self {
        Self {
            graph: graph.clone(),
            by_name: Mutex::default(),
            services: Source::new_in(graph, "service"),
            listener: OnceLock::new(),
            on_replace: OnceLock::new(),
            holds: OnceLock::new(),
        }
    }

    /// Lets processes name a source of this program.
    pub fn share<K: SourceKey + Ord>(&self, source: Source<K>) {
        self.lock().insert(source.name().to_owned(), Arc::new(source));
    }

    /// Says who hears of each change that a process names, by source and key; an empty key is all
    /// keys. The first one does.
    pub fn on_change(&self, listener: impl Fn(&str, &str) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Says who hears, by its name, that a service was [replaced](crate::HostedService::replace),
    /// once calls go to the new one: what was asked before may be of the old one. The first one
    /// does.
    pub fn on_replace(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.on_replace.set(Box::new(listener));
    }

    /// Says what is held while a command of a process is under way, whoever waits for it. The first
    /// one is.
    pub fn hold_commands(
        &self,
        hold: impl Fn() -> Box<dyn Any + Send + Sync> + Send + Sync + 'static,
    ) {
        let _ = self.holds.set(Box::new(hold));
    }

    /// What is held while a command is under way.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.holds.get().map(|hold| hold())
    }

    /// Another host says that a source changed, which no listener hears of; no key is each of them.
    pub fn changed_elsewhere(&self, source: &str, key: Option<&str>) {
        let known = self.lock().get(source).cloned();
        match (known, key.filter(|key| !key.is_empty())) {
            (Some(known), Some(key)) => known.changed(key),
            (Some(known), None) => known.changed_all(),
            (None, _) => {}
        }
    }

    /// What other hosts said may have been missed: every source may have changed.
    pub fn all_changed_elsewhere(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.iter().for_each(|source| source.changed_all());
    }

    /// The running computation depends on what a process named.
    pub(crate) fn read(&self, source: &str, key: &str) {
        if key.is_empty() {
            return self.read_all(source);
        }
        if !self.named(source).is_some_and(|named| named.read(key)) {
            tracing::debug!(source, key, "the dependencies of a reply are unknown");
            read_untracked();
        }
    }

    /// The running computation depends on each key of a source.
    pub(crate) fn read_all(&self, source: &str) {
        match self.named(source) {
            Some(named) => named.read_all(),
            None => read_untracked(),
        }
    }

    /// The running computation depends on a service.
    pub(crate) fn read_service(&self, name: &str) {
        self.services.read(&name.to_owned());
    }

    /// A process says that a source changed.
    pub(crate) fn changed(&self, source: &str, key: &str) {
        if key.is_empty() {
            return self.changed_all(source);
        }
        if let Some(named) = self.named(source) {
            named.changed(key);
        }
        self.notify(source, key);
    }

    /// All keys of a source may have changed.
    pub(crate) fn changed_all(&self, source: &str) {
        if let Some(named) = self.named(source) {
            named.changed_all();
        }
        self.notify(source, "");
    }

    fn notify(&self, source: &str, key: &str) {
        if let Some(listener) = self.listener.get() {
            listener(source, key);
        }
    }

    /// What a service answered from its memory is lost.
    pub(crate) fn service_changed(&self, name: &str) {
        self.services.changed(&name.to_owned());
    }

    /// Another program, or the same anew, answers for a service from now on.
    pub(crate) fn service_replaced(&self, name: &str) {
        self.service_changed(name);
        if let Some(listener) = self.on_replace.get() {
            listener(name);
        }
    }

    /// The source of a name; `None` when there are too many to make another.
    fn named(&self, name: &str) -> Option<Arc<dyn TextSource>> {
        let mut by_name = self.lock();
        if let Some(known) = by_name.get(name) {
            return Some(Arc::clone(known));
        }
        if by_name.len() >= NAMES_MAX {
            return None;
        }
        let made = Arc::new(ForeignSource(Source::new_in(&self.graph, name).external()));
        by_name.insert(name.to_owned(), made.clone());
        Some(made)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn TextSource>>> {
        self.by_name.lock()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().keys()).finish()
    }
}

/// How many names processes may make sources of: a source is never freed.
pub(crate) const NAMES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidewire_memo::Memo;

    use super::*;

    #[tokio::test]
    async fn a_source_without_a_key_is_all_of_its_keys() {
        for (is_shared, read, changed) in
            [true, false].into_iter().flat_map(|it| [(it, "", "7"), (it, "7", ""), (it, "", "")])
        {
            let graph = Graph::new();
            let sources = Arc::new(Sources::new(&graph));
            if is_shared {
                sources.share(Source::<u64>::new_in(&graph, "items"));
            }
            let (made, reads) = (AtomicUsize::new(0), Arc::clone(&sources));
            let memo = Memo::infallible_in(&graph, "list", move |(): ()| {
                reads.read("items", read);
                let made = made.fetch_add(1, Ordering::Relaxed) + 1;
                async move { made }
            });
            assert_eq!((*memo.get(()).await.unwrap(), *memo.get(()).await.unwrap()), (1, 1));
            sources.changed("items", changed);
            assert_eq!((*memo.get(()).await.unwrap(), *memo.get(()).await.unwrap()), (2, 2));
        }
    }

    #[tokio::test]
    async fn what_another_host_says_is_marked_and_not_said_on() {
        let graph = Graph::new();
        let sources = Arc::new(Sources::new(&graph));
        let reads = Arc::clone(&sources);
        let memo = Memo::infallible_in(&graph, "item", move |id: u32| {
            reads.read("items", &id.to_string());
            async move { id }
        });
        let said = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&said);
        sources.on_change(move |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
        let changes: [(&dyn Fn(), &[u32]); 5] = [
            (&|| sources.changed_elsewhere("items", Some("1")), &[2]),
            (&|| sources.changed_elsewhere("items", None), &[]),
            (&|| sources.changed_elsewhere("items", Some("")), &[]),
            (&|| sources.changed_elsewhere("others", Some("1")), &[1, 2]),
            (&|| sources.all_changed_elsewhere(), &[]),
        ];
        for (change, kept) in changes {
            memo.get(1).await.unwrap();
            memo.get(2).await.unwrap();
            change();
            let fresh: Vec<_> = [1, 2].into_iter().filter(|id| memo.cached(id).is_some()).collect();
            assert_eq!(fresh, kept);
        }
        assert_eq!(said.load(Ordering::Relaxed), 0);
        sources.changed("items", "1");
        assert_eq!(said.load(Ordering::Relaxed), 1);
    }
}

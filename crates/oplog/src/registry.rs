//! Names to typed sources: the log knows text, the memo graph knows types.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tidewire_memo::{Batch, Source, SourceKey, Suspension};

use crate::change::{Change, HeardChange};

/// The sources that the log may name.
#[derive(Default)]
pub(crate) struct Registry {
    sources: BTreeMap<String, RegisteredSource>,
    /// Hears of each change that was read from the log.
    listener: OnceLock<Listener>,
}

pub(crate) type Listener = Box<dyn Fn(HeardChange<'_>) + Send + Sync>;

/// A source, and where its changes come from.
pub(crate) struct RegisteredSource {
    pub(crate) target: Box<dyn Target>,
    /// The tables whose triggers name it.
    pub(crate) tables: Vec<String>,
}

/// The counters of changes of all sources at one moment.
#[derive(Debug)]
pub(crate) struct Ticks(BTreeMap<String, u64>);

/// A source without its type.
pub(crate) trait Target: Send + Sync {
    /// Adds a change of the key with this text; `false` if no key of this source has it.
    fn add(&self, batch: &mut Batch, key: &str) -> bool;
    /// Adds a change of every key.
    fn add_all(&self, batch: &mut Batch);
    /// See [`Source::tick`].
    fn tick(&self) -> u64;
    /// See [`Source::changed_since`].
    fn changed_since(&self, key: &str, tick: u64) -> bool;
    /// See [`Source::suspend`].
    fn suspend(&self) -> Suspension;
}

impl<K: SourceKey> Target for Source<K> {
    fn add(&self, batch: &mut Batch, key: &str) -> bool {
        let key = K::from_text(key);
        if let Some(key) = &key {
            batch.changed(self, key);
        }
        key.is_some()
    }

    fn add_all(&self, batch: &mut Batch) {
        batch.changed_all(self);
    }

    fn tick(&self) -> u64 {
        Self::tick(self)
    }

    fn changed_since(&self, key: &str, tick: u64) -> bool {
        K::from_text(key).is_some_and(|key| Self::changed_since(self, &key, tick))
    }

    fn suspend(&self) -> Suspension {
        Self::suspend(self)
    }
}

impl Registry {
    /// Registers a source once; a table is added to those that feed it.
    pub(crate) fn add<K: SourceKey>(&mut self, source: &Source<K>, table: Option<&str>) {
        let known = self
            .sources
            .entry(source.name().to_owned())
            .or_insert_with(|| RegisteredSource { target: Box::new(*source), tables: Vec::new() });
        known.tables.extend(table.map(str::to_owned));
    }

    /// Says who hears of changes; the first one does.
    pub(crate) fn on_change(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// Who hears of changes.
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.listener.get()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&RegisteredSource> {
        self.sources.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RegisteredSource)> {
        self.sources.iter().map(|(name, registered)| (name.as_str(), registered))
    }

    /// Where the counter of changes of each source is.
    pub(crate) fn ticks(&self) -> Ticks {
        Ticks(self.iter().map(|(name, known)| (name.to_owned(), known.target.tick())).collect())
    }

    /// Leaves the keys that were not announced since then.
    pub(crate) fn unannounced(&self, change: &mut Change, since: &Ticks) {
        let known = self.find(&change.source).zip(since.0.get(&change.source));
        if let (Some((registered, &tick)), Some(keys)) = (known, &mut change.keys) {
            keys.retain(|key| !registered.target.changed_since(key, tick));
        }
    }

    /// Suspends every source.
    pub(crate) fn suspend(&self) -> Vec<Suspension> {
        self.sources.values().map(|registered| registered.target.suspend()).collect()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.sources.keys()).finish()
    }
}

//! What the log carries: the name of a source, and which of its keys have changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::settings::Settings;

/// A change of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The source's name.
    pub(crate) source: String,
    /// Keys as text ([`SourceKey`](tidewire_memo::SourceKey)); `None` for every key.
    pub(crate) keys: Option<Vec<String>>,
}

impl Change {
    /// More keys than a row of the log has room for are every key.
    pub(crate) fn bounded(mut self, settings: &Settings) -> Self {
        self.keys = self.keys.filter(|keys| keys.len() <= settings.keys_max as usize);
        self
    }
}

/// What a host hears from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeardChange<'a> {
    /// A key of a source changed.
    Key {
        /// The source's name.
        source: &'a str,
        /// The key as text.
        key: &'a str,
    },
    /// Every key of a source may have changed.
    Source(&'a str),
    /// Anything may have changed: rows of the log may have been missed, or the lease has ended, or
    /// is there again.
    Everything,
}

/// Changes that are applied together, without repetition. Above a number of keys it holds the names
/// of the sources alone, so that memory stays bounded whatever a statement changed.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    /// `None`: every key.
    sources: BTreeMap<String, Option<BTreeSet<String>>>,
    keys: usize,
}

impl ChangeSet {
    /// Adds a change.
    pub(crate) fn add(&mut self, change: Change) {
        if change.keys.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let known = self.sources.entry(change.source).or_insert_with(|| Some(BTreeSet::new()));
        match (known.as_mut(), change.keys) {
            (None, _) => {}
            (Some(set), Some(keys)) => {
                let before = set.len();
                set.extend(keys);
                self.keys += set.len() - before;
            }
            (Some(set), None) => {
                self.keys -= set.len();
                *known = None;
            }
        }
        if self.keys > KEYS_MAX {
            self.sources.values_mut().for_each(|keys| *keys = None);
            self.keys = 0;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// One change for each source.
    pub(crate) fn into_changes(self) -> impl Iterator<Item = Change> {
        self.sources.into_iter().map(|(source, keys)| Change {
            source,
            keys: keys.map(|keys| keys.into_iter().collect()),
        })
    }
}

/// More keys than this in one batch make whole sources stale.
pub(crate) const KEYS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(source: &str, keys: Option<&[&str]>) -> Change {
        let keys = keys.map(|keys| keys.iter().map(|&key| key.to_owned()).collect());
        Change { source: source.to_owned(), keys }
    }

    #[test]
    fn a_set_names_each_key_once_and_a_whole_source_covers_its_keys() {
        let mut set = ChangeSet::default();
        set.add(change("a", Some(&["1", "2"])));
        set.add(change("a", Some(&["2", "3"])));
        set.add(change("b", Some(&["1"])));
        set.add(change("b", None));
        set.add(change("b", Some(&["2"])));
        assert_eq!(set.keys, 3);
        let changes: Vec<_> = set.into_changes().collect();
        assert_eq!(changes, [change("a", Some(&["1", "2", "3"])), change("b", None)]);
    }

    #[test]
    fn too_many_keys_become_whole_sources() {
        let mut set = ChangeSet::default();
        let keys = (0..=KEYS_MAX).map(|key| key.to_string()).collect();
        set.add(Change { source: "a".to_owned(), keys: Some(keys) });
        set.add(change("b", Some(&["1"])));
        let changes: Vec<_> = set.into_changes().collect();
        assert_eq!(changes, [change("a", None), change("b", Some(&["1"]))]);
    }
}

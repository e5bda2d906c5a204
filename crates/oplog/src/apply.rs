//! A batch of changes to the memo graph, as one change: whoever reads sees all of it or none of it.

use std::collections::BTreeSet;

use tidewire_memo::{Batch, batch};

use crate::change::{ChangeSet, HeardChange};
use crate::intent::LOST;
use crate::registry::Registry;

/// What became of a batch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ApplyResult {
    /// Keys that were marked.
    pub(crate) keys: usize,
    /// Sources that were marked as a whole.
    pub(crate) whole: usize,
    /// Names that no source of this program has. It does not read them, so nothing is stale.
    pub(crate) unknown: usize,
    /// Keys that their source cannot read; it was marked as a whole.
    pub(crate) unreadable: usize,
}

/// Marks everything that depends on the changes. When this returns, no `get` that starts later is
/// given a value from before them.
pub(crate) fn apply(registry: &Registry, changes: ChangeSet) -> ApplyResult {
    let mut applied = ApplyResult::default();
    if changes.is_empty() {
        return applied;
    }
    let mut heard = Vec::new();
    let mut is_lost = false;
    batch(|batch| {
        for change in changes.into_changes() {
            if change.source == LOST {
                is_lost = true;
                applied.whole += add_published(registry, batch);
                continue;
            }
            if registry.listener().is_some() {
                heard.push((change.source.clone(), change.keys.clone()));
            }
            let Some(registered) = registry.find(&change.source) else {
                applied.unknown += 1;
                continue;
            };
            let target = &registered.target;
            let Some(keys) = change.keys else {
                target.add_all(batch);
                applied.whole += 1;
                continue;
            };
            let unreadable = keys.iter().filter(|key| !target.add(batch, key)).count();
            applied.keys += keys.len() - unreadable;
            if unreadable > 0 {
                applied.unreadable += unreadable;
                applied.whole += 1;
                target.add_all(batch);
            }
        }
    });
    if is_lost {
        tell_everything(registry);
    }
    if let Some(listener) = registry.listener() {
        for (source, keys) in &heard {
            match keys {
                Some(keys) => {
                    keys.iter().for_each(|key| listener(HeardChange::Key { source, key }));
                }
                None => listener(HeardChange::Source(source)),
            }
        }
    }
    applied
}

/// Adds each source that no table is captured for: only hosts tell of its changes.
fn add_published(registry: &Registry, batch: &mut Batch) -> usize {
    let published = registry.iter().filter(|(_, registered)| registered.tables.is_empty());
    published.map(|(_, registered)| registered.target.add_all(batch)).count()
}

/// Marks every source as a whole: what happened meanwhile is not known.
pub(crate) fn apply_all(registry: &Registry) {
    apply_sources(registry, &registry.iter().map(|(name, _)| name).collect());
    tell_everything(registry);
}

/// Tells the listener that anything may have changed.
pub(crate) fn tell_everything(registry: &Registry) {
    if let Some(listener) = registry.listener() {
        listener(HeardChange::Everything);
    }
}

/// Marks these sources as a whole.
pub(crate) fn apply_sources(registry: &Registry, sources: &BTreeSet<&str>) {
    batch(|batch| {
        for registered in sources.iter().filter_map(|name| registry.find(name)) {
            registered.target.add_all(batch);
        }
    });
    if let Some(listener) = registry.listener() {
        sources.iter().for_each(|source| listener(HeardChange::Source(source)));
    }
}

#[cfg(test)]
mod tests {
    use tidewire_memo::{Graph, Memo, Source};

    use super::*;
    use crate::change::Change;

    struct World {
        _graph: Graph,
        registry: Registry,
        memo: Memo<i32, i32>,
    }

    fn world() -> World {
        let graph = Graph::new();
        let rows = Source::<i32>::new_in(&graph, "rows");
        let mut registry = Registry::default();
        registry.add(&rows, None);
        let memo = Memo::infallible_in(&graph, "row", move |id: i32| async move {
            rows.read(&id);
            id
        });
        World { _graph: graph, registry, memo }
    }

    impl World {
        async fn warm(&self) {
            for id in 1..=3 {
                self.memo.get(id).await.unwrap();
            }
        }

        fn fresh(&self) -> Vec<i32> {
            (1..=3).filter(|id| self.memo.cached(id).is_some()).collect()
        }

        fn apply(&self, source: &str, keys: Option<&[&str]>) -> ApplyResult {
            let mut set = ChangeSet::default();
            let keys = keys.map(|keys| keys.iter().map(|&key| key.to_owned()).collect());
            set.add(Change { source: source.to_owned(), keys });
            apply(&self.registry, set)
        }
    }

    #[tokio::test]
    async fn only_what_a_change_names_becomes_stale() {
        let world = world();
        world.warm().await;
        world.apply("rows", Some(&["2"]));
        assert_eq!(world.fresh(), [1, 3]);
        world.apply("rows", None);
        assert_eq!(world.fresh(), [0; 0]);
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_read_makes_its_source_stale_and_no_other_name_does_anything() {
        let world = world();
        world.warm().await;
        assert_eq!(world.apply("others", Some(&["2"])).unknown, 1);
        assert_eq!(world.fresh(), [1, 2, 3]);
        for key in ["x", "", "1/2", "007", "99999999999", "%_", "1\u{0}"] {
            world.warm().await;
            assert_eq!(world.apply("rows", Some(&[key])).unreadable, 1);
            assert_eq!(world.fresh(), [0; 0], "{key:?}");
        }
    }
}

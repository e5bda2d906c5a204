//! Which tags the commands of each service have ever named: what they may have changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

/// The tags that the commands of each service have ever named, without what is below them: for
/// `items/7` it is `items`.
#[derive(Debug, Default)]
pub(super) struct NamedTags(Mutex<HashMap<Arc<str>, Roots>>);

#[derive(Debug, Default, Clone)]
struct Roots {
    tags: BTreeSet<String>,
    /// There are more than are kept.
    is_all: bool,
}

impl NamedTags {
    pub(super) fn add(&self, service: &Arc<str>, tag: &str) {
        let root = tag.split('/').next().unwrap_or_default();
        let mut services = self.0.lock();
        let roots = services.entry(Arc::clone(service)).or_default();
        if !roots.tags.contains(root) {
            match roots.tags.len() < ROOTS_MAX {
                true => _ = roots.tags.insert(root.to_owned()),
                false => roots.is_all = true,
            }
        }
    }

    /// What of other services a service may have changed; `None` is anything.
    pub(super) fn of(&self, service: &str) -> Option<BTreeSet<String>> {
        match self.0.lock().get(service) {
            Some(roots) if roots.is_all => None,
            Some(roots) => Some(roots.tags.clone()),
            None => Some(BTreeSet::new()),
        }
    }
}

/// How many tags are kept of a service; one that names more has named all.
const ROOTS_MAX: usize = 1000;

//! What programs and pages have to do with the change log: they depend on what it captures, and
//! what they say reaches other hosts by it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use tidewire_cache::PageChange;
use tidewire_hosting::{Host, Sources};
use tidewire_memo::Source;
use tidewire_oplog::{HeardChange, OplogHandle, TextKey};

use super::Programs;

/// The change log, as programs and pages are told of it; both may come first.
#[derive(Debug, Default)]
pub(super) struct SharedLog {
    pub(super) handle: Arc<OnceLock<OplogHandle>>,
    /// What programs name, once there is one.
    sources: Arc<OnceLock<Arc<Sources>>>,
    captured: Vec<Source<TextKey>>,
}

impl Programs {
    /// Lets pages and programs depend on what the change log captures, and tells other hosts by it
    /// what programs say that they have changed: sources, and tags of pages. Without a log nobody
    /// hears of changes, so a source of a program is one that may be old.
    pub fn share_log(
        &mut self,
        log: &OplogHandle,
        captured: impl IntoIterator<Item = Source<TextKey>>,
    ) {
        self.log.captured.extend(captured);
        let names = self.log.captured.iter().map(|source| source.name().to_owned());
        let captured: BTreeSet<String> = names.collect();
        let pages = self.pages.clone();
        let sources = Arc::clone(&self.log.sources);
        let source_changed = move |source: &str, key: Option<&str>| {
            pages.source_changed(source, key.unwrap_or_default());
            // The log has marked what it captures.
            if let Some(sources) = sources.get().filter(|_| !captured.contains(source)) {
                sources.changed_elsewhere(source, key);
            }
        };
        let pages = self.pages.clone();
        let sources = Arc::clone(&self.log.sources);
        log.on_change(move |change| match change {
            HeardChange::Key { source: PAGE_TAGS, key } => _ = pages.changed_elsewhere(key),
            HeardChange::Source(PAGE_TAGS) => _ = pages.all_changed_elsewhere(),
            HeardChange::Key { source: PAGES_OF, key } => _ = pages.clear(key),
            HeardChange::Source(PAGES_OF) => _ = pages.all_changed_elsewhere(),
            HeardChange::Key { source, key } => source_changed(source, Some(key)),
            HeardChange::Source(source) => source_changed(source, None),
            _ => {
                pages.all_changed_elsewhere();
                sources.get().inspect(|sources| sources.all_changed_elsewhere());
            }
        });
        let of_pages = log.clone();
        self.pages.on_change(move |change| match change {
            PageChange::Tag(tag) => of_pages.publish(PAGE_TAGS, Some(tag)),
            PageChange::Service(name) => of_pages.publish(PAGES_OF, Some(name)),
            _ => of_pages.publish(PAGE_TAGS, None),
        });
        let of_pages = log.clone();
        self.pages.hold_commands(move || Box::new(of_pages.hold_intent()));
        // If this host dies in a command, the others drop what the command may have changed.
        log.intend_commands();
        let _ = self.log.handle.set(log.clone());
        if let Some(host) = &self.host {
            self.log.share(host);
        }
    }
}

impl SharedLog {
    /// Lets the programs of a host name what is captured, and hear of what other hosts say.
    pub(super) fn share(&self, host: &Host) {
        if let Some(log) = self.handle.get().cloned() {
            self.captured.iter().for_each(|source| host.sources().share(*source));
            let _ = self.sources.set(Arc::clone(host.sources()));
            host.sources().hold_commands(move || Box::new(log.hold_intent()));
        }
    }
}

/// As which source tags of pages stand in the log. Programs cannot name it by accident.
const PAGE_TAGS: &str = "tidewire/page-tags";
/// As which source the pages of whole services stand there.
const PAGES_OF: &str = "tidewire/pages-of";

//! Changes of the folders of a mock, noticed and put into effect.
//!
//! The folders are looked through every 25 ms, or less often where that takes long: at most a twentieth
//! of a processor is spent on it. That works on every file system, those of containers and networks
//! among them, and when a folder goes away and comes back. A change counts once two looks in a row see
//! the same, so that a file which an editor is still writing is left alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tidewire_mock::{Finding, Mock, Reloaded};
use tidewire_schema::Diagnostic;

use super::{MockFolders, load};

const PAUSE: Duration = Duration::from_millis(25);
/// A look may take a twentieth of the time.
const SHARE: u32 = 20;

/// Follows the folders of a mock; see [`MockFolders::watch`].
#[derive(Debug)]
pub struct Watch {
    folders: MockFolders,
    mock: Mock,
    /// What answers now was made of this.
    served: Stamps,
    /// What the last look saw.
    seen: Stamps,
    /// Whether there were rules: a folder of them that goes away changes nothing, one that comes does.
    had_rules: bool,
}

/// What became of a change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change {
    /// What is answered otherwise now, and what was found in the rules.
    pub reloaded: Reloaded,
    /// What is wrong with files: what they said before stays.
    pub faults: Vec<Diagnostic>,
    /// How long it took to read and to compile.
    pub took: Duration,
}

impl Change {
    /// Everything that was found, errors and warnings.
    pub fn findings(&self) -> impl Iterator<Item = Finding> {
        let faults = self.faults.iter().cloned().map(|diagnostic| {
            let mut finding = Finding::new(diagnostic);
            finding.is_error = true;
            finding
        });
        faults.chain(self.reloaded.findings.iter().cloned())
    }
}

/// Name, size and time of each file.
type Stamps = Vec<(PathBuf, u64, Option<SystemTime>)>;

impl Watch {
    pub(super) fn new(folders: MockFolders, mock: Mock) -> Self {
        let served = stamps(&folders);
        let had_rules = folders.has_rules();
        Self { folders, mock, seen: served.clone(), served, had_rules }
    }

    /// Waits for the next change and puts it into effect.
    ///
    /// # Cancel safety
    /// Cancel safe: a change is put into effect as a whole or not at all.
    pub async fn next(&mut self) -> Change {
        let mut pause = PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let folders = self.folders.clone();
            let begun = Instant::now();
            let Ok(now) = tokio::task::spawn_blocking(move || stamps(&folders)).await else {
                continue;
            };
            pause = PAUSE.max(begun.elapsed() * SHARE);
            let is_settled = now == self.seen;
            self.seen = now;
            if is_settled && self.seen != self.served {
                self.served = self.seen.clone();
                let (folders, mock) = (self.folders.clone(), self.mock.clone());
                let had_rules = self.had_rules;
                self.had_rules |= folders.has_rules();
                let reloaded =
                    tokio::task::spawn_blocking(move || reload(&folders, &mock, had_rules));
                if let Ok(change) = reloaded.await {
                    return change;
                }
            }
        }
    }
}

/// Reads the folders again. Where no schema can be made of them, or one is gone, what answers stays.
fn reload(folders: &MockFolders, mock: &Mock, had_rules: bool) -> Change {
    let begun = Instant::now();
    let mut loaded = folders.load();
    let is_empty = loaded.schema.services().next().is_none();
    let rules_are_gone = had_rules && !loaded.has_rules;
    if rules_are_gone && let Some(rules) = &folders.rules {
        loaded.faults.extend(load::load_rules(rules).err());
    }
    let is_gone = loaded.is_gone || rules_are_gone;
    let reloaded = match is_gone || is_empty && !loaded.faults.is_empty() {
        true => Reloaded::default(),
        false => mock.reload(loaded.schema, &loaded.rules),
    };
    Change { reloaded, faults: loaded.faults, took: begun.elapsed() }
}

fn stamps(folders: &MockFolders) -> Stamps {
    let mut files = Vec::new();
    for root in [Some(&folders.protos), folders.rules.as_ref()].into_iter().flatten() {
        match root.is_dir() {
            // A folder that is gone has no files, which is a change.
            true => drop(load::walk(root, 0, &mut |path| is_watched(path), &mut files)),
            false => files.push(root.clone()),
        }
    }
    let stamp = |path: PathBuf| {
        let metadata = std::fs::metadata(&path).ok();
        let size = metadata.as_ref().map_or(u64::MAX, std::fs::Metadata::len);
        (path, size, metadata.and_then(|metadata| metadata.modified().ok()))
    };
    files.into_iter().map(stamp).collect()
}

fn is_watched(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "proto")
        || tidewire_mock::RuleFiles::is_rule_file(path)
}

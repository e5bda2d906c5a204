//! Changes of the folders of a mock, noticed and put into effect.
//!
//! The folders are looked through every 25 ms, or less often where that takes long; what a change
//! is, is in `changes.rs`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidewire_mock::{Finding, Mock, ReloadReport};
use tidewire_schema::{Diagnostic, Schema};

use super::{MockFolders, load};
use crate::changes::{Changes, Stamp};

const PAUSE: Duration = Duration::from_millis(25);

/// Follows the folders of a mock; see [`MockFolders::watch`].
#[derive(Debug)]
pub struct Watch {
    folders: MockFolders,
    mock: Mock,
    changes: Changes<Stamps>,
    /// Whether there were rules: a folder of them that goes away changes nothing, one that comes
    /// does.
    had_rules: bool,
}

/// What became of a change.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change {
    /// What is answered otherwise now, and what was found in the rules.
    pub reloaded: ReloadReport,
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

type Stamps = Vec<(PathBuf, Option<Stamp>)>;

impl Watch {
    pub(super) fn new(folders: MockFolders, mock: Mock) -> Self {
        let changes = Changes::new(stamps(&folders), PAUSE);
        let had_rules = folders.has_rules();
        Self { folders, mock, changes, had_rules }
    }

    /// Waits for the next change and puts it into effect.
    ///
    /// # Cancel safety
    /// Cancel safe: a change is put into effect as a whole or not at all.
    pub async fn next(&mut self) -> Change {
        loop {
            let folders = self.folders.clone();
            let seen = self.changes.next(move || stamps(&folders)).await;
            let has_same_protos = protos(self.changes.served()).eq(protos(&seen));
            self.changes.serve(seen);
            let folders = self.folders.clone();
            let mock = self.mock.clone();
            // Compiling them is most of what there is to do.
            let known = has_same_protos.then(|| mock.schema());
            let had_rules = self.had_rules;
            self.had_rules |= folders.has_rules();
            let reload = move || reload(&folders, &mock, had_rules, known);
            let reloaded = tokio::task::spawn_blocking(reload);
            if let Ok(change) = reloaded.await {
                return change;
            }
        }
    }
}

/// Reads the folders again. Where no schema can be made of them, or one is gone, what answers
/// stays.
pub(super) fn reload(
    folders: &MockFolders,
    mock: &Mock,
    had_rules: bool,
    known: Option<Schema>,
) -> Change {
    let begun = Instant::now();
    let _alone = folders.reloading.lock();
    let known = known.or_else(|| folders.schema.clone());
    let mut loaded = load::load(&folders.protos, folders.rules.as_deref(), known);
    let is_empty = loaded.schema.services().next().is_none();
    let rules_are_gone = had_rules && !loaded.has_rules;
    if rules_are_gone && let Some(rules) = &folders.rules {
        loaded.faults.extend(load::load_rules(rules).err());
    }
    let is_gone = loaded.is_gone || rules_are_gone;
    let reloaded = match is_gone || is_empty && !loaded.faults.is_empty() {
        true => ReloadReport::default(),
        false => mock.reload(loaded.schema, &loaded.rules),
    };
    Change { reloaded, faults: loaded.faults, took: begun.elapsed() }
}

fn stamps(folders: &MockFolders) -> Stamps {
    let mut files = Vec::new();
    let protos = folders.schema.is_none().then_some(&folders.protos);
    for root in [protos, folders.rules.as_ref()].into_iter().flatten() {
        match root.is_dir() {
            // A folder that is gone has no files, which is a change.
            true => drop(load::walk(root, 0, &mut |path| is_watched(path), &mut files)),
            false => files.push(root.clone()),
        }
    }
    files.into_iter().map(|path| (path.clone(), Stamp::of(&path))).collect()
}

/// Those of `.proto` files, or of a descriptor set.
fn protos(stamps: &Stamps) -> impl Iterator<Item = &(PathBuf, Option<Stamp>)> {
    stamps.iter().filter(|(path, _)| !tidewire_mock::RuleFiles::is_rule_file(path))
}

fn is_watched(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "proto")
        || tidewire_mock::RuleFiles::is_rule_file(path)
}

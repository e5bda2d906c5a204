//! What could not be carried over, and where it stands.

use std::collections::HashSet;
use std::fmt;

use tidewire_mock::document::Position;

use crate::stub::Stub;

/// Something of a stub file that the rules do not say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// The stub file.
    pub file: String,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The key, such as `output.delay`; empty for a whole file or stub.
    pub key: String,
    /// Why, and what came of it.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.why)
    }
}

/// The findings of all files, of which one is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    file: String,
    list: Vec<Finding>,
    /// The same, to be found at once.
    known: HashSet<Finding>,
}

impl Findings {
    /// Says which file is read now.
    pub(crate) fn file(&mut self, name: &str) {
        name.clone_into(&mut self.file);
    }

    /// Adds what is found at a place of that file.
    pub(crate) fn at(&mut self, place: Position, key: impl Into<String>, why: impl Into<String>) {
        let file = self.file.clone();
        self.add(Finding { file, line: place.line, key: key.into(), why: why.into() });
    }

    /// What a stub of the file becomes; nothing where that cannot be said, which is a finding.
    pub(crate) fn or_tell(
        &mut self,
        what: &str,
        make: impl FnOnce(&mut Self) -> Result<Vec<Stub>, Gap>,
    ) -> Vec<Stub> {
        make(self).unwrap_or_else(|gap| {
            self.at(gap.place, gap.key, format!("{}; the {what} is left out", gap.why));
            Vec::new()
        })
    }

    /// Adds a finding, unless it was added before.
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.known.insert(finding.clone()) {
            self.list.push(finding);
        }
    }

    pub(crate) fn into_list(self) -> Vec<Finding> {
        self.list
    }
}

/// Why something has no counterpart, by the key that it stands at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) place: Position,
    pub(crate) key: String,
    pub(crate) why: String,
}

impl Gap {
    pub(crate) fn new(place: Position, key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place, key: key.into(), why: why.into() }
    }
}

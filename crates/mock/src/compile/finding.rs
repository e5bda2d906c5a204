//! What is wrong with rules, or probably not meant, and where.

use std::fmt;

use tidewire_schema::Diagnostic;

/// One thing that was found in a rule file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Finding {
    /// Where it is, what it is and what to do.
    pub diagnostic: Diagnostic,
    /// Whether it cannot be served as it is; otherwise it is probably not meant.
    pub is_error: bool,
}

impl Finding {
    /// Something that is probably not meant.
    pub fn new(diagnostic: Diagnostic) -> Self {
        Self::warning(diagnostic)
    }

    pub(crate) fn error(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, is_error: true }
    }

    pub(crate) fn warning(diagnostic: Diagnostic) -> Self {
        Self { diagnostic, is_error: false }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

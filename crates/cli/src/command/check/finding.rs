//! One thing that was found, whatever found it.

use serde::Serialize;
use tidewire::schema::Diagnostic;

/// One thing that was found, in the order in which findings are shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Finding {
    pub(super) file: String,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    /// In characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) column: Option<u32>,
    pub(super) severity: Severity,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) help: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// A server would not start, or code would not be generated.
    Error,
    /// It works, and is probably not meant.
    Warning,
}

impl Severity {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Finding {
    pub(super) fn error(file: impl Into<String>, message: impl Into<String>) -> Self {
        let file = file.into();
        let message = message.into();
        Self { file, line: None, column: None, severity: Severity::Error, message, help: None }
    }
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self {
            file: diagnostic.file.clone(),
            line: diagnostic.line,
            column: diagnostic.column,
            severity: Severity::Error,
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
        }
    }
}

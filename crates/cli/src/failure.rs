//! Why a command failed, with its exit code, and how that is reported.

use std::io::{self, Write as _};

use crate::call::printable::printable_lines;
use crate::colors;

/// Why a command failed, and the exit code for it.
pub(crate) struct Failure {
    pub(crate) error: anyhow::Error,
    pub(crate) code: u8,
}

impl Failure {
    /// The arguments or the configuration are wrong.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), code: 2 }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), code: 1 }
    }
}

/// Reports something on standard error, which nobody may be reading any more; it may have words of
/// a file or of a server in it.
pub(crate) fn report(text: &str) {
    let mut err = io::stderr();
    let said = format!("tidewire: {}", printable_lines(text));
    let shown = match colors::are_on(&err) {
        true => colors::marked(&said, "tidewire:", true),
        false => said,
    };
    let _ = writeln!(err, "{shown}");
}

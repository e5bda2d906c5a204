//! What makes load on this server.

use std::path::PathBuf;

/// What makes load: the program `tidewire`, and the folder for results, which is made when there
/// is one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadProgram {
    /// The program.
    pub program: PathBuf,
    /// The folder for results.
    pub folder: PathBuf,
}

impl LoadProgram {
    /// Load by `program`, `tidewire`, with results in `folder`.
    pub fn new(program: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), folder: folder.into() }
    }
}

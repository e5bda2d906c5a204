//! Why nothing was generated.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use tidewire_proto::Diagnostics;

/// Why nothing was generated.
///
/// `Debug` reads like `Display`: a `build.rs` that returns the error from `main` shows it as is.
pub struct Error(Kind);

enum Kind {
    Sources(Diagnostics),
    Generate(String),
    Write(String, io::Error),
}

impl Error {
    /// The sources are fine, but no code can be made of them.
    pub(crate) fn generate(message: impl Into<String>) -> Self {
        Self(Kind::Generate(message.into()))
    }

    /// The code cannot be written to `path`.
    pub(crate) fn write(path: &Path, error: io::Error) -> Self {
        Self(Kind::Write(path.display().to_string(), error))
    }

    /// What is wrong with the sources, when it is they.
    pub fn diagnostics(&self) -> Option<&Diagnostics> {
        match &self.0 {
            Kind::Sources(diagnostics) => Some(diagnostics),
            _ => None,
        }
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Self(Kind::Sources(diagnostics))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Sources(diagnostics) => {
                write!(f, "the .proto sources do not compile\n\n{diagnostics}")
            }
            Kind::Generate(message) => write!(f, "no Rust code for the .proto sources: {message}"),
            Kind::Write(path, error) => {
                write!(f, "generated code cannot be written: {path}: {error}")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Kind::Sources(diagnostics) => Some(diagnostics),
            Kind::Generate(_) => None,
            Kind::Write(_, error) => Some(error),
        }
    }
}

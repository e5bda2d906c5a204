//! What is wrong with the sources, where, and what to do about it.
//!
//! `protos/shop.proto:12:9: name 'Foo' is not defined`, then the next step on its own line.
//! `Debug` prints the same text: a `build.rs` that returns the error from `main` shows it as is.

use std::error::Error;
use std::fmt;

/// One thing wrong with the sources.
///
/// ```
/// # mod tidewire { pub mod schema { pub use tidewire_proto::*; } }
/// use tidewire::schema::Diagnostic;
///
/// let diagnostic = Diagnostic::new("shop.proto", "message Item has no fields").at(3, 1);
/// assert!(diagnostic.to_string().contains("shop.proto"), "{diagnostic}");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The file as it was reached: the include root as given, joined with the file's name.
    pub file: String,
    /// The line, counted from 1; `None` when the whole file is meant.
    pub line: Option<u32>,
    /// The column in characters, counted from 1.
    pub column: Option<u32>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
}

/// A place in a file, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column in characters.
    pub column: u32,
}

impl Position {
    /// Where a location of `SourceCodeInfo` begins; a span counts from 0.
    pub fn of_span(span: &[i32]) -> Option<Self> {
        let from_one = |at: usize| Some(span.get(at)?.unsigned_abs() + 1);
        Some(Self { line: from_one(0)?, column: from_one(1)? })
    }
}

impl Diagnostic {
    /// Says that something is wrong with `file` as a whole.
    pub fn new(file: impl Into<String>, message: impl Into<String>) -> Self {
        let file = file.into();
        let message = message.into();
        Self { file, line: None, column: None, message, help: None }
    }

    /// Names the place.
    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// Names the place where it is known.
    #[must_use]
    pub fn at_position(self, position: Option<Position>) -> Self {
        match position {
            Some(Position { line, column }) => self.at(line, column),
            None => self,
        }
    }

    /// Names the next step.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Names the place of the byte `offset` of `source`.
    pub(crate) fn at_offset(self, source: &str, offset: usize) -> Self {
        let mut end = offset.min(source.len());
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let before = &source[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        self.at(count(line), count(column))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  next step: {help}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Everything wrong with the sources, in order of file and place; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The diagnostics in order of file and place, each once; `None` when there are none.
    pub fn from_list(mut list: Vec<Diagnostic>) -> Option<Self> {
        list.sort();
        list.dedup();
        (!list.is_empty()).then_some(Self(list))
    }

    /// The diagnostics, in order of file and place.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.0.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(diagnostic, f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Diagnostics {}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

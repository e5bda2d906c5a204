//! Where words for a person go: through a writer that the caller owns.

use std::io::{self, Write};

/// What the writer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A terminal: progress is one line, rewritten in place.
    Terminal,
    /// Anything else: progress is plain lines.
    Plain,
}

/// A writer for a person to read, and what it leads to.
pub struct Console<'a> {
    out: &'a mut dyn Write,
    view: View,
    unfinished: bool,
}

impl std::fmt::Debug for Console<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Console").field("view", &self.view).finish_non_exhaustive()
    }
}

impl<'a> Console<'a> {
    /// Writes to `out`, which leads to `view`.
    pub fn new(out: &'a mut dyn Write, view: View) -> Self {
        Self { out, view, unfinished: false }
    }

    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// Shows how far a run is.
    pub(crate) fn progress(&mut self, line: &str) -> io::Result<()> {
        match self.view {
            View::Plain => writeln!(self.out, "{line}"),
            View::Terminal => {
                self.unfinished = true;
                write!(self.out, "\r\x1b[K{line}")?;
                self.out.flush()
            }
        }
    }

    /// Writes finished text.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if std::mem::take(&mut self.unfinished) {
            write!(self.out, "\r\x1b[K")?;
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

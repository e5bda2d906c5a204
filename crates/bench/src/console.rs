//! Where words for a person go: through a writer that the caller owns.

use std::io::{self, Write};

/// What the writer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A terminal: progress is one line, rewritten in place.
    Terminal,
    /// Anything else: progress is plain lines.
    Plain,
    /// A program: progress is lines of JSON, and nothing else is said.
    Program,
}

/// A writer for a person to read, and what it leads to.
pub struct Console<'a> {
    out: &'a mut dyn Write,
    view: View,
    unfinished: bool,
    /// What stands before each line of progress, of which this is a part.
    whole: Option<String>,
}

impl std::fmt::Debug for Console<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Console").field("view", &self.view).finish_non_exhaustive()
    }
}

impl<'a> Console<'a> {
    /// Writes to `out`, which leads to `view`.
    pub fn new(out: &'a mut dyn Write, view: View) -> Self {
        Self { out, view, unfinished: false, whole: None }
    }

    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// Speaks to a program from now on.
    pub(crate) fn speak_to_program(&mut self) {
        self.view = View::Program;
    }

    /// A console for a part of something larger, of which `whole` says how far that is. Where
    /// progress would be their own lines it says nothing.
    pub(crate) fn part(&mut self, whole: String) -> Console<'_> {
        self.unfinished = self.view == View::Terminal;
        Console { out: &mut *self.out, view: self.view, unfinished: false, whole: Some(whole) }
    }

    /// Shows how far a run is.
    pub(crate) fn progress(&mut self, line: &str) -> io::Result<()> {
        match (self.view, &self.whole) {
            (View::Plain, None) => writeln!(self.out, "{line}"),
            (View::Program, _) => {
                writeln!(self.out, "{line}")?;
                self.out.flush()
            }
            (View::Plain, Some(_)) => Ok(()),
            (View::Terminal, whole) => {
                let whole = whole.as_deref().unwrap_or_default();
                write!(self.out, "\r\x1b[K{whole}{line}")?;
                self.unfinished = true;
                self.out.flush()
            }
        }
    }

    /// Writes finished text.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.view == View::Program {
            return Ok(());
        }
        if std::mem::take(&mut self.unfinished) {
            write!(self.out, "\r\x1b[K")?;
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// How much of something is done, as a bar.
pub(crate) fn bar(done: f64) -> String {
    let full = (done.clamp(0.0, 1.0) * BAR as f64) as usize;
    let head = if full < BAR { ">" } else { "" };
    format!("[{}{head}{}]", "=".repeat(full), " ".repeat(BAR - full - head.len()))
}

const BAR: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_whatever_is_done() {
        for (done, text) in [
            (0.0, "[>                   ]"),
            (0.5, "[==========>         ]"),
            (0.99, "[===================>]"),
            (1.0, "[====================]"),
            (7.0, "[====================]"),
        ] {
            assert_eq!(bar(done), text);
        }
    }

    #[test]
    fn progress_of_a_part_is_one_line_behind_that_of_the_whole_and_none_in_a_file() {
        let shown = |view| {
            let mut out = Vec::new();
            let mut console = Console::new(&mut out, view);
            console.part("1 of 2 ".to_owned()).progress("3 s").unwrap();
            console.text("done\n").unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(View::Terminal), "\r\x1b[K1 of 2 3 s\r\x1b[Kdone\n");
        assert_eq!(shown(View::Plain), "done\n");
    }
}

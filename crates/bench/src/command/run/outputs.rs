//! The files that a run is asked to write.
//!
//! They are opened before the first request: a minute of load is not lost to a misspelt folder.
//! What is in a file stays until there is something to put in its place.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use tidewire_loadgen::Error;

use super::RunArgs;
use crate::result::RunResult;
use crate::{html, markdown};

/// The files of one run.
pub(super) struct Outputs {
    files: Vec<Output>,
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    Markdown,
    Html,
}

struct Output {
    format: Format,
    path: PathBuf,
    file: File,
    /// It was made here and nothing is in it.
    is_empty: bool,
}

impl Outputs {
    /// Opens what the arguments name.
    pub(super) fn open(args: &RunArgs) -> Result<Self, Error> {
        let asked = [
            (Format::Json, &args.json),
            (Format::Markdown, &args.markdown),
            (Format::Html, &args.html),
        ];
        let mut files = Vec::new();
        for (format, path) in asked {
            if let Some(path) = path {
                files.push(Output::open(format, path)?);
            }
        }
        Ok(Self { files })
    }

    /// Writes a result into each.
    pub(super) fn write(self, result: &RunResult) -> Result<(), Error> {
        for mut output in self.files {
            let unwritable =
                |error| Error::system(format!("the result cannot be written: {error}"));
            let text = match output.format {
                Format::Json => serde_json::to_string(result).map_err(unwritable)?,
                Format::Markdown => markdown::text(result),
                Format::Html => html::page(result).map_err(unwritable)?,
            };
            output.put(&text).map_err(|error| fault(&output.path, &error))?;
        }
        Ok(())
    }
}

impl Output {
    fn open(format: Format, path: &Path) -> Result<Self, Error> {
        let is_empty = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| fault(path, &error))?;
        Ok(Self { format, path: path.to_owned(), file, is_empty })
    }

    fn put(&mut self, text: &str) -> std::io::Result<()> {
        // A device such as /dev/stdout has no length to cut.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.is_empty = false;
        Ok(())
    }
}

impl Drop for Output {
    /// A run without a result leaves no empty file behind.
    fn drop(&mut self) {
        if self.is_empty {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn fault(path: &Path, error: &std::io::Error) -> Error {
    Error::system(format!("{} cannot be written: {error}", path.display()))
}

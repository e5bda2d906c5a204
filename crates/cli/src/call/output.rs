//! Where a reply goes: standard output or a file, with or without its head.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use tidewire::http::HeaderMap;

use super::watch::Watch;

/// Where a reply goes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// In place of standard output.
    file: Option<Mutex<File>>,
    with_head: bool,
}

impl Output {
    /// To a file if one is named; `with_head` prints status and headers before the rest.
    pub(crate) fn new(file: Option<&Path>, with_head: bool) -> anyhow::Result<Self> {
        let file = match file {
            Some(path) if path != Path::new("-") => {
                let file = File::create(path);
                Some(Mutex::new(file.with_context(|| format!("cannot write {}", path.display()))?))
            }
            _ => None,
        };
        Ok(Self { file, with_head })
    }

    /// Prints status and headers, if they are wanted.
    pub(crate) fn head(&self, watch: &Watch, headers: &HeaderMap) -> io::Result<()> {
        if !self.with_head {
            return Ok(());
        }
        let seen = watch.history();
        let mut text = match (seen.version, seen.status) {
            (Some(version), Some(status)) => format!("{version:?} {status}\n"),
            _ => String::new(),
        };
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push('\n');
        self.write(text.as_bytes())
    }

    /// Prints, and waits until it is out.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.lock().write_all(bytes),
            None => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
        }
    }

    /// Whether a person reads it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.file.is_none() && io::stdout().is_terminal()
    }

    /// Whether lines are ended for the reader's sake.
    pub(crate) fn is_standard(&self) -> bool {
        self.file.is_none()
    }
}

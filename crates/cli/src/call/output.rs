//! Where a reply goes: standard output or a file, with or without its head.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tidewire::Headers;

use anyhow::Context;
use tidewire::http;

use super::printable::printable;
use super::watch::Watch;

/// Where a reply goes.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// In place of standard output.
    file: Option<Mutex<File>>,
    with_head: bool,
    has_head: AtomicBool,
}

impl Output {
    /// To a file if one is named; `with_head` prints status and headers before the rest, and
    /// trailers behind it.
    pub(crate) fn new(file: Option<&Path>, with_head: bool) -> anyhow::Result<Self> {
        let file = match file {
            Some(path) if path != Path::new("-") => {
                let file = File::create(path);
                Some(Mutex::new(file.with_context(|| format!("cannot write {}", path.display()))?))
            }
            _ => None,
        };
        Ok(Self { file, with_head, has_head: AtomicBool::new(false) })
    }

    /// Prints status and headers, if they are wanted and were not printed before: as they came, or
    /// where there is no HTTP response, `headers`.
    pub(crate) fn head(&self, watch: &Watch, headers: &Headers) -> io::Result<()> {
        if !self.with_head || self.has_head.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let seen = watch.history();
        let text = match (seen.version, seen.status) {
            (Some(version), Some(status)) => {
                format!("{version:?} {status}\n{}\n", lines(&seen.headers))
            }
            _ if headers.is_empty() => return Ok(()),
            _ => format!("{}\n", lines(headers)),
        };
        self.write(text.as_bytes())
    }

    /// Prints the trailers, if they are wanted and there are any: as they came, or `trailers`.
    pub(crate) fn trailers(&self, watch: &Watch, trailers: &Headers) -> io::Result<()> {
        let seen = watch.history().trailers;
        let text = lines(if seen.is_empty() { trailers } else { &seen });
        match self.with_head && !text.is_empty() {
            true => self.write(format!("\n{text}").as_bytes()),
            false => Ok(()),
        }
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

fn lines(headers: &Headers) -> String {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}\n", printable(&String::from_utf8_lossy(value.as_bytes())))
    };
    headers.iter().map(line).collect()
}

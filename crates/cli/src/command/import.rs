//! `tidewire import`: the manifest of another host of programs becomes a `tidewire.toml`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use tidewire::config::Config;

use crate::call::printable::{printable, printable_lines};
use crate::failure::Failure;
use crate::import::manifest::{ManifestImport, import};

/// Write a tidewire.toml from a manifest.xml of local_lambdas.
///
/// Prints what became of each element as FILE:LINE: ELEMENT: WHAT, and exits with 1 if something
/// could not be carried over; the rest is written all the same.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The manifest.
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,
    /// File to write.
    #[arg(long, value_name = "FILE", default_value = "tidewire.toml")]
    out: PathBuf,
    /// Replace the file if it exists [default: nothing is written then].
    #[arg(long)]
    overwrite: bool,
    /// Print the settings and write nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shown = self.manifest.display().to_string();
        let text = read(&self.manifest).map_err(Failure::usage)?;
        let imported =
            import(&text).map_err(|fault| Failure::usage(anyhow::anyhow!("{shown}:{fault}")))?;
        let mut out = String::new();
        for note in &imported.notes {
            let _ = writeln!(out, "{}", printable(&format!("{shown}:{note}")));
        }
        // Whatever a manifest says, what is written can be read.
        Config::parse(&imported.text, &self.out.display().to_string()).map_err(|error| {
            let why = anyhow::anyhow!("{shown} says what no settings can: {error}");
            Failure::usage(why)
        })?;
        match self.dry_run {
            true => _ = writeln!(out, "{}", printable_lines(&imported.text).trim_end()),
            false => self.write(&imported, &mut out)?,
        }
        std::io::stdout().write_all(out.as_bytes())?;
        match imported.notes.iter().filter(|note| note.is_left_out).count() {
            0 => Ok(()),
            1 => Err(anyhow::anyhow!("1 thing could not be carried over").into()),
            many => Err(anyhow::anyhow!("{many} things could not be carried over").into()),
        }
    }

    fn write(&self, imported: &ManifestImport, out: &mut String) -> Result<(), Failure> {
        let shown = self.out.display().to_string();
        if !self.overwrite && self.out.symlink_metadata().is_ok() {
            let why = format!(
                "{shown} exists, so nothing is written; --overwrite replaces it, and --out names \
                 another file"
            );
            return Err(Failure::usage(anyhow::anyhow!(why)));
        }
        replace(&self.out, &imported.text)
            .map_err(|why| anyhow::anyhow!("cannot write {shown}: {why}"))?;
        let ManifestImport { processes, services, .. } = imported;
        let shown = printable(&shown);
        let _ = writeln!(out, "wrote {shown}: {services} of {processes} processes");
        let check = match self.out == Path::new("tidewire.toml") {
            true => "tidewire check".to_owned(),
            false => format!("tidewire check {shown}"),
        };
        let _ = writeln!(out, "next: {check}");
        Ok(())
    }
}

/// Writes a file under a name beside it first, so that it is never half written and no link is
/// followed.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    let new = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
    let _ = std::fs::remove_file(&new);
    let written = File::create_new(&new).and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| std::fs::rename(&new, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}

/// The text of a manifest, which is not larger than it may be.
fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|why| anyhow::anyhow!("cannot read {shown}: {why}"))?;
    let bounded = file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes);
    bounded.map_err(|why| anyhow::anyhow!("cannot read {shown}: {why}"))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        anyhow::bail!("{shown} is larger than 1 MiB; a manifest lists processes, and is smaller");
    }
    let line = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(why) => {
            let line = line(why.valid_up_to());
            anyhow::bail!("{shown}:{line}: not UTF-8 text; save it as UTF-8")
        }
    }
}

const MANIFEST_BYTES_MAX: u64 = 1 << 20;

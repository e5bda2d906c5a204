//! `tidewire init`: an empty folder becomes a project in Rust; a folder with `.proto` files gets a
//! `tidewire.toml`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use crate::Failure;
use crate::init::{project, settings};

/// Create a project in Rust in an empty folder, or a tidewire.toml in a folder of `.proto` files.
///
///   tidewire init greeter      makes greeter/: one method over every protocol; then cargo run
///   tidewire init              in a folder with .proto files: a tidewire.toml; then tidewire serve
///
/// Existing files are not changed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Init {
    /// Folder; created if it does not exist.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Where the project gets Tidewire: a clone, or the URL of its repository [default: the clone
    /// that this program was built from].
    #[arg(long, value_name = "PATH|URL")]
    tidewire: Option<String>,
}

impl Init {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let lines = self.lines().map_err(Failure::usage)?;
        let mut out = std::io::stdout().lock();
        for line in lines {
            writeln!(out, "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn lines(&self) -> anyhow::Result<Vec<String>> {
        let folder = &self.folder;
        if folder.join("tidewire.toml").exists() {
            bail!("{} has a tidewire.toml; `tidewire check` looks it through", folder.display());
        }
        let found = settings::find(folder)?;
        if !found.is_empty() {
            return settings::write(folder, &found);
        }
        let is_visible =
            |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        if folder.exists()
            && let Some(entry) = std::fs::read_dir(folder)?.flatten().find(is_visible)
        {
            bail!(
                "{} holds {} and no .proto file; name an empty folder for a new project, or put \
                 .proto files in",
                folder.display(),
                entry.file_name().display()
            );
        }
        project::write(folder, self.tidewire.as_deref())
    }
}

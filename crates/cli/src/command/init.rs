//! `tidewire init`: an empty folder becomes a project in Rust; a folder with `.proto` files, or
//! with a program in Node, Python, Go or PHP, gets a `tidewire.toml`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use crate::failure::Failure;
use crate::init::{hosting, project, settings};

/// Create a project in Rust in an empty folder, or a tidewire.toml for what a folder has.
///
///   tidewire init greeter      makes greeter/: one method over every protocol; then cargo run
///   tidewire init              in a folder with .proto files, or with a program in Node, Python,
///                              Go or PHP: a tidewire.toml; then tidewire serve
///
/// Existing files are not changed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Init {
    /// Folder; created if it does not exist.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Where a project in Rust takes Tidewire from: the URL of a git repository, or a clone
    /// [default: the repository that this program was released from, if there is one].
    #[arg(long, value_name = "GIT-URL|PATH")]
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
            return settings::write(folder, &found, hosting::find(folder));
        }
        if let Some(program) = hosting::find(folder)? {
            return hosting::write(folder, &program);
        }
        let is_visible =
            |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        if folder.exists()
            && let Some(entry) = std::fs::read_dir(folder)?.flatten().find(is_visible)
        {
            bail!(
                "{} holds {}, and neither .proto files nor a program that is known (package.json, \
                 requirements.txt, pyproject.toml, go.mod, index.php); name an empty folder for a \
                 new project",
                folder.display(),
                entry.file_name().display()
            );
        }
        project::write(folder, self.tidewire.as_deref())
    }
}

//! `tidewire proto`: the `.proto` files that are built in, for tools that want them on disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tidewire::schema::builtin_files;

use crate::failure::Failure;
use crate::serving;

/// Write the built-in `.proto` files.
#[derive(Debug, clap::Args)]
pub(crate) struct ProtoArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Write the built-in `.proto` files (google/api, tidewire/v1, buf/validate, validate) to a
    /// folder, for buf and protoc. An existing file that differs is reported and left as it is.
    Export {
        /// Folder; created if it does not exist.
        folder: PathBuf,
    },
}

impl ProtoArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Verb::Export { folder } = self.verb;
        export(&folder).map_err(Failure::from)
    }
}

fn export(folder: &Path) -> anyhow::Result<()> {
    let files: Vec<_> = builtin_files().map(|(name, text)| (folder.join(name), text)).collect();
    let is_another = |(path, text): &&(PathBuf, &str)| {
        fs::read_to_string(path).is_ok_and(|there| there != *text)
    };
    if let Some((path, _)) = files.iter().find(is_another) {
        bail!("{} is there and differs; move it away, or name another folder", path.display());
    }
    for (path, text) in &files {
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    serving::print(&format!("wrote {} files into {}\n", files.len(), folder.display()));
    Ok(())
}

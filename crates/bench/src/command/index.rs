//! `tidewire bench index`: the committed runs of the suites as one page.

use std::path::{Path, PathBuf};

use clap::Args;
use tidewire_loadgen::Error;

use super::Outcome;
use crate::console::Console;
use crate::html;
use crate::suite::{FORMAT, SuiteResult};

/// Draw every figure's history over the runs of suites in a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidewire bench suite web --out bench-runs/2026-11-22-laptop
  tidewire bench index bench-runs")]
pub struct IndexArgs {
    /// The folder with a folder for each run, as `suite --out` writes them; index.html is written
    /// there.
    folder: PathBuf,
}

/// A run of a suite, and the folder below the index that has its documents.
#[derive(Debug)]
pub(crate) struct IndexedRun {
    pub(crate) folder: String,
    pub(crate) result: SuiteResult,
}

pub(super) fn run(args: &IndexArgs, console: &mut Console<'_>) -> Result<Outcome, Error> {
    let runs = read(&args.folder)?;
    if runs.is_empty() {
        let shown = args.folder.display();
        let hint = "run `tidewire bench suite NAME --out FOLDER/DATE-MACHINE` first";
        return Err(Error::usage(format!("{shown}: no folder in it has a suite's result; {hint}")));
    }
    let page = html::index(&runs)
        .map_err(|error| Error::system(format!("the page cannot be written: {error}")))?;
    let path = args.folder.join("index.html");
    std::fs::write(&path, page)
        .map_err(|error| Error::system(format!("{} cannot be written: {error}", path.display())))?;
    console.text(&format!("{} runs in {}\n", runs.len(), path.display()))?;
    Ok(Outcome::Done)
}

/// The results of suites one folder below `folder`, oldest first. Other files are not ours.
fn read(folder: &Path) -> Result<Vec<IndexedRun>, Error> {
    let fault = |path: &Path, error: std::io::Error| {
        Error::usage(format!("{} cannot be read: {error}", path.display()))
    };
    let mut runs = Vec::new();
    for below in std::fs::read_dir(folder).map_err(|error| fault(folder, error))?.flatten() {
        let path = below.path();
        if !path.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&path).map_err(|error| fault(&path, error))?.flatten() {
            let file = file.path();
            if file.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let text = std::fs::read_to_string(&file).map_err(|error| fault(&file, error))?;
            let Ok(result) = serde_json::from_str::<SuiteResult>(&text) else { continue };
            if result.format == FORMAT {
                let folder = below.file_name().to_string_lossy().into_owned();
                runs.push(IndexedRun { folder, result });
            }
        }
    }
    runs.sort_by_key(|run| run.result.context.started_at);
    Ok(runs)
}

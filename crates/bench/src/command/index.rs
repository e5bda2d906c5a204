//! `tidewire bench index`: the committed runs of the suites as one page, and tables in a document.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tidewire_load::Error;

use super::Outcome;
use crate::console::Console;
use crate::html;
use crate::suite::{self, FORMAT, SUITES, SuiteResult};

/// Draw every figure's history over the runs of suites in a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidewire bench suite web --out bench-runs/2026-11-22-laptop
  tidewire bench index bench-runs
  tidewire bench index bench-runs --tables README.md")]
pub struct IndexArgs {
    /// The folder with a folder for each run, as `suite --out` writes them; index.html is written there.
    folder: PathBuf,
    /// A document in which the lines between `<!-- suite:NAME -->` and `<!-- /suite:NAME -->` become a
    /// table of the latest run of that suite; repeatable.
    #[arg(long, value_name = "FILE")]
    tables: Vec<PathBuf>,
}

/// A run of a suite, and the folder below the index that has its documents.
#[derive(Debug)]
pub(crate) struct Kept {
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
    write(&path, &page)?;
    console.text(&format!("{} runs in {}\n", runs.len(), path.display()))?;
    for document in &args.tables {
        let text = std::fs::read_to_string(document)
            .map_err(|error| Error::usage(format!("{}: {error}", document.display())))?;
        let filled = fill(&text, &runs)
            .map_err(|what| Error::usage(format!("{}: {what}", document.display())))?;
        write(document, &filled)?;
        console.text(&format!("tables of {}\n", document.display()))?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|error| Error::system(format!("{} cannot be written: {error}", path.display())))
}

/// The results of suites one folder below `folder`, oldest first. Other files are none of ours.
fn read(folder: &Path) -> Result<Vec<Kept>, Error> {
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
                runs.push(Kept { folder, result });
            }
        }
    }
    runs.sort_by_key(|run| run.result.context.started_at);
    Ok(runs)
}

/// `text` with the tables of the latest runs between its markers.
fn fill(text: &str, runs: &[Kept]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!-- suite:") {
        let (name, after) = after.split_once(" -->").ok_or("a marker is not closed by ` -->`")?;
        let end = format!("<!-- /suite:{name} -->");
        let (_, after) =
            after.split_once(&end).ok_or_else(|| format!("`suite:{name}` has no {end}"))?;
        let suite = SUITES.iter().find(|suite| suite.name == name);
        let latest = runs.iter().rfind(|run| run.result.suite == name);
        let (Some(suite), Some(latest)) = (suite, latest) else {
            return Err(format!("there is no run of a suite {name:?}"));
        };
        let _ = write!(
            out,
            "{before}<!-- suite:{name} -->\n{}{end}",
            suite::summary(suite, &latest.result)
        );
        rest = after;
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_that_cannot_be_filled_is_an_error_and_other_text_stays() {
        assert_eq!(fill("a\nb", &[]).unwrap(), "a\nb");
        assert!(fill("<!-- suite:web -->\nx", &[]).unwrap_err().contains("/suite:web"));
        let unknown = "<!-- suite:web -->\nx\n<!-- /suite:web -->\n";
        assert!(fill(unknown, &[]).unwrap_err().contains("no run of a suite \"web\""));
        let run = |at, rate| {
            let mut result = SuiteResult { suite: "web".to_owned(), ..SuiteResult::default() };
            result.context.started_at = at;
            result.measurements = suite::example(rate);
            Kept { folder: "f".to_owned(), result }
        };
        let filled = fill(unknown, &[run(1, 1000.0), run(2, 3000.0)]).unwrap();
        assert!(filled.starts_with("<!-- suite:web -->\n| | tidewire |"), "{filled}");
        assert!(filled.contains("3,000/s") && !filled.contains("1,000/s"), "{filled}");
        assert!(filled.ends_with("<!-- /suite:web -->\n"), "{filled}");
    }
}

//! Tables in documents come from committed benchmark runs, never from a keyboard.
//!
//! In a document, a table stands between two its own lines:
//!
//! ```text
//! <!-- bench:plaintext-ramp -->
//! | … |
//! <!-- /bench:plaintext-ramp -->
//! ```
//!
//! and equals the committed file `bench-runs/**/plaintext-ramp.md`, of several the latest: folders
//! of runs begin with their date. `cargo xtask tidy` compares them, `cargo xtask tables` writes
//! them. Lines within a fenced code block are not markers.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::tree::{File, Finding, Tree};

/// A marked table: the lines between its markers, by number from 1.
#[derive(Debug)]
struct Table<'a> {
    name: &'a str,
    /// The line of the opening marker.
    open: usize,
    /// The line of the closing marker.
    close: usize,
}

/// Tables that differ from their run, have none, or are not closed.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in documents(tree) {
        let tables = match tables_of(&file.text) {
            Ok(tables) => tables,
            Err((line, text)) => {
                findings.push(Finding::error(&file.path, line, text));
                continue;
            }
        };
        for table in tables {
            let difference = match run_of(tree, table.name) {
                Ok(run) if between(&file.text, &table).trim() == run.text.trim() => continue,
                Ok(run) => format!("the table differs from {}; run `cargo xtask tables`", run.path),
                Err(text) => text,
            };
            findings.push(Finding::error(&file.path, table.open, difference));
        }
    }
    findings
}

/// Fills every marked table from its run.
///
/// # Errors
/// When a table has no run, or a file cannot be written.
pub(crate) fn write(root: &Path, tree: &Tree) -> Result<ExitCode> {
    for file in documents(tree) {
        let filled = fill(tree, file).map_err(|finding| anyhow::anyhow!("{finding}"))?;
        if filled != file.text {
            std::fs::write(root.join(&file.path), filled).with_context(|| file.path.clone())?;
            println!("tables: wrote {}", file.path);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files
        .iter()
        .filter(|file| file.path.ends_with(".md") && !file.path.starts_with("bench-runs/"))
}

fn fill(tree: &Tree, file: &File) -> Result<String, Finding> {
    let at = |(line, text): (usize, String)| Finding::error(&file.path, line, text);
    let mut lines: Vec<&str> = file.text.lines().collect();
    let tables = tables_of(&file.text).map_err(at)?;
    // From the end, so that line numbers before it stay true.
    for table in tables.iter().rev() {
        let run = run_of(tree, table.name).map_err(|text| at((table.open, text)))?;
        lines.splice(table.open..table.close - 1, run.text.trim().lines());
    }
    Ok(lines.join("\n") + "\n")
}

/// The marked tables of a document, or the line and text of a marker without its other half.
fn tables_of(text: &str) -> Result<Vec<Table<'_>>, (usize, String)> {
    let mut tables = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut is_fenced = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        let Some(marker) =
            line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"))
        else {
            continue;
        };
        if let Some(name) = marker.trim().strip_prefix("bench:") {
            if let Some((name, line)) = open {
                return Err((
                    line,
                    format!("`bench:{name}` is not closed; add `<!-- /bench:{name} -->`"),
                ));
            }
            open = Some((name, number));
        } else if let Some(name) = marker.trim().strip_prefix("/bench:") {
            match open.take() {
                Some((opened, line)) if opened == name => {
                    tables.push(Table { name, open: line, close: number });
                }
                _ => {
                    return Err((
                        number,
                        format!("`/bench:{name}` closes nothing; add `<!-- bench:{name} -->`"),
                    ));
                }
            }
        }
    }
    match open {
        Some((name, line)) => {
            Err((line, format!("`bench:{name}` is not closed; add `<!-- /bench:{name} -->`")))
        }
        None => Ok(tables),
    }
}

fn between(text: &str, table: &Table<'_>) -> String {
    let lines: Vec<&str> =
        text.lines().skip(table.open).take(table.close - table.open - 1).collect();
    lines.join("\n")
}

/// The committed file that a table is generated from: the latest of that name.
fn run_of<'a>(tree: &'a Tree, name: &str) -> Result<&'a File, String> {
    let file_name = format!("{name}.md");
    let runs = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("bench-runs/") && file.name() == file_name);
    runs.max_by_key(|file| &file.path).ok_or_else(|| {
        format!(
            "no run for this table: bench-runs/**/{file_name} is not committed; run the suite and commit it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: (&str, &str) = ("bench-runs/2026-11/ramp.md", "| a |\n|---|\n| 1 |\n");

    fn findings(document: &str, runs: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![("README.md", document)];
        files.extend_from_slice(runs);
        check(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_table_that_equals_its_run_passes_and_one_that_differs_is_a_finding() {
        let good = "# A\n<!-- bench:ramp -->\n\n| a |\n|---|\n| 1 |\n\n<!-- /bench:ramp -->\n";
        assert_eq!(findings(good, &[RUN]), [""; 0]);
        assert_eq!(
            findings(&good.replace("| 1 |", "| 2 |"), &[RUN]),
            [
                "README.md:2: the table differs from bench-runs/2026-11/ramp.md; run `cargo xtask tables`"
            ]
        );
    }

    #[test]
    fn a_table_without_a_run_is_a_finding_and_of_two_runs_the_latest_counts() {
        let document = "<!-- bench:ramp -->\n| 2 |\n<!-- /bench:ramp -->\n";
        assert!(findings(document, &[])[0].starts_with("README.md:1: no run for this table"));
        let later = ("bench-runs/2026-12/ramp.md", "| 2 |\n");
        assert_eq!(findings(document, &[later, RUN]), [""; 0]);
    }

    #[test]
    fn a_marker_without_its_other_half_is_a_finding() {
        assert!(
            findings("\n<!-- bench:ramp -->\n", &[RUN])[0]
                .starts_with("README.md:2: `bench:ramp` is not closed")
        );
        assert!(findings("<!-- /bench:ramp -->\n", &[RUN])[0].contains("closes nothing"));
        assert!(
            findings("<!-- bench:a -->\n<!-- bench:ramp -->\n", &[RUN])[0].contains("not closed")
        );
    }

    #[test]
    fn a_marker_in_a_code_block_is_text() {
        assert_eq!(findings("```text\n<!-- bench:ramp -->\n```\n", &[]), [""; 0]);
    }

    #[test]
    fn filling_makes_the_check_pass() {
        let document = "# A\n<!-- bench:ramp -->\nold\n<!-- /bench:ramp -->\nb\n<!-- bench:ramp -->\n<!-- /bench:ramp -->\n";
        let tree = Tree::of(&[("README.md", document), RUN]);
        let filled = fill(&tree, &tree.files[0]).expect("every table has a run");
        assert_eq!(findings(&filled, &[RUN]), [""; 0]);
        assert!(filled.starts_with("# A\n<!-- bench:ramp -->\n| a |\n"));
        assert!(filled.contains("<!-- /bench:ramp -->\nb\n"));
    }
}

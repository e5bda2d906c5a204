//! `cargo xtask tidy`: the rules that neither the compiler nor clippy knows.
//!
//! Each rule is its own file: a function from the tree to its findings, with a test that shows
//! it failing. Rules read text and syntax only; nothing is compiled, so all of them take a second.

mod absences;
mod architecture;
mod circles;
mod edges;
mod english;
mod headers;
mod hidden_types;
mod large_files;
mod levels;
mod names;
mod patience;
mod sizes;
mod tuples;
mod unsafe_places;
mod where_is;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::tables;
use crate::tree::{Finding, Tree};

/// Prints every finding; fails if one of them is more than a warning.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let (table, mut findings) = architecture::Table::read(&tree);
    findings.extend(edges::check(&table, &edges::packages(root, &tree)?));
    for rule in [
        unparsable,
        sizes::check,
        levels::check,
        circles::check,
        headers::check,
        hidden_types::check,
        names::check,
        tables::check,
        large_files::check,
        absences::check,
        patience::check,
        tuples::check,
        unsafe_places::check,
        english::check,
        where_is::check,
    ] {
        findings.extend(rule(&tree));
    }
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    let warnings = findings.len() - errors;
    println!("tidy: {} files, {errors} errors, {warnings} warnings", tree.files.len());
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file that does not parse is seen by no other rule.
fn unparsable(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter_map(|file| {
            let (line, why) = file.parse_error.as_ref()?;
            Some(Finding::error(
                &file.path,
                *line,
                format!("this does not parse ({why}); repair it"),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_parse_is_a_finding() {
        let tree = Tree::of(&[("crates/memo/src/cell.rs", "fn {\n"), ("README.md", "fn {")]);
        let findings = unparsable(&tree);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].to_string().starts_with("crates/memo/src/cell.rs:1: "),
            "{}",
            findings[0]
        );
    }
}

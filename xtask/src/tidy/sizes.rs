//! Files and crates stay small enough to be read: over 600 lines a file is a warning, over 1,000 an
//! error; over 8,000 a crate is a warning, over 10,000 an error unless the levels inside of it are
//! checked (`levels.rs`): a crate is cut where a seam is, not because of a line count.
//!
//! Counted are the physical lines of `crates/*/src` and `xtask/src` that are not test code.

use std::collections::BTreeMap;

use super::levels;
use crate::tree::{File, Finding, Tree};

const FILE_LINES_WARN: usize = 600;
const FILE_LINES_MAX: usize = 1_000;
const CRATE_LINES_WARN: usize = 8_000;
const CRATE_LINES_MAX: usize = 10_000;

/// Files and crates over their limits.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, _) in tree.rust() {
        let is_chore = file.path.starts_with("xtask/src/");
        if tree.is_test(file) || file.is_generated() || !(is_chore || file.crate_name().is_some()) {
            continue;
        }
        let lines = source_lines(tree, file);
        if let Some(name) = file.crate_name() {
            *crates.entry(name).or_default() += lines;
        }
        if lines > FILE_LINES_MAX {
            let text = format!(
                "{lines} source lines, over {FILE_LINES_MAX}; split the file by what its parts are about"
            );
            findings.push(Finding::error(&file.path, 1, text));
        } else if lines > FILE_LINES_WARN {
            let text =
                format!("{lines} source lines, over {FILE_LINES_WARN}; ask what else lives here");
            findings.push(Finding::warning(&file.path, 1, text));
        }
    }
    for (name, lines) in crates {
        if lines > CRATE_LINES_MAX && !levels::has_levels(name) {
            let text = format!(
                "the crate has {lines} source lines, over {CRATE_LINES_MAX}; give its inside levels in \
                 xtask/src/tidy/levels.rs, or cut it where a seam is"
            );
            findings.push(Finding::error(&format!("crates/{name}"), 1, text));
        } else if lines > CRATE_LINES_WARN {
            let text = format!(
                "the crate has {lines} source lines, over {CRATE_LINES_WARN}; ask which part could stand alone"
            );
            findings.push(Finding::warning(&format!("crates/{name}"), 1, text));
        }
    }
    findings
}

fn source_lines(tree: &Tree, file: &File) -> usize {
    (1..=file.text.lines().count()).filter(|line| !tree.is_test_line(file, *line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_file_over_600_lines_is_a_warning_and_over_1000_an_error() {
        let source = |lines: usize| "const A: u8 = 0;\n".repeat(lines);
        assert!(findings(&[("crates/memo/src/a.rs", &source(600))]).is_empty());
        let warned = findings(&[("crates/memo/src/a.rs", &source(601))]);
        assert_eq!(
            warned,
            [
                "crates/memo/src/a.rs:1: warning: 601 source lines, over 600; ask what else lives here"
            ]
        );
        let failed = findings(&[("crates/memo/src/a.rs", &source(1_001))]);
        assert_eq!(
            failed,
            [
                "crates/memo/src/a.rs:1: 1001 source lines, over 1000; split the file by what its parts are about"
            ]
        );
    }

    #[test]
    fn test_code_is_not_counted() {
        let tail =
            format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(2_000));
        assert!(findings(&[("crates/memo/src/a.rs", &tail)]).is_empty());
        assert!(findings(&[("crates/memo/tests/a.rs", &"\n".repeat(2_000))]).is_empty());
    }

    /// What is said of a crate of `count` files of 500 lines.
    fn of_crate(name: &str, count: usize) -> Vec<String> {
        let source = "const A: u8 = 0;\n".repeat(500);
        let paths: Vec<String> =
            (0..count).map(|i| format!("crates/{name}/src/part{i}.rs")).collect();
        let files: Vec<(&str, &str)> =
            paths.iter().map(|path| (path.as_str(), source.as_str())).collect();
        findings(&files)
    }

    #[test]
    fn a_crate_is_asked_about_at_8000_lines_and_refused_at_10000() {
        assert!(of_crate("auth", 16).is_empty());
        assert_eq!(
            of_crate("auth", 17),
            [
                "crates/auth:1: warning: the crate has 8500 source lines, over 8000; ask which part could stand alone"
            ]
        );
        assert_eq!(
            of_crate("auth", 21),
            [
                "crates/auth:1: the crate has 10500 source lines, over 10000; give its inside levels in xtask/src/tidy/levels.rs, or cut it where a seam is"
            ]
        );
    }

    #[test]
    fn a_crate_whose_levels_are_checked_may_be_large() {
        assert_eq!(
            of_crate("memo", 21),
            [
                "crates/memo:1: warning: the crate has 10500 source lines, over 8000; ask which part could stand alone"
            ]
        );
    }
}

//! Every path in the table *Where is…* of ARCHITECTURE.md exists.
//!
//! A cell lists paths from the root of the repository; one without a known first folder is relative
//! to the folder of the last path from the root.

use super::architecture::{DOCUMENT, quoted};
use crate::tree::{Finding, Tree};

const HEAD: &str = "| question | place |";
const ROOTS: &[&str] = &["crates/", "xtask/", "tests/", "examples/", "sdk/", "scripts/", "bench/"];

/// Places that do not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(DOCUMENT).unwrap_or_default();
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.starts_with(HEAD)).skip(2);
    let mut findings = Vec::new();
    for (number, line) in lines.take_while(|(_, line)| line.starts_with('|')) {
        let cell = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let mut folder = String::new();
        for place in quoted(cell) {
            let is_full = ROOTS.iter().any(|root| place.starts_with(root));
            let path = if is_full { place } else { format!("{folder}{place}") };
            if is_full {
                folder =
                    path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            }
            let inside = format!("{path}/");
            if !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&inside)) {
                let text = format!("`{path}` does not exist; write where this is now");
                findings.push(Finding::error(DOCUMENT, number, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_does_not_exist_is_a_finding() {
        let table = "| question | place |\n|---|---|\n\
                     | why `a` | `crates/wire/src/a.rs`, `b.rs`, `c/d.rs` |\n\
                     | memory | `crates/memo/src/graph`, `x.rs` |\n";
        let tree = Tree::of(&[
            (DOCUMENT, table),
            ("crates/wire/src/a.rs", ""),
            ("crates/wire/src/c/d.rs", ""),
            ("crates/memo/src/graph/cascade.rs", ""),
        ]);
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            findings,
            [
                "ARCHITECTURE.md:3: `crates/wire/src/b.rs` does not exist; write where this is now",
                "ARCHITECTURE.md:4: `crates/memo/src/x.rs` does not exist; write where this is now",
            ]
        );
    }
}

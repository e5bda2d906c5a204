//! Every source file of a crate says in its first lines what it is for, and no file is a `mod.rs`.

use crate::tree::{Finding, Tree};

/// Files without a header, and files with a name that tells nothing.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.name() == "mod.rs" {
            let text =
                "`mod.rs` hides the module's name; move it to `foo.rs` beside the folder `foo`";
            findings.push(Finding::error(&file.path, 1, text));
        }
        let is_source = file.crate_name().is_some() && file.path.ends_with(".rs");
        if is_source && !file.is_generated() && !file.text.starts_with("//!") {
            let text = "no `//!` header; say which problem this file solves, what is here and what is elsewhere";
            findings.push(Finding::error(&file.path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_without_a_header_and_a_mod_rs_are_findings() {
        let tree = Tree::of(&[
            ("crates/memo/src/bare.rs", "use std::fmt;\n"),
            ("crates/memo/src/good.rs", "//! Says it.\n"),
            ("crates/memo/tests/all.rs", "fn main() {}\n"),
            ("examples/hello/src/web/mod.rs", "//! Says it.\n"),
        ]);
        let findings: Vec<String> = check(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("crates/memo/src/bare.rs:1: no `//!` header; "));
        assert!(findings[1].starts_with("examples/hello/src/web/mod.rs:1: `mod.rs` "));
    }
}

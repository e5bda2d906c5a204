//! Every source file of a crate says in its first lines what it is for, and no file is a `mod.rs`.
//! Every crate has a README of about ten lines, which its rustdoc includes.

use crate::tree::{File, Finding, Tree};

/// The macro of `memo` and what lies below it are parts of `memo`, whose README is a manual.
const WITHOUT_README: &[&str] = &["memo", "memo-macros"];
const README_LINES_MAX: usize = 15;

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
        findings.extend(readme(tree, file));
    }
    findings
}

/// What is wrong with the README of the crate whose root this file is.
fn readme(tree: &Tree, file: &File) -> Option<Finding> {
    let name = file.crate_name()?;
    let root = file.path.strip_prefix("crates/")?.strip_prefix(name)?;
    let is_library = root == "/src/lib.rs";
    let is_program =
        root == "/src/main.rs" && tree.text(&format!("crates/{name}/src/lib.rs")).is_none();
    if !(is_library || is_program) || WITHOUT_README.contains(&name) {
        return None;
    }
    let path = format!("crates/{name}/README.md");
    let Some(text) = tree.text(&path) else {
        let text =
            format!("{path} is missing; say in ten lines what the crate does and where to start");
        return Some(Finding::error(&file.path, 1, text));
    };
    let lines = text.lines().count();
    if lines > README_LINES_MAX {
        let text =
            format!("{lines} lines, over {README_LINES_MAX}; the rest belongs in rustdoc or docs/");
        return Some(Finding::error(&path, 1, text));
    }
    if !file.text.contains("include_str!(\"../README.md\")") {
        let text = "the rustdoc does not include the README; add `#![doc = include_str!(\"../README.md\")]`";
        return Some(Finding::error(&file.path, 1, text));
    }
    None
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

    #[test]
    fn a_crate_without_a_readme_in_its_rustdoc_is_a_finding() {
        let includes = "//! A.\n#![doc = include_str!(\"../README.md\")]\n";
        let check = |files: &[(&str, &str)]| {
            check(&Tree::of(files)).iter().map(Finding::to_string).collect::<Vec<_>>()
        };
        let of = |root: &'static str, readme: &'static str| {
            check(&[("crates/wire/src/lib.rs", root), ("crates/wire/README.md", readme)])
        };
        assert_eq!(of(includes, "# wire\n"), [""; 0]);
        let long = "line\n".repeat(16);
        let long = check(&[("crates/wire/src/lib.rs", includes), ("crates/wire/README.md", &long)]);
        assert!(long[0].starts_with("crates/wire/README.md:1: 16 lines, over 15"), "{long:?}");
        assert!(of("//! A.\n", "# wire\n")[0].contains("does not include the README"));
        let missing = check(&[("crates/cli/src/main.rs", includes)]);
        assert!(missing[0].contains("crates/cli/README.md is missing"), "{missing:?}");
    }
}

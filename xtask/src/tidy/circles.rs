//! Circles inside a crate: files that import each other, directly or around corners.
//!
//! Such files are one part that a reader has to learn at once, however many files it is cut into.
//! A circle of up to four is a small part; a larger one is an error unless it is listed here with
//! its reason. The list only shrinks.
//!
//! A file imports another by a `use` or by a path that starts with `crate`, `super` or `self`. A
//! `pub use` is followed to the file that it names; the file that writes it does not import it.

mod graph;

use std::collections::BTreeMap;

use self::graph::Graph;
use crate::tree::{File, Finding, Tree};

/// The files of a circle that needs no reason.
const FILES_MAX: usize = 4;

/// Where the larger circles are listed.
const LIST: &str = "xtask/src/tidy/circles.rs";

/// A circle of more files.
struct Exception {
    /// A file of the circle.
    file: &'static str,
    /// How many files it has.
    files: usize,
    /// Why it is one part.
    reason: &'static str,
}

/// The larger circles.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        file: "crates/memo/src/graph/core.rs",
        files: 10,
        reason: "one lock-free algorithm over one table of cells",
    },
    Exception {
        file: "crates/memo/src/compute/work.rs",
        files: 6,
        reason: "a computation reads others, and each of them may start more",
    },
];

/// Circles that are too large, and exceptions that are too wide.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, EXCEPTIONS)
}

fn check_against(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sizes = BTreeMap::new();
    for (name, files) in crates(tree) {
        let graph = Graph::new(&files);
        for circle in graph.circles() {
            for file in &circle {
                sizes.insert(graph.path(*file), circle.len());
            }
            let listed = exceptions
                .iter()
                .find(|exception| circle.iter().any(|file| graph.path(*file) == exception.file));
            let allowed = listed.map_or(FILES_MAX, |exception| exception.files);
            if circle.len() > allowed {
                findings.push(too_large(name, &graph, &circle, listed));
            }
        }
    }
    let size = |exception: &Exception| sizes.get(exception.file).copied().unwrap_or(1);
    findings.extend(exceptions.iter().filter_map(|exception| {
        let size = size(exception);
        let what = if size <= FILES_MAX { "remove it" } else { "write its number" };
        let text = format!(
            "the circle of `{}` has {size} files and is listed with {}; {what} here",
            exception.file, exception.files
        );
        (size < exception.files).then(|| Finding::error(LIST, line_of(tree, exception), text))
    }));
    findings
}

/// The source files of each crate, tests left out.
fn crates(tree: &Tree) -> BTreeMap<&str, Vec<&File>> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for (file, _) in tree.rust() {
        if let Some(name) = file.crate_name()
            && !tree.is_test(file)
        {
            crates.entry(name).or_default().push(file);
        }
    }
    crates
}

fn too_large(
    name: &str,
    graph: &Graph<'_>,
    circle: &[usize],
    listed: Option<&Exception>,
) -> Finding {
    let source = format!("crates/{name}/src/");
    let short = |file: usize| graph.path(file).trim_start_matches(&source).to_owned();
    let files: Vec<String> = circle.iter().map(|file| short(*file)).collect();
    let chain = graph.chain(circle);
    let steps: Vec<String> =
        chain.iter().map(|import| format!("{}:{}", short(import.from), import.line)).collect();
    let why = match listed {
        Some(Exception { files, reason, .. }) => format!("{files} are allowed: {reason}"),
        None => format!("up to {FILES_MAX} are allowed"),
    };
    let text = format!(
        "{} files of `{name}` import each other in a circle ({why}): {}; open it, as at {} -> {}: \
         move what both need to a file below them",
        circle.len(),
        files.join(", "),
        steps.join(" -> "),
        chain.first().map(|import| short(import.from)).unwrap_or_default(),
    );
    let start = chain.first().map_or(circle[0], |import| import.from);
    Finding::error(graph.path(start), chain.first().map_or(1, |import| import.line), text)
}

/// The line of an exception in the list.
fn line_of(tree: &Tree, exception: &Exception) -> usize {
    let text = tree.text(LIST).unwrap_or_default();
    text.lines().position(|line| line.contains(exception.file)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: (&str, &str) =
        ("crates/wire/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\n");

    /// Findings over a crate of `a` to `e`, where each imports the next and `e` is given.
    fn around(e: &str, exceptions: &[Exception]) -> Vec<String> {
        let files = [
            LIB,
            ("crates/wire/src/a.rs", "use super::b::B;\npub(crate) struct A;\n"),
            ("crates/wire/src/b.rs", "fn f() {}\nuse crate::{c::{self, C}, other::D};\n"),
            ("crates/wire/src/c.rs", "fn f() -> Vec<u8> { vec![super::d::f()] }\n"),
            ("crates/wire/src/d.rs", "use crate::e::E;\n"),
            ("crates/wire/src/e.rs", e),
        ];
        found(&files, exceptions)
    }

    fn found(files: &[(&str, &str)], exceptions: &[Exception]) -> Vec<String> {
        let findings = check_against(&Tree::of(files), exceptions);
        findings.iter().map(Finding::to_string).collect()
    }

    fn exception(files: usize) -> [Exception; 1] {
        [Exception { file: "crates/wire/src/c.rs", files, reason: "one algorithm" }]
    }

    #[test]
    fn a_circle_over_four_files_is_named_with_its_files_and_a_chain() {
        assert_eq!(
            around("use crate::a::A;\n", &[]),
            [
                "crates/wire/src/a.rs:1: 5 files of `wire` import each other in a circle (up to 4 are allowed): a.rs, b.rs, c.rs, d.rs, e.rs; open it, as at a.rs:1 -> b.rs:2 -> c.rs:1 -> d.rs:1 -> e.rs:1 -> a.rs: move what both need to a file below them"
            ]
        );
    }

    #[test]
    fn a_circle_of_four_and_files_in_a_row_are_none() {
        for fine in ["use crate::b::B;\n", "", "use crate::lib;\n", "use a::A;\n"] {
            assert_eq!(around(fine, &[]), [""; 0], "{fine}");
        }
    }

    #[test]
    fn tests_comments_and_strings_do_not_count() {
        for fine in [
            "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            "//! [`crate::a::A`]\n/// crate::a::A\n// use crate::a::A;\nfn f() {}\n",
            "fn f() -> &'static str { \"crate::a::A\" }\n",
            "macro_rules! m { () => { $crate::a::f() } }\n",
        ] {
            assert_eq!(around(fine, &[]), [""; 0], "{fine}");
        }
        let files = [("crates/wire/src/e.rs", "#[cfg(test)]\nmod tests;\nfn f() {}\n")];
        let test = [files[0], ("crates/wire/src/e/tests.rs", "use crate::a::A;\n")];
        assert_eq!(found(&test, &[]), [""; 0]);
    }

    #[test]
    fn a_listed_circle_passes_with_its_number_only() {
        let five = "use crate::a::A;\n";
        assert_eq!(around(five, &exception(5)), [""; 0]);
        let grown = around(five, &exception(4));
        assert!(grown[0].contains("in a circle (4 are allowed: one algorithm): a.rs"), "{grown:?}");
        assert_eq!(
            around(five, &exception(6)),
            [
                "xtask/src/tidy/circles.rs:1: the circle of `crates/wire/src/c.rs` has 5 files and is listed with 6; write its number here"
            ]
        );
        assert_eq!(
            around("", &exception(5)),
            [
                "xtask/src/tidy/circles.rs:1: the circle of `crates/wire/src/c.rs` has 1 files and is listed with 5; remove it here"
            ]
        );
    }
}

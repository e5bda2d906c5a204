//! `unsafe` stands only in the places that ARCHITECTURE.md lists, and each place of the list has
//! some.
//!
//! ```text
//! | place of `unsafe` | what for |
//! |---|---|
//! | `crates/memo` | … |
//! | `crates/cli/src/release_memory.rs` | … |
//! ```
//!
//! A place is a folder or a file. Tests and benchmarks are free, and so is what is built elsewhere
//! (`bench/peers`, `fuzz`).

use super::architecture::{DOCUMENT, quoted};
use crate::tree::{Finding, Tree};

const HEAD: &str = "| place of `unsafe` |";
const OUTSIDE: &[&str] = &["bench/", "fuzz/"];

/// Uses of `unsafe` in other places, and places without any.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut places = places(tree.text(DOCUMENT).unwrap_or_default());
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if OUTSIDE.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        let lines = rust.tokens.iter().filter(|token| token.text == "unsafe");
        let Some(first) =
            lines.map(|token| token.line).find(|line| !tree.is_test_line(file, *line))
        else {
            continue;
        };
        match places.iter_mut().find(|place| place.has(&file.path)) {
            Some(place) => place.is_used = true,
            None => {
                let text = format!(
                    "`unsafe` outside of the places that {DOCUMENT} lists; do without it, or list the file there"
                );
                findings.push(Finding::error(&file.path, first, text));
            }
        }
    }
    for place in places.iter().filter(|place| !place.is_used) {
        let text = format!("`{}` has no `unsafe`; remove its row", place.path);
        findings.push(Finding::error(DOCUMENT, place.line, text));
    }
    findings
}

struct Place {
    path: String,
    line: usize,
    is_used: bool,
}

impl Place {
    fn has(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn places(text: &str) -> Vec<Place> {
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.starts_with(HEAD)).skip(2);
    let rows = lines.take_while(|(_, line)| line.starts_with('|'));
    let place = |(line, row): (usize, &str)| {
        let path = quoted(row).into_iter().next()?;
        Some(Place { path, line, is_used: false })
    };
    rows.filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A\n\n| place of `unsafe` | what for |\n|---|---|\n\
                         | `crates/memo` | hits |\n| `crates/cli/src/a.rs` | memory |\n";
    const CODE: &str = "fn f() {}\nfn g() { unsafe { h() } }\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = [(DOCUMENT, TABLE)].iter().chain(files).copied().collect();
        check(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn unsafe_outside_of_the_listed_places_is_a_finding() {
        let used = [("crates/memo/src/x/y.rs", CODE), ("crates/cli/src/a.rs", CODE)];
        assert_eq!(findings(&used), [""; 0]);
        for path in ["crates/memory/src/a.rs", "crates/cli/src/b.rs", "sdk/rust/src/lib.rs"] {
            let found = findings(&[used[0], used[1], (path, CODE)]);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}:2: `unsafe` outside")), "{found:?}");
        }
        for path in ["crates/wire/tests/it/a.rs", "crates/wire/benches/a.rs", "bench/peers/a.rs"] {
            assert_eq!(findings(&[used[0], used[1], (path, CODE)]), [""; 0], "{path}");
        }
        let in_a_test = "#[cfg(test)]\nmod tests { fn g() { unsafe { h() } } }";
        assert_eq!(findings(&[used[0], used[1], ("crates/wire/src/a.rs", in_a_test)]), [""; 0]);
        let named = "#![expect(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";";
        assert_eq!(findings(&[used[0], used[1], ("crates/wire/src/a.rs", named)]), [""; 0]);
    }

    #[test]
    fn a_listed_place_without_any_is_a_finding() {
        let found =
            findings(&[("crates/memo/src/a.rs", CODE), ("crates/cli/src/a.rs", "fn f() {}")]);
        assert_eq!(
            found,
            ["ARCHITECTURE.md:6: `crates/cli/src/a.rs` has no `unsafe`; remove its row"]
        );
    }
}

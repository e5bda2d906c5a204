//! The floors of a room: folders that import downward only.
//!
//! A room that is large enough to have an order inside of it declares that order here. What stands at the
//! top of the room may import every floor; a floor may import itself and those below it.

use crate::tree::{File, Finding, Tree};

/// A room and its floors, the lowest first.
const FLOORS: &[(&str, &[&str])] =
    &[("crates/memo/src/", &["memory", "store", "graph", "compute"])];

/// Whether the inner levels of a crate are checked.
pub(super) fn are_checked(name: &str) -> bool {
    FLOORS.iter().any(|(path, _)| path.split('/').nth(1) == Some(name))
}

/// Imports that lead upward.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        for (room, floors) in FLOORS {
            if let Some(floor) = floor_of(file, room, floors) {
                findings.extend(upward(file, floors, floor));
            }
        }
    }
    findings
}

/// The floor that a file is on; `None` at the top of the room and outside of it.
fn floor_of(file: &File, room: &str, floors: &[&str]) -> Option<usize> {
    let inside = file.path.strip_prefix(room)?;
    let first = inside.split(['/', '.']).next()?;
    floors.iter().position(|floor| *floor == first)
}

fn upward(file: &File, floors: &[&str], floor: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        for (at, path) in code.match_indices("crate::") {
            let name: String = code[at + path.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let allowed = floors[..=floor].contains(&name.as_str());
            // `$crate::` is written for whoever expands the macro.
            if allowed || code[..at].ends_with('$') {
                continue;
            }
            let text = format!(
                "`{}` imports `crate::{name}`, which is above it; floors import downward: {}",
                floors[floor],
                floors.join(" <- ")
            );
            findings.push(Finding::error(&file.path, number, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings for one file.
    fn check_file(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_import_that_leads_upward_is_a_finding_and_any_other_is_none() {
        let upward = check_file(
            "crates/memo/src/store/node.rs",
            "use crate::store::slots;\nuse crate::graph::Shared;\nfn f() { crate::Memo::new() }\n",
        );
        assert_eq!(upward.len(), 2, "{upward:?}");
        assert!(upward[0].starts_with("crates/memo/src/store/node.rs:2: "), "{upward:?}");
        assert!(upward[0].contains("imports `crate::graph`"), "{upward:?}");
        assert!(check_file("crates/memo/src/store.rs", "use crate::graph::Graph;\n").len() == 1);
        assert!(
            check_file("crates/memo/src/memory/line.rs", "use crate::store::key;\n").len() == 1
        );
        let fine =
            "use crate::store::slots;\n// as crate::memo::Memo says\nuse crate::graph::core;\n";
        assert_eq!(check_file("crates/memo/src/graph/verify.rs", fine), Vec::<String>::new());
        let top = "use crate::compute::get;\nuse crate::watch::Watch;\n";
        assert_eq!(check_file("crates/memo/src/memo.rs", top), Vec::<String>::new());
        assert_eq!(
            check_file("crates/server/src/graph/a.rs", "use crate::x;\n"),
            Vec::<String>::new()
        );
    }
}

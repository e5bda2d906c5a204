//! The levels inside a crate: folders that import downward only.
//!
//! A crate that is large enough to have an order inside of it declares that order here. What stands
//! at the top of the crate may import every level; a level may import itself and those below it.

use crate::tree::{File, Finding, Tree};

/// A crate and its levels, the lowest first.
const LEVELS: &[(&str, &[&str])] = &[
    ("hosting", &["supervisor", "limits", "pool", "process", "native", "instance"]),
    ("live", &["session_clock", "dependencies", "host", "reply_head", "transport", "link"]),
    ("memo", &["memory", "store", "graph", "compute"]),
    (
        "mock",
        &[
            "value",
            "random",
            "body",
            "template",
            "condition",
            "rule",
            "generate",
            "compile",
            "rules",
            "select",
            "state",
            "mock",
        ],
    ),
    (
        "server",
        &[
            "limits",
            "runtime",
            "socket",
            "gate",
            "services",
            "request",
            "response",
            "app",
            "protocols",
            "builtin",
            "dispatch",
            "connection",
            "control",
        ],
    ),
];

/// Whether the inside of a crate has levels that are checked here.
pub(crate) fn has_levels(crate_name: &str) -> bool {
    LEVELS.iter().any(|(name, _)| *name == crate_name)
}

/// Imports that lead upward.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        for (name, levels) in LEVELS {
            if file.crate_name() == Some(name)
                && let Some(level) = level_of(file, name, levels)
            {
                findings.extend(upward(file, levels, level));
            }
        }
    }
    findings
}

/// The level of a file; `None` at the top of the crate.
fn level_of(file: &File, crate_name: &str, levels: &[&str]) -> Option<usize> {
    let inside =
        file.path.strip_prefix("crates/")?.strip_prefix(crate_name)?.strip_prefix("/src/")?;
    let first = inside.split(['/', '.']).next()?;
    levels.iter().position(|level| *level == first)
}

fn upward(file: &File, levels: &[&str], level: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        for (at, path) in code.match_indices("crate::") {
            let name: String = code[at + path.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let allowed = levels[..=level].contains(&name.as_str());
            // `$crate::` is written for whoever expands the macro.
            if allowed || code[..at].ends_with('$') {
                continue;
            }
            let text = format!(
                "`{}` imports `crate::{name}`, which is above it; levels import downward: {}",
                levels[level],
                levels.join(" <- ")
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
    fn an_import_that_leads_upward_is_a_finding_and_others_are_not() {
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

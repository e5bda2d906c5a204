//! Files and rooms stay small enough to be read: at 600 lines a file is looked at, at 1,000 split,
//! and a room is looked at at 8,000 and split at 10,000. A crate whose inner levels are checked (see
//! [`super::floors`]) is only looked at, whatever its size.
//!
//! Counted are the physical lines of `crates/*/src` and `xtask/src` that are not test code.

use std::collections::BTreeMap;

use crate::tree::{File, Finding, Tree};

const FILE_LINES_WARN: usize = 600;
const FILE_LINES_MAX: usize = 1_000;
const ROOM_LINES_WARN: usize = 8_000;
const ROOM_LINES_MAX: usize = 10_000;

/// Files and rooms over their limits.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rooms: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, _) in tree.rust() {
        let is_chore = file.path.starts_with("xtask/src/");
        if tree.is_test(file) || file.is_generated() || !(is_chore || file.room().is_some()) {
            continue;
        }
        let lines = source_lines(tree, file);
        if let Some(room) = file.room() {
            *rooms.entry(room).or_default() += lines;
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
    for (room, lines) in rooms {
        if lines > ROOM_LINES_MAX && !super::floors::are_checked(room) {
            let text = format!(
                "the room has {lines} source lines, over {ROOM_LINES_MAX}; move a part of it to a room of its own"
            );
            findings.push(Finding::error(&format!("crates/{room}"), 1, text));
        } else if lines > ROOM_LINES_WARN {
            let text = format!(
                "the room has {lines} source lines, over {ROOM_LINES_WARN}; ask which part could stand alone"
            );
            findings.push(Finding::warning(&format!("crates/{room}"), 1, text));
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

    #[test]
    fn a_room_is_asked_about_at_8000_lines_and_refused_at_10000() {
        let source = "const A: u8 = 0;\n".repeat(500);
        let paths: Vec<String> = (0..17).map(|i| format!("crates/live/src/part{i}.rs")).collect();
        let files: Vec<(&str, &str)> =
            paths.iter().map(|path| (path.as_str(), source.as_str())).collect();
        assert!(findings(&files[..16]).is_empty());
        let asked = |name: &str, parts: usize| {
            let paths: Vec<_> = (0..parts).map(|i| format!("crates/{name}/src/p{i}.rs")).collect();
            let files: Vec<_> = paths.iter().map(|path| (path.as_str(), source.as_str())).collect();
            findings(&files)
        };
        assert!(asked("live", 21)[0].contains("move a part of it to a room of its own"));
        // Levels inside are checked: the crate may be large.
        assert!(asked("memo", 21)[0].contains("warning: "));
        assert_eq!(
            findings(&files),
            [
                "crates/live:1: warning: the room has 8500 source lines, over 8000; ask which part could stand alone"
            ]
        );
    }
}

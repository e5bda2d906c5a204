//! The table of what checks each rule of the text names what there is, and leaves nothing out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every Rust file in a folder.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    all
}

fn names(file: &str, lists: &[&str]) -> BTreeSet<String> {
    let path = root().join("tests/fixtures/live").join(file);
    let content: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |list: &Value| -> Vec<String> {
        let cases = list.as_array().unwrap().iter();
        cases.map(|case| case["name"].as_str().unwrap().to_owned()).collect()
    };
    if lists.is_empty() {
        return of(&content).into_iter().collect();
    }
    lists.iter().flat_map(|list| of(&content[list])).collect()
}

#[test]
fn every_rule_of_the_text_names_what_checks_it() {
    let table = std::fs::read_to_string(root().join("docs/live-protocol-checks.md")).unwrap();
    let (head, table) = table.split_once("## The promise").unwrap();
    assert!(head.contains("checks.rs"));
    let folders = [
        "crates/live-proto/src",
        "crates/live-proto/tests/it",
        "crates/live/src",
        "crates/live/tests/it",
        "examples/contacts/tests/it",
        "tests/it/live",
        "tests/it/vocabulary",
    ];
    let tests = folders.map(|folder| sources(&root().join(folder))).concat();
    let there = [
        ("e", names("errors.json", &["at_acceptor", "at_dialer"])),
        ("c", names("conversations.json", &["conversations"])),
        ("f", names("frames.json", &[])),
    ];
    let mut named: Vec<(&str, &str)> = Vec::new();
    let mut rows = 0;
    for line in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule")) {
        let (_, checks) = line.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        assert!(!checks.is_empty(), "nothing checks: {line}");
        rows += 1;
        let marked: Vec<_> = checks.split('`').skip(1).step_by(2).collect();
        let plain = ["net", "fuzz", "owner", "none"].iter().any(|word| checks.contains(word));
        assert!(plain || !marked.is_empty(), "nothing checks: {line}");
        named.extend(marked.into_iter().map(|mark| mark.split_once(": ").unwrap()));
    }
    for (kind, name) in &named {
        let is_there = match there.iter().find(|(known, _)| known == kind) {
            Some((_, names)) => names.contains(*name),
            None => *kind == "t" && tests.contains(&format!("fn {name}()")),
        };
        assert!(is_there, "there is no {kind}: {name}");
    }
    for (kind, all) in there.iter().filter(|(kind, _)| *kind != "f") {
        for name in all {
            assert!(named.contains(&(*kind, name)), "no rule names {kind}: {name}");
        }
    }
    println!("{rows} rules, {} checks", named.len());
}

#[test]
fn every_section_of_the_text_has_rules_in_the_table() {
    let read = |file: &str| std::fs::read_to_string(root().join("docs").join(file)).unwrap();
    let (text, table) = (read("live-protocol.md"), read("live-protocol-checks.md"));
    for heading in text.lines().filter(|line| line.starts_with("## ")).take(11) {
        let (_, rest) = table.split_once(&format!("{heading}\n")).expect(heading);
        let rows =
            rest.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| "));
        assert!(rows.count() > 1, "{heading}");
    }
    for heading in text.lines().filter_map(|line| line.strip_prefix("### ")) {
        let number = heading.split(' ').next().unwrap();
        assert!(table.contains(&format!("| {number} ")) || number.starts_with('9'), "{heading}");
    }
}

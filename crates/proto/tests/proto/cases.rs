//! What protoc accepts is accepted, and what it refuses is refused in the same line.
//!
//! The cases and protoc's verdicts are in `cases/protoc.txt`; `scripts/protoc-cases.py` writes the
//! verdicts from a real protoc.

use std::fs;

use tidewire_proto::Sources;

/// One case: what protoc says of the files.
struct Case {
    name: &'static str,
    /// `None` when protoc accepts the files; its line, 0 where it names none.
    refused_in_line: Option<u32>,
    files: Vec<(&'static str, &'static str)>,
}

#[test]
fn what_protoc_accepts_is_accepted_and_what_it_refuses_is_refused_in_its_line() {
    let mut wrong = Vec::new();
    for case in cases() {
        let found = compile(&case);
        let differs = DIFFERENT.iter().any(|(name, _)| *name == case.name);
        let agrees = match (&found, case.refused_in_line) {
            (Ok(()), None) | (Err(_), Some(0)) => true,
            (Err(place), Some(line)) => place.starts_with(&format!("a.proto:{line}:")),
            _ => false,
        };
        if agrees == differs {
            wrong.push(format!("{} (protoc: {:?}): {found:?}", case.name, case.refused_in_line));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Compiles the files of a case: what is said first of `a.proto`.
fn compile(case: &Case) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &case.files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let compiled = Sources::new().file(folder.path().join("a.proto")).compile();
    compiled.map(drop).map_err(|found| {
        let found = found.to_string();
        found.replace(&format!("{}/", folder.path().display()), "").lines().next().unwrap().into()
    })
}

fn cases() -> Vec<Case> {
    let all = include_str!("../cases/protoc.txt");
    let all = all.split("=== ").skip(1).map(|case| {
        let (name, rest) = case.split_once("\n=> ").expect("a verdict");
        let (verdict, text) = rest.split_once('\n').expect("a text");
        let mut files = vec![];
        let mut parts = text.split("%% ");
        files.push(("a.proto", parts.next().unwrap()));
        files.extend(parts.map(|part| part.split_once('\n').expect("a name")));
        let line = verdict.split(':').next().and_then(|line| line.parse().ok()).unwrap_or(0);
        Case { name, refused_in_line: (verdict != "accepted").then_some(line), files }
    });
    all.collect()
}

/// Where we differ from protoc, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("double sub-field 1.5f", "the text format allows the suffix; protoc only at run time"),
    ("surrogate escape alone", "it would be a string that is not UTF-8"),
    ("surrogate low escape alone", "the same"),
    ("escape above the last character", "the same"),
    ("default string \"\\xff\"", "the same"),
    ("reserved over max", "no field can have that number"),
    ("reserved name is none", "no field can have that name"),
    ("features in proto3", "protoc points at the beginning of the file"),
    ("edition required by the file", "the same"),
    ("reserved numbers twice", "protoc points at the first of the two"),
    ("reserved overlaps extensions", "the same"),
    ("extension ranges overlap", "the same"),
    ("field in extension range", "protoc points at the range, we at the field"),
    ("reserved name twice", "protoc points at the message"),
    ("enum reserved name twice", "protoc points at the enum"),
    ("enum alias for nothing", "protoc points at the end of the file"),
    ("enum alias false", "the same"),
];

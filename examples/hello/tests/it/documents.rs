//! What the documents quote is what is there: files between markers, and the table of settings.
//!
//! `UPDATE=1 cargo test -p hello --test it` writes the documents anew.

use std::fs;
use std::path::{Path, PathBuf};

use tidewire::config::KEYS;

#[test]
fn a_file_quoted_in_a_document_is_that_file() {
    let mut quotes = 0;
    for document in documents() {
        check(&document, "<!-- file:", |path| {
            quotes += 1;
            let language = Path::new(path).extension().unwrap().to_str().unwrap();
            let language = language.replace("rs", "rust");
            let text = fs::read_to_string(root().join(path)).unwrap();
            format!("```{language}\n{}\n```", text.trim_end())
        });
    }
    assert!(quotes >= 3, "README.md quotes the program, build.rs and the .proto");
}

#[test]
fn the_table_of_settings_is_the_one_of_the_program() {
    let mut table = "| key | variable | default | what it does |\n|---|---|---|---|\n".to_owned();
    for key in KEYS {
        table += &format!(
            "| `{}` | `{}` | {} | {} |\n",
            key.path,
            key.variable(),
            code(key.default, key.example),
            key.about
        );
    }
    let mut tables = 0;
    check(&root().join("docs/guide/configuration.md"), "<!-- settings:", |_| {
        tables += 1;
        table.trim_end().to_owned()
    });
    assert_eq!(tables, 1);
}

/// A default that is a value is set as code; one that is words is not.
fn code(default: &str, example: &str) -> String {
    if default == example { format!("`{default}`") } else { default.to_owned() }
}

/// Compares what stands between `<marker NAME -->` and `<!-- /… -->` with what should, or, with
/// `UPDATE=1`, makes it so.
fn check(document: &Path, marker: &str, mut expected: impl FnMut(&str) -> String) {
    let text = fs::read_to_string(document).unwrap();
    let mut written = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(marker) {
        let (before, from) = rest.split_at(at);
        let (line, after) = from.split_once('\n').unwrap();
        let name = line[marker.len()..].trim_end_matches("-->").trim();
        let end = after.find("<!-- /").unwrap_or_else(|| panic!("{line} has no end"));
        written += &format!("{before}{line}\n{}\n", expected(name));
        rest = &after[end..];
    }
    written += rest;
    if std::env::var_os("UPDATE").is_some() {
        fs::write(document, written).unwrap();
        return;
    }
    let wrong = text.lines().zip(written.lines()).position(|(is, should)| is != should);
    assert!(
        text == written,
        "{}:{}: out of date; run: UPDATE=1 cargo test -p hello --test it",
        document.display(),
        wrong.map_or(0, |line| line + 1)
    );
}

/// README.md and all of docs/.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

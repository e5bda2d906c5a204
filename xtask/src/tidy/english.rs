//! Plain English: phrases that a native reader stumbles over, and comments that are too wide.
//!
//! ```text
//! | phrase | write |
//! |---|---|
//! | is none, are none | say what it is instead |
//! | X is no Y | X is not a Y |
//! | for who, to who | for the caller, for whoever |
//! | what is made of it | what depends on it |
//! | a folder of its own | its own folder |
//! | shall | must, is to |
//! ```
//!
//! Looked at are the texts and the documentation of programs, outside of their tests, and every
//! document. What was written before this rule is on the list in `english_old.txt`, by file or,
//! with a `/` at the end, by folder. The list only shrinks: an entry without a finding is an error.

use crate::tree::{File, Finding, Tree};

/// Files and folders that were written before this rule.
const OLD: &str = "xtask/src/tidy/english_old.txt";
const COMMENT_COLUMNS_MAX: usize = 100;
/// Written by programs, by others, or as quotations of the past.
const OUTSIDE: &[&str] = &["bench-runs/", "bench/peers/", "tests/fixtures/", "fuzz/"];

/// Phrases and wide comments in files that are not on the list, and entries that nothing needs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let old: Vec<(usize, &str)> = (1..).zip(tree.text(OLD).unwrap_or_default().lines()).collect();
    let mut is_needed = vec![false; old.len()];
    let mut findings = Vec::new();
    for file in &tree.files {
        let found = of_file(tree, file);
        let entry = old.iter().position(|(_, entry)| is_of(&file.path, entry));
        match entry {
            Some(entry) => is_needed[entry] |= !found.is_empty(),
            None => findings.extend(found),
        }
    }
    for ((line, entry), _) in old.iter().zip(is_needed).filter(|(_, is_needed)| !is_needed) {
        let text = format!("`{entry}` has no finding any longer; remove this line");
        findings.push(Finding::error(OLD, *line, text));
    }
    findings
}

fn is_of(path: &str, entry: &str) -> bool {
    path == entry || entry.ends_with('/') && path.starts_with(entry)
}

fn of_file(tree: &Tree, file: &File) -> Vec<Finding> {
    if OUTSIDE.iter().any(|folder| file.path.starts_with(folder)) || file.is_generated() {
        return Vec::new();
    }
    if file.path.ends_with(".md") { of_document(file) } else { of_program(tree, file) }
}

fn of_document(file: &File) -> Vec<Finding> {
    let mut is_code = false;
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            findings.extend(phrase(line).map(|why| Finding::error(&file.path, number, why)));
        }
    }
    findings
}

fn of_program(tree: &Tree, file: &File) -> Vec<Finding> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let mut findings = Vec::new();
    for token in rust.tokens.iter().filter(|token| token.text.starts_with(['"', 'r', 'b'])) {
        if token.text.ends_with(['"', '#']) && !tree.is_test_line(file, token.line) {
            findings.extend(phrase(&token.text).map(|why| (token.line, why)));
        }
    }
    let mut is_code = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        if text.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            continue;
        }
        let is_doc = comment.starts_with(['/', '!']);
        if is_doc && !tree.is_test_line(file, number) {
            findings.extend(phrase(text).map(|why| (number, why)));
        }
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS_MAX && !text.starts_with('|') && text.contains(' ') {
            let why = format!("a comment of {columns} columns; wrap it at {COMMENT_COLUMNS_MAX}");
            findings.push((number, why));
        }
    }
    findings.into_iter().map(|(line, why)| Finding::error(&file.path, line, why)).collect()
}

/// The first banned phrase of a text, and what to write.
fn phrase(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    for (at, window) in words.windows(2).enumerate() {
        let [first, second] = [bare(window[0]), bare(window[1])];
        // Punctuation between two words parts them.
        if !window[0].ends_with(char::is_alphanumeric) && !window[0].ends_with('`') {
            continue;
        }
        let before = at.checked_sub(1).map(|at| bare(words[at])).unwrap_or_default();
        let after = words.get(at + 2).map(|word| bare(word)).unwrap_or_default();
        let is_verb = matches!(&*first, "is" | "are" | "was" | "were");
        let advice = match (&*first, &*second) {
            (_, "none")
                if is_verb && before != "there" && after != "of" && !window[1].contains('`') =>
            {
                "say what it is instead"
            }
            (_, "no") if is_verb && !matches!(&*before, "there" | "if") && is_predicate(&after) => {
                "write `is not a …`"
            }
            ("for" | "to" | "of" | "by" | "from" | "with" | "than", "who") => {
                "name the caller, or write `whoever`"
            }
            ("what", "is" | "was") if after == "made" && words.get(at + 3) == Some(&"of") => {
                "write `what depends on it`"
            }
            ("its" | "their", "own") if before == "of" => "write `its own …`",
            ("shall", _) => "write `must` or `is to`",
            _ => continue,
        };
        return Some(format!("`{first} {second}` is not plain English; {advice}"));
    }
    None
}

/// `is no longer` and `is no more than` are English.
fn is_predicate(after: &str) -> bool {
    !matches!(
        after,
        "" | "longer"
            | "more"
            | "less"
            | "larger"
            | "smaller"
            | "older"
            | "sooner"
            | "later"
            | "better"
            | "need"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_planted_phrase_in_a_text_a_rustdoc_or_a_document_is_a_finding() {
        for bad in [
            "this is none",
            "it is no number",
            "Files are no folders.",
            "for who calls",
            "gone with what is made of it",
            "a folder of its own",
            "it shall be",
        ] {
            let text = format!("fn f() {{ g(\"{bad}\") }}\n");
            assert_eq!(findings(&[("crates/wire/src/a.rs", &text)]).len(), 1, "{bad}");
            let doc = format!("/// {bad}\nfn f() {{}}\n");
            assert_eq!(findings(&[("crates/wire/src/a.rs", &doc)]).len(), 1, "{bad}");
            assert_eq!(findings(&[("docs/guide/new.md", bad)]).len(), 1, "{bad}");
            let test = format!("#[cfg(test)]\nmod tests {{ fn f() {{ g(\"{bad}\") }} }}\n");
            assert_eq!(findings(&[("crates/wire/src/a.rs", &test)]), [""; 0], "{bad}");
            let code = format!("```text\n{bad}\n```\n");
            assert_eq!(findings(&[("docs/guide/new.md", &code)]), [""; 0], "{bad}");
        }
    }

    #[test]
    fn what_is_english_is_no_finding() {
        for good in [
            "there is no such key",
            "there is none",
            "it is no longer open",
            "tell the caller who wrote it",
            "is: none",
            "own folder",
            "no number is there",
        ] {
            assert_eq!(findings(&[("docs/guide/new.md", good)]), [""; 0], "{good}");
        }
    }

    #[test]
    fn a_wide_comment_is_a_finding_but_in_a_table_or_a_link() {
        let wide = format!("// {}\n", "word ".repeat(20));
        let found = findings(&[("crates/wire/src/a.rs", &wide)]);
        assert_eq!(found, ["crates/wire/src/a.rs:1: a comment of 103 columns; wrap it at 100"]);
        let table = format!("//! | {} |\n", "word ".repeat(20));
        assert_eq!(findings(&[("crates/wire/src/a.rs", &table)]), [""; 0]);
        let link = format!("// https://example.org/{}\n", "word".repeat(30));
        assert_eq!(findings(&[("crates/wire/src/a.rs", &link)]), [""; 0]);
    }

    #[test]
    fn an_old_file_is_left_alone_until_it_is_clean() {
        let old = (OLD, "docs/old.md\ndocs/clean.md\ncrates/memo/\n");
        let files = [
            old,
            ("docs/old.md", "it is none"),
            ("docs/clean.md", "it is fine"),
            ("crates/memo/src/a.rs", "/// It is none.\nfn f() {}\n"),
        ];
        assert_eq!(
            findings(&files),
            [
                "xtask/src/tidy/english_old.txt:2: `docs/clean.md` has no finding any longer; remove this line"
            ]
        );
    }
}

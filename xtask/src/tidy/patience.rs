//! Tests neither wait for time to pass nor are left out.
//!
//! A sleep makes a test slow and, on a busy machine, wrong: wait for the event instead. The rare
//! sleep that has a reason carries it, on its line or the one above:
//! `// tidy: allow-sleep the clock is virtual`.

use crate::rust_file::Token;
use crate::tree::{Finding, Tree};

const MARK: &str = "tidy: allow-sleep";

/// Sleeps in test code without a reason, and ignored tests anywhere.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        // What a benchmark waits for is part of what it measures.
        let is_bench = file.path.contains("/benches/");
        let text: Vec<&str> = file.text.lines().collect();
        for window in rust.tokens.windows(3) {
            let [first, second, third] = window else { continue };
            if first.text == "#" && second.text == "[" && third.text == "ignore" {
                let text = "an ignored test proves nothing; make it pass, or delete it";
                findings.push(Finding::error(&file.path, first.line, text));
            }
            if !is_bench
                && is_sleep(first, second, third)
                && tree.is_test_line(file, second.line)
                && !has_reason(&text, second.line)
            {
                let text = format!(
                    "a test sleeps; wait for the event, or say why not with `// {MARK} <reason>`"
                );
                findings.push(Finding::error(&file.path, second.line, text));
            }
        }
    }
    findings
}

/// A call of a function named `sleep` or `sleep_until`; a method or a definition is not one.
fn is_sleep(before: &Token, name: &Token, after: &Token) -> bool {
    matches!(name.text.as_str(), "sleep" | "sleep_until")
        && after.text == "("
        && !matches!(before.text.as_str(), "." | "fn")
}

fn has_reason(text: &[&str], line: usize) -> bool {
    let reason = |line: usize| {
        let (_, reason) = text.get(line.checked_sub(1)?)?.split_once(MARK)?;
        (!reason.trim().is_empty()).then_some(())
    };
    reason(line).or_else(|| reason(line - 1)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_sleep_in_test_code_is_a_finding() {
        for bad in [
            "fn t() { std::thread::sleep(D); }",
            "async fn t() { tokio::time::sleep(D).await; }",
            "fn t() { sleep(D); }",
            "async fn t() { select! { _ = sleep_until(D) => {} } }",
        ] {
            assert_eq!(lines("crates/server/tests/a.rs", bad), [1], "{bad}");
            assert_eq!(lines("crates/server/src/a.rs", bad), [0_usize; 0], "{bad}");
            let in_tests = format!("#[cfg(test)]\nmod tests {{ {bad} }}");
            assert_eq!(lines("crates/server/src/a.rs", &in_tests), [2], "{bad}");
        }
    }

    #[test]
    fn a_reason_allows_a_sleep_and_an_empty_one_does_not() {
        let path = "crates/server/tests/a.rs";
        assert_eq!(
            lines(path, "fn t() {\n    sleep(D); // tidy: allow-sleep virtual clock\n}"),
            [0_usize; 0]
        );
        assert_eq!(
            lines(path, "fn t() {\n    // tidy: allow-sleep virtual clock\n    sleep(D);\n}"),
            [0_usize; 0]
        );
        assert_eq!(lines(path, "fn t() {\n    sleep(D); // tidy: allow-sleep\n}"), [2]);
    }

    #[test]
    fn an_ignored_test_is_a_finding() {
        assert_eq!(lines("crates/memo/src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn t() {}"), [2]);
    }
}

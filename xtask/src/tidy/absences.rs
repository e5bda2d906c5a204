//! What a crate never does, stated in ARCHITECTURE.md as absences.
//!
//! | crates | never name |
//! |---|---|
//! | memo, service, wire, rest, live-proto, mock | sockets, the system's clock, the environment |
//! | every crate but cli | printing, ending the program |
//!
//! A line with `// tidy: allow-clock <reason>` on it or above it may read the clock: memo's
//! optional driver thread is the one place. One with `// tidy: allow-exit <reason>` may end the
//! program, one with `// tidy: allow-stream <reason>` name a standard stream: the log that a
//! program asks for. Tests are free. Only names are looked at: a socket behind another library is
//! not found here, but the edges between crates and the review of each dependency are.

use crate::rust_file::RustFile;
use crate::tree::{File, Finding, Tree};

const PURE_CRATES: &[&str] = &["memo", "service", "wire", "rest", "live-proto", "mock"];

/// What a pure crate may not name, and what to do instead.
const IMPURE: &[(&str, &str)] = &[
    (
        "std::net",
        "a crate without sockets; an address is `core::net::SocketAddr`, a socket belongs in `server` or `client`",
    ),
    ("std::os::unix::net", "a crate without sockets; a socket belongs in `server` or `client`"),
    ("tokio::net", "a crate without sockets; a socket belongs in `server` or `client`"),
    ("Instant::now", "a crate without a clock; take the time as an argument"),
    ("SystemTime::now", "a crate without a clock; take the time as an argument"),
    ("std::env", "a crate that does not read the environment; take the value as an argument"),
];

const CLOCK_MARK: &str = "tidy: allow-clock ";
const STREAM_MARK: &str = "tidy: allow-stream ";
const EXIT_MARK: &str = "tidy: allow-exit ";

const PRINTING: &[&str] = &["println", "print", "eprintln", "eprint", "dbg"];
const LEAVING: &[&str] =
    &["process::exit", "process::abort", "std::process::exit", "std::process::abort"];
const STREAMS: &[&str] = &["io::stdout", "io::stderr"];

/// Names that a crate may not mention outside of its tests.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let Some(name) = file.crate_name() else { continue };
        let mut found = Vec::new();
        if PURE_CRATES.contains(&name) {
            impure(name, rust, &mut found);
        }
        if name != "cli" {
            printing(name, rust, &mut found);
        }
        findings.extend(outside_tests(tree, file, found));
    }
    findings
}

fn outside_tests(tree: &Tree, file: &File, mut found: Vec<(usize, String)>) -> Vec<Finding> {
    found.sort();
    found.dedup();
    let lines: Vec<&str> = file.text.lines().collect();
    let has_mark = |line: usize, mark: &str| {
        [line.saturating_sub(1), line.saturating_sub(2)]
            .iter()
            .any(|index| lines.get(*index).is_some_and(|text| text.contains(mark)))
    };
    found.retain(|(line, what)| {
        let is_excused = what.contains("::now") && has_mark(*line, CLOCK_MARK)
            || what.contains("ends the program") && has_mark(*line, EXIT_MARK)
            || what.contains("take a writer") && has_mark(*line, STREAM_MARK);
        !(is_excused || tree.is_test_line(file, *line))
    });
    found.into_iter().map(|(line, text)| Finding::error(&file.path, line, text)).collect()
}

fn impure(name: &str, rust: &RustFile, found: &mut Vec<(usize, String)>) {
    for (path, instead) in IMPURE {
        for line in rust.mentions(path) {
            found.push((line, format!("`{name}` names `{path}` but is {instead}")));
        }
    }
}

fn printing(crate_name: &str, rust: &RustFile, found: &mut Vec<(usize, String)>) {
    for window in rust.tokens.windows(4) {
        let [name, bang, _, argument] = window else { continue };
        // What a build script tells cargo is not output.
        let is_for_cargo = crate_name == "build" && argument.text.starts_with("\"cargo:");
        if bang.text == "!" && PRINTING.contains(&name.text.as_str()) && !is_for_cargo {
            let text = format!(
                "`{crate_name}` calls `{}!`, but only `cli` prints; return it, or emit a tracing event",
                name.text
            );
            found.push((name.line, text));
        }
    }
    for path in STREAMS {
        for line in rust.mentions(path) {
            found.push((
                line,
                format!(
                    "`{crate_name}` names `{path}`, but only `cli` prints; take a writer as an argument"
                ),
            ));
        }
    }
    for path in LEAVING {
        for line in rust.mentions(path) {
            found.push((
                line,
                format!("`{crate_name}` ends the program, but only `cli` exits; return an error"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_pure_crate_that_names_a_socket_a_clock_or_the_environment_is_a_finding() {
        for bad in [
            "use std::net::TcpStream;",
            "use std::{fmt, net};",
            "use tokio::net::UnixStream;",
            "fn f() { std::time::Instant::now(); }",
            "fn f() { tokio::select! { _ = g(Instant::now()) => {} } }",
            "fn f() { SystemTime::now(); }",
            "fn f() { std::env::var(\"A\"); }",
            "use std::env;",
        ] {
            assert_eq!(findings("crates/live-proto/src/a.rs", bad).len(), 1, "{bad}");
            assert_eq!(findings("crates/server/src/a.rs", bad).len(), 0, "{bad}");
            assert_eq!(findings("crates/live-proto/tests/a.rs", bad).len(), 0, "{bad}");
            let in_tests = format!("#[cfg(test)]\nmod tests {{ {bad} }}");
            assert_eq!(findings("crates/live-proto/src/a.rs", &in_tests).len(), 0, "{bad}");
        }
    }

    #[test]
    fn a_crate_that_prints_or_exits_is_a_finding_unless_it_is_the_program() {
        for bad in [
            "fn f() { println!(\"a\"); }",
            "fn f() { eprint!(\"a\"); }",
            "fn f() { std::io::stdout().flush(); }",
            "fn f() { std::process::exit(1); }",
            "use std::process; fn f() { process::exit(1) }",
        ] {
            assert_eq!(findings("crates/bench/src/a.rs", bad).len(), 1, "{bad}");
            assert_eq!(findings("crates/cli/src/a.rs", bad).len(), 0, "{bad}");
        }
    }

    #[test]
    fn what_is_a_program_of_its_own_may_exit_with_a_reason() {
        let text =
            "fn f() {\n    // tidy: allow-exit it is a program\n    std::process::exit(1);\n}";
        assert_eq!(findings("crates/hosting/src/a.rs", text).len(), 0);
    }

    #[test]
    fn the_log_that_a_program_asks_for_may_be_written_with_a_reason() {
        let text = "// tidy: allow-stream a log\nuse std::io::stderr;";
        assert_eq!(findings("crates/tidewire/src/a.rs", text).len(), 0);
        assert_eq!(findings("crates/tidewire/src/a.rs", "\nuse std::io::stderr;").len(), 1);
    }

    #[test]
    fn a_build_script_may_talk_to_cargo() {
        let text = "fn f() { println!(\"cargo:rerun-if-changed=a\"); }";
        assert_eq!(findings("crates/build/src/a.rs", text).len(), 0);
        assert_eq!(findings("crates/server/src/a.rs", text).len(), 1);
    }

    #[test]
    fn the_finding_says_what_to_do() {
        assert_eq!(
            findings("crates/memo/src/a.rs", "\nfn f() { Instant::now(); }"),
            [
                "crates/memo/src/a.rs:2: `memo` names `Instant::now` but is a crate without a clock; take the time as an argument"
            ]
        );
    }
}

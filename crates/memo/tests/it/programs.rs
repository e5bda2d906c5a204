//! Random programs: what a graph answers is what it would answer without memory.
//!
//! A seed gives a program of memos, sources, scopes, tasks, channels, watches, evictions, errors, panics,
//! cancellations and up to two graphs. It runs on one thread under a deterministic scheduler. At every
//! read nothing may be older than a change that had returned when the read began; whenever everything is
//! quiet, every answer is compared with a recomputation from nothing, and nobody may still wait, be
//! silent about a change, or keep memory.
//!
//! Programs run in child processes, so that a crash or a deadlock is a finding like any other:
//!
//! ```text
//! MEMO_PROGRAMS=1000000 MEMO_SEED=1 cargo test -p tidewire-memo --test it programs
//! MEMO_SEED=77 MEMO_PATH=3,0,12 cargo test …     one program, cut down as a failure says
//! MEMO_WITHOUT=Strict,Close cargo test …         without these features; `generate` lists them
//! MEMO_ALL=2 cargo test …                        goes on after the first failure, two of each kind
//! MEMO_RAW=1 cargo test …                        does not cut failing programs down
//! MEMO_EVENTS=1 cargo test …                     shows what the graphs did before a failure
//! ```
#![allow(clippy::print_stdout)]

mod actions;
mod checks;
mod children;
mod eyes;
mod functions;
mod generate;
mod hooks;
mod program;
mod random;
mod reference;
mod run;
mod schedule;
mod sets;
mod shrink;
mod user;
mod watchdog;
mod world;

use std::fmt::Write;

/// Programs of a test run, and the seed of the first.
const PROGRAMS: u64 = 10_000;
const FIRST_SEED: u64 = 1;

#[test]
fn random_programs_answer_as_if_nothing_were_memoized() {
    if children::is_child() {
        return children::work();
    }
    let number = |name: &str, default| {
        std::env::var(name)
            .map_or(default, |text| text.parse().expect("MEMO_PROGRAMS and MEMO_SEED are numbers"))
    };
    let first = number("MEMO_SEED", FIRST_SEED);
    let one = std::env::var("MEMO_PATH").is_ok();
    let count = if one { 1 } else { number("MEMO_PROGRAMS", PROGRAMS) };
    println!("programs of seeds {first} to {}", first + count - 1);
    let findings = children::run(first, count);
    let mut text = String::new();
    for finding in &findings {
        writeln!(text, "{finding}").expect("a string takes everything");
    }
    assert!(findings.is_empty(), "{} findings\n{text}", findings.len());
}

//! Child processes that run programs, and what their parent makes of them.
//!
//! A closed graph leaves a few KiB behind, a deadlock cannot be undone and a crash takes its process
//! with it, so programs run in children, a few hundred in each. A child says which seed it is at; when
//! it dies, or does nothing any more, that seed has failed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::checks::leaks;
use super::generate::{program, without};
use super::program::Program;
use super::run::{run as run_program, values_left};
use super::shrink::{follow, shrink};
use super::watchdog::watch_over;
use super::world::Failure;

/// Programs of one child.
const BATCH: u64 = 250;
/// Programs between two looks at what is left of their values.
const LEFT_EVERY: u64 = 25;
/// How often a smaller program is tried: in the same process, and in a child of its own.
const TRIES: usize = 3_000;
const TRIES_IN_CHILDREN: usize = 60;

/// A failing program, cut down.
pub(super) struct Finding {
    seed: u64,
    path: Vec<usize>,
    failure: Failure,
    program: Program,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, path, failure, program } = self;
        writeln!(f, "{}: {}", failure.kind, failure.text)?;
        writeln!(f, "MEMO_SEED={seed} MEMO_PATH={}", join(path))?;
        write!(f, "{program}")
    }
}

fn join(path: &[usize]) -> String {
    path.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn split(text: &str) -> Vec<usize> {
    let numbers = text.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().expect("a path is numbers")).collect()
}

pub(super) fn is_child() -> bool {
    std::env::var_os("MEMO_CHILD").is_some()
}

/// The child: `MEMO_CHILD=first,count`, with a path when it is one program.
pub(super) fn work() {
    if std::env::var_os("MEMO_LOUD").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let reduces = std::env::var_os("MEMO_PATH").is_some();
    let look_every = Duration::from_millis(if reduces { 50 } else { 250 });
    watch_over(look_every, || {
        say("stuck");
        std::process::abort();
    });
    let range = split(&std::env::var("MEMO_CHILD").expect("asked before"));
    let path = std::env::var("MEMO_PATH").ok().map(|text| split(&text));
    let without = without();
    let (first, count) = (range[0] as u64, range[1] as u64);
    let mut unlooked = Vec::new();
    for seed in first..first + count {
        say(&format!("at {seed}"));
        let made = follow(program(seed, &without), path.as_deref().unwrap_or(&[]));
        if let Some(failure) = run_program(&made).into_iter().next() {
            match std::env::var_os("MEMO_REDUCE") {
                Some(_) => reduce(seed, &made, failure),
                None => report(seed, path.as_deref(), &failure),
            }
            // What it left is its own; the rest runs in a new child.
            say(&format!("at {}", seed + 1));
            say("left");
            std::process::abort();
        }
        unlooked.push(made);
        if unlooked.len() as u64 == LEFT_EVERY || seed + 1 == first + count {
            let programs = std::mem::take(&mut unlooked);
            look_for_leaks(seed, path.as_deref(), &programs);
        }
    }
    say("done");
}

fn look_for_leaks(last: u64, path: Option<&[usize]>, programs: &[Program]) {
    let mut left = values_left();
    if left == 0 {
        return;
    }
    let first = last + 1 - programs.len() as u64;
    for (seed, program) in (first..).zip(programs) {
        run_program(program);
        let now = values_left();
        if now != left && !leaks(program) {
            let failure = Failure { kind: LEFT.to_owned(), text: format!("{}", now - left) };
            report(seed, path, &failure);
        }
        left = now;
    }
    // What is left stays: the rest of the range runs in a new child.
    say(&format!("at {}", last + 1));
    say("left");
    std::process::abort();
}

fn report(seed: u64, path: Option<&[usize]>, failure: &Failure) {
    let Failure { kind, text } = failure;
    say(&format!("fail {seed} p{} {} {}", join(path.unwrap_or(&[])), hex(kind), hex(text)));
}

/// Cuts a program down here, which is fast.
fn reduce(seed: u64, made: &Program, failure: Failure) {
    let (kind, mut last) = (failure.kind.clone(), failure);
    let (_, path) = shrink(made, TRIES, |smaller, _| {
        let same = run_program(smaller).into_iter().find(|failure| failure.kind == kind);
        same.map(|failure| last = failure).is_some()
    });
    report(seed, Some(&path), &last);
}

fn hex(text: &str) -> String {
    let text = text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("x{text}")
}

fn unhex(text: &str) -> String {
    let digits: Vec<u8> = text.bytes().skip(1).collect();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("made by `hex`")
    };
    String::from_utf8_lossy(&digits.chunks(2).map(byte).collect::<Vec<_>>()).into_owned()
}

/// Says something to whoever runs the test, at once.
fn tell(what: &impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").expect("somebody listens");
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{text}").and_then(|()| out.flush()).expect("the parent listens");
}

/// The parent: runs programs in children, and stops at the first failure unless `MEMO_ALL` is set.
pub(super) fn run(first: u64, count: u64) -> Vec<Finding> {
    let path = std::env::var("MEMO_PATH").ok();
    let examples = std::env::var("MEMO_ALL")
        .ok()
        .map(|text| text.parse::<u32>().expect("MEMO_ALL is a number"));
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let findings = Mutex::new(Vec::new());
    let kinds = Mutex::new(BTreeMap::<String, u32>::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !enough.load(SeqCst) {
                    let from = next.fetch_add(BATCH, SeqCst);
                    let to = (from + BATCH).min(first + count);
                    if from >= to {
                        break;
                    }
                    for (seed, found, failure) in batch(from, to, path.as_deref(), false) {
                        enough.fetch_or(examples.is_none(), SeqCst);
                        let nth = {
                            let mut kinds = kinds.lock().expect("never poisoned");
                            let nth = kinds.entry(failure.kind.clone()).or_insert(0);
                            *nth += 1;
                            *nth
                        };
                        if nth <= examples.unwrap_or(1) {
                            let finding = finding(seed, found, failure);
                            tell(&finding);
                            findings.lock().expect("never poisoned").push(finding);
                        }
                    }
                }
            });
        }
    });
    tell(&format!("{:?}", kinds.into_inner().expect("never poisoned")));
    findings.into_inner().expect("never poisoned")
}

type Raw = (u64, Vec<usize>, Failure);

fn finding(seed: u64, path: Vec<usize>, failure: Failure) -> Finding {
    let made = program(seed, &without());
    if !path.is_empty() || std::env::var_os("MEMO_RAW").is_some() {
        return Finding { seed, program: follow(made, &path), path, failure };
    }
    let dies = matches!(failure.kind.as_str(), STUCK | CRASHED | LEFT);
    if !dies {
        let reduced = batch(seed, seed + 1, None, true);
        if let Some((_, path, failure)) = reduced.into_iter().next_back() {
            return Finding { seed, program: follow(made, &path), path, failure };
        }
    }
    let (smaller, path) = shrink(&made, TRIES_IN_CHILDREN, |_, path| {
        let found = batch(seed, seed + 1, Some(&join(path)), false);
        found.iter().any(|(_, _, other)| other.kind == failure.kind)
    });
    Finding { seed, path, failure, program: smaller }
}

/// Runs the programs of some seeds, in a new child after each one that died.
fn batch(from: u64, to: u64, path: Option<&str>, reduces: bool) -> Vec<Raw> {
    let mut found = Vec::new();
    let mut from = from;
    while from < to {
        let mut child = start(from, to - from, path, reduces);
        let (mut at, mut done, mut stuck, mut left) = (from, false, false, false);
        let out = child.stdout.take().expect("it is piped");
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let Some(line) = line.strip_prefix(MARK) else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["at", seed] => at = seed.parse().expect("a child says numbers"),
                ["fail", seed, path, kind, text] => {
                    let failure = Failure { kind: unhex(kind), text: unhex(text) };
                    found.push((
                        seed.parse().expect("a child says numbers"),
                        split(&path[1..]),
                        failure,
                    ));
                }
                ["stuck"] => stuck = true,
                ["left"] => left = true,
                ["done"] => done = true,
                _ => {}
            }
        }
        let ended = child.wait().expect("it was started");
        if done {
            break;
        }
        if left {
            from = at;
            continue;
        }
        let failed_here = found.iter().any(|(seed, _, _)| *seed == at);
        if !failed_here {
            let kind = if stuck { STUCK } else { CRASHED };
            found.push((
                at,
                Vec::new(),
                Failure { kind: kind.to_owned(), text: ended.to_string() },
            ));
        }
        from = at + 1;
    }
    found
}

fn start(from: u64, count: u64, path: Option<&str>, reduces: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command
        .args([
            "--exact",
            "programs::random_programs_answer_as_if_nothing_were_memoized",
            "--nocapture",
        ])
        .env("MEMO_CHILD", format!("{from},{count}"))
        .env_remove("MEMO_PATH")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if reduces {
        command.env("MEMO_REDUCE", "1");
    }
    path.into_iter().for_each(|path| _ = command.env("MEMO_PATH", path));
    command.spawn().expect("the test can be started again")
}

const MARK: &str = "@memo ";
const STUCK: &str = "stuck in the middle of a poll";
const LEFT: &str = "values are left";
const CRASHED: &str = "crashed";

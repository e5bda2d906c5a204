//! Attacks on a server over sockets, with what they cost it: memory before, at its peak and 30 s
//! after.
//!
//! `attack PROGRAM [ROW...]`: PROGRAM is the `tidewire` program, of which every row starts one for
//! itself. The table goes to standard output. A row fails, and with it the run, when the server is
//! no longer there, does not do what the row says, or takes more memory than the row allows.
//!
//! Peers stay within the limits of descriptors of this process: see `ulimit -n`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

mod flood;
mod framing;
mod idle;
mod live;
mod readers;
mod rows;
mod silent;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::rows::{ROWS, Row};
use crate::victim::Victim;

/// What a row came to.
struct Outcome {
    row: &'static Row,
    note: Result<String, String>,
    took: Duration,
    before: u64,
    peak: u64,
    after: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(program) = arguments.next().map(PathBuf::from) else {
        eprintln!("attack: name the program: attack target/release/tidewire [ROW...]");
        return ExitCode::from(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let mut waiting = Vec::new();
    for row in ROWS {
        if !wanted.is_empty() && !wanted.iter().any(|name| row.name.contains(name)) {
            continue;
        }
        eprintln!("attack: {}", row.name);
        // One at a time; only the half minutes after them pass together.
        let attacked = attack(row, &program).await;
        waiting.push(tokio::spawn(settle(attacked)));
    }
    let mut failed = false;
    println!("| attack | what came of it | took | before | peak | 30 s after |");
    println!("|---|---|---|---|---|---|");
    for row in waiting {
        let outcome = row.await.expect("a row does not panic");
        failed |= print(&outcome);
    }
    ExitCode::from(u8::from(failed))
}

/// Runs one attack on its own server.
async fn attack(row: &'static Row, program: &std::path::Path) -> (Victim, Outcome) {
    let victim = Victim::start(program, row.replies, row.settings).await;
    let before = victim.memory().now;
    victim.forget_peak();
    let begun = Instant::now();
    let note = tokio::time::timeout(ROW_MAX, (row.attack)(victim.address())).await;
    let note = note.unwrap_or_else(|_| Err(format!("was not over after {ROW_MAX:?}")));
    let outcome = Outcome { row, note, took: begun.elapsed(), before, peak: 0, after: 0 };
    (victim, outcome)
}

/// Waits half a minute, and looks what is left.
async fn settle((victim, mut outcome): (Victim, Outcome)) -> Outcome {
    // tidy: allow-sleep what is left after this time is what the row is about
    tokio::time::sleep(Duration::from_secs(30)).await;
    if let Err(why) = victim.answers().await {
        outcome.note = Err(format!("the server is not well afterwards: {why}"));
        return outcome;
    }
    let memory = victim.memory();
    (outcome.peak, outcome.after) = (memory.peak, memory.now);
    let Row { peak_max, left_max, .. } = *outcome.row;
    for (grown, max, when) in [
        (memory.peak.saturating_sub(outcome.before), peak_max, "at its peak"),
        (memory.now.saturating_sub(outcome.before), left_max, "30 s after"),
    ] {
        if grown > max << 10 {
            let text = format!("{} MiB more {when}, over {max} MiB", grown >> 10);
            outcome.note = outcome.note.and(Err(text));
        }
    }
    outcome
}

/// Prints a row of the table; whether it failed.
fn print(outcome: &Outcome) -> bool {
    let mebibytes =
        |kibibytes: u64| format!("{}.{} MiB", kibibytes >> 10, (kibibytes & 1023) / 103);
    let Outcome { row, note, took, before, peak, after } = outcome;
    let (note, failed) = match note {
        Ok(note) => (note.clone(), false),
        Err(why) => (format!("**failed**: {why}"), true),
    };
    let [before, peak, after] = [*before, *peak, *after].map(mebibytes);
    let took = took.as_secs_f64();
    println!("| {} | {note} | {took:.1} s | {before} | {peak} | {after} |", row.name);
    failed
}

/// No row takes longer.
const ROW_MAX: Duration = Duration::from_secs(90);

//! The words of `tidewire bench`: as it is started here, and as a line that repeats it in a
//! terminal.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tidewire_server::Address;
use tidewire_service::{Error, Result, StreamKind};
use tokio::process::Command;

use super::LoadProgram;
use super::plan::Plan;
use super::results::{self, CERTIFICATE, DESCRIPTORS, RESULT, SCENARIO};
use crate::proto::tidewire::admin::v1::{CompareLoadsReply, ComparedFigure, Load, LoadFigures};
use crate::redact;

/// A line for a shell that does what the plan says.
pub(super) fn line(plan: &Plan) -> String {
    let mut words = vec!["tidewire".to_owned()];
    words.extend(arguments(plan));
    for (name, value) in &plan.asked.headers {
        words.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    if plan.method.is_some() {
        words.extend(["-d".to_owned(), plan.asked.message.clone()]);
    }
    if let Some(file) = plan.certificate.as_ref().and_then(|shown| shown.file.as_ref()) {
        words.extend(["--server-cert".to_owned(), file.display().to_string()]);
    }
    if let Address::Tcp(address) = &plan.address {
        words.extend(["--server-port".to_owned(), address.port().to_string()]);
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The process that does what the plan says, in a folder that has what is sent.
pub(super) fn process(program: &Path, plan: &Plan) -> Command {
    let mut command = Command::new(program);
    command.args(arguments(plan)).args(["--events", "--scenario", SCENARIO, "--json", RESULT]);
    if plan.method.is_some() && plan.asked.protocol != "connect" {
        command.args(["--proto", DESCRIPTORS]);
    }
    if plan.certificate.is_some() {
        command.args(["--server-cert", CERTIFICATE]);
    }
    command.args(["--server-pid", &std::process::id().to_string()]);
    command
}

/// What both have.
fn arguments(plan: &Plan) -> Vec<String> {
    let asked = &plan.asked;
    let path = match &plan.method {
        Some(called) => &*called.method.path,
        None => &*asked.path,
    };
    let mut words: Vec<String> = ["bench", "run"].map(str::to_owned).to_vec();
    match &plan.address {
        Address::Unix(socket) => {
            words.push(format!("http://localhost{path}"));
            words.extend(["--unix".to_owned(), socket.display().to_string()]);
        }
        other => {
            let scheme = if plan.certificate.is_some() { "https" } else { "http" };
            words.push(format!("{scheme}://{other}{path}"));
        }
    }
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--protocol", asked.protocol.clone());
    let kind = plan.method.as_ref().map_or(StreamKind::Unary, |called| called.method.kind);
    match kind {
        StreamKind::Unary => {}
        StreamKind::Server => option("--kind", "server-stream".to_owned()),
        StreamKind::Client => option("--kind", "client-stream".to_owned()),
        StreamKind::Bidi => option("--kind", "bidi".to_owned()),
    }
    option("--connections", asked.connections.to_string());
    if asked.rate > 0.0 {
        option("--rate", asked.rate.to_string());
    }
    option("--duration", format!("{}s", asked.seconds));
    if asked.requests > 0 {
        option("--requests", asked.requests.to_string());
    }
    words
}

/// One word of a POSIX shell, whatever is in it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Sets the results of two runs side by side.
pub(super) async fn compare(
    program: &LoadProgram,
    base: &Load,
    new: &Load,
) -> Result<CompareLoadsReply> {
    let mut command = Command::new(&program.program);
    command.args(["bench", "compare", "--json", "-"]);
    command.args([base, new].map(|load| results::folder(&program.folder, &load.id).join(RESULT)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let lost = |why: std::io::Error| Error::internal(format!("tidewire bench compare: {why}"));
    let output = tokio::time::timeout(COMPARE_MAX, command.output()).await;
    let output = output.map_err(|_| Error::deadline_exceeded("the comparison takes too long"))?;
    let output = output.map_err(lost)?;
    if output.stdout.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::failed_precondition(redact::text(why.trim())));
    }
    let read = |why: serde_json::Error| Error::internal(format!("tidewire bench compare: {why}"));
    let comparison: Comparison = serde_json::from_slice(&output.stdout).map_err(read)?;
    let mut rows: Vec<_> = comparison.rows.into_iter().map(ComparedFigure::from).collect();
    // Before the CPU, which is there where both runs measured it.
    let times = rows.iter().take_while(|row| !row.name.contains("CPU")).count();
    rows.insert(times, failures(&base.figures, &new.figures));
    Ok(CompareLoadsReply {
        text: redact::text(&comparison.text),
        comparable: comparison.not_comparable.is_empty(),
        rows,
        not_comparable: comparison.not_comparable.iter().map(|why| redact::text(why)).collect(),
        notes: comparison.notes.iter().map(|note| redact::text(note)).collect(),
        intervals: comparison.intervals,
        ..Default::default()
    })
}

/// What `tidewire bench compare --json` writes, as far as it is read here.
#[derive(Deserialize)]
struct Comparison {
    rows: Vec<ComparisonRow>,
    intervals: String,
    notes: Vec<String>,
    not_comparable: Vec<String>,
    text: String,
}

#[derive(Deserialize)]
struct ComparisonRow {
    name: String,
    base_text: String,
    new_text: String,
    ratio: Option<Ratio>,
    verdict: String,
}

#[derive(Deserialize)]
struct Ratio {
    value: f64,
    low: f64,
    high: f64,
}

impl From<ComparisonRow> for ComparedFigure {
    fn from(row: ComparisonRow) -> Self {
        let Ratio { value, low, high } =
            row.ratio.unwrap_or(Ratio { value: 0.0, low: 0.0, high: 0.0 });
        Self {
            name: row.name,
            before: row.base_text,
            after: row.new_text,
            ratio: value,
            low,
            high,
            verdict: row.verdict,
            ..Default::default()
        }
    }
}

/// The share of calls that failed, or were never sent, in each run. They are counted, not sampled:
/// the ratio has no interval.
fn failures(base: &LoadFigures, new: &LoadFigures) -> ComparedFigure {
    let bad = |figures: &LoadFigures| figures.failed + figures.dropped;
    let all = |figures: &LoadFigures| figures.ok + bad(figures);
    let share = |figures: &LoadFigures| bad(figures) as f64 / all(figures).max(1) as f64;
    let shown = |figures: &LoadFigures| format!("{} of {}", bad(figures), all(figures));
    let verdict = match (bad(base), bad(new)) {
        (0, 0) => "none in either",
        (0, _) => "none before",
        (_, 0) => "none after",
        _ => "counted, so without an interval",
    };
    let ratio = if bad(base) == 0 { 0.0 } else { share(new) / share(base) };
    ComparedFigure {
        name: "failed or never sent".to_owned(),
        before: shown(base),
        after: shown(new),
        ratio,
        verdict: verdict.to_owned(),
        ..Default::default()
    }
}

const COMPARE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_shares_of_all_calls_and_no_ratio_is_made_of_none() {
        let run = |ok, failed, dropped| LoadFigures { ok, failed, dropped, ..Default::default() };
        for (base, new, ratio, verdict) in [
            (run(90, 5, 5), run(150, 30, 20), 2.5, "counted, so without an interval"),
            (run(90, 10, 0), run(100, 0, 0), 0.0, "none after"),
            (run(100, 0, 0), run(0, 10, 0), 0.0, "none before"),
            (run(100, 0, 0), run(0, 0, 0), 0.0, "none in either"),
        ] {
            let row = failures(&base, &new);
            assert!((row.ratio - ratio).abs() < 1e-9, "{row:?}");
            assert_eq!(row.verdict, verdict);
        }
        assert_eq!(failures(&run(90, 5, 5), &run(1, 0, 0)).before, "10 of 100");
    }

    #[test]
    fn whatever_a_word_has_it_is_one_word() {
        for (word, expected) in [
            ("--rate", "--rate"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's; rm -rf", "'it'\\''s; rm -rf'"),
            ("$(x)`y`", "'$(x)`y`'"),
            ("{{seq}}", "'{{seq}}'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}

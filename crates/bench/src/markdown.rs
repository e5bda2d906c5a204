//! A result as a Markdown table in the shape of the published ones: one row per label.

use std::fmt::Write as _;

use crate::quantity::{digits, grouped, size, time};
use crate::result::{ColdStart, RunResult};
use tidewire_loadgen::Stall;

/// The whole document.
pub(crate) fn text(result: &RunResult) -> String {
    let load = &result.load;
    let mut out = format!(
        "`{}`\n\n{}, {} model, {}{}, on {} ({} cores, {}), version {}{}\n\n",
        result.context.command,
        load.protocol,
        load.model,
        load.shape,
        length(load.duration),
        result.context.cpu,
        result.context.cores,
        result.context.system,
        result.context.version,
        result.context.commit.as_ref().map_or_else(String::new, |c| format!(", commit {c}")),
    );
    if let Some(cold) = &result.cold_start {
        cold_starts(&mut out, cold);
        findings(&mut out, result);
        return out;
    }
    out.push_str("| | answered/s | errors | p50 | p90 | p99 | p99.9 | max |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|\n");
    let latency = &result.latency;
    let requests = &result.requests;
    let errors = (requests.failed + requests.dropped) as f64 / requests.offered.max(1) as f64;
    let mut rows = vec![("raw", &latency.raw)];
    if latency.correction != "none" {
        rows.insert(0, ("corrected", &latency.corrected));
    }
    for (name, summary) in rows {
        let _ = writeln!(
            out,
            "| {name} | {} | {:.2} % | {} | {} | {} | {} | {} |",
            digits(result.throughput.ok_per_second),
            errors * 100.0,
            time(summary.p50),
            time(summary.p90),
            time(summary.p99),
            time(summary.p99_9),
            time(summary.max),
        );
    }
    for step in &result.steps {
        let total = (step.ok + step.failed).max(1) as f64;
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} % | {} | {} | {} | {} | {} |",
            step.name,
            digits(step.ok as f64 / result.throughput.seconds.max(1e-9)),
            step.failed as f64 / total * 100.0,
            time(step.latency.p50),
            time(step.latency.p90),
            time(step.latency.p99),
            time(step.latency.p99_9),
            time(step.latency.max),
        );
    }
    out.push('\n');
    server(&mut out, result);
    knee(&mut out, result);
    if !result.stalls.is_empty() {
        let _ = writeln!(out, "stall: {}\n", Stall::phrase(&result.stalls));
    }
    findings(&mut out, result);
    out
}

/// Cold starts have a first answer each, and no rate and no cost per request.
fn cold_starts(out: &mut String, cold: &ColdStart) {
    let first = &cold.first_answer;
    let _ = writeln!(
        out,
        "| | answered | failed | mean | p50 | p90 | max |\n|---|--:|--:|--:|--:|--:|--:|\n\
         | from the spawn to the first answer | {} | {} | {} | {} | {} | {} |\n",
        cold.starts.len(),
        cold.failed,
        time(first.mean),
        time(first.p50),
        time(first.p90),
        time(first.max),
    );
}

fn findings(out: &mut String, result: &RunResult) {
    for (failure, count) in &result.failures {
        let _ = writeln!(out, "- {} × {failure}", grouped(*count as f64));
    }
    for note in &result.notes {
        let _ = writeln!(out, "- {note}");
    }
}

/// How long the load was, in a list; cold starts have no length.
pub(crate) fn length(seconds: f64) -> String {
    if seconds > 0.0 { format!(", {seconds:.0} s") } else { String::new() }
}

fn server(out: &mut String, result: &RunResult) {
    let Some(server) = &result.server else { return };
    out.push_str("| server | s | CPU s | CPU per request | switches per request | RSS | PSS |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|\n");
    for phase in &server.phases {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let _ = writeln!(
            out,
            "| {} | {:.2} | {:.2} | {} | {} | {} | {} |",
            phase.name,
            phase.seconds,
            phase.cpu_seconds,
            or_dash(phase.cpu_seconds_per_request.map(time)),
            or_dash(phase.context_switches_per_request.map(digits)),
            size(phase.rss_bytes as f64),
            or_dash(phase.pss_bytes.map(|bytes| size(bytes as f64))),
        );
    }
    out.push('\n');
}

fn knee(out: &mut String, result: &RunResult) {
    let Some(knee) = &result.knee else { return };
    let rate =
        knee.rate.map_or_else(|| "none".to_owned(), |rate| format!("**{}/s**", digits(rate)));
    let _ = writeln!(out, "knee for `{}`: {rate}\n", knee.objective);
    out.push_str("| offered/s | answered/s | p50 | p99 | errors | |\n|--:|--:|--:|--:|--:|---|\n");
    for trial in &knee.trials {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} % | {} |",
            digits(trial.rate),
            digits(trial.ok_per_second),
            time(trial.p50),
            time(trial.p99),
            trial.errors * 100.0,
            trial.reason.as_deref().unwrap_or("held"),
        );
    }
    out.push('\n');
}

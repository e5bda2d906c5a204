//! A result in plain words, for a terminal or a log.

use std::fmt::Write as _;

use crate::quantity::{digits, grouped, size, time};
use crate::result::{ColdStart, RunResult};
use crate::threshold::Threshold;
use tidewire_loadgen::{Stall, Summary};

/// The whole text.
pub(crate) fn text(result: &RunResult) -> String {
    let mut out = String::new();
    let load = &result.load;
    line(&mut out, &format!("{}  {}", load.target, load.protocol));
    if let Some(cold) = &result.cold_start {
        cold_starts(&mut out, cold);
        verdicts(&mut out, result);
        return out;
    }
    let warm_up = if load.warm_up > 0.0 {
        format!(", after {} s warm-up", load.warm_up)
    } else {
        String::new()
    };
    line(
        &mut out,
        &format!(
            "{} model, {}, {} connections × {} in flight, {:.1} s{warm_up}\n",
            load.model, load.shape, load.connections, load.depth, result.throughput.seconds,
        ),
    );
    if let Some(knee) = &result.knee {
        let rate =
            knee.rate.map_or_else(|| "none".to_owned(), |rate| format!("{}/s", digits(rate)));
        line(&mut out, &format!("knee: {rate} keeps {}; figures at that rate:\n", knee.objective));
    }
    requests(&mut out, result);
    latencies(&mut out, result);
    if !result.stalls.is_empty() {
        let starts: Vec<String> =
            result.stalls.iter().take(5).map(|stall| format!("{:.1} s", stall.at)).collect();
        let more = if result.stalls.len() > 5 { ", …" } else { "" };
        let phrase = Stall::phrase(&result.stalls);
        line(&mut out, &format!("stall: {phrase} (at {}{more})", starts.join(", ")));
    }
    for (failure, count) in &result.failures {
        line(&mut out, &format!("failed: {} × {failure}", grouped(*count as f64)));
    }
    steps(&mut out, result);
    processes(&mut out, result);
    verdicts(&mut out, result);
    out
}

/// Cold starts have a first answer each, and no rate, connections or cost per request.
fn cold_starts(out: &mut String, cold: &ColdStart) {
    let started = grouped(cold.starts.len() as f64);
    line(
        out,
        &format!("cold starts: {started} answered, {} failed\n", grouped(cold.failed as f64)),
    );
    let first = &cold.first_answer;
    line(out, "from spawn     mean       p50       p90       max");
    let times = [first.mean, first.p50, first.p90, first.max].map(time);
    let cells = times.map(|time| format!("{time:>9}"));
    line(out, &format!("to answer {}\n", cells.join(" ")));
}

fn verdicts(out: &mut String, result: &RunResult) {
    for threshold in &result.thresholds {
        let verdict = if threshold.held { "held" } else { "FAILED" };
        let measured = Threshold::show(&threshold.threshold, threshold.measured);
        line(out, &format!("threshold {}: {verdict} ({measured})", threshold.threshold));
    }
    for note in &result.notes {
        line(out, &format!("note: {note}"));
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn requests(out: &mut String, result: &RunResult) {
    let requests = &result.requests;
    let throughput = &result.throughput;
    let mut text = format!(
        "{} answered, {}/s, {}/s",
        grouped(requests.ok as f64),
        digits(throughput.ok_per_second),
        size(throughput.bytes_per_second),
    );
    if requests.messages > requests.ok {
        let _ = write!(text, ", {} messages/s", digits(throughput.messages_per_second));
    }
    let _ = write!(text, "; {} failed", grouped(requests.failed as f64));
    if result.load.model == "open" {
        let _ = write!(
            text,
            ", {} dropped of {} due",
            grouped(requests.dropped as f64),
            grouped(requests.offered as f64)
        );
    }
    line(out, &text);
    out.push('\n');
}

fn latencies(out: &mut String, result: &RunResult) {
    if result.requests.ok == 0 {
        line(out, "latency: nothing was answered well");
        return;
    }
    let latency = &result.latency;
    line(out, "latency        p50       p90       p99     p99.9       max");
    if latency.correction == "none" {
        row(out, "raw", &latency.raw);
    } else {
        row(out, "corrected", &latency.corrected);
        row(out, "raw", &latency.raw);
    }
    out.push('\n');
}

fn row(out: &mut String, name: &str, summary: &Summary) {
    let mut text = format!("{name:<10}");
    for value in [summary.p50, summary.p90, summary.p99, summary.p99_9, summary.max] {
        let _ = write!(text, "{:>9} ", time(value));
    }
    line(out, text.trim_end());
}

fn steps(out: &mut String, result: &RunResult) {
    if result.steps.is_empty() {
        return;
    }
    line(out, "step             answered    failed       p50       p99       max");
    for step in &result.steps {
        line(
            out,
            &format!(
                "{:<14}{:>11}{:>10}{:>10}{:>10}{:>10}",
                step.name,
                grouped(step.ok as f64),
                grouped(step.failed as f64),
                time(step.latency.p50),
                time(step.latency.p99),
                time(step.latency.max),
            ),
        );
    }
    out.push('\n');
}

fn processes(out: &mut String, result: &RunResult) {
    let client = &result.client;
    let cost = if result.requests.ok == 0 {
        format!("{} CPU", time(client.cpu_seconds))
    } else {
        format!("{} CPU per request", time(client.cpu_seconds_per_request))
    };
    line(
        out,
        &format!(
            "generator: {cost}, busiest thread {:.0} %, {} resident",
            (client.busiest_thread * 100.0).min(100.0),
            size(client.rss_peak_bytes as f64),
        ),
    );
    let Some(server) = &result.server else { return };
    if let Some(start) = server.start_seconds {
        line(out, &format!("server: first answer {} after the spawn", time(start)));
    }
    for phase in &server.phases {
        let mut text = format!(
            "server, {}: {} cores",
            phase.name,
            digits(phase.cpu_seconds / phase.seconds.max(1e-9))
        );
        if let (Some(cpu), Some(switches)) =
            (phase.cpu_seconds_per_request, phase.context_switches_per_request)
        {
            let _ =
                write!(text, ", {} CPU and {} switches per request", time(cpu), digits(switches));
        }
        let _ = write!(text, ", RSS {}", size(phase.rss_bytes as f64));
        if let Some(pss) = phase.pss_bytes {
            let _ = write!(text, ", PSS {}", size(pss as f64));
        }
        line(out, &text);
    }
    if let Some(caps) = &server.caps {
        line(out, &format!("server caps: {caps}"));
    }
}

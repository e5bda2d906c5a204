//! A result as one HTML file that needs nothing else: charts by an embedded uPlot, tables as text.
//!
//! The figures are in the page as JSON, so a report can be read by programs too. Tables are made
//! here, not in the browser, so that they are there when printed or read without scripts.

use std::fmt::Write as _;

use crate::markdown::length;
use crate::quantity::{digits, grouped, size, time};
use crate::result::{ColdStart, RunResult};
use crate::threshold::Threshold;
use tidewire_loadgen::Stall;

mod comparison;
mod index;
mod suite;

pub(crate) use comparison::{Sides, comparison};
pub(crate) use index::index;
pub(crate) use suite::suite;

const PAGE: &str = include_str!("../assets/report.html");
const STYLE: &str = include_str!("../assets/report.css");
const CHARTS: &str = include_str!("../assets/charts.js");
const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");

/// The whole page.
pub(crate) fn page(result: &RunResult) -> Result<String, serde_json::Error> {
    // Per-second histograms are for `compare`; the charts use the figures beside them.
    let mut slim = result.clone();
    slim.timeline.iter_mut().for_each(|row| row.histogram.0.clear());
    let data = serde_json::to_string(&slim)?.replace("</", "<\\/");
    let title = format!("{} – tidewire bench", result.load.target);
    Ok(fill(PAGE, &title, &body(result), &data))
}

/// Fills the places of a page in order; what is put in is not searched again.
fn fill(page: &str, title: &str, body: &str, data: &str) -> String {
    let parts = [
        ("@TITLE@", &*escape(title)),
        ("@UPLOT_CSS@", UPLOT_STYLE),
        ("@STYLE@", STYLE),
        ("@BODY@", body),
        ("@UPLOT_JS@", UPLOT),
        ("@CHARTS_JS@", CHARTS),
        ("@DATA@", data),
    ];
    let mut out = String::new();
    let mut rest = page;
    for (place, text) in parts {
        if let Some((before, after)) = rest.split_once(place) {
            out.push_str(before);
            out.push_str(text);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn body(result: &RunResult) -> String {
    let load = &result.load;
    let mut out = format!(
        "<h1>{}</h1>\n<p>{}, {} model, {}{}</p>\n",
        escape(&load.target),
        escape(&load.protocol),
        load.model,
        escape(&load.shape),
        length(load.duration),
    );
    let context = &result.context;
    let commit = context.commit.as_ref().map_or_else(String::new, |c| format!(", commit {c}"));
    let _ = writeln!(
        out,
        "<p class=\"soft\">{} · {} cores · {} · version {}{commit}</p>\n<p><code>{}</code></p>",
        escape(&context.cpu),
        context.cores,
        escape(&context.system),
        context.version,
        escape(&context.command),
    );
    cards(&mut out, result);
    notes(&mut out, result);
    latency_table(&mut out, result);
    server_table(&mut out, result);
    knee_table(&mut out, result);
    out
}

fn cards(out: &mut String, result: &RunResult) {
    let cards = match &result.cold_start {
        Some(cold) => cards_of_starts(cold),
        None => cards_of_load(result),
    };
    out.push_str("<div class=\"cards\">");
    for (name, value) in cards {
        let _ = write!(out, "<div class=\"card\"><b>{value}</b><span>{name}</span></div>");
    }
    out.push_str("</div>\n");
}

/// Cold starts have a first answer each, and no rate.
fn cards_of_starts(cold: &ColdStart) -> Vec<(&'static str, String)> {
    vec![
        ("cold starts", grouped(cold.starts.len() as f64)),
        ("failed", grouped(cold.failed as f64)),
        ("cold start, median", time(cold.first_answer.p50)),
        ("longest", time(cold.first_answer.max)),
    ]
}

fn cards_of_load(result: &RunResult) -> Vec<(&'static str, String)> {
    let requests = &result.requests;
    let errors = (requests.failed + requests.dropped) as f64 / requests.offered.max(1) as f64;
    let mut cards = vec![
        ("answered per second", digits(result.throughput.ok_per_second)),
        ("answered", grouped(requests.ok as f64)),
        ("failed or dropped", format!("{:.2} %", errors * 100.0)),
        ("p50", time(result.latency.corrected.p50)),
        ("p99", time(result.latency.corrected.p99)),
        ("p99.9", time(result.latency.corrected.p99_9)),
        ("stalls", result.stalls.len().to_string()),
    ];
    if let Some(knee) = &result.knee {
        let rate =
            knee.rate.map_or_else(|| "none".to_owned(), |rate| format!("{}/s", digits(rate)));
        cards.push(("knee", rate));
    }
    cards
}

fn notes(out: &mut String, result: &RunResult) {
    let mut lines: Vec<String> = Vec::new();
    if !result.stalls.is_empty() {
        let phrase = Stall::phrase(&result.stalls);
        lines.push(format!("stall: {phrase}; the target answered nothing in that time"));
    }
    let failures = result.failures.iter();
    lines.extend(
        failures.map(|(what, count)| format!("failed: {} × {what}", grouped(*count as f64))),
    );
    for threshold in &result.thresholds {
        let verdict = if threshold.held { "held" } else { "FAILED" };
        let measured = Threshold::show(&threshold.threshold, threshold.measured);
        lines.push(format!("threshold {}: {verdict} ({measured})", threshold.threshold));
    }
    lines.extend(result.notes.iter().cloned());
    for line in lines {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&line));
    }
}

fn table(out: &mut String, title: &str, heads: &[&str], rows: &[Vec<String>]) {
    let _ = write!(out, "<h2>{title}</h2>\n<div class=\"scroll\"><table><tr>");
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "{}{}</td>", opened(cell), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

/// The opening tag of a cell: what is longer than a figure is a sentence.
fn opened(cell: &str) -> &'static str {
    if cell.chars().count() > FIGURE_CHARS { "<td class=\"text\">" } else { "<td>" }
}

/// The longest figure with its unit.
const FIGURE_CHARS: usize = 28;

fn latency_table(out: &mut String, result: &RunResult) {
    let latency = &result.latency;
    let mut all = match &result.cold_start {
        Some(cold) => vec![("cold start".to_owned(), &cold.first_answer)],
        None => vec![("raw".to_owned(), &latency.raw)],
    };
    if latency.correction != "none" {
        all.insert(0, ("corrected".to_owned(), &latency.corrected));
    }
    all.extend(result.steps.iter().map(|step| (step.name.clone(), &step.latency)));
    if latency.failed.count > 0 {
        all.push(("failed".to_owned(), &latency.failed));
    }
    if latency.connect.count > 0 {
        all.push(("connect".to_owned(), &latency.connect));
    }
    let rows: Vec<Vec<String>> = all
        .into_iter()
        .map(|(name, s)| {
            let times = [s.mean, s.p50, s.p90, s.p95, s.p99, s.p99_9, s.max].map(time);
            [name, grouped(s.count as f64)].into_iter().chain(times).collect()
        })
        .collect();
    let heads = ["", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    table(out, "Latency", &heads, &rows);
}

fn server_table(out: &mut String, result: &RunResult) {
    let Some(server) = &result.server else { return };
    let dash = || "–".to_owned();
    let rows: Vec<Vec<String>> = server
        .phases
        .iter()
        .map(|phase| {
            vec![
                phase.name.clone(),
                format!("{:.2}", phase.seconds),
                format!("{:.2}", phase.cpu_seconds),
                phase.cpu_seconds_per_request.map_or_else(dash, time),
                phase.context_switches_per_request.map_or_else(dash, digits),
                size(phase.rss_bytes as f64),
                phase.pss_bytes.map_or_else(dash, |bytes| size(bytes as f64)),
            ]
        })
        .collect();
    let heads = ["phase", "s", "CPU s", "CPU per request", "switches per request", "RSS", "PSS"];
    table(out, &format!("Server: {}", escape(&server.command)), &heads, &rows);
    if let Some(caps) = &server.caps {
        let _ = writeln!(out, "<p>caps: {}</p>", escape(caps));
    }
}

fn knee_table(out: &mut String, result: &RunResult) {
    let Some(knee) = &result.knee else { return };
    let rows: Vec<Vec<String>> = knee
        .trials
        .iter()
        .map(|trial| {
            vec![
                digits(trial.rate),
                digits(trial.ok_per_second),
                time(trial.p50),
                time(trial.p99),
                trial.reason.clone().unwrap_or_else(|| "held".to_owned()),
            ]
        })
        .collect();
    let title = format!("Knee for {}", escape(&knee.objective));
    table(out, &title, &["offered/s", "answered/s", "p50", "p99", ""], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_nothing_in_it_breaks_out() {
        let mut result = RunResult::default();
        result.load.target = "http://h/</script><b>".to_owned();
        let page = page(&result).unwrap();
        assert!(!page.contains("@DATA@") && !page.contains("@BODY@"));
        assert_eq!(page.matches("</script>").count(), 4);
        assert!(!page.contains("src=\"http") && !page.contains("<link"));
    }
}

//! The tables in which mock servers publish their figures, from a run of the suite `mock`:
//! throughput by protocol, latency of one caller, throughput and memory by concurrency.
//!
//! Memory is the resident size of the process: what a runtime its own says heap before and after is
//! below zero as often as not.

use std::fmt::Write as _;

use super::SuiteResult;
use super::runner::Figures;
use crate::quantity::{digits, size, time};

const PROTOCOLS: [&str; 3] = ["Connect (JSON)", "Connect (binary)", "gRPC"];
const UNDER_WAY: [usize; 4] = [1, 10, 50, 100];
/// At how many calls under way throughput is compared.
const MANY: usize = 50;

/// A figure of a measurement.
type FigureOf = fn(&Figures) -> f64;
/// A figure with its title.
struct TitledFigure {
    title: &'static str,
    of: FigureOf,
    /// How it is written.
    show: fn(f64) -> String,
}

/// The tables, as Markdown.
pub(super) fn tables(result: &SuiteResult) -> String {
    let mut peers: Vec<&str> = Vec::new();
    for one in &result.measurements {
        if !peers.contains(&&*one.peer) {
            peers.push(&one.peer);
        }
    }
    let mut out = String::from("\n# The same, as mock servers publish it\n");
    throughput(result, &peers, &mut out);
    latency(result, &peers, &mut out);
    let by_concurrency: [TitledFigure; 2] = [
        TitledFigure {
            title: "Throughput with concurrency, requests/s",
            of: |one| one.ok_per_second,
            show: digits,
        },
        TitledFigure {
            title: "Memory with concurrency (RSS)",
            of: |one| one.rss_bytes as f64,
            show: size,
        },
    ];
    for TitledFigure { title, of, show } in by_concurrency {
        let _ = write!(out, "\n## {title}\n\n| Concurrency |");
        let columns: Vec<_> =
            peers.iter().flat_map(|peer| PROTOCOLS.map(|protocol| (*peer, protocol))).collect();
        let columns: Vec<_> = columns
            .into_iter()
            .filter(|(peer, protocol)| median(result, peer, protocol, MANY, of).is_some())
            .collect();
        for (peer, protocol) in &columns {
            let _ = write!(out, " {peer}, {protocol} |");
        }
        let _ = writeln!(out, "\n|--:|{}", "--:|".repeat(columns.len()));
        for under_way in UNDER_WAY {
            let _ = write!(out, "| {under_way} |");
            for (peer, protocol) in &columns {
                cell(median(result, peer, protocol, under_way, of).map(show), &mut out);
            }
            out.push('\n');
        }
    }
    out
}

fn throughput(result: &SuiteResult, peers: &[&str], out: &mut String) {
    let _ = write!(out, "\n## Throughput, requests/s at {MANY} under way\n\n| Protocol |");
    for peer in peers {
        let _ = write!(out, " {peer} | vs its gRPC |");
    }
    let _ = writeln!(out, "\n|---|{}", "--:|".repeat(2 * peers.len()));
    let of = |one: &Figures| one.ok_per_second;
    for protocol in PROTOCOLS {
        let _ = write!(out, "| {protocol} |");
        for peer in peers {
            let found = median(result, peer, protocol, MANY, of);
            let of_grpc = median(result, peer, "gRPC", MANY, of);
            cell(found.map(digits), out);
            cell(found.zip(of_grpc).map(|(one, grpc)| format!("{:.0} %", one / grpc * 100.0)), out);
        }
        out.push('\n');
    }
}

fn latency(result: &SuiteResult, peers: &[&str], out: &mut String) {
    out.push_str(
        "\n## Latency, 1 under way\n\n| Protocol | server | Mean | Median | P95 | P99 |\n",
    );
    out.push_str("|---|---|--:|--:|--:|--:|\n");
    let parts: [FigureOf; 4] = [
        |one| one.latency.map_or(0.0, |latency| latency.mean),
        |one| one.latency.map_or(0.0, |latency| latency.p50),
        |one| one.latency.map_or(0.0, |latency| latency.p95),
        |one| one.latency.map_or(0.0, |latency| latency.p99),
    ];
    for protocol in PROTOCOLS {
        for peer in peers {
            let found = parts.map(|part| median(result, peer, protocol, 1, part));
            if found[0].is_none() {
                continue;
            }
            let _ = write!(out, "| {protocol} | {peer} |");
            found.into_iter().for_each(|one| cell(one.map(time), out));
            out.push('\n');
        }
    }
}

/// Writes a place of a table.
pub(super) fn cell(text: Option<String>, out: &mut String) {
    let _ = write!(out, " {} |", text.as_deref().unwrap_or("–"));
}

/// The median of the rounds; nothing where it was not measured.
fn median(
    result: &SuiteResult,
    peer: &str,
    protocol: &str,
    under_way: usize,
    of: FigureOf,
) -> Option<f64> {
    let case = format!("{protocol}, {under_way} under way");
    Rounds::of(result, peer, &case).median(|one| Some(of(one)))
}

/// What the rounds of a case found of one peer.
pub(super) struct Rounds<'a>(pub(super) Vec<&'a Figures>);

impl<'a> Rounds<'a> {
    pub(super) fn of(result: &'a SuiteResult, peer: &str, case: &str) -> Self {
        let of_case = result.measurements.iter().filter(|one| one.case == case && one.peer == peer);
        Self(of_case.filter_map(|one| one.figures.as_ref()).collect())
    }

    /// The median of what they have of a figure.
    pub(super) fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let mut found: Vec<f64> = self.0.iter().filter_map(|one| of(one)).collect();
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::mock::MOCK;
    use crate::suite::runner::{Latency, Measurement};

    #[test]
    fn every_case_of_the_suite_has_its_place_in_a_table() {
        let figures = |at: usize| Figures {
            ok_per_second: 1000.0 + at as f64,
            latency: Some(Latency { p95: 0.25, ..Latency::default() }),
            ..Figures::default()
        };
        let measured = MOCK.cases.iter().enumerate().map(|(at, case)| Measurement {
            case: case.name.to_owned(),
            peer: "tidewire".to_owned(),
            round: 0,
            figures: Some(figures(at)),
            failure: None,
            seconds: Vec::new(),
        });
        let result = SuiteResult { measurements: measured.collect(), ..SuiteResult::default() };
        let text = tables(&result);
        for at in 0..MOCK.cases.len() {
            assert!(text.contains(&digits(1000.0 + at as f64)), "{at}: {text}");
        }
        assert!(
            text.contains("| Connect (JSON) | tidewire | 0 µs | 0 µs | 250 ms | 0 µs |"),
            "{text}"
        );
        assert!(!text.contains('–'), "{text}");
    }
}

//! The tables of a suite: medians with their spread, the best value of each column bold.

use std::fmt::Write as _;

use super::runner::{Figures, Measurement};
use super::{Suite, SuiteResult};
use crate::quantity::{digits, size, time};

/// The first peer of a suite is Tidewire, to which the others' cost is set in relation.
const OURS: &str = "tidewire";

/// The whole document.
pub(crate) fn markdown(suite: &Suite, result: &SuiteResult) -> String {
    let mut out = format!("# Suite `{}`\n\n{}\n", suite.name, suite.reading);
    let context = &result.context;
    let commit = context.commit.as_deref().unwrap_or("unknown");
    let pinned =
        if result.pinned { "one core for servers, one for the load" } else { "not pinned" };
    let _ = write!(
        out,
        "\n`{}`, commit {commit}, {}, {} cores, {}; {pinned}; {} interleaved rounds of {} s. A cell is \
         the median of the rounds (least–most); *CPU* is that of the server and its children per \
         request, *to Tidewire* the median of the rounds' ratios.\n",
        context.command, context.cpu, context.cores, context.system, result.rounds, result.seconds,
    );
    for (peer, why) in &result.absent {
        let _ = write!(out, "\nAbsent: {peer} ({why}).\n");
    }
    if result.interrupted {
        out.push_str("\nThe run was ended by hand; these are the figures up to then.\n");
    }
    for case in suite.cases {
        let of_case: Vec<&Measurement> =
            result.measurements.iter().filter(|one| one.case == case.name).collect();
        if !of_case.is_empty() {
            let _ = write!(out, "\n## {}\n\n", case.name);
            table(&mut out, &of_case);
        }
    }
    out
}

fn table(out: &mut String, measurements: &[&Measurement]) {
    out.push_str(
        "| | requests/s | p50 | p99 | CPU | to Tidewire | RSS |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut peers: Vec<&str> = Vec::new();
    for one in measurements {
        if !peers.contains(&one.peer.as_str()) {
            peers.push(&one.peer);
        }
    }
    let rows: Vec<Row> = peers.iter().map(|peer| Row::of(peer, measurements)).collect();
    let best = |column: usize, least: bool| -> Option<f64> {
        let medians =
            rows.iter().filter_map(|row| row.columns[column].as_ref().map(|one| one.median));
        medians.reduce(if least { f64::min } else { f64::max })
    };
    let best = [best(0, false), best(1, true), best(2, true), best(3, true), None, best(5, true)];
    for row in &rows {
        let _ = write!(out, "| {} |", row.peer);
        if row.columns[0].is_none() {
            let _ = writeln!(out, " {} | – | – | – | – | – |", row.failures.join("; "));
            continue;
        }
        for (column, show) in SHOW.iter().enumerate() {
            let cell = match &row.columns[column] {
                None => "–".to_owned(),
                Some(spread) if best[column] == Some(spread.median) => spread.text(*show, "**"),
                Some(spread) => spread.text(*show, ""),
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
        for failure in &row.failures {
            let _ = writeln!(out, "| {}, once | {failure} | – | – | – | – | – |", row.peer);
        }
    }
}

const SHOW: [fn(f64) -> String; 6] =
    [digits, time, time, time, |ratio| format!("{ratio:.2}"), size];

/// One peer in one case.
struct Row {
    peer: String,
    columns: [Option<Spread>; 6],
    failures: Vec<String>,
}

impl Row {
    fn of(peer: &str, measurements: &[&Measurement]) -> Self {
        let own: Vec<&&Measurement> = measurements.iter().filter(|one| one.peer == peer).collect();
        let column = |of: fn(&Figures) -> f64| {
            Spread::of(own.iter().filter_map(|one| one.figures.as_ref().map(of)).collect())
        };
        let ratios = own.iter().filter_map(|one| {
            let ours =
                measurements.iter().find(|ours| ours.peer == OURS && ours.round == one.round)?;
            let ratio = one.figures?.cpu_per_request / ours.figures?.cpu_per_request;
            ratio.is_finite().then_some(ratio)
        });
        let failed: u64 = own.iter().filter_map(|one| one.figures.map(|one| one.failed)).sum();
        let mut failures: Vec<String> = own.iter().filter_map(|one| one.failure.clone()).collect();
        if failed > 0 {
            failures.push(format!("{failed} requests failed, which are in no figure"));
        }
        failures.dedup();
        Self {
            peer: peer.to_owned(),
            columns: [
                column(|one| one.ok_per_second),
                column(|one| one.p50),
                column(|one| one.p99),
                column(|one| one.cpu_per_request),
                Spread::of(ratios.collect()),
                column(|one| one.rss_bytes as f64),
            ],
            failures,
        }
    }
}

/// A figure of several rounds.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len().is_multiple_of(2) {
            true => f64::midpoint(values[middle - 1], values[middle]),
            false => values[middle],
        };
        Some(Self { least, median, most })
    }

    fn text(&self, show: fn(f64) -> String, mark: &str) -> String {
        let (least, median, most) = (show(self.least), show(self.median), show(self.most));
        if least == most {
            return format!("{mark}{median}{mark}");
        }
        format!("{mark}{median}{mark} ({least}–{most})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::SUITES;
    use super::*;

    fn measured(peer: &str, round: usize, rate: f64, cpu: f64) -> Measurement {
        let figures = Figures {
            ok_per_second: rate,
            failed: 0,
            p50: 1e-4,
            p99: 1e-3,
            cpu_per_request: cpu,
            rss_bytes: 1 << 20,
        };
        let case = SUITES[0].cases[0].name.to_owned();
        let (peer, figures) = (peer.to_owned(), Some(figures));
        Measurement { case, peer, round, figures, failure: None }
    }

    #[test]
    fn a_table_has_medians_spreads_ratios_of_the_same_round_and_failures() {
        let mut result = SuiteResult { rounds: 3, ..SuiteResult::default() };
        result.absent.push(("nginx".to_owned(), "install it".to_owned()));
        for (round, scale) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            result.measurements.push(measured(OURS, round, 1000.0 * scale, 1e-5 * scale));
            result.measurements.push(measured("slow", round, 500.0 * scale, 2e-5 * scale));
        }
        let mut dead = measured("dead", 0, 0.0, 0.0);
        (dead.figures, dead.failure) = (None, Some("ended by itself".to_owned()));
        result.measurements.push(dead);
        let text = markdown(&SUITES[0], &result);
        assert!(text.contains("| tidewire | **2,000** (1,000–3,000) |"), "{text}");
        assert!(text.contains("| **20.0 µs** (10.0 µs–30.0 µs) | 1.00 |"), "{text}");
        assert!(
            text.contains("| slow | 1,000 (500–1,500) |") && text.contains("| 2.00 |"),
            "{text}"
        );
        assert!(text.contains("| dead | ended by itself | – |"), "{text}");
        assert!(text.contains("Absent: nginx (install it)."), "{text}");
    }
}

//! What a run of a suite says: tables of medians with their spread, the best value of each column
//! bold, and the ratios to Tidewire by which two runs are compared.

use std::fmt::Write as _;

use super::hosting::HOSTING;
use super::runner::{Figures, Measurement};
use super::{Case, Load, SUITES, Suite, SuiteResult};
use crate::quantity::{digits, grouped, size, time};

/// The first peer of a suite is Tidewire, to which the others' cost is set in relation.
const OURS: &str = "tidewire";

/// What is that in a case.
fn ours(case: &str) -> &'static str {
    match SUITES.iter().flat_map(|suite| suite.cases).find(|one| one.name == case) {
        Some(Case { load: Load::TwoHosts, .. }) => super::memo::OURS_ON_TWO_HOSTS,
        _ => OURS,
    }
}

/// The table of one case.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) case: &'static str,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// What a table says in one place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Least and most, where rounds differ.
    pub(crate) spread: Option<String>,
    /// No other row has a better one.
    pub(crate) best: bool,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), spread: None, best: false }
    }
}

/// The whole document.
pub(crate) fn markdown(suite: &Suite, result: &SuiteResult) -> String {
    let mut out = format!("# Suite `{}`\n\n{}\n\n{}\n", suite.name, suite.reading, origin(result));
    for note in notes(result) {
        let _ = write!(out, "\n{note}\n");
    }
    for section in sections(suite, result) {
        let _ = write!(out, "\n## {}\n\n|", section.case);
        for head in &section.heads {
            let gap = if head.is_empty() { "" } else { " " };
            let _ = write!(out, "{gap}{head} |");
        }
        out.push_str("\n|---|");
        out.push_str(&"--:|".repeat(section.heads.len() - 1));
        out.push('\n');
        for row in &section.rows {
            out.push('|');
            for cell in row {
                let mark = if cell.best { "**" } else { "" };
                let _ = write!(out, " {mark}{}{mark}", cell.text);
                if let Some(spread) = &cell.spread {
                    let _ = write!(out, " ({spread})");
                }
                out.push_str(" |");
            }
            out.push('\n');
        }
    }
    if suite.name == HOSTING.name {
        out.push_str(&super::hosting_tables::tables(result));
    }
    if suite.name == super::mock::MOCK.name {
        out.push_str(&super::published_tables::tables(result));
    }
    out
}

/// Where and how it was measured, with `` ` `` around the command.
pub(crate) fn origin(result: &SuiteResult) -> String {
    let context = &result.context;
    let commit = context.commit.as_deref().unwrap_or("unknown");
    let pinned = match (result.pinned, result.capped) {
        (false, None) => "not pinned".to_owned(),
        (false, Some(cap)) => format!("not pinned; {cap} connections"),
        (true, None) => "one core for servers, one for the load".to_owned(),
        (true, Some(cap)) if cap < context.cores => {
            format!("{cap} cores for servers, the others for the load; {cap} connections")
        }
        (true, Some(cap)) => format!(
            "servers may use {cap} cores, which this machine does not have beside the load: all are for \
             everyone; {cap} connections"
        ),
    };
    format!(
        "`{}`, commit {commit}, {}, {} cores, {}; {pinned}; {} interleaved rounds of {} s. A cell is \
         the median of the rounds (least–most); *CPU* is that of the server and its children per \
         request, *to Tidewire* the median of the rounds' ratios of it.",
        context.command, context.cpu, context.cores, context.system, result.rounds, result.seconds,
    )
}

/// What a reader has to know beside the figures.
pub(crate) fn notes(result: &SuiteResult) -> Vec<String> {
    let absent = result.absent.iter().map(|(peer, why)| format!("Absent: {peer} ({why})."));
    let mut notes: Vec<String> = absent.collect();
    notes.extend(result.warmed.iter().map(|(peer, seconds)| {
        format!("Loaded for {seconds} s before each measurement, since it compiles while it runs: {peer}.")
    }));
    if result.interrupted {
        let ended = "The run was ended by hand; these are the figures up to then.";
        notes.push(ended.to_owned());
    }
    notes
}

/// A table a case of which anything was measured.
pub(crate) fn sections(suite: &Suite, result: &SuiteResult) -> Vec<Section> {
    let mut sections = Vec::new();
    for case in suite.cases {
        let of_case: Vec<&Measurement> =
            result.measurements.iter().filter(|one| one.case == case.name).collect();
        let columns = match case.load {
            Load::Steady { .. } => STEADY,
            Load::Ramp { .. } => RAMP,
            Load::Itself if suite.name == HOSTING.name => HOSTED,
            Load::Itself => ITSELF,
            Load::TwoHosts => TWO_HOSTS,
            Load::Apart => APART,
        };
        if !of_case.is_empty() {
            sections.push(section(case.name, columns, &of_case));
        }
    }
    sections
}

/// A column of a table.
struct Column {
    head: &'static str,
    of: fn(&Figures) -> Option<f64>,
    show: fn(f64) -> String,
    best: BestValue,
}

#[derive(Clone, Copy)]
enum BestValue {
    Least,
    Most,
    /// In relation to Tidewire's of the same round; none of them is the best.
    Ratio,
    None,
}

const fn column(
    head: &'static str,
    of: fn(&Figures) -> Option<f64>,
    show: fn(f64) -> String,
    best: BestValue,
) -> Column {
    Column { head, of, show, best }
}

const RATE: Column = column("requests/s", |one| Some(one.ok_per_second), digits, BestValue::Most);
const P99: Column = column("p99", |one| Some(one.latency?.p99), time, BestValue::Least);
const CPU: Column = column("CPU", |one| Some(one.cpu_per_request), time, BestValue::Least);
const TO_OURS: Column = column(
    "to Tidewire",
    |one| Some(one.cpu_per_request),
    |ratio| format!("{ratio:.2}"),
    BestValue::Ratio,
);
const RSS: Column = column("RSS", |one| Some(one.rss_bytes as f64), size, BestValue::Least);

const STEADY: &[Column] = &[
    RATE,
    column("p50", |one| Some(one.latency?.p50), time, BestValue::Least),
    P99,
    CPU,
    TO_OURS,
    RSS,
];

const RAMP: &[Column] = &[
    column(
        "errors",
        |one| Some(one.errors),
        |share| format!("{:.2} %", share * 100.0),
        BestValue::Least,
    ),
    column("mean", |one| Some(one.latency?.mean), time, BestValue::Least),
    column("p90", |one| Some(one.latency?.p90), time, BestValue::Least),
    column("p95", |one| Some(one.latency?.p95), time, BestValue::Least),
    P99,
    RATE,
    column("knee", |one| one.knee.map(|clients| clients as f64), grouped, BestValue::None),
    CPU,
    TO_OURS,
    RSS,
];

const APART: &[Column] = &[
    column("answers/s", |one| Some(one.ok_per_second), digits, BestValue::Most),
    column("p50", |one| Some(one.latency?.p50), time, BestValue::Least),
    P99,
    CPU,
    TO_OURS,
    RSS,
];

const ITSELF: &[Column] = &[
    column("reads/s", |one| Some(one.ok_per_second), digits, BestValue::Most),
    column("CPU", |one| Some(one.cpu_per_request), time, BestValue::Least),
    TO_OURS,
    column("stale reads", |one| one.stale.map(|stale| stale as f64), grouped, BestValue::Least),
    column("writes/s", |one| one.writes_per_second, digits, BestValue::None),
    RSS,
];

const TWO_HOSTS: &[Column] = &[
    column("reads/s", |one| Some(one.ok_per_second), digits, BestValue::Most),
    CPU,
    TO_OURS,
    column("stale reads", |one| one.stale.map(|stale| stale as f64), grouped, BestValue::Least),
    column("stale for, p50", |one| Some(one.stale_for?.p50), time, BestValue::Least),
    column("stale for, p99", |one| Some(one.stale_for?.p99), time, BestValue::Least),
    column(
        "stale after 100 ms",
        |one| one.stale_late.map(|late| late as f64),
        grouped,
        BestValue::Least,
    ),
    column(
        "wrong or failed",
        |one| one.wrong.map(|wrong| (wrong + one.failed) as f64),
        grouped,
        BestValue::Least,
    ),
    column("writes/s", |one| one.writes_per_second, digits, BestValue::None),
    RSS,
];

const HOSTED: &[Column] = &[
    RATE,
    column("min", |one| Some(one.latency?.min), time, BestValue::Least),
    column("avg", |one| Some(one.latency?.mean), time, BestValue::Least),
    column("p50", |one| Some(one.latency?.p50), time, BestValue::Least),
    column("p95", |one| Some(one.latency?.p95), time, BestValue::Least),
    P99,
    column("max", |one| Some(one.latency?.max), time, BestValue::Least),
    column("first", |one| one.first, time, BestValue::Least),
    CPU,
    TO_OURS,
    RSS,
    column("PSS", |one| one.pss_bytes.map(|bytes| bytes as f64), size, BestValue::Least),
];

fn section(case: &'static str, columns: &[Column], measurements: &[&Measurement]) -> Section {
    let mut peers: Vec<&str> = Vec::new();
    for one in measurements {
        if !peers.contains(&one.peer.as_str()) {
            peers.push(&one.peer);
        }
    }
    let rows: Vec<Row> = peers.iter().map(|peer| Row::of(peer, columns, measurements)).collect();
    let best = |index: usize, best: BestValue| -> Option<f64> {
        let medians =
            rows.iter().filter_map(|row| row.spreads[index].as_ref().map(|one| one.median));
        match best {
            BestValue::Least => medians.reduce(f64::min),
            BestValue::Most => medians.reduce(f64::max),
            BestValue::Ratio | BestValue::None => None,
        }
    };
    let best: Vec<Option<f64>> =
        columns.iter().enumerate().map(|(index, column)| best(index, column.best)).collect();
    let dashes = |count: usize| std::iter::repeat_n(Cell::plain("–"), count);
    let mut cells = Vec::new();
    for row in &rows {
        if row.spreads.iter().all(Option::is_none) {
            let mut line = vec![Cell::plain(&row.peer), Cell::plain(row.failures.join("; "))];
            line.extend(dashes(columns.len() - 1));
            cells.push(line);
            continue;
        }
        let mut line = vec![Cell::plain(&row.peer)];
        for ((spread, column), best) in row.spreads.iter().zip(columns).zip(&best) {
            line.push(match spread {
                None => Cell::plain("–"),
                Some(spread) => spread.cell(column.show, *best == Some(spread.median)),
            });
        }
        cells.push(line);
        for failure in &row.failures {
            let who = format!("{}, once", row.peer);
            let mut line = vec![Cell::plain(who), Cell::plain(failure)];
            line.extend(dashes(columns.len() - 1));
            cells.push(line);
        }
    }
    let heads = std::iter::once("").chain(columns.iter().map(|column| column.head)).collect();
    Section { case, heads, rows: cells }
}

/// One peer in one case.
struct Row {
    peer: String,
    spreads: Vec<Option<Spread>>,
    failures: Vec<String>,
}

impl Row {
    fn of(peer: &str, columns: &[Column], measurements: &[&Measurement]) -> Self {
        let own: Vec<&&Measurement> = measurements.iter().filter(|one| one.peer == peer).collect();
        let value = |column: &Column, one: &Measurement| -> Option<f64> {
            let figure = (column.of)(one.figures.as_ref()?)?;
            let BestValue::Ratio = column.best else { return Some(figure) };
            let is_ours = |it: &&&Measurement| it.peer == ours(&it.case) && it.round == one.round;
            let ours = measurements.iter().find(is_ours)?;
            let ratio = figure / (column.of)(ours.figures.as_ref()?)?;
            ratio.is_finite().then_some(ratio)
        };
        let spread =
            |column: &Column| Spread::of(own.iter().filter_map(|one| value(column, one)).collect());
        let failed: u64 = own.iter().filter_map(|one| one.figures.map(|one| one.failed)).sum();
        let mut failures: Vec<String> = own.iter().filter_map(|one| one.failure.clone()).collect();
        if failed > 0 {
            failures.push(format!("{failed} requests failed, which are in no figure but errors"));
        }
        failures.dedup();
        Self { peer: peer.to_owned(), spreads: columns.iter().map(spread).collect(), failures }
    }
}

/// The median CPU seconds per request of a peer in a case, if it was measured.
pub(crate) fn cpu(result: &SuiteResult, case: &str, peer: &str) -> Option<f64> {
    let own = result.measurements.iter().filter(|one| one.case == case && one.peer == peer);
    let costs = own.filter_map(|one| Some(one.figures?.cpu_per_request));
    Spread::of(costs.collect()).map(|spread| spread.median)
}

/// The cost of each peer over Tidewire's, round by round, under `CASE: PEER`.
pub(crate) fn ratios(result: &SuiteResult) -> Vec<(String, Vec<f64>)> {
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    for one in result.measurements.iter().filter(|one| one.peer != ours(&one.case)) {
        let same = |it: &&Measurement| {
            it.peer == ours(&one.case) && it.round == one.round && it.case == one.case
        };
        let ours = result.measurements.iter().find(same).and_then(|ours| ours.figures);
        let (Some(theirs), Some(ours)) = (one.figures, ours) else { continue };
        let ratio = theirs.cpu_per_request / ours.cpu_per_request;
        let name = format!("{}: {}", one.case, one.peer);
        match all.iter_mut().find(|(known, _)| *known == name) {
            _ if !ratio.is_finite() => {}
            Some((_, ratios)) => ratios.push(ratio),
            None => all.push((name, vec![ratio])),
        }
    }
    all
}

/// A table for a document that has room for one: what Tidewire does, and what the others cost
/// beside it.
pub(crate) fn summary(suite: &Suite, result: &SuiteResult) -> String {
    let mut peers: Vec<&str> = Vec::new();
    for one in &result.measurements {
        if !peers.contains(&one.peer.as_str()) && one.peer != OURS {
            peers.push(&one.peer);
        }
    }
    let mut out = format!("| | tidewire | {} |\n", peers.join(" | "));
    let _ = writeln!(out, "|---|--:|{}", "--:|".repeat(peers.len()));
    for section in sections(suite, result) {
        let place = |head: &str| section.heads.iter().position(|one| *one == head);
        let cell = |peer: &str, head: &str| {
            let row = section.rows.iter().find(|row| row[0].text == peer)?;
            Some(row.get(place(head)?)?.text.clone())
        };
        let peer = ours(section.case);
        let rate = cell(peer, "requests/s")
            .or_else(|| cell(peer, "reads/s"))
            .or_else(|| cell(peer, "answers/s"));
        let ours = match (rate, cell(peer, "CPU")) {
            (Some(rate), Some(cpu)) if cpu != "–" => format!("{rate}/s, {cpu}"),
            _ => "–".to_owned(),
        };
        let _ = write!(out, "| {} | {ours} |", section.case);
        for peer in &peers {
            let ratio = cell(peer, "to Tidewire").unwrap_or_else(|| "–".to_owned());
            let _ = write!(out, " {ratio} |");
        }
        out.push('\n');
    }
    let context = &result.context;
    let commit = context.commit.as_deref().unwrap_or("unknown");
    let _ = write!(
        out,
        "\nRequests per second and the server's CPU per request; of the others, their CPU over Tidewire's. \
         `{}`, commit {commit}, {}, {} cores; medians of {} interleaved rounds.\n",
        context.command, context.cpu, context.cores, result.rounds
    );
    out
}

/// A figure of several rounds.
pub(super) struct Spread {
    least: f64,
    pub(super) median: f64,
    most: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let least = *values.first()?;
        let most = *values.last()?;
        let middle = values.len() / 2;
        let median = match values.len().is_multiple_of(2) {
            true => f64::midpoint(values[middle - 1], values[middle]),
            false => values[middle],
        };
        Some(Self { least, median, most })
    }

    fn cell(&self, show: fn(f64) -> String, best: bool) -> Cell {
        let least = show(self.least);
        let text = show(self.median);
        let most = show(self.most);
        let spread = (least != most).then(|| format!("{least}–{most}"));
        Cell { text, spread, best }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(peer: &str, round: usize, rate: f64, cpu: f64) -> Measurement {
        let figures = Figures {
            ok_per_second: rate,
            cpu_per_request: cpu,
            rss_bytes: 1 << 20,
            ..Figures::default()
        };
        let case = SUITES[0].cases[0].name.to_owned();
        let (peer, figures) = (peer.to_owned(), Some(figures));
        Measurement { case, peer, round, figures, failure: None, seconds: Vec::new() }
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

//! Two results side by side: ratios with confidence intervals, or "no difference shown".
//!
//! With one run on each side the interval comes from a block bootstrap of the per-second samples:
//! neighbouring seconds resemble each other (warm caches, a collector's cycle, another tenant), so
//! whole blocks of them are drawn, not single seconds. With seven and more runs on each side the
//! runs themselves are drawn, which also covers what differs from run to run. One run on each side
//! cannot know that; the text says which it was.

use crate::quantity::{digits, time};
use crate::result::RunResult;
use crate::suite::{self, SuiteResult};
use tidewire_loadgen::{Second, Sparse};

/// Rounds on each side from which on whole runs are drawn.
const ROUNDS: usize = 7;
/// Rounds on each side from which on the ratios of two runs of a suite are drawn.
const SUITE_ROUNDS: usize = 5;
const DRAWS: usize = 2000;
const BLOCK_SECONDS: usize = 3;
const SECONDS_MIN: usize = 5;

/// Which way a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Higher,
    Lower,
}

/// One figure of both sides.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) better: Direction,
    /// A value as people read it.
    pub(crate) show: fn(f64) -> String,
    pub(crate) base: f64,
    pub(crate) new: f64,
    /// `new / base` and its 95 % interval; `None` when there is too little to say.
    pub(crate) ratio: Option<Ratio>,
}

/// A ratio and its interval.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The ends of an interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    low: f64,
    high: f64,
}

/// How the intervals were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Blocks { seconds: usize },
    Rounds { base: usize, new: usize },
}

impl Row {
    /// Whether the interval excludes "the same".
    pub(crate) fn differs(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0)
    }

    /// By which share the figure got worse, 0 if no difference was shown.
    pub(crate) fn worse_by(&self) -> f64 {
        let Some(ratio) = self.ratio.filter(|_| self.differs()) else { return 0.0 };
        match self.better {
            Direction::Higher => 1.0 / ratio.value.max(1e-9) - 1.0,
            Direction::Lower => ratio.value - 1.0,
        }
        .max(0.0)
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match (self.ratio, self.differs()) {
            (None, _) => "too few samples",
            (_, false) => "no difference shown",
            (Some(ratio), true) => match (ratio.value > 1.0, self.better) {
                (true, Direction::Higher) | (false, Direction::Lower) => "better",
                _ => "worse",
            },
        }
    }
}

/// A figure of seconds, for the intervals, and of a whole run, as its summary shows it.
struct Figure {
    name: &'static str,
    better: Direction,
    show: fn(f64) -> String,
    of_seconds: fn(&[&Second]) -> f64,
    of_run: fn(&RunResult) -> f64,
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "answers per second",
        better: Direction::Higher,
        show: digits,
        of_seconds: |rows| mean(rows, |row| row.ok as f64),
        of_run: |run| run.throughput.ok_per_second,
    },
    Figure {
        name: "p50",
        better: Direction::Lower,
        show: time,
        of_seconds: |rows| quantile(rows, 0.50),
        of_run: |run| run.latency.corrected.p50,
    },
    Figure {
        name: "p90",
        better: Direction::Lower,
        show: time,
        of_seconds: |rows| quantile(rows, 0.90),
        of_run: |run| run.latency.corrected.p90,
    },
    Figure {
        name: "p99",
        better: Direction::Lower,
        show: time,
        of_seconds: |rows| quantile(rows, 0.99),
        of_run: |run| run.latency.corrected.p99,
    },
    Figure {
        name: "p99.9",
        better: Direction::Lower,
        show: time,
        of_seconds: |rows| quantile(rows, 0.999),
        of_run: |run| run.latency.corrected.p99_9,
    },
];

/// Compares the runs of two sides.
pub(crate) fn compare(base: &[RunResult], new: &[RunResult], seed: u64) -> (Method, Vec<Row>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = base.len() >= ROUNDS && new.len() >= ROUNDS;
    let method = if rounds {
        Method::Rounds { base: base.len(), new: new.len() }
    } else {
        Method::Blocks { seconds: BLOCK_SECONDS }
    };
    let base_seconds = seconds_of(base);
    let new_seconds = seconds_of(new);
    let mut rows: Vec<Row> = FIGURES
        .iter()
        .map(|figure| {
            let per_run =
                |runs: &[RunResult]| -> Vec<f64> { runs.iter().map(figure.of_run).collect() };
            let mut base = per_run(base);
            let mut new = per_run(new);
            let drawn = if rounds {
                rounds_interval(&base, &new, &mut random)
            } else {
                blocks_interval(&base_seconds, &new_seconds, figure.of_seconds, &mut random)
            };
            // What the summary of a run says is said here too; seconds are for the interval alone.
            let base = median(&mut base);
            let new = median(&mut new);
            let ratio = around(new / base, drawn);
            Row {
                name: figure.name.to_owned(),
                better: figure.better,
                show: figure.show,
                base,
                new,
                ratio,
            }
        })
        .collect();
    rows.extend(cpu_row(base, new, rounds, &mut random));
    (method, rows)
}

/// Compares two runs of one suite by what does not change with the machine's mood: in every case
/// the cost of each peer over Tidewire's in the same round. A ratio that rises is Tidewire getting
/// cheaper.
pub(crate) fn suites(base: &SuiteResult, new: &SuiteResult, seed: u64) -> (Method, Vec<Row>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let method = Method::Rounds { base: base.rounds, new: new.rounds };
    let base = suite::ratios(base);
    let new = suite::ratios(new);
    let mut rows = Vec::new();
    for (name, mut base) in base {
        let Some((_, new)) = new.iter().find(|(other, _)| *other == name) else { continue };
        let mut new = new.clone();
        let enough = base.len() >= SUITE_ROUNDS && new.len() >= SUITE_ROUNDS;
        let drawn = enough.then(|| rounds_interval(&base, &new, &mut random)).flatten();
        let base = median(&mut base);
        let new = median(&mut new);
        let ratio = around(new / base, drawn);
        let show = |ratio| format!("{ratio:.2}");
        rows.push(Row { name, better: Direction::Higher, show, base, new, ratio });
    }
    (method, rows)
}

/// Server CPU per request: of whole runs as rounds, else of the seconds in which both the CPU and
/// the answers were sampled.
fn cpu_row(
    base: &[RunResult],
    new: &[RunResult],
    rounds: bool,
    random: &mut fastrand::Rng,
) -> Option<Row> {
    let cpu = |run: &RunResult| {
        let phases = &run.server.as_ref()?.phases;
        phases.iter().find(|phase| phase.name == "measured")?.cpu_seconds_per_request
    };
    let all = |runs: &[RunResult]| runs.iter().map(cpu).collect::<Option<Vec<f64>>>();
    let base_runs = all(base)?;
    let new_runs = all(new)?;
    let drawn = if rounds {
        rounds_interval(&base_runs, &new_runs, random)
    } else {
        let base = cpu_seconds(base);
        let new = cpu_seconds(new);
        let base: Vec<_> = base.iter().collect();
        let new: Vec<_> = new.iter().collect();
        blocks_interval(&base, &new, cpu_per_request, random)
    };
    let mut base = base_runs;
    let mut new = new_runs;
    let base = median(&mut base);
    let new = median(&mut new);
    let ratio = around(new / base, drawn);
    let name = "server CPU per request".to_owned();
    Some(Row { name, better: Direction::Lower, show: time, base, new, ratio })
}

/// One second of a run.
#[derive(Debug, Clone, Copy)]
struct CpuSecond {
    /// CPU seconds of the server.
    cpu: f64,
    /// Requests that it answered.
    requests: f64,
}

/// A sample taken at the end of a second describes it.
fn cpu_seconds(runs: &[RunResult]) -> Vec<CpuSecond> {
    let of = |run: &RunResult| -> Vec<CpuSecond> {
        let samples = run.server.iter().flat_map(|server| &server.samples);
        samples
            .filter_map(|sample| {
                let second = (sample.at.round() as u64).checked_sub(1)?;
                let row = run.timeline.iter().find(|row| row.at == second)?;
                Some(CpuSecond { cpu: sample.cores, requests: (row.ok + row.failed) as f64 })
            })
            .collect()
    };
    runs.iter().flat_map(of).collect()
}

fn cpu_per_request(seconds: &[&CpuSecond]) -> f64 {
    let sum = |part: fn(&CpuSecond) -> f64| seconds.iter().map(|one| part(one)).sum::<f64>();
    sum(|one| one.cpu) / sum(|one| one.requests)
}

/// The whole seconds of a run: the last, partial one would look like a slow one.
fn whole(run: &RunResult) -> Vec<&Second> {
    let length = run.throughput.seconds.floor() as u64;
    run.timeline.iter().filter(|row| row.at < length).collect()
}

fn seconds_of(runs: &[RunResult]) -> Vec<&Second> {
    runs.iter().flat_map(whole).collect()
}

fn mean(rows: &[&Second], part: fn(&Second) -> f64) -> f64 {
    rows.iter().map(|row| part(row)).sum::<f64>() / rows.len().max(1) as f64
}

fn quantile(rows: &[&Second], quantile: f64) -> f64 {
    let mut buckets = std::collections::BTreeMap::new();
    for (value, count) in rows.iter().flat_map(|row| &row.histogram.0) {
        *buckets.entry(*value).or_insert(0) += count;
    }
    Sparse(buckets.into_iter().collect()).quantile(quantile)
}

fn blocks_interval<T>(
    base: &[&T],
    new: &[&T],
    figure: impl Fn(&[&T]) -> f64,
    random: &mut fastrand::Rng,
) -> Option<Interval> {
    if base.len() < SECONDS_MIN || new.len() < SECONDS_MIN {
        return None;
    }
    let ratios =
        (0..DRAWS).map(|_| figure(&draw(new, random)) / figure(&draw(base, random))).collect();
    interval(figure(new) / figure(base), ratios)
}

/// As many seconds as there are, in blocks that wrap around the end.
fn draw<'a, T>(rows: &[&'a T], random: &mut fastrand::Rng) -> Vec<&'a T> {
    let mut drawn = Vec::with_capacity(rows.len() + BLOCK_SECONDS);
    while drawn.len() < rows.len() {
        let start = random.usize(..rows.len());
        drawn.extend((start..start + BLOCK_SECONDS).map(|at| rows[at % rows.len()]));
    }
    drawn.truncate(rows.len());
    drawn
}

fn rounds_interval(base: &[f64], new: &[f64], random: &mut fastrand::Rng) -> Option<Interval> {
    let ratios = (0..DRAWS)
        .map(|_| {
            let mut pick = |side: &[f64]| -> Vec<f64> {
                side.iter().map(|_| side[random.usize(..side.len())]).collect()
            };
            median(&mut pick(new)) / median(&mut pick(base))
        })
        .collect();
    interval(median(&mut new.to_vec()) / median(&mut base.to_vec()), ratios)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        return f64::NAN;
    }
    if values.len().is_multiple_of(2) {
        (values[middle - 1] + values[middle]) * 0.5
    } else {
        values[middle]
    }
}

/// A ratio and its interval, which was drawn as shares of the ratio.
fn around(ratio: f64, drawn: Option<Interval>) -> Option<Ratio> {
    let Interval { low, high } = drawn.filter(|_| ratio.is_finite())?;
    Some(Ratio { value: ratio, low: ratio * low, high: ratio * high })
}

/// The 95 % interval of ratios, as shares of the one that was drawn from.
fn interval(ratio: f64, mut ratios: Vec<f64>) -> Option<Interval> {
    ratios.retain(|one| one.is_finite());
    if !(ratio.is_finite() && ratio > 0.0) || ratios.len() < DRAWS * 9 / 10 {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share) as usize];
    Some(Interval { low: at(0.025) / ratio, high: at(0.975) / ratio })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Phase, Server, ServerSample};

    /// A run of 30 s around a rate and a latency in µs, with noise from `seed`.
    fn run(rate: f64, micros: f64, seed: u64) -> RunResult {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut result = RunResult::default();
        result.throughput.seconds = 30.0;
        for at in 0..30 {
            let noise = 1.0 + (random.f64() - 0.5) * 0.1;
            let value = (micros * noise * 1000.0) as u64;
            let ok = (rate / noise) as u64;
            result.timeline.push(Second {
                at,
                ok,
                histogram: Sparse(vec![(value, ok * 98 / 100), (value * 5, ok * 2 / 100)]),
                ..Second::default()
            });
        }
        let rows = whole(&result);
        let (rate, at) = (mean(&rows, |row| row.ok as f64), |share| quantile(&rows, share));
        let [p50, p90, p99, p99_9] = [0.5, 0.9, 0.99, 0.999].map(at);
        result.throughput.ok_per_second = rate;
        let corrected = &mut result.latency.corrected;
        (corrected.p50, corrected.p90) = (p50, p90);
        (corrected.p99, corrected.p99_9) = (p99, p99_9);
        let mut server = Server::default();
        server.phases.push(Phase {
            name: "measured".to_owned(),
            cpu_seconds_per_request: Some(micros / 1e7),
            ..Phase::default()
        });
        server.samples = (1..=30)
            .map(|at| {
                let noise = 1.0 + (random.f64() - 0.5) * 0.1;
                let cores = rate * micros / 1e7 * noise;
                ServerSample { at: at as f64 + 0.01, cores, rss_bytes: 0 }
            })
            .collect();
        result.server = Some(server);
        result
    }

    #[test]
    fn the_servers_cpu_has_an_interval_of_its_own() {
        let cpu = |base, new| {
            let (_, rows) = compare(&[base], &[new], 1);
            rows.into_iter().find(|row| row.name == "server CPU per request").unwrap()
        };
        let same = cpu(run(1000.0, 100.0, 1), run(1000.0, 100.0, 2));
        assert_eq!(same.verdict(), "no difference shown", "{same:?}");
        let slower = cpu(run(1000.0, 100.0, 1), run(1000.0, 120.0, 2));
        assert_eq!(slower.verdict(), "worse", "{slower:?}");
        assert!((slower.worse_by() - 0.2).abs() < 0.05, "{slower:?}");
    }

    #[test]
    fn runs_that_differ_by_noise_show_no_difference() {
        for seed in 0..5 {
            let (method, rows) =
                compare(&[run(1000.0, 100.0, seed)], &[run(1000.0, 100.0, seed + 100)], 1);
            assert_eq!(method, Method::Blocks { seconds: BLOCK_SECONDS });
            let rate = &rows[0];
            assert_eq!(rate.verdict(), "no difference shown", "seed {seed}: {rate:?}");
            assert!(rate.worse_by() < f64::EPSILON);
        }
    }

    #[test]
    fn a_regression_is_shown_and_measured() {
        let (_, rows) = compare(&[run(1000.0, 100.0, 1)], &[run(800.0, 130.0, 2)], 1);
        assert_eq!((rows[0].verdict(), rows[1].verdict()), ("worse", "worse"));
        assert!((rows[0].worse_by() - 0.25).abs() < 0.05, "{:?}", rows[0]);
        assert!((rows[1].worse_by() - 0.30).abs() < 0.05, "{:?}", rows[1]);
        let (_, rows) = compare(&[run(800.0, 130.0, 2)], &[run(1000.0, 100.0, 1)], 1);
        assert_eq!(rows[0].verdict(), "better");
    }

    #[test]
    fn seven_rounds_are_drawn_as_rounds() {
        let side =
            |rate, from| (from..from + 7).map(|seed| run(rate, 100.0, seed)).collect::<Vec<_>>();
        let (method, rows) = compare(&side(1000.0, 1), &side(1500.0, 50), 1);
        assert_eq!(method, Method::Rounds { base: 7, new: 7 });
        assert_eq!(rows[0].verdict(), "better");
    }

    #[test]
    fn a_figure_is_the_one_that_the_summary_of_its_run_shows() {
        // The last second is not whole, so that the mean of the seconds is another figure.
        let mut base = run(1000.0, 100.0, 1);
        base.throughput.seconds = 29.4;
        base.throughput.ok_per_second = 987.0;
        let (_, rows) = compare(std::slice::from_ref(&base), &[run(1000.0, 100.0, 2)], 1);
        assert_eq!(rows[0].base, 987.0);
        assert_eq!(rows[3].base, base.latency.corrected.p99);
    }

    #[test]
    fn too_short_runs_say_nothing() {
        let mut short = run(1000.0, 100.0, 1);
        short.throughput.seconds = 3.0;
        let (_, rows) = compare(std::slice::from_ref(&short), std::slice::from_ref(&short), 1);
        assert_eq!(rows[0].verdict(), "too few samples");
    }
}

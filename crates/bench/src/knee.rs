//! The search for the knee: the highest rate that keeps an objective.
//!
//! Exponential until a rate fails, then binary between the last that held and the first that did
//! not, until they are within 5 %. Each rate is its own run in the open model, so a queue left
//! behind by one does not spoil the next. A rate counts as failed only when it failed twice: one
//! hiccup of a shared machine must not halve the answer.

use std::sync::Arc;
use std::time::Duration;

use crate::case::Case;
use crate::console::Console;
use crate::measure;
use crate::quantity::{digits, time};
use crate::result::{Knee, RunResult, Trial};
use crate::threshold::Threshold;
use tidewire_loadgen::{ArrivalSpacing, Error, Model, Segment, Stop};

const CLOSE_ENOUGH: f64 = 1.05;
const RATE_MAX: f64 = 4_000_000.0;
const FACTOR: f64 = 2.0;

/// What to search for.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) text: String,
    pub(crate) objective: Vec<Threshold>,
    pub(crate) from: f64,
    pub(crate) trial: Duration,
    pub(crate) in_flight_max: usize,
    pub(crate) spacing: ArrivalSpacing,
}

/// The next rate to try given every trial so far; `None` when the knee is found.
fn next_rate(trials: &[Trial], from: f64) -> Option<f64> {
    let held = trials.iter().filter(|one| one.held).map(|one| one.rate).fold(0.0, f64::max);
    let failed =
        trials.iter().filter(|one| !one.held).map(|one| one.rate).fold(f64::INFINITY, f64::min);
    match (held > 0.0, failed.is_finite()) {
        (false, false) => Some(from),
        (true, false) => (held * FACTOR <= RATE_MAX).then_some(held * FACTOR),
        (false, true) => (failed > 1.0).then_some((failed / FACTOR).max(1.0)),
        (true, true) => (failed / held > CLOSE_ENOUGH).then(|| (held * failed).sqrt().round()),
    }
    .filter(|rate| !trials.iter().any(|one| one.rate == *rate))
}

/// Searches; the result is that of the best rate with the search attached.
pub(crate) async fn search(
    case: &Case,
    search: &Search,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<RunResult, Error> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut best: Option<RunResult> = None;
    let mut last: Option<RunResult> = None;
    let mut doubted = None;
    while let Some(rate) = next_rate(&trials, search.from).filter(|_| !stop.is_raised()) {
        let mut at = case.clone();
        let seconds = search.trial.as_secs_f64();
        at.load.model = Model::Open {
            segments: vec![Segment { from: rate, to: rate, seconds }],
            spacing: search.spacing,
            in_flight_max: search.in_flight_max,
        };
        at.load.duration = Some(search.trial);
        let mut silent = std::io::sink();
        let mut quiet = Console::new(&mut silent, console.view());
        let result = measure::measure(&Arc::new(at), &mut quiet, stop).await?;
        let trial = judge(rate, &search.objective, &result);
        let verdict = trial.reason.clone().unwrap_or_else(|| "held".to_owned());
        console.progress(&format!(
            "knee: {}/s  p50 {}  p99 {}  {verdict}",
            digits(rate),
            time(trial.p50),
            time(trial.p99)
        ))?;
        if !trial.held && doubted.replace(rate) != Some(rate) {
            continue;
        }
        if trial.held {
            best = Some(result);
        } else {
            last = Some(result);
        }
        trials.push(trial);
    }
    let rate = trials.iter().filter(|one| one.held).map(|one| one.rate).reduce(f64::max);
    let mut result = best.or(last).ok_or_else(|| Error::usage("the search was stopped at once"))?;
    trials.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    result.interrupted = stop.is_raised();
    result.knee = Some(Knee { objective: search.text.clone(), rate, trials });
    Ok(result)
}

fn judge(rate: f64, objective: &[Threshold], result: &RunResult) -> Trial {
    let requests = &result.requests;
    let mut reasons: Vec<String> = objective
        .iter()
        .map(|threshold| threshold.apply(result))
        .filter(|applied| !applied.held)
        .map(|applied| {
            let measured = Threshold::show(&applied.threshold, applied.measured);
            format!("{} not held ({measured})", applied.threshold)
        })
        .collect();
    if result.throughput.ok_per_second < rate * 0.95 {
        let reached = digits(result.throughput.ok_per_second);
        reasons.push(format!("only {reached}/s reached"));
    }
    if result.client.is_bottleneck {
        reasons.push("the generator was the bottleneck".to_owned());
    }
    Trial {
        rate,
        ok_per_second: result.throughput.ok_per_second,
        p50: result.latency.corrected.p50,
        p99: result.latency.corrected.p99,
        errors: (requests.failed + requests.dropped) as f64 / requests.offered.max(1) as f64,
        held: reasons.is_empty(),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a target whose capacity is known.
    fn found(capacity: f64, from: f64) -> (Option<f64>, usize) {
        let mut trials = Vec::new();
        while let Some(rate) = next_rate(&trials, from) {
            trials.push(Trial { rate, held: rate <= capacity, ..Trial::default() });
        }
        let held = trials.iter().filter(|one| one.held).map(|one| one.rate).reduce(f64::max);
        (held, trials.len())
    }

    #[test]
    fn the_knee_is_found_within_5_percent_from_below_and_from_above() {
        for (capacity, from) in [(12_345.0, 100.0), (77.0, 1000.0), (1000.0, 1000.0)] {
            let (rate, trials) = found(capacity, from);
            let rate = rate.unwrap();
            assert!(rate <= capacity && rate * CLOSE_ENOUGH >= capacity * 0.99, "{rate}");
            assert!(trials < 16, "{trials} trials");
        }
    }

    #[test]
    fn a_target_that_holds_nothing_has_no_knee() {
        assert_eq!(found(0.5, 100.0).0, None);
    }
}

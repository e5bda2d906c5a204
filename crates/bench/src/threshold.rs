//! Thresholds and objectives: `p99<10ms,errors<0.1%,rate>1000`.

use std::time::Duration;

use crate::quantity;
use crate::result::{RunResult, ThresholdResult};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// Corrected latency at a quantile.
    Corrected(f64),
    /// Raw latency at a quantile.
    Raw(f64),
    Mean,
    /// Share of requests that failed or were dropped.
    Errors,
    Dropped,
    Rate,
    Stalls,
}

/// A bound on one figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold {
    text: String,
    figure: Figure,
    below: bool,
    bound: f64,
}

impl Threshold {
    /// Parses one bound; the error is for a person.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or_else(|| {
            format!("threshold {text:?}: write a figure, < or >, and a bound, like p99<10ms")
        })?;
        let name = text[..at].trim();
        let rest = text[at + 1..].trim_start_matches('=').trim();
        let figure = figure(name).ok_or_else(|| {
            format!(
                "threshold {text:?}: no figure {name:?}; there are p50 … p99.99, max, mean, \
                 raw.p99, errors, dropped, rate, stalls"
            )
        })?;
        let bound = match figure {
            Figure::Corrected(_) | Figure::Raw(_) | Figure::Mean => {
                latency(rest).map(|bound| bound.as_secs_f64())
            }
            Figure::Errors | Figure::Dropped => share(rest),
            Figure::Rate | Figure::Stalls => rest
                .trim_end_matches("/s")
                .replace('_', "")
                .parse()
                .map_err(|_| "not a number".into()),
        };
        let bound = bound.map_err(|what| format!("threshold {text:?}: {what}"))?;
        Ok(Self { text: text.trim().to_owned(), figure, below: text.as_bytes()[at] == b'<', bound })
    }

    /// Parses a list separated by commas.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(Self::parse).collect()
    }

    /// Whether it holds for `result`. A latency bound does not hold without a single good answer.
    pub(crate) fn apply(&self, result: &RunResult) -> ThresholdResult {
        let requests = &result.requests;
        let share = |part: u64| part as f64 / (requests.offered.max(1)) as f64;
        let empty = requests.ok == 0;
        let measured = match self.figure {
            Figure::Corrected(quantile) => result.latency.corrected.histogram.quantile(quantile),
            Figure::Raw(quantile) => result.latency.raw.histogram.quantile(quantile),
            Figure::Mean => result.latency.corrected.mean,
            Figure::Errors => share(requests.failed + requests.dropped),
            Figure::Dropped => share(requests.dropped),
            Figure::Rate => result.throughput.ok_per_second,
            Figure::Stalls => result.stalls.len() as f64,
        };
        let within = if self.below { measured < self.bound } else { measured > self.bound };
        let at_bound = self.text.contains('=') && measured == self.bound;
        let latency = matches!(self.figure, Figure::Corrected(_) | Figure::Raw(_) | Figure::Mean);
        let nothing = requests.offered == 0 && self.figure == Figure::Errors;
        let held = (within || at_bound) && !(latency && empty) && !nothing;
        ThresholdResult { threshold: self.text.clone(), measured, held }
    }

    /// The measured figure as text in its unit.
    pub(crate) fn show(text: &str, measured: f64) -> String {
        match figure(text.split(['<', '>']).next().unwrap_or_default().trim()) {
            Some(Figure::Errors | Figure::Dropped) => format!("{:.2} %", measured * 100.0),
            Some(Figure::Rate) => format!("{}/s", quantity::grouped(measured)),
            Some(Figure::Stalls) => format!("{measured}"),
            _ => quantity::time(measured),
        }
    }
}

fn figure(name: &str) -> Option<Figure> {
    let (name, raw) = match name.strip_prefix("raw.") {
        Some(rest) => (rest, true),
        None => (name.strip_prefix("corrected.").unwrap_or(name), false),
    };
    let quantile = match name {
        "max" => Some(1.0),
        _ => name
            .strip_prefix('p')
            .map(|digits| digits.replace('_', "."))
            .and_then(|digits| digits.parse::<f64>().ok())
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| percent / 100.0),
    };
    match (name, quantile, raw) {
        (_, Some(quantile), true) => Some(Figure::Raw(quantile)),
        (_, Some(quantile), false) => Some(Figure::Corrected(quantile)),
        ("mean", ..) => Some(Figure::Mean),
        ("errors", ..) => Some(Figure::Errors),
        ("dropped", ..) => Some(Figure::Dropped),
        ("rate", ..) => Some(Figure::Rate),
        ("stalls", ..) => Some(Figure::Stalls),
        _ => None,
    }
}

/// A bound on latency says its unit: `p99<10` was meant as 10 ms by everyone who wrote it, and a
/// bare number is seconds elsewhere.
fn latency(text: &str) -> Result<Duration, String> {
    if text.ends_with(|end: char| end.is_ascii_digit() || end == '.') {
        return Err(format!("a latency needs a unit; write {text}ms or {text}s"));
    }
    quantity::duration(text)
}

fn share(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), 0.01),
        None => (text, 1.0),
    };
    digits.parse::<f64>().map(|value| value * scale).map_err(|_| "write a share like 0.1%".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_loadgen::Sparse;

    #[track_caller]
    fn check(threshold: &str, held: bool) {
        let mut result = RunResult::default();
        result.requests.offered = 1000;
        result.requests.ok = 990;
        result.requests.failed = 10;
        result.throughput.ok_per_second = 99.0;
        result.latency.corrected.histogram = Sparse(vec![(1_000_000, 980), (9_000_000, 10)]);
        let applied = Threshold::parse(threshold).unwrap().apply(&result);
        assert_eq!(applied.held, held, "{threshold}: {applied:?}");
    }

    #[test]
    fn bounds_hold_or_not() {
        check("p50<2ms", true);
        check("p99.9<9ms", false);
        check("p99_9<=9ms", true);
        check("max < 10ms", true);
        check("errors<1%", false);
        check("errors<0.02", true);
        check("rate>100", false);
        check("rate>50/s", true);
        check("stalls<1", true);
    }

    #[test]
    fn a_latency_bound_does_not_hold_when_nothing_was_answered() {
        let applied = Threshold::parse("p99<10ms").unwrap().apply(&RunResult::default());
        assert!(!applied.held);
    }

    #[test]
    fn a_bad_threshold_says_what_there_is() {
        assert!(Threshold::parse("p99").unwrap_err().contains("p99<10ms"));
        assert!(Threshold::parse("speed<1").unwrap_err().contains("raw.p99"));
        assert!(Threshold::parse("p99<10").unwrap_err().contains("10ms or 10s"));
        assert!(Threshold::parse("mean<0.5").unwrap_err().contains("0.5ms"));
        assert!(Threshold::parse("p99<fast").unwrap_err().contains("duration"));
        assert!(Threshold::parse_all("p99<1s,errors<x").unwrap_err().contains("0.1%"));
    }
}

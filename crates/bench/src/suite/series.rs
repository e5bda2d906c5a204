//! What the charts of a ramp draw: every second of it, one line a peer.

use serde::Serialize;

use super::report::Spread;
use super::runner::{Measurement, Moment};
use super::{Suite, SuiteResult};

/// Every second of a ramp, one line a peer.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) case: &'static str,
    pub(crate) peers: Vec<Line>,
}

/// A peer's part of a [`Series`]: of each second the median of the rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    peer: String,
    knee: Option<f64>,
    at: Vec<u64>,
    clients: Vec<u64>,
    ok: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// What the charts of a suite draw; none where it has no ramps.
pub(crate) fn series(suite: &Suite, result: &SuiteResult) -> Vec<Series> {
    let mut all = Vec::new();
    for case in suite.cases {
        let of_case = || result.measurements.iter().filter(|one| one.case == case.name);
        let mut peers: Vec<Line> = Vec::new();
        for one in of_case().filter(|one| !one.seconds.is_empty()) {
            if peers.iter().all(|line| line.peer != one.peer) {
                peers.push(line(&one.peer, of_case().filter(|other| other.peer == one.peer)));
            }
        }
        if !peers.is_empty() {
            all.push(Series { case: case.name, peers });
        }
    }
    all
}

fn line<'a>(peer: &str, rounds: impl Iterator<Item = &'a Measurement>) -> Line {
    let rounds: Vec<&Measurement> = rounds.filter(|one| !one.seconds.is_empty()).collect();
    let shortest = rounds.iter().map(|one| one.seconds.len()).min().unwrap_or_default();
    let median = |values: Vec<f64>| Spread::of(values).map_or(0.0, |spread| spread.median);
    let each = |of: fn(&Moment) -> f64| -> Vec<f64> {
        let second = |at: usize| median(rounds.iter().map(|one| of(&one.seconds[at])).collect());
        (0..shortest).map(second).collect()
    };
    let knees = rounds.iter().filter_map(|one| Some(one.figures?.knee? as f64)).collect();
    let first = rounds.first().map(|one| &one.seconds[..shortest]).unwrap_or_default();
    Line {
        peer: peer.to_owned(),
        knee: Spread::of(knees).map(|spread| spread.median),
        at: first.iter().map(|one| one.at).collect(),
        clients: first.iter().map(|one| one.clients).collect(),
        ok: each(|one| one.ok as f64),
        p50: each(|one| one.p50),
        p99: each(|one| one.p99),
    }
}

//! Honesty and accuracy against simulated targets, on a virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Load, Share, Source};
use crate::recorder::{Correction, Recorder, Sample};
use crate::run_clock::{Nanos, SECOND, seconds};
use crate::schedule::{ArrivalSpacing, Schedule, Segment};
use crate::stall::Stall;

const SERVICE: Nanos = 100_000;

/// Serves one request at a time per connection, but stands still for `stall` every `period`.
struct StallingServer {
    stall: Nanos,
    period: Nanos,
}

impl StallingServer {
    /// When a request sent at `sent` is answered.
    fn reply_time(&self, sent: Nanos) -> Nanos {
        let done = sent + SERVICE;
        let into = done % self.period;
        // It stands still at the end of each period.
        if into >= self.period - self.stall { done - into + self.period + SERVICE } else { done }
    }
}

/// Runs `load` over `connections` connections until it is done.
fn simulate(load: &mut Load, connections: usize, answered: impl Fn(Nanos) -> Nanos) {
    let mut free = connections;
    let mut under_way: BinaryHeap<Reverse<(Nanos, Nanos, Nanos)>> = BinaryHeap::new();
    let mut now = 0;
    loop {
        load.advance(now);
        while let Some(Reverse((at, intended, sent))) = under_way.peek().copied()
            && at <= now
        {
            under_way.pop();
            let sample = Sample { intended, sent, step: 0, bytes: 13, messages: 0 };
            load.complete(at, &sample, Ok(()));
            free += 1;
        }
        while free > 0
            && let Some(intended) = load.take(now)
        {
            free -= 1;
            under_way.push(Reverse((answered(now), intended, now)));
        }
        if load.is_done(now) {
            break;
        }
        let answer = under_way.peek().map(|Reverse((at, ..))| *at);
        let Some(next) = [answer, load.next_due()].into_iter().flatten().min() else { break };
        now = next.max(now + 1);
    }
    load.recorder.finish(now);
}

fn open(schedule: Schedule, in_flight_max: usize) -> Load {
    let recorder = Recorder::new(0, Correction::FromIntendedStart, 1);
    let source = Source::Open { schedule, in_flight_max, share: Share { index: 0, workers: 1 } };
    Load::new(source, u64::MAX, 30 * SECOND, recorder)
}

fn within(measured: f64, truth: f64, tolerance: f64) {
    assert!((measured / truth - 1.0).abs() <= tolerance, "measured {measured}, truth {truth}");
}

#[test]
fn under_two_stalls_in_21_s_every_percentile_is_within_5_percent_of_the_truth() {
    let target = StallingServer { stall: SECOND, period: 10 * SECOND };
    let mut load = open(Schedule::constant(2000.0, 21.0), 65_536);
    simulate(&mut load, 8, |sent| target.reply_time(sent));

    // The truth, computed apart from the engine: what each arrival would wait by itself.
    let mut truth: Vec<Nanos> =
        Schedule::constant(2000.0, 21.0).map(|due| target.reply_time(due) - due).collect();
    truth.sort_unstable();
    let at = |quantile: f64| seconds(truth[(quantile * truth.len() as f64) as usize]);

    let corrected = load.recorder.corrected.as_ref().expect("an open model corrects");
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        within(corrected.quantile(quantile), at(quantile), 0.05);
    }
    within(at(0.99), 0.895, 0.01);
    assert_eq!(corrected.count(), 42_000);
    assert!(load.recorder.raw.quantile(0.99) < 0.001, "raw latency hides the stall");
    assert_eq!(Stall::phrase(&load.recorder.gaps.stalls(0.0001, 0)), "2 × 1.0 s");
}

#[test]
fn the_closed_model_names_the_stalls() {
    let target = StallingServer { stall: SECOND, period: 10 * SECOND };
    let recorder = Recorder::new(0, Correction::None, 1);
    let source = Source::Closed { until: 21 * SECOND };
    let mut load = Load::new(source, u64::MAX, 30 * SECOND, recorder);
    simulate(&mut load, 8, |sent| target.reply_time(sent));
    let stalls = load.recorder.gaps.stalls(load.recorder.raw.quantile(0.5), 0);
    assert_eq!(Stall::phrase(&stalls), "2 × 1.0 s");
    assert!((stalls[0].at - 9.0).abs() < 0.01 && (stalls[1].at - 19.0).abs() < 0.01);
    assert!(load.recorder.raw.quantile(0.99) < 0.001, "percentiles alone hide the stall");
}

#[test]
fn percentiles_are_within_2_percent_of_a_known_delay_distribution() {
    // Answer i takes the i-th of 1,000 delays from 1 to 100 ms, each equally often.
    let delay = |sent: Nanos| {
        let index = sent / SERVICE % 1000;
        SECOND / 1000 + index * (SECOND * 99 / 1000) / 999
    };
    let mut load = open(Schedule::constant(10_000.0, 10.0), 65_536);
    simulate(&mut load, 4096, |sent| sent + delay(sent));
    let corrected = load.recorder.corrected.as_ref().expect("an open model corrects");
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        within(corrected.quantile(quantile), 0.001 + quantile * 0.099, 0.02);
    }
}

#[test]
fn beyond_the_in_flight_cap_arrivals_are_dropped_and_counted() {
    let mut load = open(Schedule::constant(1000.0, 2.0), 100);
    simulate(&mut load, 1, |sent| sent + SECOND / 10);
    let counts = load.recorder.measured;
    assert_eq!(counts.offered, 2000);
    assert_eq!(counts.ok + counts.dropped, 2000);
    assert!(counts.dropped > 1800, "{counts:?}");
    assert_eq!(load.recorder.timeline.iter().map(|row| row.dropped).sum::<u64>(), counts.dropped);
}

#[test]
fn two_workers_share_the_arrivals_without_loss() {
    let counts = [0, 1].map(|index| {
        let segment = Segment { from: 100.0, to: 500.0, seconds: 3.0 };
        let mut load = open(Schedule::new(vec![segment], ArrivalSpacing::Uniform), 1000);
        if let Source::Open { share, .. } = &mut load.source {
            *share = Share { index, workers: 2 };
        }
        simulate(&mut load, 8, |sent| sent + SERVICE);
        load.recorder.measured.ok
    });
    assert_eq!(counts, [450, 450]);
}

#[test]
fn warm_up_requests_are_counted_apart() {
    let recorder = Recorder::new(SECOND, Correction::FromIntendedStart, 1);
    let source = Source::Open {
        schedule: Schedule::constant(100.0, 3.0),
        in_flight_max: 100,
        share: Share { index: 0, workers: 1 },
    };
    let mut load = Load::new(source, u64::MAX, SECOND, recorder);
    simulate(&mut load, 4, |sent| sent + SERVICE);
    assert_eq!(load.recorder.warm_up.ok, 100);
    assert_eq!(load.recorder.measured.ok, 200);
    assert_eq!(load.recorder.timeline.len(), 2);
}

#[test]
fn ten_minutes_of_timeline_stay_small() {
    let mut recorder = Recorder::new(0, Correction::FromIntendedStart, 1);
    let mut random = fastrand::Rng::with_seed(3);
    for answer in 0..600_000_u64 {
        let now = (answer + 1) * (SECOND / 1000);
        // Latencies over five decades: far wider than any target's.
        let latency = (1e4 * 10_f64.powf(random.f64() * 5.0)) as Nanos;
        let sent = now.saturating_sub(latency);
        recorder.ok(now, &Sample { intended: sent, sent, step: 0, bytes: 0, messages: 0 });
    }
    let buckets: usize = recorder.timeline.iter().map(|row| row.histogram.0.len()).sum();
    assert_eq!(recorder.timeline.len(), 600);
    assert!(buckets * size_of::<(u64, u64)>() < 16 << 20, "{buckets} buckets");
}

//! What a run leaves behind: histograms, the timeline, failures, gaps.
//!
//! Recording an answer costs one histogram increment in a closed model and two in an open one: it
//! goes into the histograms of the current second, which are added to the totals when the second
//! is over. Answers to requests meant to start before the end of the warm-up are only counted.

use std::collections::HashMap;

use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::run_clock::{Nanos, SECOND};
use crate::stall::Gaps;
use crate::timeline::{self, Current, Second};

/// Whether latencies have an intended start besides the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// Open model: the intended start is known.
    FromIntendedStart,
    /// Closed model: a request is meant to start when it starts.
    None,
}

/// Counts of requests in one part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were due.
    pub offered: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Good answers.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests dropped at the in-flight cap.
    pub dropped: u64,
    /// Bytes of good answers.
    pub bytes: u64,
    /// Messages of good answers.
    pub messages: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.ok += other.ok;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.bytes += other.bytes;
        self.messages += other.messages;
    }
}

/// The totals of one step of a scenario.
#[derive(Debug, Clone)]
pub struct StepTotals {
    /// Good answers.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Latencies from the real start.
    pub raw: Histogram,
}

/// Times and size of one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub intended: Nanos,
    pub sent: Nanos,
    pub step: usize,
    pub bytes: u64,
    pub messages: u64,
}

/// Everything one worker records.
#[derive(Debug)]
pub struct Recorder {
    origin: Nanos,
    second_ends: Nanos,
    current: Current,
    /// Counts of the warm-up.
    pub warm_up: Counts,
    /// Counts of the measured part.
    pub measured: Counts,
    /// Latencies from the real start.
    pub raw: Histogram,
    /// Latencies from the intended start; open model only.
    pub corrected: Option<Histogram>,
    /// Latencies of failures.
    pub failed: Histogram,
    /// How late due requests were noticed by the generator itself.
    pub lateness: Histogram,
    /// How long connections took to open.
    pub connects: Histogram,
    /// Failures by kind.
    pub failures: HashMap<Failure, u64>,
    /// Totals by step; empty without a scenario.
    pub steps: Vec<StepTotals>,
    /// Stretches without an answer.
    pub gaps: Gaps,
    /// One row a second.
    pub timeline: Vec<Second>,
    /// When the last answer came.
    pub last_answer: Nanos,
    /// Since when the target has refused every connection.
    pub refused_since: Option<Nanos>,
}

impl Recorder {
    /// `origin` is the end of the warm-up; `steps` is 1 unless a scenario has more.
    pub fn new(origin: Nanos, correction: Correction, steps: usize) -> Self {
        let corrected = (correction == Correction::FromIntendedStart).then(Histogram::new);
        let step = StepTotals { ok: 0, failed: 0, raw: Histogram::new() };
        Self {
            origin,
            second_ends: origin + SECOND,
            current: Current::new(corrected.clone()),
            warm_up: Counts::default(),
            measured: Counts::default(),
            raw: Histogram::new(),
            corrected,
            failed: Histogram::new(),
            lateness: Histogram::new(),
            connects: Histogram::new(),
            failures: HashMap::new(),
            steps: if steps > 1 { vec![step; steps] } else { Vec::new() },
            gaps: Gaps::default(),
            timeline: Vec::new(),
            last_answer: origin,
            refused_since: None,
        }
    }

    /// A request became due at `due`, noticed `lateness` later.
    pub(crate) fn offer(&mut self, due: Nanos, lateness: Nanos) {
        if due < self.origin {
            self.warm_up.offered += 1;
            return;
        }
        self.measured.offered += 1;
        self.current.offered += 1;
        self.lateness.record(lateness);
    }

    /// A request without a due time starts now (closed model, or a later step of a scenario).
    pub(crate) fn started(&mut self, now: Nanos) {
        self.part(now).offered += 1;
        if now >= self.origin {
            self.current.offered += 1;
        }
    }

    pub(crate) fn sent(&mut self, intended: Nanos, in_flight: usize) {
        self.part(intended).sent += 1;
        if in_flight > self.current.in_flight_max {
            self.current.in_flight_max = in_flight;
        }
    }

    pub(crate) fn dropped(&mut self, due: Nanos) {
        self.part(due).dropped += 1;
        if due >= self.origin {
            self.current.dropped += 1;
        }
    }

    pub(crate) fn ok(&mut self, now: Nanos, sample: &Sample) {
        self.roll(now);
        let counts = self.part(sample.intended);
        counts.ok += 1;
        counts.bytes += sample.bytes;
        counts.messages += sample.messages;
        if sample.intended < self.origin {
            return;
        }
        self.last_answer = now;
        let raw = now.saturating_sub(sample.sent);
        self.current.ok += 1;
        self.current.bytes += sample.bytes;
        self.current.raw.record(raw);
        if let Some(corrected) = &mut self.current.corrected {
            corrected.record(now.saturating_sub(sample.intended));
        }
        if let Some(step) = self.steps.get_mut(sample.step) {
            step.ok += 1;
            step.raw.record(raw);
        }
    }

    pub(crate) fn failed(&mut self, now: Nanos, sample: &Sample, failure: Failure) {
        self.roll(now);
        let counts = self.part(sample.intended);
        counts.failed += 1;
        counts.bytes += sample.bytes;
        if sample.intended < self.origin {
            return;
        }
        self.current.failed += 1;
        self.current.bytes += sample.bytes;
        self.failed.record(now.saturating_sub(sample.intended));
        if let Some(step) = self.steps.get_mut(sample.step) {
            step.failed += 1;
        }
        *self.failures.entry(failure).or_insert(0) += 1;
    }

    pub(crate) fn connections(&mut self, connections: usize) {
        self.current.connections = connections;
    }

    /// Closes every second that is over at `now`.
    pub fn roll(&mut self, now: Nanos) {
        while now >= self.second_ends {
            self.close_second();
        }
    }

    /// Closes the last, partial second.
    pub fn finish(&mut self, now: Nanos) {
        self.roll(now);
        if self.current.offered + self.current.ok + self.current.failed > 0 {
            self.close_second();
        }
    }

    /// Adds what another worker recorded.
    pub fn merge(&mut self, other: Self) {
        self.warm_up.add(&other.warm_up);
        self.measured.add(&other.measured);
        self.raw.merge(&other.raw);
        if let (Some(mine), Some(theirs)) = (&mut self.corrected, &other.corrected) {
            mine.merge(theirs);
        }
        self.failed.merge(&other.failed);
        self.lateness.merge(&other.lateness);
        self.connects.merge(&other.connects);
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_insert(0) += count;
        }
        for (mine, theirs) in self.steps.iter_mut().zip(other.steps) {
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            mine.raw.merge(&theirs.raw);
        }
        self.gaps.intersect(&other.gaps);
        timeline::merge(&mut self.timeline, other.timeline);
        self.last_answer = self.last_answer.max(other.last_answer);
        self.refused_since = self.refused_since.min(other.refused_since);
    }

    fn part(&mut self, intended: Nanos) -> &mut Counts {
        if intended < self.origin { &mut self.warm_up } else { &mut self.measured }
    }

    fn close_second(&mut self) {
        self.raw.merge(&self.current.raw);
        if let (Some(total), Some(second)) = (&mut self.corrected, &self.current.corrected) {
            total.merge(second);
        }
        let at = (self.second_ends - SECOND - self.origin) / SECOND;
        self.timeline.push(self.current.take(at));
        self.second_ends += SECOND;
    }
}

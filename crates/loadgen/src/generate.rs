//! Which request starts when: the closed and the open model, without sockets and without a clock.
//!
//! ```text
//!            advance(now)            take(now)               complete(now)
//!  schedule ─────────────▶ waiting ─────────────▶ in flight ───────────────▶ recorder
//!            or dropped at                 closed model: a free connection
//!            the in-flight cap             takes the next request at once
//! ```
//!
//! The engine drives this over real sockets, the honesty tests over a simulated target and a
//! virtual clock.

use std::collections::VecDeque;

use crate::failure::Failure;
use crate::recorder::{Recorder, Sample};
use crate::run_clock::Nanos;
use crate::schedule::Schedule;

/// Where requests come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Every free connection sends at once, until this time.
    Closed {
        /// No request starts at or after this time.
        until: Nanos,
    },
    /// Requests are due by schedule, whether or not the target keeps up.
    Open {
        /// When each request is due.
        schedule: Schedule,
        /// Requests under way or waiting beyond this number are dropped and counted.
        in_flight_max: usize,
        share: Share,
    },
}

/// Which arrivals a worker takes: of as many as there are workers the one at its index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) workers: usize,
}

/// The load of one worker.
#[derive(Debug)]
pub(crate) struct Load {
    source: Source,
    waiting: VecDeque<Nanos>,
    in_flight: usize,
    arrivals: usize,
    remaining: u64,
    timeout: Nanos,
    stopped: bool,
    pub(crate) recorder: Recorder,
}

impl Load {
    /// `requests` bounds how many are started; `timeout` how long one waits for a connection.
    pub(crate) fn new(source: Source, requests: u64, timeout: Nanos, recorder: Recorder) -> Self {
        Self {
            source,
            waiting: VecDeque::new(),
            in_flight: 0,
            arrivals: 0,
            remaining: requests,
            timeout,
            stopped: false,
            recorder,
        }
    }

    /// Moves every arrival that is due into the waiting line, or drops it at the cap.
    pub(crate) fn advance(&mut self, now: Nanos) {
        let Source::Open { schedule, in_flight_max, share } = &mut self.source else { return };
        while let Some(due) = schedule.peek().filter(|due| *due <= now) {
            schedule.advance();
            self.arrivals += 1;
            if (self.arrivals - 1) % share.workers != share.index || self.remaining == 0 {
                continue;
            }
            self.remaining -= 1;
            self.recorder.offer(due, now - due);
            if self.waiting.len() + self.in_flight >= *in_flight_max {
                self.recorder.dropped(due);
            } else {
                self.waiting.push_back(due);
            }
        }
        while let Some(due) = self.waiting.front().copied()
            && now.saturating_sub(due) > self.timeout
        {
            self.waiting.pop_front();
            let sample = Sample { intended: due, sent: due, step: 0, bytes: 0, messages: 0 };
            self.recorder.failed(now, &sample, Failure::Unsent);
        }
    }

    /// The intended start of a request to be sent now, if there is one.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        if self.stopped {
            return None;
        }
        let intended = match &self.source {
            Source::Open { .. } => self.waiting.pop_front()?,
            Source::Closed { until } if now < *until && self.remaining > 0 => {
                self.remaining -= 1;
                self.recorder.started(now);
                now
            }
            Source::Closed { .. } => return None,
        };
        self.begin(now, intended);
        Some(intended)
    }

    /// The next step of a scenario starts now.
    pub(crate) fn resume(&mut self, now: Nanos) {
        self.recorder.started(now);
        self.begin(now, now);
    }

    fn begin(&mut self, now: Nanos, intended: Nanos) {
        self.in_flight += 1;
        self.recorder.gaps.began(now);
        self.recorder.sent(intended, self.in_flight + self.waiting.len());
    }

    /// A request ended, well or not.
    pub(crate) fn complete(&mut self, now: Nanos, sample: &Sample, outcome: Result<(), Failure>) {
        self.in_flight -= 1;
        match outcome {
            Ok(()) => {
                self.recorder.gaps.on_reply(now, self.in_flight);
                self.recorder.ok(now, sample);
            }
            Err(failure) => {
                if failure.is_answer() || self.in_flight == 0 {
                    self.recorder.gaps.on_reply(now, self.in_flight);
                }
                self.recorder.failed(now, sample, failure);
            }
        }
    }

    /// When [`advance`](Self::advance) has something to do next.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        match &self.source {
            Source::Open { schedule, .. } if self.remaining > 0 && !self.stopped => schedule.peek(),
            _ => None,
        }
    }

    /// Starts no further request; those waiting are dropped.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        for due in std::mem::take(&mut self.waiting) {
            self.recorder.dropped(due);
        }
    }

    /// Whether no request is under way and none will start any more.
    pub(crate) fn is_done(&self, now: Nanos) -> bool {
        self.in_flight == 0 && self.waiting.is_empty() && !self.may_start(now)
    }

    /// Whether a request may still start at `now` or later.
    pub(crate) fn may_start(&self, now: Nanos) -> bool {
        !self.stopped
            && self.remaining > 0
            && match &self.source {
                Source::Closed { until } => now < *until,
                Source::Open { schedule, .. } => schedule.peek().is_some(),
            }
    }

    /// Whether a free connection would be used at `now`.
    pub(crate) fn has_work(&self, now: Nanos) -> bool {
        match &self.source {
            Source::Closed { .. } => self.may_start(now),
            Source::Open { .. } => !self.waiting.is_empty() && !self.stopped,
        }
    }
}

#[cfg(test)]
#[path = "generate/virtual_clock.rs"]
mod virtual_clock;

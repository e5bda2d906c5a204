//! What is counted of one method over one protocol.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidewire_service::{Code, End, EndReason, Observation, Phase, Phases};

use crate::exemplar::Exemplars;
use crate::histogram::Histogram;

/// The counts of one method over one protocol.
///
/// It observes requests itself: each is told nothing but its end, so that it costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Outcomes of plain HTTP are classes of statuses.
    is_plain: bool,
    pub(crate) running: AtomicI64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) durations: Histogram,
    pub(crate) exemplars: Exemplars,
    pub(crate) asked_memory: AtomicU64,
    pub(crate) from_memory: AtomicU64,
    /// The hosted program that was given a call of the method first; plain HTTP has none, since
    /// pages of several programs may share a series.
    pub(crate) program: OnceLock<Arc<str>>,
    outcomes: [AtomicU64; OUTCOMES.len()],
}

/// Every outcome there is: the codes, classes of statuses of plain HTTP, and what the server did.
const OUTCOMES: [&str; 23] = [
    "ok",
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
    "2xx",
    "3xx",
    "4xx",
    "5xx",
    "drained",
    "panicked",
];

impl Series {
    pub(crate) fn new(is_plain: bool) -> Self {
        Self { is_plain, ..Self::default() }
    }

    /// Whether a request was answered from what is kept; `None` where nobody looked there.
    pub(crate) const fn from_memory(end: &End) -> Option<bool> {
        if end.phases.has(Phase::Memo) { Some(!end.phases.has(Phase::Computed)) } else { None }
    }

    /// Outcomes that happened, and how often.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = OUTCOMES.iter().zip(&self.outcomes);
        counts
            .map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
    }
}

impl Observation for Series {
    fn phases(&self) -> Phases {
        Phases::NONE
    }

    fn end(&self, end: &End) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.bytes_in.fetch_add(end.bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(end.bytes_out, Ordering::Relaxed);
        self.durations.count(end.took);
        let outcome = outcome(end, self.is_plain);
        let index = OUTCOMES.iter().position(|known| *known == outcome).unwrap_or(UNKNOWN);
        self.outcomes[index].fetch_add(1, Ordering::Relaxed);
        if let Some(program) = &end.program
            && !self.is_plain
        {
            self.program.get_or_init(|| Arc::clone(program));
        }
        if let Some(from_memory) = Self::from_memory(end) {
            self.asked_memory.fetch_add(1, Ordering::Relaxed);
            self.from_memory.fetch_add(u64::from(from_memory), Ordering::Relaxed);
        }
    }
}

/// Where `unknown` is.
const UNKNOWN: usize = 2;

/// The outcome of a request, as one word.
pub(crate) fn outcome(end: &End, is_plain: bool) -> &'static str {
    match end.how {
        EndReason::Panicked => return "panicked",
        EndReason::Drained => return "drained",
        EndReason::Canceled => return "canceled",
        _ => {}
    }
    if is_plain {
        return match end.status.map_or(0, |status| status.as_u16() / 100) {
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "unknown",
        };
    }
    end.code.map_or("ok", Code::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn every_code_is_an_outcome_of_its_own() {
        for number in 1..=16 {
            let code = Code::from_number(number).expect("a code");
            assert_eq!(OUTCOMES[number as usize], code.as_str());
        }
    }

    #[test]
    fn an_end_is_one_outcome() {
        let check = |how, code, status, is_plain, expected| {
            let mut end = End::new(how);
            (end.code, end.status) = (code, status);
            assert_eq!(outcome(&end, is_plain), expected);
        };
        check(EndReason::Answered, None, Some(StatusCode::OK), false, "ok");
        check(EndReason::Answered, Some(Code::NotFound), None, false, "not_found");
        check(EndReason::Answered, None, Some(StatusCode::NO_CONTENT), true, "2xx");
        check(EndReason::Answered, Some(Code::NotFound), Some(StatusCode::NOT_FOUND), true, "4xx");
        check(EndReason::Panicked, Some(Code::Internal), None, false, "panicked");
        check(EndReason::Deadline, Some(Code::DeadlineExceeded), None, false, "deadline_exceeded");
        check(EndReason::Canceled, None, None, false, "canceled");
        check(EndReason::Drained, None, None, true, "drained");
    }
}

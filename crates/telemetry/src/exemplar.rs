//! Exemplars: for each bucket of durations the trace of a request that is in it.
//!
//! They lead from a slow bucket of a dashboard to a trace that shows why. Only traces that are
//! sampled are noted, since others are nowhere to be found; who would have to wait for the place
//! leaves it out.

use parking_lot::Mutex;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidewire_service::Headers;

use crate::histogram::BOUNDS;

/// A trace that is sampled, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace([u8; 32]);

impl Trace {
    /// The trace of a request, where it has one that is sampled (Trace Context, section 3.2.2).
    pub(crate) fn sampled(headers: &Headers) -> Option<Self> {
        let parent = headers.get("traceparent")?.as_bytes();
        let flags = std::str::from_utf8(parent.get(53..55)?).ok()?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        let trace: [u8; 32] = parent.get(3..35)?.try_into().ok()?;
        (is_sampled && trace.iter().all(u8::is_ascii_hexdigit)).then_some(Self(trace))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

/// A request of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) trace: Trace,
    pub(crate) microseconds: u64,
    /// In milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// The latest request of each bucket.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<Vec<Option<Exemplar>>>);

impl Exemplars {
    pub(crate) fn note(&self, trace: Trace, taken: Duration) {
        let Some(mut known) = self.0.try_lock() else { return };
        let microseconds = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        known.resize(BOUNDS.len() + 1, None);
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        known[bucket] = Some(Exemplar { trace, microseconds, at_ms });
    }

    /// Of every bucket; empty where none was noted.
    pub(crate) fn all(&self) -> Vec<Option<Exemplar>> {
        self.0.try_lock().map(|known| known.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_traces_that_are_sampled_are_noted_each_in_its_bucket() {
        let trace = |flags: &str| {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            let value = HeaderValue::from_str(&text).unwrap();
            Trace::sampled(
                &[(http::HeaderName::from_static("traceparent"), value)].into_iter().collect(),
            )
        };
        assert_eq!((trace("00"), trace("zz"), trace("")), (None, None, None));
        let sampled = trace("01").unwrap();
        assert_eq!(sampled.to_string(), "0af7651916cd43dd8448eb211c80319c");
        let exemplars = Exemplars::default();
        assert!(exemplars.all().is_empty());
        exemplars.note(sampled, Duration::from_micros(150));
        exemplars.note(sampled, Duration::from_secs(100));
        let all = exemplars.all();
        let noted: Vec<_> = all.iter().map(|of| of.map(|of| of.microseconds)).collect();
        assert_eq!((noted[0], noted[1], noted[BOUNDS.len()]), (None, Some(150), Some(100_000_000)));
    }
}

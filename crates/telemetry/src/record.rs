//! The last calls, one by one, while somebody wants to know them.
//!
//! Nothing is kept unless recording is on, which it is for a stated time or while somebody watches:
//! else a request costs one look at one number. The last 1,024 calls are kept. Where more than 500
//! calls come in a second, 500 of them are recorded, and beside them 500 of those that failed, in
//! brief: so a busy server pays for what somebody can read, and not for every call. Calls are
//! numbered, so that a reader sees how many are not kept.
//!
//! Of headers only what a list names is kept with its value (`KEPT_HEADERS`); of any other there is
//! its name, since nobody knows which of them are secrets. Queries and bodies are left out.

mod allowance;
mod open_record;

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidewire_service::{Head, Headers, OneLine, Target};

use self::allowance::Allowance;
pub(crate) use self::open_record::OpenRecord;
use self::open_record::went_well;
use crate::message_capture::{Capture, Messages, ShowMessage};

/// The last calls of a server; clones share them.
///
/// ```
/// # mod tidewire { pub mod telemetry { pub use tidewire_telemetry::*; } }
/// use std::time::Duration;
/// use tidewire::telemetry::Metrics;
///
/// let metrics = Metrics::new();
/// let record = metrics.record();
/// assert!(!record.is_on(), "nobody looks, so nothing is kept");
/// let watching = record.watch();
/// assert!(record.is_on());
/// drop(watching);
/// record.keep_for(Duration::from_secs(60));
/// assert!(record.is_on());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Who wants to know; the recording for a stated time is one of them.
    wanted: AtomicUsize,
    begun: Instant,
    /// In milliseconds since `begun`; 0 is not at all.
    until: AtomicU64,
    kept: Mutex<KeptCalls>,
    /// Calls that ended since the latest one that is kept, and are not.
    skipped: AtomicU64,
    /// Calls that may be recorded in full.
    calls: Allowance,
    /// Calls beside those, if they fail.
    failures: Allowance,
    capture: Mutex<Option<Capture>>,
}

#[derive(Debug, Default)]
struct KeptCalls {
    calls: VecDeque<Arc<RecordedCall>>,
    /// The number of the latest.
    last: u64,
}

/// A call that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// Its number, from 1, in the order in which calls ended.
    pub number: u64,
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
    /// `shop.v1.Items/Get`, or `GET /page`.
    pub method: String,
    /// `grpc`, `connect`, …
    pub protocol: &'static str,
    /// The caller's address.
    pub peer: String,
    /// The caller's name, empty for one that is not known.
    pub caller: String,
    /// Its id, where requests have one.
    pub request_id: String,
    /// Its trace, where requests have one.
    pub trace_id: String,
    /// How it ended: a code, or the class of a status.
    pub outcome: &'static str,
    /// The status of HTTP, 0 for none.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
    /// Bytes of its body as they arrived.
    pub bytes_in: u64,
    /// Bytes of its answer.
    pub bytes_out: u64,
    /// Whether it was answered from what is kept.
    pub from_memory: bool,
    /// The hosted program that was given it, where one was.
    pub program: Option<Arc<str>>,
    /// When it reached which phase, since it began.
    pub phases: Vec<(&'static str, Duration)>,
    /// Names of its headers, with the value where that is not a secret. None, as no phases,
    /// messages and ids, for a call that is kept only since it failed.
    pub headers: Vec<(String, Option<String>)>,
    /// Its messages and those of its answer, as far as they were captured.
    pub messages: Messages,
}

impl RecordedCall {
    /// Whether it did not fail: its outcome is `ok`, `2xx` or `3xx`.
    #[must_use]
    pub fn went_well(&self) -> bool {
        went_well(self.outcome)
    }
}

/// Some calls, and how many beside them are not kept.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecordedCalls {
    /// In the order in which they ended.
    pub calls: Vec<Arc<RecordedCall>>,
    /// Calls up to [`next`](Self::next) that are not kept: newer ones took their place, or more
    /// came than are recorded in a second.
    pub dropped: u64,
    /// The number to ask with for more.
    pub next: u64,
}

impl Record {
    /// Records for this long from now on; [`Duration::ZERO`] ends it.
    pub fn keep_for(&self, time: Duration) {
        let now = millis(self.0.begun.elapsed());
        let until = if time.is_zero() { 0 } else { now.saturating_add(millis(time)).max(1) };
        let before = self.0.until.swap(until, Ordering::Relaxed);
        match (before, until) {
            (0, 1..) => _ = self.0.wanted.fetch_add(1, Ordering::Relaxed),
            (1.., 0) => _ = self.0.wanted.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// The same, unless it records for longer anyway.
    pub fn keep_at_least(&self, time: Duration) {
        let until = millis(self.0.begun.elapsed()).saturating_add(millis(time));
        if !self.is_on() || self.0.until.load(Ordering::Relaxed) < until {
            self.keep_for(time);
        }
    }

    /// Captures the messages of calls that are recorded, as texts that `show` makes of them, for
    /// this long from now on; [`Duration::ZERO`] ends it.
    pub fn capture_for(&self, time: Duration, show: ShowMessage) {
        let until = Instant::now().checked_add(time).filter(|_| !time.is_zero());
        *self.capturing() = until.map(|until| Capture { until, show });
    }

    /// Whether messages are captured now.
    pub fn is_capturing(&self) -> bool {
        self.capture().is_some()
    }

    fn capture(&self) -> Option<ShowMessage> {
        let mut capturing = self.capturing();
        *capturing = capturing.take().filter(|capture| Instant::now() < capture.until);
        capturing.as_ref().map(|capture| Arc::clone(&capture.show))
    }

    fn capturing(&self) -> MutexGuard<'_, Option<Capture>> {
        self.0.capture.lock()
    }

    /// Records while the result lives.
    pub fn watch(&self) -> RecordingGuard {
        self.0.wanted.fetch_add(1, Ordering::Relaxed);
        RecordingGuard(self.clone())
    }

    /// Whether calls are recorded now.
    pub fn is_on(&self) -> bool {
        if self.0.wanted.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let until = self.0.until.load(Ordering::Relaxed);
        if until != 0 && millis(self.0.begun.elapsed()) >= until {
            // Whoever finds out first ends it; a new time that was set meanwhile stays.
            let over =
                self.0.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
            if over.is_ok() {
                self.0.wanted.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.0.wanted.load(Ordering::Relaxed) > 0
    }

    /// Up to `limit` of the calls after this number that `wanted` wants.
    pub fn after(
        &self,
        number: u64,
        limit: usize,
        wanted: impl Fn(&RecordedCall) -> bool,
    ) -> RecordedCalls {
        let kept = self.lock();
        // A number of another start of the program says nothing here.
        let number = if number > kept.last { 0 } else { number };
        let mut recorded = RecordedCalls { next: kept.last, ..RecordedCalls::default() };
        let mut seen = number;
        let mut looked_at = 0;
        for call in kept.calls.iter().filter(|call| call.number > number) {
            if recorded.calls.len() == limit {
                recorded.next = seen;
                break;
            }
            (seen, looked_at) = (call.number, looked_at + 1);
            if wanted(call) {
                recorded.calls.push(Arc::clone(call));
            }
        }
        recorded.dropped = recorded.next - number - looked_at;
        recorded
    }

    /// The call with this number, while it is kept.
    pub fn call(&self, number: u64) -> Option<Arc<RecordedCall>> {
        let kept = self.lock();
        kept.calls.iter().find(|call| call.number == number).cloned()
    }

    /// The number of the latest call.
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// Forgets all calls; numbers go on.
    pub fn clear(&self) {
        self.lock().calls.clear();
    }

    /// What is kept of a request that begins; `None` while nobody wants to know.
    pub(crate) fn begin(&self, head: &Head) -> Option<OpenRecord> {
        self.is_on().then(|| match self.0.calls.take() {
            true => OpenRecord::full(self.clone(), head),
            false => OpenRecord::brief(self.clone(), head),
        })
    }

    /// A call ended that is not kept.
    fn skip(&self) {
        self.0.skipped.fetch_add(1, Ordering::Relaxed);
    }

    fn push(&self, mut call: RecordedCall) {
        let mut kept = self.lock();
        kept.last += 1;
        call.number = kept.last;
        if kept.calls.len() == CALLS_MAX {
            kept.calls.pop_front();
        }
        kept.calls.push_back(Arc::new(call));
    }

    /// What is kept, with the number of the latest as it is now.
    fn lock(&self) -> MutexGuard<'_, KeptCalls> {
        let mut kept = self.0.kept.lock();
        kept.last += self.0.skipped.swap(0, Ordering::Relaxed);
        kept
    }
}

impl Default for Shared {
    fn default() -> Self {
        let wanted = AtomicUsize::new(0);
        let until = AtomicU64::new(0);
        let [calls, failures] = [(); 2].map(|()| Allowance::new(CALLS_PER_SECOND, CALLS_MAX));
        let (kept, capture, skipped) = Default::default();
        Self { wanted, begun: Instant::now(), until, kept, skipped, calls, failures, capture }
    }
}

/// While it lives calls are recorded; see [`Record::watch`].
#[derive(Debug)]
#[must_use = "calls are recorded while it lives"]
pub struct RecordingGuard(Record);

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        self.0.0.wanted.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a request is called in logs: its method, or its verb and path without the query.
pub(crate) fn called(target: &Target) -> String {
    match target {
        Target::Method(method) => method.path.trim_start_matches('/').to_owned(),
        Target::Http(http) => format!("{} {}", http.method, OneLine(http.uri.path())),
        Target::Unknown(path) => OneLine(path.split('?').next().unwrap_or_default()).to_string(),
        _ => "unknown".to_owned(),
    }
}

/// A header of which there is one at most, as text.
pub(crate) fn text<'a>(headers: &'a Headers, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Calls that are kept, and calls that may be recorded at once after a quiet time.
const CALLS_MAX: usize = 1024;
/// Calls that are recorded in a second, and calls that failed beside them. A watcher is sent 500.
const CALLS_PER_SECOND: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Code, Context, End, EndReason, Phase, Protocol, Spec, StreamKind};

    fn head(headers: &[(&'static str, &'static str)]) -> Head {
        let spec = Spec::dynamic("a.B", "Get", StreamKind::Unary, ["", ""]);
        let mut context = Context::default().with_protocol(Protocol::Grpc);
        for (name, value) in headers {
            context.set_header(*name, *value).unwrap();
        }
        Head::new(Target::Method(Arc::new(spec).into()), context)
    }

    fn call(record: &Record) {
        end_with(record, None);
    }

    fn end_with(record: &Record, code: Option<Code>) {
        if let Some(recording) = record.begin(&head(&[("accept", "a/b")])) {
            let mut end = End::new(EndReason::Answered);
            end.code = code;
            recording.end(&end, false);
        }
    }

    #[test]
    fn calls_are_kept_only_while_somebody_wants_them() {
        let record = Record::default();
        call(&record);
        assert_eq!(record.last(), 0);
        let watching = record.watch();
        call(&record);
        drop(watching);
        call(&record);
        assert_eq!(record.last(), 1);
        record.keep_for(Duration::from_secs(3600));
        call(&record);
        record.keep_for(Duration::ZERO);
        call(&record);
        record.keep_for(Duration::ZERO);
        assert_eq!((record.last(), record.is_on()), (2, false));
        record.keep_for(Duration::from_nanos(1));
        // Until its time is over, which is at once.
        while record.is_on() {}
        record.clear();
        assert_eq!((record.last(), record.after(0, 9, |_| true).calls.len()), (2, 0));
        record.keep_for(Duration::from_secs(3600));
        let until = record.0.until.load(Ordering::Relaxed);
        record.keep_at_least(Duration::from_secs(60));
        assert_eq!(record.0.until.load(Ordering::Relaxed), until, "an hour is not cut short");
        record.keep_at_least(Duration::from_secs(7200));
        assert!(record.0.until.load(Ordering::Relaxed) > until);
    }

    #[test]
    fn the_oldest_calls_give_way_and_who_reads_behind_is_told_how_many() {
        let record = Record::default();
        let _watching = record.watch();
        // Failures are recorded beside the others, so that all of these are.
        (0..CALLS_MAX + 10).for_each(|_| end_with(&record, Some(Code::NotFound)));
        let some = record.after(5, 3, |_| true);
        let numbers: Vec<_> = some.calls.iter().map(|call| call.number).collect();
        assert_eq!((numbers, some.dropped, some.next), (vec![11, 12, 13], 5, 13));
        let rest = record.after(some.next, usize::MAX, |_| true);
        assert_eq!((rest.calls.len(), rest.dropped), (CALLS_MAX - 3, 0));
        assert_eq!(record.after(rest.next, 9, |_| true).calls.len(), 0);
        assert_eq!(record.after(u64::MAX, 1, |_| true).calls[0].number, 11, "of another start");
        assert_eq!(record.call(9), None);
        assert_eq!(record.call(11).unwrap().number, 11);
    }

    #[test]
    fn of_a_flood_some_calls_are_recorded_and_failures_in_any_case() {
        let record = Record::default();
        let _watching = record.watch();
        (0..CALLS_MAX + 500).for_each(|_| call(&record));
        end_with(&record, Some(Code::NotFound));
        call(&record);
        let all = record.after(0, usize::MAX, |_| true);
        assert_eq!(all.next, CALLS_MAX as u64 + 502, "all of them have a number");
        assert_eq!(all.dropped + all.calls.len() as u64, all.next);
        assert!(all.dropped > 0);
        let failed = all.calls.iter().find(|call| call.outcome == "not_found").unwrap();
        assert_eq!(failed.number, CALLS_MAX as u64 + 501);
        assert_eq!((failed.method.as_str(), failed.protocol), ("a.B/Get", "grpc"));
        let [first, ..] = all.calls.as_slice() else { panic!("none is kept") };
        assert_eq!(first.headers, [("accept".to_owned(), Some("a/b".to_owned()))]);
    }

    #[test]
    fn values_of_headers_are_kept_only_where_they_are_known_to_be_no_secret() {
        let record = Record::default();
        let _watching = record.watch();
        let sent = [
            ("authorization", "Bearer hunter2"),
            ("cookie", "a=hunter2"),
            ("x-api-key", "hunter2"),
            ("my-own-key", "hunter2"),
            ("content-type", "application/json"),
        ];
        let recording = record.begin(&head(&sent)).unwrap();
        recording.phase(Phase::Gates);
        recording.end(&End::new(EndReason::Answered), false);
        let kept = record.call(1).unwrap();
        assert!(!format!("{kept:?}").contains("hunter2"), "{kept:?}");
        assert_eq!(kept.headers.len(), sent.len());
        assert_eq!(kept.headers[4].1.as_deref(), Some("application/json"));
        assert_eq!(kept.phases.len(), 1);
        assert_eq!((kept.outcome, kept.method.as_str()), ("ok", "a.B/Get"));
    }
}

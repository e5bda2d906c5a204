//! The last calls, one by one, while somebody wants to know them.
//!
//! Nothing is kept unless recording is on, which it is for a stated time or while somebody watches:
//! else a request costs one look at one number. What is kept is bounded, and numbered, so that who
//! reads behind sees how many are gone. Of headers only what a list names is kept with its value
//! (`KEPT_HEADERS`); of any other there is its name, since nobody knows which of them are secrets.
//! Queries and bodies are left out.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use tidewire_service::{Codec, End, Head, OneLine, Phase, Principal, Protocol, Side, Target};

use crate::message_capture::{Capture, CapturedMessages, Messages, ShowMessage};
use crate::series::outcome;

/// The last calls of a server; clones share them.
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
    /// Names of its headers, with the value where that is not a secret.
    pub headers: Vec<(String, Option<String>)>,
    /// Its messages and those of its answer, as far as they were captured.
    pub messages: Messages,
}

/// Some calls, and how many are gone that came before them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecordedCalls {
    /// In the order in which they ended.
    pub calls: Vec<Arc<RecordedCall>>,
    /// Calls after the asked number that are not kept any more.
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
        let first = kept.calls.front().map_or(kept.last + 1, |call| call.number);
        let dropped = first.saturating_sub(number.saturating_add(1));
        let mut recorded = RecordedCalls { dropped, next: kept.last, ..RecordedCalls::default() };
        for call in kept.calls.iter().filter(|call| call.number > number) {
            if recorded.calls.len() == limit {
                recorded.next = recorded.calls.last().map_or(number, |call| call.number);
                break;
            }
            if wanted(call) {
                recorded.calls.push(Arc::clone(call));
            }
        }
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
    pub(crate) fn begin(&self, head: &Head) -> Option<Box<OpenRecord>> {
        self.is_on().then(|| Box::new(OpenRecord::new(self.clone(), head)))
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

    fn lock(&self) -> MutexGuard<'_, KeptCalls> {
        self.0.kept.lock()
    }
}

impl Default for Shared {
    fn default() -> Self {
        let wanted = AtomicUsize::new(0);
        let until = AtomicU64::new(0);
        let (kept, capture) = Default::default();
        Self { wanted, begun: Instant::now(), until, kept, capture }
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

/// A request that is recorded and not over.
#[derive(Debug)]
pub(crate) struct OpenRecord {
    into: Record,
    begun: Instant,
    is_plain: bool,
    call: RecordedCall,
    /// One more than the microseconds at which each phase was reached; 0 where it was not.
    phases: [AtomicU32; PHASES.len()],
    captured: Option<CapturedMessages>,
}

impl OpenRecord {
    fn new(into: Record, head: &Head) -> Self {
        let Head { target, context, .. } = head;
        let headers = context.headers();
        let peer = context.peer().and_then(|peer| peer.address);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let call = RecordedCall {
            number: 0,
            at_ms: millis(now),
            method: cut(&called(target)),
            protocol: context.protocol().map_or("inside", Protocol::as_str),
            peer: peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string()),
            caller: String::new(),
            request_id: cut(text(headers, "x-request-id")),
            trace_id: text(headers, "traceparent").get(3..35).unwrap_or_default().to_owned(),
            outcome: "",
            status: 0,
            took: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
            from_memory: false,
            program: None,
            phases: Vec::new(),
            headers: visible_headers(headers),
            messages: Messages::default(),
        };
        let captured = match target {
            Target::Method(method) => {
                into.capture().map(|show| CapturedMessages::new(show, method.clone()))
            }
            _ => None,
        };
        let is_plain = matches!(target, Target::Http(_));
        let begun = Instant::now();
        let phases = Default::default();
        Self { into, begun, is_plain, call, phases, captured }
    }

    pub(crate) fn phase(&self, phase: Phase) {
        let at = u32::try_from(self.begun.elapsed().as_micros()).unwrap_or(u32::MAX - 1);
        if let Some(reached) = self.phases.get(phase as usize) {
            reached.store(at.saturating_add(1), Ordering::Relaxed);
        }
    }

    pub(crate) const fn captures(&self) -> bool {
        self.captured.is_some()
    }

    pub(crate) fn message(&self, side: Side, codec: Codec, message: &[u8]) {
        if let Some(captured) = &self.captured {
            captured.message(side, codec, message);
        }
    }

    pub(crate) fn end(&self, end: &End, from_memory: bool) {
        let reached = self.phases.iter().zip(PHASES).filter_map(|(at, name)| {
            let at = at.load(Ordering::Relaxed).checked_sub(1)?;
            Some((name, Duration::from_micros(at.into())))
        });
        self.into.push(RecordedCall {
            outcome: outcome(end, self.is_plain),
            status: end.status.map_or(0, |status| status.as_u16()),
            took: end.took,
            bytes_in: end.bytes_in,
            bytes_out: end.bytes_out,
            from_memory,
            program: end.program.clone(),
            caller: cut(end.caller.as_ref().map_or("", Principal::subject)),
            phases: reached.collect(),
            messages: self.captured.as_ref().map(CapturedMessages::take).unwrap_or_default(),
            ..self.call.clone()
        });
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
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn visible_headers(headers: &HeaderMap) -> Vec<(String, Option<String>)> {
    let shown = headers.iter().take(HEADERS_MAX).map(|(name, value)| {
        let is_kept = KEPT_HEADERS.contains(&name.as_str());
        let value = is_kept.then(|| cut(&String::from_utf8_lossy(value.as_bytes())));
        (cut(name.as_str()), value)
    });
    shown.collect()
}

/// The begin of a text that a caller chose, as it can be shown.
fn cut(text: &str) -> String {
    OneLine(text).to_string().chars().take(TEXT_MAX).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The phases by their numbers.
const PHASES: [&str; 7] =
    ["gates", "queued", "handler", "memo", "computed", "first byte", "written"];
const CALLS_MAX: usize = 1024;
const HEADERS_MAX: usize = 64;
const TEXT_MAX: usize = 256;
/// Headers whose values are not secrets, whoever sends them.
const KEPT_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-encoding",
    "grpc-accept-encoding",
    "grpc-timeout",
    "host",
    "if-none-match",
    "te",
    "traceparent",
    "user-agent",
    "x-request-id",
];

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Context, EndReason, Spec, StreamKind};

    fn head(headers: &[(&'static str, &'static str)]) -> Head {
        let spec = Spec::dynamic("a.B", "Get", StreamKind::Unary, ["", ""]);
        let mut context = Context::default().with_protocol(Protocol::Grpc);
        for (name, value) in headers {
            context.set_header(*name, *value).unwrap();
        }
        Head::new(Target::Method(Arc::new(spec).into()), context)
    }

    fn call(record: &Record) {
        if let Some(recording) = record.begin(&head(&[])) {
            recording.end(&End::new(EndReason::Answered), false);
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
        (0..CALLS_MAX + 10).for_each(|_| call(&record));
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

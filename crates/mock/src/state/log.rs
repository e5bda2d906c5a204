//! What was called: the last calls, each with its request, what answered it and how it ended.
//!
//! A call is in the log from its beginning, and its outcome is there once it is over. The log is
//! bounded: by default the last 1,000 calls, of each stream the first 100 requests, and 16 MiB of
//! messages and headers in all. A call that the log forgets, or that a reset removes, while it runs
//! does not come back when it ends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidewire_schema::Message;
use tidewire_service::{Code, Error, Headers, Method};

use crate::select::plan::Decision;
use crate::value::eval_context::Request;

/// How many requests of one stream are kept.
pub(crate) const REQUESTS_MAX: usize = 100;
const BYTES_MAX: usize = 16 << 20;
/// How much of the message of an error is kept.
const REASON_BYTES_MAX: usize = 4 << 10;
/// What a call counts beside its messages, headers and reason.
const CALL_BYTES: usize = 256;

/// For how many sessions it is known how many of their calls are not kept any more.
const SESSIONS_MAX: usize = 10_000;

/// A call that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoggedCall {
    /// Its number, from 1, in the order in which calls came.
    pub number: u64,
    /// When it came, in milliseconds since 1970.
    pub at_millis: u64,
    /// The method.
    pub method: Method,
    /// The session, empty where the call named none.
    pub session: String,
    /// The request's headers.
    pub headers: Headers,
    /// What was asked; of a stream the first 100 messages. Empty if what came could not be read.
    pub requests: Vec<Message>,
    /// How many messages came: more than `requests` has if not all of a stream were kept.
    pub request_count: u64,
    /// The response of a rule that answered; `None` where the schema alone did, or nothing yet.
    pub rule: Option<Decision>,
    /// Whether rules were asked for an answer.
    pub(crate) has_reached_rules: bool,
    /// Whether it runs: how it ends is not known yet.
    pub is_running: bool,
    /// The code of the error that it ended with. It is [`Code::Canceled`] where the caller left,
    /// and [`Code::DeadlineExceeded`] where its deadline passed, before the answer was complete.
    pub error: Option<Code>,
    /// The message of that error, of which 4 KiB are kept; empty without an error.
    pub reason: String,
    /// The fault that kept the answer from its end: `reset`, `truncate`, `drop_trailers`.
    pub fault: Option<&'static str>,
}

impl LoggedCall {
    /// Takes note of how it ended.
    pub(crate) fn end(&mut self, Ending { error, fault }: Ending) {
        self.is_running = false;
        self.fault = fault;
        if let Some((code, mut reason)) = error {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            self.error = Some(code);
            self.reason = reason;
        }
    }

    /// What was asked, as rules see it.
    pub(crate) fn request(&self) -> Request<'_> {
        match &*self.requests {
            [one] if !self.method.kind.client_streams() => Request::One(one),
            many => Request::Many(many),
        }
    }
}

/// Which calls are meant: of a method, of a session, with fields.
///
/// ```
/// use tidewire_mock::Calls;
/// let calls = Calls::of("shop.v1.Cart/GetPrice").with("item.sku", "SK-1").in_session("test-7");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Calls {
    pub(crate) method: Option<String>,
    pub(crate) session: Option<String>,
    /// What has to be where in the request, as in `match.request` of a rule.
    pub(crate) fields: Vec<(String, serde_json::Value)>,
    pub(crate) headers: Vec<(String, serde_json::Value)>,
}

impl Calls {
    /// Every call.
    pub fn all() -> Self {
        Self::default()
    }

    /// Calls of a method: `shop.v1.Cart/GetPrice`.
    pub fn of(method: impl AsRef<str>) -> Self {
        let path = format!("/{}", method.as_ref().trim_start_matches('/'));
        Self { method: Some(path), ..Self::default() }
    }

    /// Of these, the calls with a value in their request: a literal or an operator of rules. Of a
    /// stream of requests the path goes from `first`, `last`, `items` or `count`.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.fields.push((path.into(), value.into()));
        self
    }

    /// Of these, the calls with a header.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<serde_json::Value>,
    ) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Of these, the calls of one session.
    #[must_use]
    pub fn in_session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }
}

/// How a call ended.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) error: Option<(Code, String)>,
    /// The fault that kept the answer from its end.
    pub(crate) fault: Option<&'static str>,
}

impl Ending {
    pub(crate) fn of_error(error: &Error) -> Self {
        Self { error: Some((error.code(), error.message().to_owned())), fault: None }
    }
}

/// The last calls.
#[derive(Debug)]
pub(crate) struct Log {
    calls: VecDeque<LogEntry>,
    calls_max: usize,
    bytes: usize,
    /// How many were logged since all were forgotten.
    total: u64,
    /// The id of the last one; ids go on when numbers begin anew.
    last: CallId,
    /// How many calls of a session there was no room for any more.
    forgotten: HashMap<String, u64>,
    /// The same of sessions that there was no room for.
    forgotten_of_others: u64,
}

/// Names a call of the log for as long as the mock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct CallId(u64);

#[derive(Debug)]
struct LogEntry {
    id: CallId,
    call: Arc<LoggedCall>,
    bytes: usize,
}

impl Log {
    pub(crate) fn new(calls_max: usize) -> Self {
        Self {
            calls: VecDeque::new(),
            calls_max,
            bytes: 0,
            total: 0,
            last: CallId::default(),
            forgotten: HashMap::new(),
            forgotten_of_others: 0,
        }
    }

    /// Whether anything is kept.
    pub(crate) fn is_on(&self) -> bool {
        self.calls_max > 0
    }

    /// Adds a call of which the messages take so many bytes; it gets its number.
    pub(crate) fn add(&mut self, mut call: LoggedCall, message_bytes: usize) -> CallId {
        self.total += 1;
        call.number = self.total;
        let headers = call.headers.iter();
        let headers: usize =
            headers.map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        let bytes = message_bytes + headers + call.reason.len() + CALL_BYTES;
        self.last = CallId(self.last.0 + 1);
        self.calls.push_back(LogEntry { id: self.last, call: Arc::new(call), bytes });
        self.bytes += bytes;
        self.shrink();
        self.last
    }

    /// Adds what the caller of a running call says, of so many bytes.
    pub(crate) fn add_request(&mut self, id: CallId, request: &Message, bytes: usize) {
        let Some(entry) = self.entry(id).filter(|entry| entry.call.is_running) else { return };
        Arc::make_mut(&mut entry.call).request_count += 1;
        // The first is kept however large it is; the others are not all that the log has room for.
        let count = entry.call.requests.len();
        if count == REQUESTS_MAX || (count > 0 && entry.bytes + bytes > BYTES_MAX) {
            return;
        }
        entry.bytes += bytes;
        Arc::make_mut(&mut entry.call).requests.push(request.clone());
        self.bytes += bytes;
        self.shrink();
    }

    /// Says which response answers a running call.
    pub(crate) fn set_rule(&mut self, id: CallId, rule: Option<Decision>) {
        if let Some(entry) = self.entry(id) {
            let call = Arc::make_mut(&mut entry.call);
            (call.rule, call.has_reached_rules) = (rule, true);
        }
    }

    /// Says how a call ended; the first that is said of it stays.
    pub(crate) fn end(&mut self, id: CallId, ending: Ending) {
        let Some(entry) = self.entry(id).filter(|entry| entry.call.is_running) else { return };
        let call = Arc::make_mut(&mut entry.call);
        call.end(ending);
        let bytes = call.reason.len();
        entry.bytes += bytes;
        self.bytes += bytes;
        self.shrink();
    }

    fn entry(&mut self, id: CallId) -> Option<&mut LogEntry> {
        let index = self.calls.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.calls.get_mut(index)
    }

    /// Forgets the oldest calls until there is room.
    fn shrink(&mut self) {
        while self.calls.len() > self.calls_max || (self.bytes > BYTES_MAX && self.calls.len() > 1)
        {
            let Some(LogEntry { call, bytes, .. }) = self.calls.pop_front() else { break };
            self.bytes -= bytes;
            self.forget(&call.session);
        }
    }

    /// The calls that are kept, the oldest first.
    pub(crate) fn calls(&self) -> Vec<Arc<LoggedCall>> {
        self.calls.iter().map(|entry| Arc::clone(&entry.call)).collect()
    }

    fn forget(&mut self, session: &str) {
        if let Some(count) = self.forgotten.get_mut(session) {
            *count += 1;
        } else if self.forgotten.len() < SESSIONS_MAX {
            self.forgotten.insert(session.to_owned(), 1);
        } else {
            self.forgotten_of_others += 1;
        }
    }

    /// How many calls there was no room for any more: of a session at most so many, or of all.
    pub(crate) fn forgotten(&self, session: Option<&str>) -> u64 {
        match session.map(|session| self.forgotten.get(session)) {
            Some(Some(count)) => *count,
            Some(None) => self.forgotten_of_others,
            None => self.forgotten.values().sum::<u64>() + self.forgotten_of_others,
        }
    }

    /// Forgets the calls of one session, or all.
    pub(crate) fn reset(&mut self, session: Option<&str>) {
        self.calls.retain(|entry| session.is_some_and(|session| entry.call.session != session));
        self.bytes = self.calls.iter().map(|entry| entry.bytes).sum();
        match session {
            Some(session) => drop(self.forgotten.remove(session)),
            None => {
                self.total = 0;
                self.forgotten.clear();
                self.forgotten_of_others = 0;
            }
        }
    }
}

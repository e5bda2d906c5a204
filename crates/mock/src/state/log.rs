//! What was called: the last calls, each with its request and what answered it.
//!
//! The log is bounded: by default the last 1,000 calls, of each stream the first 100 requests, and
//! 16 MiB of messages and headers in all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidewire_schema::Message;
use tidewire_service::{Code, Headers, Method};

use crate::select::plan::Decision;
use crate::value::eval_context::Request;

/// How many requests of one stream are kept.
pub(crate) const REQUESTS_MAX: usize = 100;
const BYTES_MAX: usize = 16 << 20;

/// For how many sessions it is known how many of their calls are not kept any more.
const SESSIONS_MAX: usize = 10_000;

/// A call that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoggedCall {
    /// Its number, from 1, in the order in which calls were answered.
    pub number: u64,
    /// When it was answered, in milliseconds since 1970.
    pub at_millis: u64,
    /// The method.
    pub method: Method,
    /// The session, empty where the call named none.
    pub session: String,
    /// The request's headers.
    pub headers: Headers,
    /// What was asked; of a stream the first 100 messages.
    pub requests: Arc<[Message]>,
    /// The response of a rule that answered; `None` where the schema alone did.
    pub rule: Option<Decision>,
    /// The code of the error that was answered.
    pub error: Option<Code>,
    /// The fault that kept the answer from its end: `reset`, `truncate`, `drop_trailers`.
    pub fault: Option<&'static str>,
}

impl LoggedCall {
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

/// The last calls.
#[derive(Debug)]
pub(crate) struct Log {
    calls: VecDeque<(Arc<LoggedCall>, usize)>,
    calls_max: usize,
    bytes: usize,
    /// How many were ever logged.
    total: u64,
    /// How many calls of a session there was no room for any more.
    forgotten: HashMap<String, u64>,
    /// The same of sessions that there was no room for.
    forgotten_of_others: u64,
}

impl Log {
    pub(crate) fn new(calls_max: usize) -> Self {
        Self {
            calls: VecDeque::new(),
            calls_max,
            bytes: 0,
            total: 0,
            forgotten: HashMap::new(),
            forgotten_of_others: 0,
        }
    }

    /// Whether anything is kept.
    pub(crate) fn is_on(&self) -> bool {
        self.calls_max > 0
    }

    /// Adds a call of which the messages take so many bytes; it gets its number.
    pub(crate) fn add(&mut self, mut call: LoggedCall, bytes: usize) {
        self.total += 1;
        call.number = self.total;
        self.calls.push_back((Arc::new(call), bytes));
        self.bytes += bytes;
        while self.calls.len() > self.calls_max || (self.bytes > BYTES_MAX && self.calls.len() > 1)
        {
            let Some((call, bytes)) = self.calls.pop_front() else { break };
            self.bytes -= bytes;
            self.forget(&call.session);
        }
    }

    /// The calls that are kept, the oldest first.
    pub(crate) fn calls(&self) -> Vec<Arc<LoggedCall>> {
        self.calls.iter().map(|(call, _)| Arc::clone(call)).collect()
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
        self.calls.retain(|(call, _)| session.is_some_and(|session| call.session != session));
        self.bytes = self.calls.iter().map(|(_, bytes)| bytes).sum();
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

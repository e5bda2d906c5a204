//! Putting a mock together, from files or by a program.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use serde_json::{Value as Json, json};
use tidewire_schema::{Schema, SchemaError};
use tidewire_service::{Clock, Code, Signal};
use tidewire_validate::RuleSet;

use super::stubs::Stubs;
use super::{DefaultReply, Mock, MockedMethod, RealService, Set, Shared};
use crate::compile::finding::Finding;
use crate::generate::GenerateOptions;
use crate::rules::{self, RuleFiles};
use crate::state::log::Log;
use crate::state::sessions::Sessions;
use crate::value::eval_context::SESSION_HEADER;

/// How many calls the log keeps unless said otherwise.
const LOG_CALLS: usize = 1_000;

/// A mock being put together.
#[must_use = "a mock answers once it is built"]
pub struct MockBuilder {
    schema: Schema,
    rules: RuleFiles,
    timer: Arc<dyn Clock>,
    now_millis: u64,
    seed: u64,
    violate: f64,
    missing: DefaultReply,
    log_calls: usize,
    upstream: Option<Arc<dyn RealService>>,
    added: Vec<(String, Json)>,
}

impl Mock {
    /// A mock of every service of a schema, with the time from a timer.
    pub fn builder(schema: Schema, timer: impl Clock) -> MockBuilder {
        MockBuilder {
            schema,
            rules: RuleFiles::new(),
            timer: Arc::new(timer),
            now_millis: 0,
            seed: 0,
            violate: 0.0,
            missing: DefaultReply::default(),
            log_calls: LOG_CALLS,
            upstream: None,
            added: Vec::new(),
        }
    }

    /// A mock of every service in a folder of `.proto` files; see [`builder`](Self::builder).
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn from_protos(
        folder: impl AsRef<Path>,
        timer: impl Clock,
    ) -> Result<MockBuilder, SchemaError> {
        Ok(Self::builder(Schema::from_folder(folder)?, timer))
    }
}

impl MockBuilder {
    /// Sets the rule files.
    pub fn rules(mut self, rules: RuleFiles) -> Self {
        self.rules = rules;
        self
    }

    /// Sets what chance follows from: two mocks with the same seed answer alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how probable it is that an answer made from the schema breaks a rule of validation.
    pub fn violate(mut self, probability: f64) -> Self {
        self.violate = probability.clamp(0.0, 1.0);
        self
    }

    /// Sets what methods without rules answer.
    pub fn missing(mut self, missing: DefaultReply) -> Self {
        self.missing = missing;
        self
    }

    /// Sets the real service: it answers calls that no response of a rule does, and those whose
    /// response says `upstream: true`.
    pub fn upstream(mut self, upstream: Arc<dyn RealService>) -> Self {
        self.upstream = Some(upstream);
        self
    }

    /// Sets the present, in milliseconds since 1970: what `utils.now()` counts from.
    pub fn now_millis(mut self, now_millis: u64) -> Self {
        self.now_millis = now_millis;
        self
    }

    /// Sets how many calls the log keeps; 1,000 unless said otherwise, none with 0.
    pub fn log_calls(mut self, calls: usize) -> Self {
        self.log_calls = calls;
        self
    }

    /// Says what a method answers: `shop.v1.Cart/GetPrice`. What wants something of the call, or
    /// answers so often only, goes in the order in which it is added; what does neither answers the
    /// rest.
    pub fn on(self, method: impl Into<String>) -> ResponseBuilder<Self> {
        ResponseBuilder {
            owner: self,
            method: method.into(),
            when: serde_json::Map::new(),
            rest: serde_json::Map::new(),
        }
    }

    /// The mock, and what was found in its rules.
    pub fn build(self) -> (Mock, Vec<Finding>) {
        let (set, mut findings) = set(self.schema, &self.rules, self.seed, self.violate);
        if self.upstream.is_none() {
            findings.extend(calls_of_nobody(&set));
        }
        let shared = Shared {
            current: RwLock::new(Arc::new(set)),
            sessions: Mutex::new(Sessions::default()),
            log: Mutex::new(Log::new(self.log_calls)),
            origin: (self.timer.now(), self.now_millis),
            timer: self.timer,
            seed: self.seed,
            violate: self.violate,
            missing: self.missing,
            validates: AtomicBool::new(false),
            faults: RwLock::default(),
            upstream: self.upstream,
            edition: AtomicU64::new(0),
            stubs_added: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        };
        let mock = Mock(Arc::new(shared));
        for (method, response) in self.added {
            findings.extend(mock.add(&method, &response));
        }
        findings.sort();
        findings.dedup();
        (mock, findings)
    }
}

/// A schema with its rules, and what was found in them.
pub(super) fn set(
    schema: Schema,
    files: &RuleFiles,
    seed: u64,
    violate: f64,
) -> (Set, Vec<Finding>) {
    let methods = rules::methods_of(&schema);
    let mut compiled = rules::compile(files, &schema, &methods);
    // Rules of validation that do not compile are the schema's matter: `tidewire check` tells them.
    let validation = RuleSet::new(&schema).ok().map(Arc::new);
    let methods: HashMap<_, _> = methods
        .into_iter()
        .map(|method| {
            let path = method.path.to_string();
            let file_rules = compiled.rules.remove(&path);
            (
                path,
                MockedMethod {
                    method,
                    file_rules,
                    stubs: Stubs::default(),
                    changed: Signal::new(),
                    request_rules: OnceLock::new(),
                },
            )
        })
        .collect();
    let generate_options =
        GenerateOptions { seed, violate, rules: validation, limits: Arc::default() };
    (Set { schema, methods, generate_options }, compiled.findings)
}

/// Responses that leave their calls to a real service, where there is none.
pub(super) fn calls_of_nobody(set: &Set) -> Vec<Finding> {
    let rules = set.methods.values();
    let rules = rules.filter_map(|one| one.file_rules.as_ref()?.rule.as_deref().ok());
    let mut findings: Vec<_> = rules.flat_map(rules::passed_on).map(Finding::warning).collect();
    findings.sort();
    findings
}

/// Builds a response of a method: what it wants of the call, and what it answers.
///
/// `O` is what goes on afterwards: a [`MockBuilder`], or a running [`Mock`].
#[must_use = "a response is there once it says what it answers"]
#[derive(Debug)]
pub struct ResponseBuilder<O> {
    owner: O,
    method: String,
    when: serde_json::Map<String, Json>,
    rest: serde_json::Map<String, Json>,
}

/// Takes responses that a program says.
pub trait Respond: Sized {
    /// Adds a response, in the form of a rule file.
    #[must_use]
    fn respond(self, method: &str, response: Json) -> Self;
}

impl Respond for MockBuilder {
    fn respond(mut self, method: &str, response: Json) -> Self {
        self.added.push((method.to_owned(), response));
        self
    }
}

impl Respond for &Mock {
    /// Adds it to those that answer now.
    ///
    /// # Panics
    /// When the schema has no such method, or cannot hold the answer: a test says so where it is.
    fn respond(self, method: &str, response: Json) -> Self {
        let errors: Vec<_> =
            self.add(method, &response).into_iter().filter(|finding| finding.is_error).collect();
        assert!(errors.is_empty(), "{method}: {}", errors[0]);
        self
    }
}

impl<O: Respond> ResponseBuilder<O> {
    /// Wants a value in the request: a literal or an operator of rules.
    pub fn with(mut self, path: &str, value: impl Into<Json>) -> Self {
        self.when.insert(format!("request.{path}"), value.into());
        self
    }

    /// Wants a header.
    pub fn with_header(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.when.insert(format!("metadata.{name}"), value.into());
        self
    }

    /// Answers the calls of one session only, until that is reset.
    pub fn in_session(self, session: &str) -> Self {
        self.with_header(SESSION_HEADER, session)
    }

    /// Answers so often only.
    pub fn times(self, times: u64) -> Self {
        self.set("times", times)
    }

    /// Waits before it answers.
    pub fn delay(self, delay: std::time::Duration) -> Self {
        self.set("delay_ms", u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
    }

    /// Sends a header with the answer.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.put("headers", name, value)
    }

    /// Sends a trailer with the answer.
    pub fn trailer(self, name: &str, value: &str) -> Self {
        self.put("trailers", name, value)
    }

    /// Any other key of a response in a rule file.
    pub fn set(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.rest.insert(key.to_owned(), value.into());
        self
    }

    fn put(mut self, key: &str, name: &str, value: &str) -> Self {
        let map = self.rest.entry(key).or_insert_with(|| json!({}));
        map[name] = value.into();
        self
    }

    /// Answers with a message, as JSON.
    pub fn reply(self, body: impl Into<Json>) -> O {
        self.set("body", body).done()
    }

    /// Answers with messages one after the other, without pauses.
    pub fn reply_stream(self, items: impl IntoIterator<Item = Json>) -> O {
        let items: Vec<_> = items.into_iter().collect();
        let has_pause = self.rest.contains_key("stream_delay_ms");
        let this = if has_pause { self } else { self.set("stream_delay_ms", 0) };
        this.set("stream_items", items).done()
    }

    /// Answers with an error.
    pub fn fail(self, code: Code, message: &str) -> O {
        self.set("error", json!({"code": code.as_str(), "message": message})).done()
    }

    fn done(mut self) -> O {
        // What answers so often only goes before what always does.
        if !self.when.is_empty() || self.rest.contains_key("times") {
            self.rest.insert("when".to_owned(), Json::Object(self.when));
        }
        self.owner.respond(&self.method, Json::Object(self.rest))
    }
}

impl Mock {
    /// Begins a stub: what a method answers from now on, before rule files.
    pub fn on(&self, method: impl Into<String>) -> ResponseBuilder<&Self> {
        ResponseBuilder {
            owner: self,
            method: method.into(),
            when: serde_json::Map::new(),
            rest: serde_json::Map::new(),
        }
    }
}

impl std::fmt::Debug for MockBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockBuilder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

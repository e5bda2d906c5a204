//! Responses that a program says while the mock runs: for all calls of a method, or of one session.
//!
//! What is said goes before what rule files say, and of that, what is said for a session goes
//! before what is said for all. Each session has its bound, so that none takes the place of others;
//! all together have one in bytes. Uses are counted under a number that a response keeps, so what
//! is said or forgotten for one session changes nothing for others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use tidewire_schema::Schema;
use tidewire_service::{Method, Signal};

use super::{Mock, MockedMethod, Set};
use crate::compile::Compiler;
use crate::finding::Finding;
use crate::node::{Node, Position};
use crate::rule::MethodRule;
use crate::sessions::SESSION_HEADER;

/// Counters of what is said begin here: those of files are places in a file.
const COUNTERS_FROM: u64 = 1 << 32;

/// How many responses of one method may be said for one session, and for all calls; each further
/// one compiles those again.
const RESPONSES_MAX: usize = 256;

/// How many bytes all that is said may have, for all sessions and methods together.
const BYTES_MAX: usize = 16 << 20;

/// What a response counts beside its text: that is what the smallest takes once it is compiled.
const RESPONSE_BYTES: usize = 1 << 10;

/// How far the priority of what always answers is below that of what is conditional, in a session.
const SESSION_PRIORITY: f64 = 1e9;

/// What a program said of a method: for all calls, and for those of each session. A copy shares
/// everything. The empty name stands for all calls: no session has it.
#[derive(Clone, Default)]
pub(crate) struct SaidRules(Arc<BTreeMap<String, SaidGroup>>);

/// What was said for one session, or for all calls.
#[derive(Clone)]
struct SaidGroup {
    responses: Vec<Arc<SaidResponse>>,
    rule: Arc<MethodRule>,
}

/// A response that a program said.
#[derive(Debug)]
pub(crate) struct SaidResponse {
    /// In the form of a rule file.
    pub(crate) response: Json,
    counter: u64,
    bytes: usize,
}

impl SaidRules {
    /// The rules that calls of a session may get, those of the session first.
    pub(crate) fn of_session(&self, session: &str) -> impl Iterator<Item = &Arc<MethodRule>> {
        let own = self.0.get(session).filter(|_| !session.is_empty());
        own.into_iter().chain(self.0.get("")).map(|group| &group.rule)
    }

    /// All responses.
    pub(crate) fn responses(&self) -> impl Iterator<Item = &Arc<SaidResponse>> {
        self.0.values().flat_map(|group| &group.responses)
    }

    /// How many responses there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(|group| group.responses.len()).sum()
    }

    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len_of(&self, session: Option<&str>) -> usize {
        let group = self.0.get(session.unwrap_or_default());
        group.map_or(0, |group| group.responses.len())
    }

    fn bytes(&self) -> usize {
        self.responses().map(|said| said.bytes).sum()
    }

    /// Compiles the responses of a group, which are `responses` from now on; what was found.
    fn put(
        &mut self,
        session: &str,
        responses: Vec<Arc<SaidResponse>>,
        method: &Method,
        schema: &Schema,
    ) -> Vec<Finding> {
        let groups = Arc::make_mut(&mut self.0);
        if responses.is_empty() {
            groups.remove(session);
            return Vec::new();
        }
        let said: Vec<_> = responses.iter().map(|said| &said.response).collect();
        let (mut rule, findings) = compile(&said, method, schema);
        // None is left out but what is no object, and then findings say so.
        for (response, said) in rule.responses.iter_mut().zip(&responses) {
            response.counter = said.counter;
        }
        groups.insert(session.to_owned(), SaidGroup { responses, rule: Arc::new(rule) });
        findings
    }
}

impl MockedMethod {
    /// The rules that calls of a session get, in their order: what was said, then the file.
    pub(crate) fn rules_of(&self, session: &str) -> impl Iterator<Item = &Arc<MethodRule>> {
        let file = self.found.as_ref().and_then(|found| found.rule.as_ref().ok());
        self.said.of_session(session).chain(file)
    }

    /// Compiles all that was said anew; what was found in it.
    pub(super) fn say_anew(&mut self, schema: &Schema) -> Vec<Finding> {
        let groups: Vec<_> =
            self.said.0.iter().map(|(key, group)| (key.clone(), group.responses.clone())).collect();
        let mut findings = Vec::new();
        for (key, responses) in groups {
            findings.extend(self.said.put(&key, responses, &self.method, schema));
        }
        self.tell_changed();
        findings
    }

    fn tell_changed(&mut self) {
        self.changed.fire();
        self.changed = Signal::new();
    }
}

impl Mock {
    /// Adds a response in the form of a rule file: for all calls of a method, or for those of one
    /// session, until that is reset.
    ///
    /// # Errors
    /// When there is no such method, when 256 responses of it were said for the session already, or
    /// what is said of all takes over 16 MiB; and what is found in the response, be it an error or
    /// probably not meant. Then nothing is added.
    pub fn say(
        &self,
        method: &str,
        response: &Json,
        session: Option<&str>,
    ) -> Result<(), Vec<Finding>> {
        let path = path_of(method);
        let set = self.set();
        let Some(mocked) = set.methods.get(&path) else {
            return Err(vec![self.unknown(&path)]);
        };
        let (_, findings) = compile(&[response], &mocked.method, &set.schema);
        if !findings.is_empty() {
            return Err(findings);
        }
        let said = self.numbered(placed(response, session));
        let mut refused = None;
        self.change(|set| {
            refused = over_bounds(set, &path, &said);
            if refused.is_none() {
                // Nothing is found in it that was not before.
                let _ = add_to(set, &path, &said);
            }
        });
        refused.map_or(Ok(()), |why| Err(vec![of_program(why)]))
    }

    fn numbered(&self, response: Json) -> Arc<SaidResponse> {
        let counter = COUNTERS_FROM + self.0.responses_said.fetch_add(1, Ordering::Relaxed);
        let bytes = response.to_string().len() + RESPONSE_BYTES;
        Arc::new(SaidResponse { response, counter, bytes })
    }

    /// Adds a response of a rule file; what was found in it.
    pub(super) fn add(&self, method: &str, response: &Json) -> Vec<Finding> {
        let path = path_of(method);
        let said = self.numbered(response.clone());
        self.change(|set| add_to(set, &path, &said)).unwrap_or_else(|| vec![self.unknown(&path)])
    }

    /// Forgets the responses that were said: of one method or of all, for one session or, without
    /// one, for all calls; returns how many. What rule files say answers again.
    pub fn unsay(&self, method: Option<&str>, session: Option<&str>) -> usize {
        let path = method.map(path_of);
        let mut forgotten = 0;
        self.change(|set| {
            for (known, mocked) in &mut set.methods {
                let count = mocked.said.len_of(session);
                if count > 0 && path.as_ref().is_none_or(|path| path == known) {
                    forgotten += count;
                    let key = session.unwrap_or_default();
                    let _ = mocked.said.put(key, Vec::new(), &mocked.method, &set.schema);
                    mocked.tell_changed();
                }
            }
        });
        forgotten
    }

    fn unknown(&self, path: &str) -> Finding {
        let known: Vec<_> = self.set().methods.keys().cloned().collect();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let why = format!("no method is called {path}{}", crate::body::meant(path, &known));
        of_program(why)
    }

    /// Forgets the log, the counts and the state of all sessions, or of one, and what was said for
    /// that alone ([`ResponseBuilder::in_session`](super::ResponseBuilder::in_session)).
    pub fn reset(&self, session: Option<&str>) {
        self.log().reset(session);
        let changed = self.sessions().reset(session);
        changed.iter().for_each(Signal::fire);
        if session.is_some() {
            self.unsay(None, session);
        }
    }
}

impl SaidResponse {
    /// The session for which alone it was said.
    fn session(&self) -> Option<&str> {
        self.response["when"][format!("metadata.{SESSION_HEADER}")].as_str()
    }
}

fn of_program(why: String) -> Finding {
    Finding::error(crate::compile::diagnostic("the program", Position::default(), why))
}

fn path_of(method: &str) -> String {
    format!("/{}", method.trim_start_matches('/'))
}

/// A response where it belongs among those of all and of sessions.
fn placed(response: &Json, session: Option<&str>) -> Json {
    let mut response = response.clone();
    // What answers so often only goes before what always does.
    let is_conditional = response.get("when").is_some() || response.get("times").is_some();
    if is_conditional && response.get("when").is_none() {
        response["when"] = json!({});
    }
    if let Some(session) = session {
        if !response["when"].is_object() {
            response["when"] = json!({});
        }
        response["when"][format!("metadata.{SESSION_HEADER}")] = session.into();
        let said = response["priority"].as_f64().unwrap_or(0.0);
        let above = if is_conditional { 2.0 * SESSION_PRIORITY } else { SESSION_PRIORITY };
        response["priority"] = (said + above).into();
    }
    response
}

/// Adds a response to those of its method; what was found, or nothing without such a method.
fn add_to(set: &mut Set, path: &str, said: &Arc<SaidResponse>) -> Option<Vec<Finding>> {
    let mocked = set.methods.get_mut(path)?;
    let session = said.session().unwrap_or_default();
    let group = mocked.said.0.get(session);
    let mut responses = group.map_or_else(Vec::new, |group| group.responses.clone());
    responses.push(Arc::clone(said));
    let findings = mocked.said.put(session, responses, &mocked.method, &set.schema);
    mocked.tell_changed();
    Some(findings)
}

/// Why there is no room for a response.
fn over_bounds(set: &Set, path: &str, said: &SaidResponse) -> Option<String> {
    let session = said.session();
    let count = set.methods.get(path).map_or(0, |mocked| mocked.said.len_of(session));
    if count >= RESPONSES_MAX {
        let (of, what) = match session {
            Some(session) => (format!("in the session {session}"), "reset the session"),
            None => ("for all calls".to_owned(), "take back what is not needed"),
        };
        return Some(format!(
            "{RESPONSES_MAX} responses of {path} were said {of} already, which is the bound for one \
             method; {what}, or say them in a rule file"
        ));
    }
    let bytes: usize = set.methods.values().map(|mocked| mocked.said.bytes()).sum();
    (bytes + said.bytes > BYTES_MAX).then(|| {
        format!(
            "with this one, what was said of all methods in all sessions would take over {} MiB; \
             reset the sessions that are over, or take back what is not needed",
            BYTES_MAX >> 20
        )
    })
}

fn compile(responses: &[&Json], method: &Method, schema: &Schema) -> (MethodRule, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut compiler = Compiler {
        schema,
        method,
        file: "the program".into(),
        included: Arc::default(),
        findings: &mut findings,
        is_rendered: false,
    };
    let rule = compiler.rule(&Node::from(&json!({"responses": responses})), None);
    (rule, findings)
}

//! Stubs: responses that a program adds while the mock runs, for all calls of a method or for those
//! of one session.
//!
//! Stubs go before rule files, and stubs of a session go before stubs for all calls. Each session
//! has its own limit, so that no session takes the room of another; all stubs together have a limit
//! in bytes. Uses are counted under a number that a stub keeps, so adding or removing the stubs of
//! one session changes nothing for others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use tidewire_schema::Schema;
use tidewire_service::{Method, Signal};

use super::{Mock, MockedMethod, Set};
use crate::compile::Compiler;
use crate::compile::finding::Finding;
use crate::rule::MethodRule;
use crate::value::eval_context::SESSION_HEADER;
use crate::value::node::{Node, Position};

/// Counters of stubs begin here: those of files are places in a file.
const COUNTERS_FROM: u64 = 1 << 32;

/// How many stubs one method may have for one session, and for all calls; each new stub compiles
/// those again.
const STUBS_MAX: usize = 256;

/// How many bytes the stubs of all sessions and methods may have together.
const BYTES_MAX: usize = 16 << 20;

/// What a stub counts beside its text: that is what the smallest takes once it is compiled.
const STUB_BYTES: usize = 1 << 10;

/// How far the priority of what always answers is below that of what is conditional, in a session.
const SESSION_PRIORITY: f64 = 1e9;

/// The stubs of a method: for all calls, and for those of each session. A copy shares everything.
/// The empty name stands for all calls: no session has it.
#[derive(Clone, Default)]
pub(crate) struct Stubs(Arc<BTreeMap<String, StubGroup>>);

/// The stubs for one session, or for all calls, and the rule that they are compiled to.
#[derive(Clone)]
struct StubGroup {
    stubs: Vec<Arc<Stub>>,
    rule: Arc<MethodRule>,
}

/// A response that a program added.
#[derive(Debug)]
pub(crate) struct Stub {
    /// In the form of a rule file.
    pub(crate) response: Json,
    counter: u64,
    bytes: usize,
}

impl Stubs {
    /// The rules that calls of a session may get, those of the session first.
    pub(crate) fn of_session(&self, session: &str) -> impl Iterator<Item = &Arc<MethodRule>> {
        let own = self.0.get(session).filter(|_| !session.is_empty());
        own.into_iter().chain(self.0.get("")).map(|group| &group.rule)
    }

    /// The stubs of all groups.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Stub>> {
        self.0.values().flat_map(|group| &group.stubs)
    }

    /// How many stubs there are.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(|group| group.stubs.len()).sum()
    }

    /// Whether there are no stubs.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len_of(&self, session: Option<&str>) -> usize {
        let group = self.0.get(session.unwrap_or_default());
        group.map_or(0, |group| group.stubs.len())
    }

    fn bytes(&self) -> usize {
        self.iter().map(|stub| stub.bytes).sum()
    }

    /// Puts `stubs` in the place of those of a group and compiles them; returns the findings.
    fn put(
        &mut self,
        session: &str,
        stubs: Vec<Arc<Stub>>,
        method: &Method,
        schema: &Schema,
    ) -> Vec<Finding> {
        let groups = Arc::make_mut(&mut self.0);
        if stubs.is_empty() {
            groups.remove(session);
            return Vec::new();
        }
        let responses: Vec<_> = stubs.iter().map(|stub| &stub.response).collect();
        let (mut rule, findings) = compile(&responses, method, schema);
        // A response that is not an object is left out, with a finding; every other one is there.
        for (response, stub) in rule.responses.iter_mut().zip(&stubs) {
            response.counter = stub.counter;
        }
        groups.insert(session.to_owned(), StubGroup { stubs, rule: Arc::new(rule) });
        findings
    }
}

impl MockedMethod {
    /// The rules that calls of a session get, in their order: the stubs, then the file.
    pub(crate) fn rules_of(&self, session: &str) -> impl Iterator<Item = &Arc<MethodRule>> {
        let file = self.file_rules.as_ref().and_then(|file| file.rule.as_ref().ok());
        self.stubs.of_session(session).chain(file)
    }

    /// Compiles all stubs for another schema; returns the findings.
    pub(super) fn recompile_stubs(&mut self, schema: &Schema) -> Vec<Finding> {
        let groups: Vec<_> =
            self.stubs.0.iter().map(|(key, group)| (key.clone(), group.stubs.clone())).collect();
        let mut findings = Vec::new();
        for (key, stubs) in groups {
            findings.extend(self.stubs.put(&key, stubs, &self.method, schema));
        }
        self.notify_changed();
        findings
    }

    fn notify_changed(&mut self) {
        self.changed.fire();
        self.changed = Signal::new();
    }
}

impl Mock {
    /// Adds a stub, a response in the form of a rule file: for all calls of a method, or for those
    /// of one session, until that is reset.
    ///
    /// # Errors
    /// When there is no such method, when it has 256 stubs for the session already, or when all
    /// stubs together take over 16 MiB; and what is found in the response, be it an error or
    /// probably not meant. Then nothing is added.
    pub fn stub(
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
        let (_, mut findings) = compile(&[response], &mocked.method, &set.schema);
        if self.0.upstream.is_none() && response["upstream"] == true {
            findings.push(of_program(crate::rules::NO_UPSTREAM.to_owned()));
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        let stub = self.new_stub(placed(response, session));
        let mut refusal = None;
        self.change(|set| {
            refusal = limit_error(set, &path, &stub);
            if refusal.is_none() {
                // Nothing is found in it that was not before.
                let _ = add_to(set, &path, &stub);
            }
        });
        refusal.map_or(Ok(()), |why| Err(vec![of_program(why)]))
    }

    fn new_stub(&self, response: Json) -> Arc<Stub> {
        let counter = COUNTERS_FROM + self.0.stubs_added.fetch_add(1, Ordering::Relaxed);
        let bytes = response.to_string().len() + STUB_BYTES;
        Arc::new(Stub { response, counter, bytes })
    }

    /// Adds a response of a rule file; what was found in it.
    pub(super) fn add(&self, method: &str, response: &Json) -> Vec<Finding> {
        let path = path_of(method);
        let stub = self.new_stub(response.clone());
        self.change(|set| add_to(set, &path, &stub)).unwrap_or_else(|| vec![self.unknown(&path)])
    }

    /// Removes stubs: those of one method or of all, for one session or, without a session, those
    /// for all calls. Returns how many it removed. Rule files answer again.
    pub fn unstub(&self, method: Option<&str>, session: Option<&str>) -> usize {
        let path = method.map(path_of);
        let mut removed = 0;
        self.change(|set| {
            for (known, mocked) in &mut set.methods {
                let count = mocked.stubs.len_of(session);
                if count > 0 && path.as_ref().is_none_or(|path| path == known) {
                    removed += count;
                    let key = session.unwrap_or_default();
                    let _ = mocked.stubs.put(key, Vec::new(), &mocked.method, &set.schema);
                    mocked.notify_changed();
                }
            }
        });
        removed
    }

    fn unknown(&self, path: &str) -> Finding {
        let known: Vec<_> = self.set().methods.keys().cloned().collect();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let why = format!("no method is called {path}{}", crate::body::meant(path, &known));
        of_program(why)
    }

    /// Forgets the log, the counts and the state of all sessions, or of one together with its stubs
    /// ([`ResponseBuilder::in_session`](super::ResponseBuilder::in_session)).
    pub fn reset(&self, session: Option<&str>) {
        self.log().reset(session);
        let changed = self.sessions().reset(session);
        changed.iter().for_each(Signal::fire);
        if session.is_some() {
            self.unstub(None, session);
        }
    }
}

impl Stub {
    /// The session whose calls alone it answers.
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

/// A response with the session and the priority that put it before or after other stubs.
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
        let priority = response["priority"].as_f64().unwrap_or(0.0);
        let above = if is_conditional { 2.0 * SESSION_PRIORITY } else { SESSION_PRIORITY };
        response["priority"] = (priority + above).into();
    }
    response
}

/// Adds a stub to those of its method; the findings, or `None` without such a method.
fn add_to(set: &mut Set, path: &str, stub: &Arc<Stub>) -> Option<Vec<Finding>> {
    let mocked = set.methods.get_mut(path)?;
    let session = stub.session().unwrap_or_default();
    let group = mocked.stubs.0.get(session);
    let mut stubs = group.map_or_else(Vec::new, |group| group.stubs.clone());
    stubs.push(Arc::clone(stub));
    let findings = mocked.stubs.put(session, stubs, &mocked.method, &set.schema);
    mocked.notify_changed();
    Some(findings)
}

/// Why there is no room for a stub.
fn limit_error(set: &Set, path: &str, stub: &Stub) -> Option<String> {
    let session = stub.session();
    let count = set.methods.get(path).map_or(0, |mocked| mocked.stubs.len_of(session));
    if count >= STUBS_MAX {
        let (of, what) = match session {
            Some(session) => (format!("in the session {session}"), "reset the session"),
            None => ("for all calls".to_owned(), "remove those that are not needed (unstub)"),
        };
        return Some(format!(
            "{path} has {STUBS_MAX} stubs {of} already, which is the limit for one method; {what}, \
             or write them into a rule file"
        ));
    }
    let bytes: usize = set.methods.values().map(|mocked| mocked.stubs.bytes()).sum();
    (bytes + stub.bytes > BYTES_MAX).then(|| {
        format!(
            "with this one, the stubs of all methods in all sessions would take over {} MiB; reset \
             the sessions that are over, or remove the stubs that are not needed (unstub)",
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

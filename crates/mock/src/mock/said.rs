//! Responses that a program says while the mock runs: for all calls of a method, or of one session.
//!
//! What is said goes before what rule files say, and of that, what is said for a session goes
//! before what is said for all. Uses are counted under a number that a response keeps, so what is
//! said or forgotten for one session changes nothing for others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use tidewire_schema::Schema;
use tidewire_service::{Method, Signal};

use super::{Mock, MockedMethod};
use crate::compile::Compiler;
use crate::finding::Finding;
use crate::node::{Node, Position};
use crate::rule::MethodRule;
use crate::sessions::SESSION_HEADER;

/// Counters of what is said begin here: those of files are places in a file.
const COUNTERS_FROM: u64 = 1 << 32;

/// How many responses may be said of one method; each further one compiles all of them again.
const RESPONSES_MAX: usize = 256;

/// How far the priority of what is said for a session is above that of what is said for all.
const SESSION_PRIORITY: f64 = 1e9;

/// A response that a program said.
#[derive(Debug, Clone)]
pub(crate) struct SaidResponse {
    /// In the form of a rule file.
    pub(crate) response: Json,
    counter: u64,
}

impl Mock {
    /// Adds a response in the form of a rule file: for all calls of a method, or for those of one
    /// session, until that is reset.
    ///
    /// # Errors
    /// When there is no such method, or 256 responses of it were said already; and what is found in
    /// the response, be it an error or probably not meant. Then nothing is added.
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
        if mocked.said.len() >= RESPONSES_MAX {
            let why = format!(
                "{RESPONSES_MAX} responses of {path} were said already; reset the sessions that are \
                 over, or start the mock again"
            );
            return Err(vec![of_program(why)]);
        }
        let (_, findings) = compile(&[response], &mocked.method, &set.schema);
        if !findings.is_empty() {
            return Err(findings);
        }
        // Nothing is found in it that was not before.
        let _ = self.add(method, &placed(response, session));
        Ok(())
    }

    /// Adds a response of a rule file; what was found in it.
    pub(super) fn add(&self, method: &str, response: &Json) -> Vec<Finding> {
        let path = path_of(method);
        let counter = COUNTERS_FROM + self.0.responses_said.fetch_add(1, Ordering::Relaxed);
        let said = SaidResponse { response: response.clone(), counter };
        let mut findings = Vec::new();
        let known = self.change(|set| {
            let Some(mocked) = set.methods.get_mut(&path) else { return false };
            mocked.said.push(said);
            findings = say_anew(mocked, &set.schema);
            true
        });
        if !known {
            findings.push(self.unknown(&path));
        }
        findings
    }

    /// Forgets the responses that were said: of one method or of all, for one session or, without
    /// one, for all calls; returns how many. What rule files say answers again.
    pub fn unsay(&self, method: Option<&str>, session: Option<&str>) -> usize {
        let path = method.map(path_of);
        let is_of = |said: &SaidResponse| said.session() == session;
        let mut forgotten = 0;
        self.change(|set| {
            for (known, mocked) in &mut set.methods {
                let of_method = path.as_ref().is_none_or(|path| path == known);
                if of_method && mocked.said.iter().any(is_of) {
                    let before = mocked.said.len();
                    mocked.said.retain(|said| !is_of(said));
                    forgotten += before - mocked.said.len();
                    let _ = say_anew(mocked, &set.schema);
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

/// Compiles what a program said of a method; what was found in it.
pub(super) fn say_anew(mocked: &mut MockedMethod, schema: &Schema) -> Vec<Finding> {
    let said: Vec<_> = mocked.said.iter().map(|said| &said.response).collect();
    let (mut rule, findings) = compile(&said, &mocked.method, schema);
    // None is left out but what is no object, and then findings say so.
    for (response, said) in rule.responses.iter_mut().zip(&mocked.said) {
        response.counter = said.counter;
    }
    mocked.added = (!mocked.said.is_empty()).then(|| Arc::new(rule));
    mocked.changed.fire();
    mocked.changed = Signal::new();
    findings
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

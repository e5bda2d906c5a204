//! Whether what was to be called was called, and what came near where it was not.
//!
//! A call that was expected and did not come mostly came otherwise: the nearest ones are told field
//! by field, what they had and what was wanted.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::compile::Compiler;
use crate::condition::{Condition, PathTarget, TestContext};
use crate::mock::Mock;
use crate::state::log::{Calls, LoggedCall};
use crate::value::eval_context::EvalContext;
use crate::value::node::{Node, Position};
use crate::value::path::Path;

/// How often calls are to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Times {
    /// So often.
    Exactly(u64),
    /// So often or more.
    AtLeast(u64),
    /// So often or less.
    AtMost(u64),
    /// From so often to so often.
    Between(u64, u64),
    /// Not once.
    Never,
}

/// What was not as it was to be; as text it names the calls that came near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyError(String);

/// How many near calls are told.
const NEAR_MAX: usize = 3;

impl Mock {
    /// The logged calls that are meant, the oldest first.
    pub fn calls(&self, wanted: &Calls) -> Vec<Arc<LoggedCall>> {
        let Ok(conditions) = self.conditions(wanted) else { return Vec::new() };
        let mut calls = self.log().calls();
        calls.retain(|call| is_about(wanted, call) && misses(&conditions, call).is_empty());
        calls
    }

    /// Whether calls came as often as they were to.
    ///
    /// # Errors
    /// [`VerifyError`] says how often they came, and which others came near; or that it cannot be
    /// said, because there is no such method or field, or the log has forgotten calls that count.
    pub fn verify(&self, wanted: &Calls, times: Times) -> Result<(), VerifyError> {
        self.conditions(wanted)?;
        let count = self.calls(wanted).len() as u64;
        let is_right = match times {
            Times::Exactly(times) => count == times,
            Times::AtLeast(times) => count >= times,
            Times::AtMost(times) => count <= times,
            Times::Between(least, most) => (least..=most).contains(&count),
            Times::Never => count == 0,
        };
        let forgotten = self.log().forgotten(wanted.session.as_deref());
        // What is forgotten may have been another one of them.
        let may_be_more = !matches!(times, Times::AtLeast(_)) && forgotten > 0;
        if is_right && !may_be_more {
            return Ok(());
        }
        let mut told =
            format!("{} came {}, and was to come {times}", describe(wanted), often(count));
        if forgotten > 0 {
            let calls = if forgotten == 1 { "call" } else { "calls" };
            let _ = write!(told, "; the log has forgotten {forgotten} {calls}");
        }
        let is_too_few = match times {
            Times::Never | Times::AtMost(_) => false,
            Times::Between(least, _) => count < least,
            _ => true,
        };
        if is_too_few {
            told.push_str(&self.near(wanted));
        }
        Err(VerifyError(told))
    }

    /// Whether calls came one after the other, whatever came between them.
    ///
    /// # Errors
    /// [`VerifyError`] names the first that did not come after those before it.
    pub fn verify_order(&self, wanted: &[Calls]) -> Result<(), VerifyError> {
        let calls = self.log().calls();
        let mut rest = calls.iter();
        let mut before: Option<(&Calls, u64)> = None;
        for one in wanted {
            let conditions = self.conditions(one)?;
            let is_meant = |call: &&Arc<LoggedCall>| {
                is_about(one, call) && misses(&conditions, call).is_empty()
            };
            let Some(found) = rest.find(is_meant) else {
                let mut told = format!("{} did not come", describe(one));
                if let Some((before, number)) = before {
                    let _ = write!(told, " after call {number}, {}", describe(before));
                }
                if let Some(early) = calls.iter().find(is_meant) {
                    let _ = write!(told, "; it was call {}", early.number);
                } else {
                    told.push_str(&self.near(one));
                }
                return Err(VerifyError(told));
            };
            before = Some((one, found.number));
        }
        Ok(())
    }

    /// What is wanted of calls.
    ///
    /// # Errors
    /// What of it makes no sense: then it would be true of no call, whatever came.
    fn conditions(&self, wanted: &Calls) -> Result<Vec<Condition>, VerifyError> {
        let set = self.set();
        let method = match &wanted.method {
            Some(path) => {
                let unknown = || VerifyError(format!("no method is called {path}"));
                Some(&set.methods.get(path).ok_or_else(unknown)?.method)
            }
            None => None,
        };
        let fields = wanted.fields.iter();
        let fields = fields.map(|(path, value)| (Path::in_request(path), path, value));
        let headers = wanted.headers.iter().map(|(name, value)| (Path::header(name), name, value));
        let mut wrong = Vec::new();
        let mut conditions = Vec::new();
        for (path, key, value) in fields.chain(headers) {
            let value = Node::from(value);
            let Some(method) = method else {
                let mut note = |_, why| wrong.push(why);
                let schema = &set.schema;
                let this = PathTarget::default();
                let mut making = TestContext { note: &mut note, schema, this };
                conditions.push(Condition::new(path, key, &value, &mut making));
                continue;
            };
            let mut findings = Vec::new();
            let mut compiler = Compiler {
                schema: &set.schema,
                method,
                file: "the program".into(),
                included: Arc::default(),
                findings: &mut findings,
                is_rendered: false,
            };
            conditions.push(compiler.condition(path, key, Position::default(), &value));
            wrong.extend(findings.into_iter().map(|finding| finding.diagnostic.to_string()));
        }
        match wrong.into_iter().next() {
            Some(why) => Err(VerifyError(format!("{}: {why}", describe(wanted)))),
            None => Ok(conditions),
        }
    }

    /// The calls of the method that came nearest, and what of them is otherwise.
    fn near(&self, wanted: &Calls) -> String {
        let Ok(conditions) = self.conditions(wanted) else { return String::new() };
        let calls = self.log().calls();
        let mut near: Vec<_> = calls
            .iter()
            .filter(|call| is_about(wanted, call))
            .map(|call| (misses(&conditions, call), call))
            .filter(|(misses, _)| !misses.is_empty())
            .collect();
        near.sort_by_key(|(misses, call)| (misses.len(), u64::MAX - call.number));
        let mut told = String::new();
        for (misses, call) in near.into_iter().take(NEAR_MAX) {
            let _ = write!(told, "\n  near: call {}", call.number);
            for miss in misses {
                let _ = write!(told, "\n    {miss}");
            }
        }
        let others = calls
            .iter()
            .filter(|call| wanted.method.as_deref() != Some(&*call.method.path))
            .count();
        if told.is_empty() && others > 0 {
            let _ = write!(
                told,
                "; {} of other methods came",
                often(others as u64).replace(" times", " calls")
            );
        }
        told
    }
}

/// Whether a call is of the wanted method and session.
fn is_about(wanted: &Calls, call: &LoggedCall) -> bool {
    wanted.method.as_ref().is_none_or(|path| *path == *call.method.path)
        && wanted.session.as_ref().is_none_or(|session| *session == call.session)
}

/// The conditions that do not hold of a call, with what was there and what was wanted.
fn misses(conditions: &[Condition], call: &LoggedCall) -> Vec<String> {
    let state = std::collections::HashMap::new();
    let eval = EvalContext {
        request: call.request(),
        headers: &call.headers,
        message: None,
        item: None,
        state: &state,
        attempt: 0,
        timeout_ms: None,
        vars: None,
    };
    conditions.iter().filter(|one| !one.holds(&eval)).map(|one| one.miss(&eval)).collect()
}

fn describe(wanted: &Calls) -> String {
    let mut told = match &wanted.method {
        Some(path) => format!("a call of {}", path.trim_start_matches('/')),
        None => "a call".to_owned(),
    };
    for (key, value) in wanted.fields.iter().chain(&wanted.headers) {
        let _ = write!(told, " with {key} {value}");
    }
    if let Some(session) = &wanted.session {
        let _ = write!(told, " in the session {session}");
    }
    told
}

fn often(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(times) => f.write_str(&often(*times)),
            Self::AtLeast(times) => write!(f, "{} at least", often(*times)),
            Self::AtMost(times) => write!(f, "{} at most", often(*times)),
            Self::Between(least, most) => {
                write!(f, "{} at least and {} at most", often(*least), often(*most))
            }
            Self::Never => f.write_str("never"),
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for VerifyError {}

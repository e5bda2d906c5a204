//! Whether what was to be called was called, and what came near where it was not.
//!
//! A call that was expected and did not come mostly came otherwise: the closest ones are told field
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

/// What was not as expected; as text it names the closest calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyError(String);

/// How many calls are told.
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
    /// [`VerifyError`] says how many came, and which others are closest; or that it cannot be
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
        let mut told = format!("expected {times} {}, got {count}", described(wanted, times.noun()));
        if forgotten > 0 {
            let _ = write!(told, "; the log has forgotten {}", calls_of(forgotten));
        }
        match times.is_too_few(count) {
            true => told.push_str(&self.near(wanted)),
            false => told.push_str(&numbers(&self.calls(wanted))),
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
                let mut told = format!("expected a {}", described(one, "call"));
                if let Some((before, number)) = before {
                    let _ = write!(told, " after call {number}, a {}", described(before, "call"));
                }
                if let Some(early) = calls.iter().find(is_meant) {
                    let _ = write!(told, "; it came before, as call {}", early.number);
                } else {
                    told.push_str(", got none");
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
            Some(why) => Err(VerifyError(format!("{}: {why}", described(wanted, "calls")))),
            None => Ok(conditions),
        }
    }

    /// The closest calls of the method, and what of them is otherwise.
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
        let more = near.len().saturating_sub(NEAR_MAX);
        for (misses, call) in near.into_iter().take(NEAR_MAX) {
            let _ = write!(told, "\n  closest: call {}", call.number);
            for miss in misses {
                let _ = write!(told, "\n    {miss}");
            }
            let kept = call.requests.len() as u64;
            if kept < call.request_count {
                let of = call.request_count;
                let _ = write!(told, "\n    (the log has the first {kept} of its {of} messages)");
            }
        }
        if more > 0 {
            let _ = write!(told, "\n  and {} further away", calls_of(more as u64));
        }
        let is_other = |call: &&Arc<LoggedCall>| !is_about(wanted, call);
        let others = calls.iter().filter(is_other).count() as u64;
        if told.is_empty() && others > 0 {
            let _ = write!(told, "; {} of other methods or sessions came", calls_of(others));
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

/// `calls of shop.v1.Cart/Price with sku "tea" in session "t1"`.
fn described(wanted: &Calls, noun: &str) -> String {
    let mut told = noun.to_owned();
    if let Some(path) = &wanted.method {
        let _ = write!(told, " of {}", path.trim_start_matches('/'));
    }
    let mut before = "with";
    for (key, value) in wanted.fields.iter().chain(&wanted.headers) {
        let _ = write!(told, " {before} {key} {value}");
        before = "and";
    }
    if let Some(session) = &wanted.session {
        let _ = write!(told, " in session {session:?}");
    }
    told
}

fn calls_of(count: u64) -> String {
    match count {
        1 => "1 call".to_owned(),
        count => format!("{count} calls"),
    }
}

/// Which calls came where fewer were to come.
fn numbers(calls: &[Arc<LoggedCall>]) -> String {
    let mut told = String::new();
    for call in calls.iter().take(NEAR_MAX) {
        let _ = write!(told, "\n  came: call {}", call.number);
    }
    if calls.len() > NEAR_MAX {
        let _ = write!(told, "\n  and {} more", calls_of((calls.len() - NEAR_MAX) as u64));
    }
    told
}

impl Times {
    /// Whether so many calls are fewer than were to come.
    const fn is_too_few(self, count: u64) -> bool {
        match self {
            Self::Never | Self::AtMost(_) => false,
            Self::Exactly(least) | Self::AtLeast(least) | Self::Between(least, _) => count < least,
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Exactly(1) | Self::AtLeast(1) | Self::AtMost(1) | Self::Between(_, 1) => "call",
            _ => "calls",
        }
    }
}

/// As it goes before `calls`.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(0) | Self::Never => f.write_str("no"),
            Self::Exactly(times) => write!(f, "exactly {times}"),
            Self::AtLeast(times) => write!(f, "at least {times}"),
            Self::AtMost(times) => write!(f, "at most {times}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for VerifyError {}

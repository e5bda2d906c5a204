//! Why a call is answered as it is: a dry run that changes nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use tidewire_schema::UnknownMembers;
use tidewire_service::{Codec, Context, Error, Headers, Result};

use crate::condition::Condition;
use crate::mock::{Mock, MockedMethod};
use crate::rule::{MethodRule, Response};
use crate::select::plan::{Decision, Plan};
use crate::state::log::LoggedCall;
use crate::state::sessions::{self, Session};
use crate::value::eval_context::{EvalContext, Request};

/// What a call would get, and how each response of its rules stands to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preview {
    /// What it would get.
    pub plan: Plan,
    /// What of `match` does not hold: `request.name is "Al", wanted "Bob"`.
    pub gate_misses: Vec<String>,
    /// Each response in the order of the file.
    pub responses: Vec<Explanation>,
}

/// How a response stands to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The rule file.
    pub file: Arc<str>,
    /// The line of the rule file.
    pub line: u32,
    /// What it is called.
    pub name: Option<String>,
    /// Whether it would answer.
    pub is_chosen: bool,
    /// How many conditions it has.
    pub conditions: usize,
    /// What of its `when` does not hold.
    pub misses: Vec<String>,
    /// Why it does not answer where all of its `when` holds.
    pub loss: Option<String>,
}

/// A call that no conditional response answered, and those that came closest.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NearMiss {
    /// The call.
    pub call: Arc<LoggedCall>,
    /// The three conditional responses of its method of which the largest parts hold, the closest
    /// first; at least one.
    pub closest: Vec<Explanation>,
    /// How many other conditional responses the method has.
    pub more: usize,
}

/// How many responses are told of a call that none answered.
const CLOSEST_MAX: usize = 3;

impl Mock {
    /// What a call would get, without it being made: nothing is counted, remembered or logged.
    ///
    /// # Errors
    /// When there is no such method, or a request is not a message of its type; and what the call
    /// itself would fail with before a rule is asked.
    pub fn preview(
        &self,
        method: &str,
        requests: &[serde_json::Value],
        headers: &Headers,
    ) -> Result<Preview> {
        let set = self.set();
        let path = format!("/{}", method.trim_start_matches('/'));
        let Some(mocked) = set.methods.get(&path) else {
            return Err(Error::unimplemented(format!("no method is called {path}")));
        };
        let mut messages = Vec::new();
        for request in requests {
            let json = request.to_string();
            messages.push(set.schema.decode_json(
                &mocked.method.input,
                json.as_bytes(),
                UnknownMembers::Refused,
            )?);
        }
        let empty = set.schema.message(&mocked.method.input)?;
        let request = match mocked.method.kind.client_streams() {
            true => Request::Many(&messages),
            false => Request::One(messages.first().unwrap_or(&empty)),
        };
        let context = Context::new(headers.clone());
        let plan = self.dry_plan(&set, &mocked.method, Codec::Json, &context, request)?;
        let mut preview = Preview { plan, gate_misses: Vec::new(), responses: Vec::new() };
        let empty = Session::default();
        let sessions = self.sessions();
        let name = sessions::name(headers);
        let session = sessions.peek(name).unwrap_or(&empty);
        for rule in mocked.rules_of(name) {
            let eval = EvalContext {
                request,
                headers,
                message: None,
                item: None,
                state: &session.state,
                attempt: session.attempts(&path) + 1,
                timeout_ms: None,
                vars: rule.vars.as_ref(),
            };
            let used = |index| session.used(&path, rule.counter(index));
            explain(rule, &eval, &used, &mut preview);
        }
        Ok(preview)
    }

    /// The logged calls that no conditional response answered although their methods have some, by
    /// the rules that there are now: the closest first, and of those that are as close the newest.
    /// Calls that were refused before a rule was asked are not among them.
    pub fn near_misses(&self) -> Vec<NearMiss> {
        let set = self.set();
        let calls = self.log().calls();
        let mut found = Vec::new();
        for call in calls.into_iter().filter(|call| call.has_reached_rules) {
            let Some(mocked) = set.methods.get(&*call.method.path) else { continue };
            let is_answered = call.rule.as_ref().is_some_and(|decision| decision.is_conditional);
            let mut closest = match is_answered {
                true => Vec::new(),
                false => self.candidates(mocked, &call),
            };
            if closest.is_empty() {
                continue;
            }
            closest.sort_by(Explanation::by_closeness);
            let more = closest.len().saturating_sub(CLOSEST_MAX);
            closest.truncate(CLOSEST_MAX);
            found.push(NearMiss { call, closest, more });
        }
        found.sort_by(|one, other| {
            let closer = one.closest[0].by_closeness(&other.closest[0]);
            closer.then(other.call.number.cmp(&one.call.number))
        });
        found
    }

    /// How each conditional response of a method that may answer the session of a call stands to
    /// that.
    fn candidates(&self, mocked: &MockedMethod, call: &LoggedCall) -> Vec<Explanation> {
        let empty = Session::default();
        let sessions = self.sessions();
        let session = sessions.peek(&call.session).unwrap_or(&empty);
        let path = &*call.method.path;
        let mut candidates = Vec::new();
        for rule in mocked.rules_of(&call.session) {
            let eval = EvalContext {
                request: call.request(),
                headers: &call.headers,
                message: None,
                item: None,
                state: &session.state,
                attempt: session.attempts(path),
                timeout_ms: None,
                vars: rule.vars.as_ref(),
            };
            let gate = misses(&rule.gate, &eval);
            let could = |one: &&Response| one.conditions().next().is_some() && is_for(one, &eval);
            for response in rule.responses.iter().filter(could) {
                let mut one = explanation(rule, response, &eval);
                one.misses.splice(0..0, gate.iter().cloned());
                one.conditions = rule.gate.len() + response.conditions().count();
                let used = session.used(path, response.counter);
                if response.times.is_some_and(|times| used >= times) {
                    one.loss = Some(USED_UP.to_owned());
                }
                candidates.push(one);
            }
        }
        candidates
    }
}

impl Explanation {
    /// How many of its conditions hold.
    pub const fn matched(&self) -> usize {
        self.conditions - self.misses.len()
    }

    /// Which of two is closer to its call: of which the larger part holds, or else which misses
    /// less.
    fn by_closeness(&self, other: &Self) -> Ordering {
        // One more of each: of a response with more conditions that all miss, a smaller part holds.
        let mine = (self.matched() + 1) * (other.conditions + 1);
        let others = (other.matched() + 1) * (self.conditions + 1);
        others.cmp(&mine).then(self.misses.len().cmp(&other.misses.len()))
    }
}

/// Whether a response is for the session of a call, or for all.
fn is_for(response: &Response, eval: &EvalContext<'_>) -> bool {
    let when = response.when.as_deref().unwrap_or_default();
    when.iter().filter(|one| one.is_of_session()).all(|one| one.holds(eval))
}

fn misses(conditions: &[Condition], eval: &EvalContext<'_>) -> Vec<String> {
    conditions.iter().filter(|one| !one.holds(eval)).map(|one| one.miss(eval)).collect()
}

/// Why a response does not answer any more.
const USED_UP: &str = "it has answered as often as `times` says";

/// A response that does not answer.
fn explanation(rule: &MethodRule, response: &Response, eval: &EvalContext<'_>) -> Explanation {
    let Decision { file, line, name, .. } = Decision::of(rule, response);
    let conditions = response.when.as_deref().unwrap_or_default();
    let misses = misses(conditions, eval);
    let conditions = conditions.len();
    Explanation { file, line, name, is_chosen: false, conditions, misses, loss: None }
}

fn explain(
    rule: &MethodRule,
    eval: &EvalContext<'_>,
    used: &dyn Fn(usize) -> u64,
    preview: &mut Preview,
) {
    let gate = misses(&rule.gate, eval);
    let is_closed = !gate.is_empty();
    preview.gate_misses.extend(gate);
    for (index, response) in rule.responses.iter().enumerate() {
        let mut told = explanation(rule, response, eval);
        let chosen = preview.plan.rule.as_ref();
        told.is_chosen = chosen.is_some_and(|one| (&one.file, one.line) == (&told.file, told.line));
        if !told.is_chosen && told.misses.is_empty() {
            let is_used_up = response.times.is_some_and(|times| used(index) >= times);
            told.loss = Some(match (chosen, &response.when) {
                _ if is_used_up => USED_UP.to_owned(),
                (_, Some(_)) if is_closed => "`match` does not hold".to_owned(),
                (Some(other), _) => format!("{}:{} goes before it", other.file, other.line),
                (None, _) => "nothing of the rules answers".to_owned(),
            });
        }
        preview.responses.push(told);
    }
}

//! Why a call is answered as it is: a dry run that changes nothing.

use http::HeaderMap;
use tidewire_schema::Unknown;
use tidewire_service::{Codec, Context, Error, Result};

use crate::condition::Condition;
use crate::mock::Mock;
use crate::plan::Plan;
use crate::rule::MethodRule;
use crate::scene::{Request, Scene};
use crate::sessions;

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
    /// The line of the rule file.
    pub line: u32,
    /// What it is called.
    pub name: Option<String>,
    /// Whether it would answer.
    pub is_chosen: bool,
    /// What of its `when` does not hold.
    pub misses: Vec<String>,
}

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
        headers: &HeaderMap,
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
                Unknown::Refused,
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
        let file = mocked.found.as_ref().and_then(|found| found.rule.as_ref().ok());
        let mut sessions = self.sessions();
        let session = sessions.session(sessions::name(headers));
        for rule in [mocked.added.as_ref(), file].into_iter().flatten() {
            let scene = Scene {
                request,
                headers,
                message: None,
                item: None,
                state: &session.state,
                attempt: session.attempts(&path) + 1,
                timeout_ms: None,
                vars: rule.vars.as_ref(),
            };
            explain(rule, &scene, &mut preview);
        }
        Ok(preview)
    }
}

fn explain(rule: &MethodRule, scene: &Scene<'_>, preview: &mut Preview) {
    let misses = |conditions: &[Condition]| -> Vec<String> {
        conditions.iter().filter(|one| !one.holds(scene)).map(|one| one.miss(scene)).collect()
    };
    preview.gate_misses.extend(misses(&rule.gate));
    for response in &rule.responses {
        let chosen = preview.plan.rule.as_ref();
        let is_chosen =
            chosen.is_some_and(|one| *one.file == *rule.file && one.line == response.place.line);
        preview.responses.push(Explanation {
            line: response.place.line,
            name: response.name.clone(),
            is_chosen,
            misses: misses(response.when.as_deref().unwrap_or_default()),
        });
    }
}

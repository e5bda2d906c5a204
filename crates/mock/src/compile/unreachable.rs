//! Responses that can never answer, because another one always does before them.

use std::collections::HashMap;

use crate::rule::{MethodRule, Response};
use crate::value::node::Position;

/// Where such responses stand, and what is in their way.
pub(crate) fn unreachable(rule: &MethodRule) -> Vec<(Position, String)> {
    let mut found = Vec::new();
    let always = conditional(rule, &mut found);
    if let Some(always) = always.filter(|_| rule.gate.is_empty()) {
        let first = rule.fallbacks.first().and_then(|index| rule.responses.get(*index));
        let why = format!("never answers: the response at {} always holds", always.place);
        found.extend(first.map(|first| (first.place, why)));
    }
    let mut before: Option<&Response> = None;
    for index in &rule.fallbacks {
        let Some(response) = rule.responses.get(*index) else { continue };
        match before {
            Some(other) => found.push((
                response.place,
                format!(
                    "never answers: the response at {} has no `when` either and goes first",
                    other.place
                ),
            )),
            None if response.times.is_none() => before = Some(response),
            None => {}
        }
    }
    found
}

/// Conditional responses that come after one with the same conditions, or with none; the one with
/// none.
fn conditional<'r>(
    rule: &'r MethodRule,
    found: &mut Vec<(Position, String)>,
) -> Option<&'r Response> {
    let mut always: Option<&Response> = None;
    let mut seen: HashMap<Vec<String>, Position> = HashMap::new();
    for index in rule.ranking.all() {
        let Some(response) = rule.responses.get(index) else { continue };
        if let Some(other) = always {
            let why = format!(
                "never answers: the response at {} always holds and goes first",
                other.place
            );
            found.push((response.place, why));
            continue;
        }
        let when = response.when.as_deref().unwrap_or_default();
        if when.is_empty() && response.times.is_none() {
            always = Some(response);
            continue;
        }
        // Two conditions are the same when they are written alike.
        let mut spelled: Vec<String> = when
            .iter()
            .map(|one| format!("{} {}", one.key, crate::value::view::plain_json(&one.expected)))
            .collect();
        spelled.sort_unstable();
        match seen.get(&spelled) {
            Some(place) => found.push((
                response.place,
                format!(
                    "never answers: the response at {place} has the same `when` and goes first"
                ),
            )),
            None if response.times.is_none() => {
                seen.insert(spelled, response.place);
            }
            None => {}
        }
    }
    always
}

//! Stubs of methods that take a stream of requests.
//!
//! GripMock looks at the messages of such a stub by their number, and takes any number of them
//! where it has one matcher. A bidirectional method answers each message with the answer of the
//! same number: here each reaction has the conditions of its message instead.

use std::collections::BTreeMap;

use tidewire_mock::document::Node;
use tidewire_schema::MessageType;

use super::{answer, message};
use crate::cel;
use crate::finding::{Findings, Gap};
use crate::matching::{Comparison, Conditions};
use crate::nodes::{Members, list, number, object, one, present, text};
use crate::rules_out;
use crate::stub::Stub;

/// The conditions of a stream of requests.
pub(super) fn requests(
    matchers: &[&Node],
    input: MessageType<'_>,
    findings: &mut Findings,
) -> Result<Conditions, Gap> {
    let mut out = Conditions::default();
    for (at, matcher) in matchers.iter().enumerate() {
        if let Some(others) = present(matcher, "anyOf") {
            let why = "anyOf of a message of a stream is passed over by GripMock";
            findings.at(others.place, format!("inputs[{at}].anyOf"), why);
        }
    }
    match matchers {
        [] => Ok(out),
        [only] => {
            let test = every(only, input)?;
            out.add("request.items", one("all", one("cel", text(test))));
            out.add("request.count", one("gte", number(1)));
            Ok(out)
        }
        many => {
            for (at, matcher) in many.iter().enumerate() {
                let root = format!("request.items[{at}]");
                message(matcher, input, &root, &format!("inputs[{at}]"), &mut out, findings)?;
            }
            out.add("request.count", number(i128::try_from(many.len()).unwrap_or(i128::MAX)));
            Ok(out)
        }
    }
}

/// What each message has to be, as an expression.
fn every(matcher: &Node, input: MessageType<'_>) -> Result<String, Gap> {
    let mut parts = Vec::new();
    for (name, how) in [
        ("equals", Comparison::Part),
        ("contains", Comparison::Part),
        ("matches", Comparison::GoPattern),
        ("glob", Comparison::GoGlob),
    ] {
        let Some(wanted) = present(matcher, name) else { continue };
        let key = format!("inputs[0].{name}");
        let has_inner = |node: &Node| !node.members().is_empty() || !node.items().is_empty();
        if name == "equals" && wanted.members().iter().any(|member| has_inner(&member.value)) {
            let why = "equals of more than scalars in each message of a stream has no counterpart";
            return Err(Gap::new(wanted.place, key, why));
        }
        let part = cel::part(input, "this", wanted, how);
        parts.push(part.map_err(|why| Gap::new(wanted.place, key, why))?);
    }
    Ok(if parts.is_empty() { "true".to_owned() } else { parts.join(" && ") })
}

/// A stub of a bidirectional method.
pub(super) struct Conversation<'n> {
    pub(super) stub: Stub,
    pub(super) headers: Vec<Conditions>,
    pub(super) node: &'n Node,
    pub(super) output: &'n Node,
}

/// The reactions of bidirectional methods: those of stubs with the same headers are one response.
#[derive(Default)]
pub(super) struct Conversations {
    responses: BTreeMap<String, Vec<Stub>>,
}

impl Conversations {
    pub(super) fn add(
        &mut self,
        conversation: Conversation<'_>,
        input: MessageType<'_>,
        findings: &mut Findings,
    ) -> Result<(), Gap> {
        let Conversation { mut stub, headers, node, output } = conversation;
        let reactions = reactions(node, output, input, findings)?;
        if let Some(options) = present(node, "options") {
            findings.at(options.place, "options", "of a bidirectional method has no counterpart");
        }
        let path = stub.method.path.to_string();
        for conditions in headers {
            let known = self.responses.entry(path.clone()).or_default();
            if let Some(known) = known.iter_mut().find(|known| known.conditions == conditions.list)
            {
                let all = known.answer.iter_mut().find(|(key, _)| key == "on_message");
                if let Some((_, all)) = all {
                    let mut items = all.items().to_vec();
                    for reaction in &reactions {
                        let when = reaction.get("when");
                        if items.iter().any(|other| other.get("when") == when) {
                            let why = "several answers to equal messages: the first always answers";
                            findings.at(node.place, "output.stream", why);
                        }
                        items.push(reaction.clone());
                    }
                    *all = list(items);
                }
                continue;
            }
            stub.weight = conditions.list.len();
            stub.conditions = conditions.list;
            stub.answer = vec![("on_message".to_owned(), list(reactions.clone()))];
            known.push(stub.clone());
        }
        Ok(())
    }

    /// One response for each, in which a message that fits nothing is an error.
    pub(super) fn into_stubs(self) -> impl Iterator<Item = Stub> {
        self.responses.into_values().flatten().map(|mut stub| {
            for (_, reactions) in &mut stub.answer {
                let mut items = reactions.items().to_vec();
                if items.iter().all(|item| item.get("when").is_some()) {
                    let failure = rules_out::error("NOT_FOUND", "no stub fits");
                    items.push(one("error", object(failure)));
                }
                *reactions = list(items);
            }
            stub
        })
    }
}

/// What a stub says to each message.
fn reactions(
    node: &Node,
    output: &Node,
    input: MessageType<'_>,
    findings: &mut Findings,
) -> Result<Vec<Node>, Gap> {
    let inputs = crate::nodes::any_of(node, &["inputs", "stream"]);
    let matchers: Vec<&Node> = match inputs {
        Some(inputs) => inputs.items().iter().collect(),
        None => present(node, "input").into_iter().collect(),
    };
    let mut gaps = Vec::new();
    let failure = answer::failure(output, &mut gaps);
    let stream = present(output, "stream").map_or(&[][..], Node::items);
    let data = present(output, "data");
    let answers: Vec<&Node> = stream.iter().chain(data.filter(|_| stream.is_empty())).collect();
    for key in ["delay", "headers"] {
        if let Some(node) = present(output, key) {
            let why = "of a bidirectional method has no counterpart; it is left out";
            findings.at(node.place, format!("output.{key}"), why);
        }
    }
    let mut reactions: Vec<Node> = Vec::new();
    for (at, matcher) in matchers.iter().enumerate() {
        let mut conditions = Conditions::default();
        let key = format!("inputs[{at}]");
        message(matcher, input, "message", &key, &mut conditions, findings)?;
        let mut reaction: Members = Vec::new();
        if !conditions.list.is_empty() {
            reaction.push(("when".to_owned(), object(conditions.list)));
        }
        // A stub with one matcher sends all that it has.
        let sent: Vec<&Node> = match matchers.len() {
            1 => answers.clone(),
            _ => answers.get(at).copied().into_iter().collect(),
        };
        if sent.is_empty() && failure.is_none() {
            findings.at(matcher.place, key, "has no answer in output.stream");
        }
        let send = sent.iter().filter_map(|one| {
            let made = answer::bare(one, &mut gaps)?;
            Some(made)
        });
        reaction.push(("send".to_owned(), list(send.collect())));
        if let Some(failure) = failure.clone().filter(|_| at + 1 == matchers.len()) {
            reaction.push(("error".to_owned(), failure));
        }
        let reaction = object(reaction);
        if reactions.iter().any(|other| other.get("when") == reaction.get("when")) {
            let why = "several answers to equal messages: the first always answers";
            findings.at(matcher.place, format!("inputs[{at}]"), why);
        }
        reactions.push(reaction);
    }
    for gap in gaps {
        findings.at(gap.place, gap.key, gap.why);
    }
    Ok(reactions)
}

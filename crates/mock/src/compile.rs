//! From what a rule file says to rules that can be applied.
//!
//! Reading is as kind as wishmock's: keys that nobody knows are passed over, a value of the wrong
//! type is as JavaScript takes it. What is passed over is found all the same: each finding names
//! its place, and what was probably meant. What the schema cannot hold stays in the rules as an
//! error for those who call.
//!
//! Conditions are compiled here, answers in `compile/answer.rs`, and what can never happen is
//! looked for in [`unreachable`](crate::compile::unreachable).

mod answer;
pub(crate) mod details;
pub(crate) mod duration;
mod faults;
mod fields;
pub(crate) mod finding;
mod late;
mod paths;
pub(crate) mod unreachable;

use std::sync::Arc;

use tidewire_schema::{Diagnostic, Schema};
use tidewire_service::Method;

use crate::body::meant;
use crate::compile::finding::Finding;
use crate::condition::index::{Conditional, Ranking};
use crate::condition::{Condition, MORE_OPERATORS, OPERATORS, TestContext};
use crate::rule::{Answer, MethodRule, Response};
use crate::value::node::{Node, Position, Tree};
use crate::value::path::{Path, Root};
use crate::value::view::View;

/// The keys of a file, and of a response.
pub(crate) const FILE_KEYS: [&str; 5] = ["match", "responses", "method", "vars", "include"];
pub(crate) const RESPONSE_KEYS: [&str; 24] = [
    "when",
    "body",
    "stream_items",
    "stream_delay_ms",
    "stream_loop",
    "stream_random_order",
    "delay_ms",
    "trailers",
    "priority",
    "name",
    "headers",
    "error",
    "delay",
    "times",
    "sequence",
    "cycle",
    "set_state",
    "fake",
    "stream",
    "on_message",
    "fault",
    "body_base64",
    "verbatim",
    "upstream",
];

/// Compiles the rules of one method.
pub(crate) struct Compiler<'c> {
    pub(crate) schema: &'c Schema,
    pub(crate) method: &'c Method,
    pub(crate) file: Arc<str>,
    /// The files that it includes, which places count from 1.
    pub(crate) included: Arc<[Arc<str>]>,
    pub(crate) findings: &'c mut Vec<Finding>,
    /// Whether templates were rendered already, so that braces are only text.
    pub(crate) is_rendered: bool,
}

impl Compiler<'_> {
    /// The rules that a file says.
    pub(crate) fn rule(&mut self, root: &Node, vars: Option<Node>) -> MethodRule {
        let (gate, responses) = match &root.value {
            Tree::List(items) => (Vec::new(), items.as_slice()),
            Tree::Object(_) => {
                self.unknown_keys(root, &FILE_KEYS, "a rule file");
                let responses = root.get("responses").map_or(&[][..], Node::items);
                if let Some(node) = root
                    .get("responses")
                    .filter(|node| !matches!(node.value, Tree::List(_) | Tree::Null))
                {
                    let why = format!("responses is {}; write a list", node.kind());
                    self.error(node.place, why);
                }
                (root.get("match").map_or_else(Vec::new, |node| self.gate(node)), responses)
            }
            _ => {
                let why =
                    format!("a rule file is an object or a list, and this is {}", root.kind());
                self.error(root.place, why);
                (Vec::new(), &[][..])
            }
        };
        let mut compiled = Vec::with_capacity(responses.len());
        for node in responses {
            if !node.is_object() {
                self.error(
                    node.place,
                    format!("a response is an object, and this is {}", node.kind()),
                );
                continue;
            }
            let mut response = self.response(node);
            response.counter = compiled.len() as u64;
            compiled.push(response);
        }
        self.finish(gate, compiled, vars)
    }

    /// Ranks the responses, and looks for those that can never answer.
    fn finish(
        &mut self,
        gate: Vec<Condition>,
        responses: Vec<Response>,
        vars: Option<Node>,
    ) -> MethodRule {
        let conditional = responses.iter().enumerate();
        let conditional = conditional
            .filter_map(|(index, one)| {
                let conditions = one.when.as_deref()?;
                Some(Conditional { index, priority: one.priority, conditions })
            })
            .collect();
        let ranking = Ranking::new(conditional);
        let mut fallbacks: Vec<usize> =
            (0..responses.len()).filter(|index| responses[*index].when.is_none()).collect();
        fallbacks.sort_by(|a, b| {
            responses[*b].priority.total_cmp(&responses[*a].priority).then(a.cmp(b))
        });
        let looks_back = |root: &Root| matches!(root, Root::State | Root::Attempt);
        let mut is_stateful = gate.iter().any(|one| looks_back(&one.path.root));
        let of_state = |one: &Condition| one.path.root == Root::State;
        let mut reads_state = gate.iter().any(of_state);
        for response in &responses {
            let when = response.when.as_deref().unwrap_or_default();
            is_stateful |= response.is_counted()
                || !response.set_state.is_empty()
                || when.iter().any(|one| looks_back(&one.path.root));
            reads_state |= when.iter().any(of_state);
            answer::templates(response, &mut |template| {
                is_stateful |= template.looks_back();
                reads_state |= template.looks_back();
            });
        }
        let rule = MethodRule {
            file: Arc::clone(&self.file),
            included: Arc::clone(&self.included),
            gate,
            responses,
            ranking,
            fallbacks,
            vars,
            is_stateful,
            reads_state,
        };
        for (place, why) in unreachable::unreachable(&rule) {
            self.warn(place, why);
        }
        rule
    }

    fn gate(&mut self, node: &Node) -> Vec<Condition> {
        self.unknown_keys(node, &["metadata", "request"], "match");
        let mut gate = Vec::new();
        for (section, make) in [
            ("metadata", Path::header as fn(&str) -> Path),
            ("request", Path::in_request as fn(&str) -> Path),
        ] {
            for member in node.get(section).map_or(&[][..], Node::members) {
                let shown = format!("{section}.{}", member.key);
                gate.push(self.condition(make(&member.key), &shown, member.place, &member.value));
            }
        }
        gate
    }

    /// The conditions of a `when`.
    fn conditions(&mut self, node: &Node) -> Vec<Condition> {
        let members = node.members().iter();
        members
            .map(|one| self.condition(Path::new(&one.key), &one.key, one.place, &one.value))
            .collect()
    }

    /// A condition, and what is wrong with it as findings.
    pub(crate) fn condition(
        &mut self,
        path: Path,
        key: &str,
        place: Position,
        expected: &Node,
    ) -> Condition {
        self.check_path(&path, key, place);
        self.check_operators(&path, key, expected);
        self.check_enum(&path, expected);
        let mut notes = Vec::new();
        let mut note = |place, why| notes.push((place, why));
        let mut making =
            TestContext { note: &mut note, schema: self.schema, this: self.this_at(&path) };
        let condition = Condition::new(path, key, expected, &mut making);
        notes.into_iter().for_each(|(place, why)| self.warn(place, why));
        condition
    }

    /// Operators that nobody knows, in a test that is within another: there such an object says
    /// nothing of what it is about.
    fn check_inner(&mut self, within: &str, test: &Node) {
        let known: Vec<_> = OPERATORS.iter().chain(&MORE_OPERATORS).copied().collect();
        let is_of_elements = matches!(within, "any" | "all" | "none");
        for member in test.members() {
            if known.contains(&&*member.key) {
                continue;
            }
            let near = meant(&member.key, &known);
            let meant = match near.is_empty() && is_of_elements {
                true => format!("; did you mean {within}: {{cel: 'this.{} == …'}}?", member.key),
                false => near,
            };
            self.error(
                member.place,
                format!("there is no operator {}, so `{within}` has no test{meant}", member.key),
            );
        }
        self.check_inners(test);
    }

    /// The same of all tests within a test.
    fn check_inners(&mut self, test: &Node) {
        for member in test.members() {
            match &*member.key {
                "not" | "any" | "all" | "none" | "len" => {
                    self.check_inner(&member.key, &member.value);
                }
                "any_of" => {
                    member.value.items().iter().for_each(|one| self.check_inner("any_of", one));
                }
                _ => {}
            }
        }
    }

    /// Operators that nobody knows, in an object that is a test.
    fn check_operators(&mut self, path: &Path, key: &str, expected: &Node) {
        self.check_inners(expected);
        let is_known = |key: &str| OPERATORS.contains(&key) || MORE_OPERATORS.contains(&key);
        let members = expected.members();
        if members.is_empty() {
            return;
        }
        let of = self.this_at(path).message;
        let of = of.and_then(|name| self.schema.message_type(&name));
        let known: Vec<_> = OPERATORS.iter().chain(&MORE_OPERATORS).copied().collect();
        for member in members {
            if !is_known(&member.key) {
                let meant = match self.is_input(path, &member.key) {
                    true => format!("; did you mean request.{}?", member.key),
                    false if of.is_some_and(|of| of.field(&member.key).is_some()) => {
                        format!("; did you mean {key}.{}?", member.key)
                    }
                    false => meant(&member.key, &known),
                };
                let what = match members.iter().any(|one| is_known(&one.key)) {
                    true => "it is passed over",
                    false => "the object is taken for a text that every message has",
                };
                self.warn(
                    member.place,
                    format!("there is no operator {}, so {what}{meant}", member.key),
                );
            }
        }
    }

    fn response(&mut self, node: &Node) -> Response {
        self.unknown_keys(node, &RESPONSE_KEYS, "a response");
        let when = node.get("when").filter(|when| when.is_truthy());
        if let Some(when) = when.filter(|when| !when.is_object()) {
            self.warn(when.place, format!("when is {}; it always holds", when.kind()));
        }
        if let Some(wrong) = node.get("priority").filter(|one| View::Rule(one).number().is_none()) {
            self.warn(wrong.place, format!("priority is a number; {} counts as 0", wrong.kind()));
        }
        self.check_beside(node);
        let priority = node.get("priority").and_then(|node| View::Rule(node).number());
        let priority = priority.map_or(0.0, |number| number.as_f64());
        // Braces are only text in what says so.
        let is_rendered = self.is_rendered;
        self.is_rendered |= node.get("verbatim").is_some_and(Node::is_truthy);
        let (answers, cycles) = self.answers(node);
        self.is_rendered = is_rendered;
        if let Some(state) = node.get("set_state")
            && !state.is_object()
            && state.value != Tree::Null
        {
            let why = format!("set_state is {}; write set_state: {{name: value}}", state.kind());
            self.error(state.place, why);
        }
        let mut set_state = Vec::new();
        for member in node.get("set_state").map_or(&[][..], Node::members) {
            let value_template = self.value_template(&member.value);
            set_state.push((member.key.clone(), value_template));
        }
        Response {
            place: node.place,
            name: node.get("name").map(|name| View::Rule(name).text().into_owned()),
            when: when.map(|when| self.conditions(when)),
            priority: if priority.is_finite() { priority } else { 0.0 },
            times: self.times(node),
            answers,
            cycles,
            set_state,
            counter: 0,
        }
    }

    /// Keys of which one is passed over because of the other.
    fn check_beside(&mut self, node: &Node) {
        let is_said = |key: &str| node.get(key).filter(|one| one.value != Tree::Null);
        for (winner, passed) in
            [("error", "body"), ("error", "body_base64"), ("body_base64", "body")]
        {
            // A stream may end with its error.
            let is_one = winner != "error" || !self.method.kind.server_streams();
            if let (Some(_), Some(passed_over), true) = (is_said(winner), is_said(passed), is_one) {
                let why = format!("{passed} is passed over beside {winner}");
                self.warn(passed_over.place, why);
            }
        }
    }

    fn times(&mut self, node: &Node) -> Option<u64> {
        let times = node.get("times")?;
        match View::Rule(times).number().map(|number| number.as_f64()) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in range"
            )]
            Some(number) if (0.0..1e15).contains(&number) => Some(number as u64),
            _ => {
                self.error(times.place, "times is a number of calls");
                None
            }
        }
    }

    /// One answer, or those of a sequence, each over what the response says itself.
    fn answers(&mut self, node: &Node) -> (Vec<Answer>, bool) {
        let cycles = node.get("cycle").is_some_and(Node::is_truthy);
        let Some(sequence) = node.get("sequence").filter(|one| !one.items().is_empty()) else {
            if let Some(sequence) = node.get("sequence") {
                self.error(sequence.place, "sequence is a list of answers, with one at least");
            }
            return (vec![self.answer(node)], cycles);
        };
        let mut answers = Vec::new();
        for step in sequence.items() {
            self.unknown_keys(step, &RESPONSE_KEYS, "a step of a sequence");
            self.check_beside(step);
            let own = step.members().iter();
            let inherited = node.members().iter().filter(|one| {
                !matches!(&*one.key, "sequence" | "when" | "times" | "set_state" | "priority")
                    && step.get(&one.key).is_none()
            });
            let members = own.chain(inherited).cloned().collect();
            answers.push(self.answer(&Node { value: Tree::Object(members), place: step.place }));
        }
        (answers, cycles)
    }

    pub(crate) fn unknown_keys(&mut self, node: &Node, known: &[&str], owner: &str) {
        for member in node.members() {
            if !known.contains(&&*member.key) {
                let meant = meant(&member.key, known);
                let why = format!("{owner} has no key {}; it is passed over{meant}", member.key);
                self.warn(member.place, why);
            }
        }
    }

    pub(crate) fn error(&mut self, place: Position, why: impl Into<String>) {
        let diagnostic = self.diagnostic(place, why);
        self.findings.push(Finding::error(diagnostic));
    }

    pub(crate) fn warn(&mut self, place: Position, why: impl Into<String>) {
        let diagnostic = self.diagnostic(place, why);
        self.findings.push(Finding::warning(diagnostic));
    }

    fn diagnostic(&self, place: Position, why: impl Into<String>) -> Diagnostic {
        diagnostic(file_of(&self.file, &self.included, place), place, why)
    }
}

/// The file of a place, of a rule file and of those that it includes.
pub(crate) fn file_of<'f>(
    file: &'f Arc<str>,
    included: &'f [Arc<str>],
    place: Position,
) -> &'f Arc<str> {
    let number = (place.file as usize).checked_sub(1);
    number.and_then(|number| included.get(number)).unwrap_or(file)
}

/// What is wrong at a place of a file; the whole file is meant where there is no line.
pub(crate) fn diagnostic(file: &str, place: Position, why: impl Into<String>) -> Diagnostic {
    // A message says first what is wrong, and after `; did you mean` what to do.
    let why = why.into();
    let (message, help) = match why.split_once("; did you mean ") {
        Some((message, meant)) => {
            (message.to_owned(), Some(format!("write {}", meant.trim_end_matches('?'))))
        }
        None => (why, None),
    };
    let diagnostic = Diagnostic::new(file, message);
    let diagnostic =
        if place.line > 0 { diagnostic.at(place.line, place.column) } else { diagnostic };
    match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

//! Answers whose form depends on the call: headers, an error, a delay or messages that an
//! expression gives.
//!
//! ```text
//! usual:  compile ─▶ answer ─▶ render bodies and texts
//! late:   render ─▶ compile ─▶ answer, in which braces are only text
//! ```
//!
//! It is late where a template stands for more than a text: an expression of CEL anywhere but in a
//! body, or any template in a delay, in the code of an error or in its details.

use super::Compiler;
use crate::template::value_template::ValueTemplate;
use crate::value::node::{Node, ObjectMember, Tree};

/// What says when messages come, and which.
const STREAM_KEYS: [&str; 6] =
    ["stream", "stream_items", "stream_delay_ms", "stream_loop", "stream_random_order", "send"];

impl Compiler<'_> {
    /// Where an answer is late: what of it is rendered first, and what is left.
    pub(super) fn late(&mut self, node: &Node) -> Option<(ValueTemplate, Node)> {
        if self.is_rendered || !node.members().iter().any(is_late) {
            return None;
        }
        let streams = self.method.kind.server_streams();
        let stays = |key: &str| match key {
            "on_message" | "name" | "cycle" | "when" | "set_state" => true,
            "body" | "fake" => !streams,
            _ => false,
        };
        let mut parts = Vec::new();
        let mut rest = Vec::new();
        for member in node.members() {
            if stays(&member.key) {
                rest.push(member.clone());
                continue;
            }
            for body in bodies(member) {
                // What is compiled at the call is checked now, as far as it is known.
                let _ = self.content(body);
            }
            let value_template = match (&*member.key, &member.value.value) {
                // Trailers have no templates but expressions of CEL.
                ("trailers", Tree::Object(lines)) => {
                    let lines = lines.iter().map(|line| {
                        let value_template =
                            match holds(&line.value, &|text| text.contains("{{cel:")) {
                                true => self.value_template(&line.value),
                                false => ValueTemplate::Plain(line.value.clone()),
                            };
                        (line.key.clone(), line.place, value_template)
                    });
                    ValueTemplate::Object(lines.collect(), member.value.place)
                }
                _ => self.value_template(&member.value),
            };
            parts.push((member.key.clone(), member.place, value_template));
        }
        let rest = Node { value: Tree::Object(rest), place: node.place };
        Some((ValueTemplate::Object(parts, node.place), rest))
    }

    /// Headers as a list: `[{name: x-a, value: [1, 2]}]`.
    pub(super) fn named_lines(&mut self, node: &Node) -> Vec<ObjectMember> {
        let mut lines = Vec::new();
        for line in node.items() {
            match (line.get("name").and_then(Node::as_text), line.get("value")) {
                (Some(name), value) => lines.extend(value.map(|value| ObjectMember {
                    key: name.to_owned(),
                    place: line.place,
                    value: value.clone(),
                })),
                _ => self.error(line.place, "a header in a list is {name: x-a, value: text}"),
            }
        }
        lines
    }
}

/// The messages of a member that is rendered before it is compiled.
fn bodies(member: &ObjectMember) -> Vec<&Node> {
    let items = member.value.items().iter();
    match &*member.key {
        "body" => vec![&member.value],
        "stream_items" => items.collect(),
        "stream" => items.filter_map(|item| item.get("body")).collect(),
        "send" => items.map(|item| item.get("body").unwrap_or(item)).collect(),
        _ => Vec::new(),
    }
}

fn is_late(member: &ObjectMember) -> bool {
    let formula = |text: &str| text.contains("{{cel:");
    let template = |text: &str| text.contains("{{");
    let value = &member.value;
    match &*member.key {
        "headers" | "trailers" => holds(value, &formula),
        "delay" | "delay_ms" => holds(value, &template),
        "error" => is_late_error(value),
        key if STREAM_KEYS.contains(&key) => match &value.value {
            Tree::List(items) => items.iter().any(|item| {
                let is_rich = key == "stream" || key == "send" && item.get("body").is_some();
                item.as_text().is_some_and(formula)
                    || is_rich && item.get("delay").is_some_and(|delay| holds(delay, &template))
                    || is_rich && item.get("error").is_some_and(is_late_error)
            }),
            _ => holds(value, &template),
        },
        _ => false,
    }
}

fn is_late_error(error: &Node) -> bool {
    let in_part = |key| error.get(key).is_some_and(|part| holds(part, &|text| text.contains("{{")));
    holds(error, &|text| text.contains("{{cel:")) || in_part("code") || in_part("details")
}

/// Whether a text in it is such a one.
fn holds(node: &Node, is_such: &dyn Fn(&str) -> bool) -> bool {
    match &node.value {
        Tree::Text(text) => is_such(text),
        Tree::List(items) => items.iter().any(|item| holds(item, is_such)),
        Tree::Object(members) => members.iter().any(|one| holds(&one.value, is_such)),
        _ => false,
    }
}

//! Where a rule looks: `request.item.tags[1]`, `metadata.x-tenant`, `state.cart`, `attempt`.
//!
//! | root | is |
//! |---|---|
//! | `request` | the message; of a method with a stream of requests `items` (also `stream`), `first`, `last`, `count` |
//! | `metadata` | the request's headers; all that follows is one name, whatever its case |
//! | `stream` | `index`, `total`, `isFirst`, `isLast` of the item that is made |
//! | `message` | of a bidirectional rule: the message that it answers |
//! | `state` | what rules have set in this session |
//! | `attempt` | how many calls of this method the session has made, this one included |
//! | `vars` | the variables of the rule file |
//!
//! Fields have their name in the `.proto` or in JSON; a oneof's name is the name of its member that
//! is set, `length` counts elements or characters.

use tidewire_schema::{Message, MessageRef, Path as FieldPath, Value};

use crate::value::eval_context::{EvalContext, Request};
use crate::value::node::Node;
use crate::value::view::{JSON_TYPES, View};

/// What a path may begin with.
pub(crate) const ROOTS: [&str; 7] =
    ["request", "metadata", "stream", "message", "state", "attempt", "vars"];

/// A path, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    pub(crate) root: Root,
    steps: Vec<String>,
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    Request,
    /// The name of a header, or none for all of them.
    Metadata(Option<String>),
    Stream,
    Message,
    State,
    Attempt,
    Vars,
    /// What nobody knows: nothing is there.
    Unknown,
}

impl Path {
    /// A path as `when` and templates spell it, with its root.
    pub(crate) fn new(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("metadata.") {
            return Self::header(name);
        }
        let mut steps = split(text);
        let root = match steps.first().map(String::as_str) {
            Some("request") => Root::Request,
            Some("metadata") => Root::Metadata(None),
            Some("stream") => Root::Stream,
            Some("message") => Root::Message,
            Some("state") => Root::State,
            Some("attempt") => Root::Attempt,
            Some("vars") => Root::Vars,
            _ => Root::Unknown,
        };
        if !steps.is_empty() {
            steps.remove(0);
        }
        Self { root, steps }
    }

    /// A path within the request, as `match.request` spells it.
    pub(crate) fn in_request(text: &str) -> Self {
        Self { root: Root::Request, steps: split(text) }
    }

    /// A header.
    pub(crate) fn header(name: &str) -> Self {
        Self { root: Root::Metadata(Some(name.to_ascii_lowercase())), steps: Vec::new() }
    }

    /// What follows the root.
    pub(crate) fn steps(&self) -> &[String] {
        &self.steps
    }

    /// What is there.
    pub(crate) fn resolve<'a>(&self, eval: &EvalContext<'a>) -> View<'a> {
        let start = match &self.root {
            Root::Request => match eval.request {
                Request::One(message) => View::Field(Value::from(message)),
                Request::Many(messages) => return in_stream(messages, &self.steps),
            },
            Root::Metadata(None) => View::Object,
            Root::Metadata(Some(name)) => return eval.header(name),
            Root::Stream => return eval.position(&self.steps),
            Root::Message => match eval.message {
                Some(message) => View::Field(Value::from(message)),
                None => View::Missing,
            },
            Root::State => match self.steps.split_first() {
                None => return View::Object,
                Some((key, rest)) => {
                    return match eval.state.get(key.as_str()) {
                        Some(node) => walk(View::Rule(node), rest),
                        None => View::Missing,
                    };
                }
            },
            Root::Attempt => View::count(usize::try_from(eval.attempt).unwrap_or(usize::MAX)),
            Root::Vars => eval.vars.map_or(View::Missing, View::Rule),
            Root::Unknown => View::Missing,
        };
        walk(start, &self.steps)
    }
}

/// The steps of a path: `a.b[0].c`, `a["b.c"]`; empty ones are passed over.
fn split(text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (key, after) = match quote {
                Some(quote) => {
                    let inside = &inside[1..];
                    inside.split_once(quote).map_or((inside, ""), |(key, after)| {
                        (key, after.strip_prefix(']').unwrap_or(after))
                    })
                }
                None => inside.split_once(']').unwrap_or((inside, "")),
            };
            steps.push(key.to_owned());
            rest = after;
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end > 0 {
            steps.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    steps
}

fn in_stream<'a>(messages: &'a [Message], steps: &[String]) -> View<'a> {
    let Some((first, rest)) = steps.split_first() else { return View::Object };
    let one = |message: Option<&'a Message>| {
        message.map_or(View::Missing, |message| walk(View::Field(Value::from(message)), rest))
    };
    match first.as_str() {
        "items" | "stream" => walk(View::Messages(messages), rest),
        "first" => one(messages.first()),
        "last" => one(messages.last()),
        "count" => walk(View::count(messages.len()), rest),
        _ => View::Missing,
    }
}

fn walk<'a>(start: View<'a>, steps: &[String]) -> View<'a> {
    steps.iter().fold(start, |view, name| step(view, name))
}

fn step<'a>(view: View<'a>, name: &str) -> View<'a> {
    let element = |found: Option<Value<'a>>| found.map_or(View::Missing, View::Field);
    match view {
        View::Field(Value::Message(message)) => member(message, name),
        View::Field(Value::List(list)) => match name {
            "length" => View::count(list.len()),
            _ => element(name.parse().ok().and_then(|index| list.get(index))),
        },
        View::Field(Value::Map(map)) => element(map.get(name)),
        View::Messages(messages) => match name {
            "length" => View::count(messages.len()),
            _ => {
                let found = name.parse().ok().and_then(|index: usize| messages.get(index));
                element(found.map(Value::from))
            }
        },
        View::Rule(node) => in_node(node, name),
        View::Field(Value::String(text)) if name == "length" => characters(text),
        View::Text(text) if name == "length" => characters(&text),
        _ => View::Missing,
    }
}

/// The length of text as JavaScript counts it.
fn characters<'a>(text: &str) -> View<'a> {
    View::count(text.encode_utf16().count())
}

fn in_node<'a>(node: &'a Node, name: &str) -> View<'a> {
    if let Some(member) = node.get(name) {
        return View::Rule(member);
    }
    match (node.as_text(), name) {
        (Some(text), "length") => characters(text),
        (None, "length") if !node.is_object() => View::count(node.items().len()),
        _ => {
            let found = name.parse().ok().and_then(|index: usize| node.items().get(index));
            found.map_or(View::Missing, View::Rule)
        }
    }
}

fn member<'a>(message: MessageRef<'a>, name: &str) -> View<'a> {
    let owner = message.message_type();
    // Members of a `Struct` go before the fields of its type, such as `fields` and `kind`.
    if JSON_TYPES.contains(&owner.full_name())
        && let Ok(Some(value)) = message.get(&FieldPath::field(name))
    {
        return View::Field(value);
    }
    if let Some(field) = owner.field(name) {
        return message.value_of(field).map_or(View::Missing, View::Field);
    }
    if let Some(oneof) = owner.oneofs().find(|oneof| oneof.name() == name) {
        let set = message.which(oneof.name());
        return set.map_or(View::Missing, |field| View::Text(field.name().into()));
    }
    // The oneof that the compiler makes for `optional`.
    let optional = name.strip_prefix('_').and_then(|name| owner.field(name));
    if let Some(field) = optional.filter(|field| field.has_presence() && field.oneof().is_none()) {
        return match message.value_of(field) {
            Some(_) => View::Text(field.name().into()),
            None => View::Missing,
        };
    }
    match View::Field(Value::Message(message)).json_value() {
        Some(value) if name == "length" => step(value, name),
        _ => View::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_format_has_it() {
        for (text, steps) in [
            ("request.item.sku", vec!["request", "item", "sku"]),
            ("items[1].sku", vec!["items", "1", "sku"]),
            ("labels[env]", vec!["labels", "env"]),
            ("labels[\"a.b\"].c", vec!["labels", "a.b", "c"]),
            ("name.", vec!["name"]),
            ("a..b", vec!["a", "b"]),
            ("", vec![]),
            ("a[", vec!["a", ""]),
        ] {
            assert_eq!(split(text), steps, "{text}");
        }
        assert_eq!(
            Path::new("metadata.X.Trace.Id").root,
            Root::Metadata(Some("x.trace.id".into()))
        );
        assert_eq!(Path::new("name").root, Root::Unknown);
    }
}

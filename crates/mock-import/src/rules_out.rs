//! Rule files as text: the responses of each method, in the order in which its program looks at
//! them.
//!
//! Where no stub fits, a rule says what the program does then: GripMock and WireMock answer with an
//! error, FauxRPC with a message made from the schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidewire_mock::document::{Node, Number, Tree};
use tidewire_service::{OneLine, is_steering};

use crate::cel::quote;
use crate::finding::Findings;
use crate::nodes::{Members, number, object, text, truth};
use crate::stub::Stub;
use crate::{Program, RuleFile};

/// How long a value on one line may be.
const LINE_MAX: usize = 72;

/// The rule files of all stubs.
pub(crate) fn files(program: Program, stubs: Vec<Stub>, findings: &mut Findings) -> Vec<RuleFile> {
    let mut by_method: BTreeMap<String, Vec<Stub>> = BTreeMap::new();
    for stub in stubs {
        by_method.entry(stub.method.path.to_string()).or_default().push(stub);
    }
    let made = by_method.into_values().map(|mut stubs| {
        if program == Program::WireMock {
            // Whatever was added last is looked at first.
            stubs.reverse();
        }
        stubs.sort_by_key(|stub| (-stub.priority, usize::MAX - stub.weight));
        if program == Program::FauxRpc {
            crate::fauxrpc::tell_of_chance(&stubs, findings);
        }
        file(program, &stubs)
    });
    made.collect()
}

fn file(program: Program, stubs: &[Stub]) -> RuleFile {
    let method = &stubs[0].method;
    let mut text = String::new();
    let mut names: Vec<_> = stubs.iter().map(|stub| OneLine(&stub.file).to_string()).collect();
    names.sort();
    names.dedup();
    let of = match program {
        Program::GripMock => "GripMock",
        Program::WireMock => "WireMock",
        Program::FauxRpc => "FauxRPC",
    };
    let _ = writeln!(text, "# {}/{}: stubs of {of}, from", method.service, method.method);
    for name in names {
        let _ = writeln!(text, "#   {name}");
    }
    text.push_str("responses:\n");
    let mut is_answered = false;
    for (at, stub) in stubs.iter().enumerate() {
        let is_limited = stub.answer.iter().any(|(key, _)| key == "times");
        let is_open = stub.conditions.is_empty();
        is_answered |= is_open && !is_limited;
        // A response without conditions would be looked at last.
        let goes_before = stubs[at + 1..].iter().any(|other| !other.conditions.is_empty());
        response(stub, is_open && goes_before, &mut text);
    }
    if !is_answered {
        text.push_str(match program {
            Program::FauxRpc => "  - fake: true\n",
            _ => "  - name: no stub fits\n    error: {code: NOT_FOUND, message: no stub fits}\n",
        });
    }
    RuleFile { name: format!("{}.{}.yaml", method.service, method.method).to_lowercase(), text }
}

fn response(stub: &Stub, is_always: bool, text: &mut String) {
    let mut members: Members = Vec::new();
    members.extend(stub.name.clone().map(|name| ("name".to_owned(), self::text(name))));
    if is_always {
        members.push(("when".to_owned(), object(Vec::new())));
    } else if !stub.conditions.is_empty() {
        members.push(("when".to_owned(), object(stub.conditions.clone())));
    }
    if stub.priority != 0 {
        members.push(("priority".to_owned(), number(stub.priority)));
    }
    members.extend(stub.answer.iter().cloned());
    if members.is_empty() {
        members.push(("body".to_owned(), object(Vec::new())));
    }
    let mut out = String::new();
    block(&object(members), 4, &mut out);
    // The first key stands behind the dash.
    text.push_str("  - ");
    text.push_str(out.trim_start());
}

/// An object or a list, line by line.
fn block(node: &Node, indent: usize, out: &mut String) {
    let before = " ".repeat(indent);
    match &node.value {
        Tree::Object(members) => {
            for member in members {
                let _ = write!(out, "{before}{}:", scalar(&member.key));
                value(&member.value, indent, out);
            }
        }
        Tree::List(items) => {
            for item in items {
                let flow = flow(item);
                if flow.len() + indent <= LINE_MAX || !is_long(item) {
                    let _ = writeln!(out, "{before}- {flow}");
                    continue;
                }
                let mut inner = String::new();
                block(item, indent + 2, &mut inner);
                let _ = write!(out, "{before}- {}", inner.trim_start());
            }
        }
        _ => {
            let _ = writeln!(out, "{before}{}", flow(node));
        }
    }
}

/// What stands behind a key.
fn value(node: &Node, indent: usize, out: &mut String) {
    let flow = flow(node);
    if flow.len() + indent <= LINE_MAX || !is_long(node) {
        let _ = writeln!(out, " {flow}");
        return;
    }
    out.push('\n');
    block(node, indent + 2, out);
}

/// Whether a value can be put on several lines.
fn is_long(node: &Node) -> bool {
    match &node.value {
        Tree::Object(members) => !members.is_empty(),
        Tree::List(items) => !items.is_empty(),
        _ => false,
    }
}

/// A value on one line.
fn flow(node: &Node) -> String {
    match &node.value {
        Tree::Null => "null".to_owned(),
        Tree::Bool(value) => value.to_string(),
        Tree::Number(Number::Integer(number)) => number.to_string(),
        Tree::Number(Number::Float(number)) if number.is_finite() => {
            let shown = number.to_string();
            if shown.contains(['.', 'e']) { shown } else { format!("{shown}.0") }
        }
        Tree::Number(Number::Float(number)) => {
            quoted(&number.to_string().replace("inf", "Infinity"))
        }
        Tree::Text(text) => scalar(text),
        Tree::Date(text) => quoted(text),
        Tree::Bytes(bytes) => {
            use base64::Engine as _;
            quoted(&base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        Tree::List(items) => {
            let items: Vec<_> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Tree::Object(members) => {
            let members = members.iter();
            let members: Vec<_> = members
                .map(|member| format!("{}: {}", scalar(&member.key), flow(&member.value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// A text without quotes where it cannot be taken for anything else.
fn scalar(text: &str) -> String {
    let mut chars = text.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ');
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    let holds = begins && chars.all(is_plain) && !is_word && !text.ends_with(' ');
    if holds { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let is_simple = !text.contains(is_steering);
    if is_simple && !text.contains('\'') {
        return format!("'{text}'");
    }
    if is_simple {
        return format!("'{}'", text.replace('\'', "''"));
    }
    // Escapes of YAML are those of CEL, as far as they are written here.
    quote(text)
}

/// A response that says that braces are only text.
pub(crate) fn verbatim(answer: &mut Members) {
    let has_braces = |node: &Node| flow(node).contains("{{");
    if answer.iter().any(|(_, node)| has_braces(node)) {
        answer.push(("verbatim".to_owned(), truth(true)));
    }
}

/// A delay of so many milliseconds.
pub(crate) fn millis(millis: i128) -> Node {
    text(format!("{millis}ms"))
}

/// `error: {code, message}`.
pub(crate) fn error(code: &str, message: &str) -> Members {
    let mut members = vec![("code".to_owned(), text(code))];
    if !message.is_empty() {
        members.push(("message".to_owned(), text(message)));
    }
    members
}

#[cfg(test)]
mod tests {
    use tidewire_mock::document::parse;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let texts = [
            "tea",
            "true",
            "007",
            "1.5",
            "a: b",
            "- a",
            "#a",
            "a #b",
            "{{request.a}}",
            "it's",
            "\"",
            "a\nb",
            "",
            " a",
            "a ",
            "\u{1F600}",
            "\u{85}",
            "\t",
            "2024-01-02",
            "~",
            "@a",
            "*a",
            "&a",
            "No",
            "0x1F",
            "!x",
            "%",
            "a,b",
            "[a]",
            "\\",
            "null",
            "é",
            "?",
            "a:",
            "\u{7f}",
            "\u{200b}\u{2028}",
            "\u{e0041}",
        ];
        for spelled in texts {
            let made =
                object(vec![(spelled.to_owned(), text(spelled)), ("k".to_owned(), text(spelled))]);
            for written in [flow(&made), {
                let mut out = String::new();
                block(&made, 0, &mut out);
                out
            }] {
                let read = parse(&written).unwrap().unwrap();
                assert_eq!(read.get("k").unwrap().as_text(), Some(spelled), "{written}");
                assert_eq!(read.members()[0].key, spelled, "{written}");
            }
        }
    }

    #[test]
    fn long_values_go_on_several_lines() {
        let long = "x".repeat(60);
        let items = Node::new(Tree::List(vec![object(vec![
            ("first".to_owned(), text(&*long)),
            ("second".to_owned(), text(&*long)),
        ])]));
        let made = object(vec![("stream".to_owned(), items), ("priority".to_owned(), number(7))]);
        let mut out = String::new();
        block(&made, 0, &mut out);
        assert_eq!(out, format!("stream:\n  - first: {long}\n    second: {long}\npriority: 7\n"));
        assert_eq!(
            parse(&out).unwrap().unwrap().get("priority").and_then(crate::nodes::integer),
            Some(7)
        );
    }
}

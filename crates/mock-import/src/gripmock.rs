//! Stubs of GripMock 3.
//!
//! As its code has it (version 3.22), which its documentation does not say in each case:
//! `equals` compares the fields that it names and leaves the others alone, and what is within them
//! exactly; `contains` is a part of objects and lists, and scalars are equal; `matches` is a
//! pattern of Go that needs to fit a part of a text; headers are compared likewise. A field that is
//! not set has its default. The higher priority goes first, then the stub that names more fields.

mod answer;
mod streams;

pub(crate) use answer::{code_name, code_of, go_millis};

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::{MessageType, Schema};
use tidewire_service::Method;

use crate::finding::{Findings, Gap};
use crate::matching::{Comparison, Conditions, Matcher, either};
use crate::methods::Methods;
use crate::nodes::{any_of, integer, number, present, scalar_text, text};
use crate::regexes::Pattern;
use crate::stub::Stub;

const STUB_KEYS: [&str; 12] = [
    "id", "service", "method", "priority", "input", "inputs", "stream", "headers", "options",
    "output", "effects", "session",
];
const MATCHER_KEYS: [&str; 6] =
    ["equals", "contains", "matches", "glob", "anyOf", "ignoreArrayOrder"];

pub(crate) const MATCHER: Matcher = Matcher { unset_is_default: true };

/// Reads a file: a stub, or a list of stubs. Says how many there are.
pub(crate) fn read(
    root: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
    stubs: &mut Vec<Stub>,
) -> usize {
    let all = match &root.value {
        Tree::List(items) => items.iter().collect(),
        Tree::Object(_) => vec![root],
        _ => {
            let why =
                format!("a stub is an object, and a file one or a list; this is {}", root.kind());
            findings.at(root.place, "", why);
            return 0;
        }
    };
    let mut conversations = streams::Conversations::default();
    for node in &all {
        let make =
            |findings: &mut Findings| stub(node, schema, methods, findings, &mut conversations);
        stubs.extend(findings.or_tell("stub", make));
    }
    stubs.extend(conversations.into_stubs());
    all.len()
}

/// The responses of a stub: one, or one for each alternative of `anyOf`.
fn stub(
    node: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
    conversations: &mut streams::Conversations,
) -> Result<Vec<Stub>, Gap> {
    let word = |key: &str| {
        let found = present(node, key).and_then(Node::as_text);
        found.ok_or_else(|| Gap::new(node.place, key, format!("a stub has a text {key}")))
    };
    let method = methods.find(word("service")?, word("method")?);
    let method = method.map_err(|why| Gap::new(node.place, "method", why))?;
    unknown_keys(node, "", &STUB_KEYS, findings);
    let Some(input) = schema.message_type(&method.input) else {
        return Err(Gap::new(node.place, "method", "its request has no type"));
    };
    let mut stub = Stub::new(node.place, method);
    stub.name = present(node, "id").and_then(scalar_text);
    stub.priority = present(node, "priority").and_then(integer).unwrap_or(0);
    for key in ["effects"] {
        if let Some(node) = present(node, key) {
            findings.at(node.place, key, "has no counterpart; use set_state and state in rules");
        }
    }
    let output = present(node, "output");
    let output = output.ok_or_else(|| Gap::new(node.place, "output", "a stub has an output"))?;
    let inputs = any_of(node, &["inputs", "stream"]);
    if method.kind.client_streams() && method.kind.server_streams() {
        let headers = headers(node, findings)?;
        let conversation = streams::Conversation { stub, headers, node, output };
        conversations.add(conversation, input, findings)?;
        return Ok(Vec::new());
    }
    answer::answer(&mut stub, schema, output, findings);
    let times = present(node, "options").and_then(|options| present(options, "times"));
    let times = times.filter(|times| integer(times) != Some(0));
    if let Some(times) = times {
        stub.set("times", number(integer(times).unwrap_or(1)));
    }
    let conditions = match (method.kind.client_streams(), inputs) {
        (false, None) => {
            let input_of = present(node, "input");
            alternatives(input_of, input, "request", "input", findings)?
        }
        (false, Some(list)) => match list.items() {
            [only] => alternatives(Some(only), input, "request", "inputs[0]", findings)?,
            _ => {
                let why = format!("{} takes one message", method.path);
                return Err(Gap::new(list.place, "inputs", why));
            }
        },
        (true, list) => {
            let items: Vec<&Node> = match list {
                Some(list) => list.items().iter().collect(),
                None => present(node, "input").into_iter().collect(),
            };
            vec![streams::requests(&items, input, findings)?]
        }
    };
    let headers = headers(node, findings)?;
    let count = conditions.len() * headers.len();
    if let Some(times) = times.filter(|_| count > 1) {
        let why = "with anyOf each alternative counts for itself";
        findings.at(times.place, "options.times", why);
    }
    Ok(combinations(&stub, &headers, &conditions))
}

/// The stub once for each alternative of its headers and of its request.
fn combinations(stub: &Stub, headers: &[Conditions], conditions: &[Conditions]) -> Vec<Stub> {
    let mut made = Vec::with_capacity(headers.len() * conditions.len());
    for of_headers in headers {
        for of_input in conditions {
            let mut one = stub.clone();
            let mut all = of_input.clone();
            for (path, test) in &of_headers.list {
                all.add(path.clone(), test.clone());
            }
            one.weight = all.list.len();
            one.conditions = all.list;
            made.push(one);
        }
    }
    made
}

/// Keys that nobody knows.
fn unknown_keys(node: &Node, before: &str, known: &[&str], findings: &mut Findings) {
    for member in node.members() {
        if !known.contains(&&*member.key) {
            let key = format!("{before}{}", member.key);
            findings.at(member.place, key, "is not known, and is passed over");
        }
    }
}

/// The conditions of a matcher: one set for each alternative of its `anyOf`.
fn alternatives(
    matcher: Option<&Node>,
    input: MessageType<'_>,
    root: &str,
    key: &str,
    findings: &mut Findings,
) -> Result<Vec<Conditions>, Gap> {
    let mut base = Conditions::default();
    let Some(matcher) = matcher else { return Ok(vec![base]) };
    message(matcher, input, root, key, &mut base, findings)?;
    let Some(others) = present(matcher, "anyOf").filter(|others| !others.items().is_empty()) else {
        return Ok(vec![base]);
    };
    let mut all = Vec::new();
    for (at, other) in others.items().iter().enumerate() {
        let mut alternative = base.clone();
        let key = format!("{key}.anyOf[{at}]");
        if let Some(nested) = present(other, "anyOf") {
            return Err(Gap::new(nested.place, format!("{key}.anyOf"), "anyOf within anyOf"));
        }
        message(other, input, root, &key, &mut alternative, findings)?;
        all.push(alternative);
    }
    Ok(all)
}

/// The conditions of a matcher without its `anyOf`.
fn message(
    matcher: &Node,
    input: MessageType<'_>,
    root: &str,
    key: &str,
    out: &mut Conditions,
    findings: &mut Findings,
) -> Result<(), Gap> {
    if !matcher.is_object() {
        let why = format!("a matcher is an object, and this is {}", matcher.kind());
        return Err(Gap::new(matcher.place, key, why));
    }
    unknown_keys(matcher, &format!("{key}."), &MATCHER_KEYS, findings);
    let any_order = present(matcher, "ignoreArrayOrder").is_some_and(Node::is_truthy);
    let equals = if any_order { Comparison::AnyOrder } else { Comparison::Exactly };
    for (name, how) in [
        ("equals", equals),
        ("contains", Comparison::Part),
        ("matches", Comparison::GoPattern),
        ("glob", Comparison::GoGlob),
    ] {
        if let Some(wanted) = present(matcher, name) {
            MATCHER.members(input, root, &format!("{key}.{name}"), wanted, how, out)?;
        }
    }
    Ok(())
}

/// The conditions of headers: one set for each alternative.
fn headers(node: &Node, findings: &mut Findings) -> Result<Vec<Conditions>, Gap> {
    let mut base = Conditions::default();
    if let Some(session) = present(node, "session").and_then(scalar_text) {
        base.add("metadata.x-gripmock-session", text(session));
    }
    let Some(headers) = present(node, "headers") else { return Ok(vec![base]) };
    unknown_keys(headers, "headers.", &MATCHER_KEYS, findings);
    header(headers, "headers", &mut base)?;
    let others = present(headers, "anyOf").map_or(&[][..], Node::items);
    if others.is_empty() {
        return Ok(vec![base]);
    }
    let mut all = Vec::new();
    for (at, other) in others.iter().enumerate() {
        let mut alternative = base.clone();
        header(other, &format!("headers.anyOf[{at}]"), &mut alternative)?;
        all.push(alternative);
    }
    Ok(all)
}

fn header(matcher: &Node, key: &str, out: &mut Conditions) -> Result<(), Gap> {
    for name in ["equals", "contains", "matches", "glob"] {
        for member in present(matcher, name).map_or(&[][..], Node::members) {
            let key = format!("{key}.{name}.{}", member.key);
            let gap = |why: String| Gap::new(member.place, &key, why);
            let Some(wanted) = scalar_text(&member.value) else {
                return Err(gap(format!("{} in place of a text", member.value.kind())));
            };
            let test = match name {
                "matches" => Pattern::of_go(&wanted).map_err(gap)?.test(),
                "glob" => Pattern::of_go_glob(&wanted).map_err(gap)?.test(),
                // There values of one name are joined with `;`, here with `, `.
                _ => match wanted.contains(';') {
                    true => {
                        let values: Vec<_> = wanted.split(';').map(str::trim).collect();
                        either(text(values.join(", ")), text(wanted))
                    }
                    false => text(wanted),
                },
            };
            out.add(format!("metadata.{}", member.key.to_lowercase()), test);
        }
    }
    Ok(())
}

/// Whether a method answers with several messages.
pub(crate) fn streams_out(method: &Method) -> bool {
    method.kind.server_streams()
}

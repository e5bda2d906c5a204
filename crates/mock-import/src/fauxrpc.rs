//! Stub files of FauxRPC (version 0.29).
//!
//! A target is a method, or the type of a message; `active_if` is CEL over `req`. The stub with the
//! highest priority answers; of several of one priority FauxRPC takes one at random. Where none is
//! active, the message is made from the schema. What a client streams is not looked at.

mod content;

use tidewire_mock::document::{Node, Tree, parse_json};
use tidewire_schema::Schema;
use tidewire_service::Method;

use crate::finding::{Findings, Gap};
use crate::gripmock::code_of;
use crate::methods::Methods;
use crate::nodes::{any_of, integer, list, object, one, present, scalar_text, text, truth};
use crate::rules_out;
use crate::stub::Stub;

const STUB_KEYS: [&str; 17] = [
    "id",
    "target",
    "ref",
    "content",
    "json",
    "proto",
    "cel_content",
    "celContent",
    "active_if",
    "activeIf",
    "error_code",
    "errorCode",
    "error_message",
    "errorMessage",
    "error",
    "priority",
    "stream",
];

/// Of stubs for a type, which are looked at after those of the method.
const TYPE_PRIORITY: i128 = 1 << 33;

/// Reads a file. Says how many stubs there are.
pub(crate) fn read(
    root: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
    stubs: &mut Vec<Stub>,
) -> usize {
    let all = match (root.get("stubs"), &root.value) {
        (Some(all), _) => all.items(),
        (None, Tree::List(all)) => all,
        _ => {
            findings.at(root.place, "stubs", "a stub file has a list of stubs");
            return 0;
        }
    };
    for node in all {
        stubs.extend(findings.or_tell("stub", |it| stub(node, schema, methods, it)));
    }
    all.len()
}

fn stub(
    node: &Node,
    schema: &Schema,
    methods: &Methods,
    findings: &mut Findings,
) -> Result<Vec<Stub>, Gap> {
    for member in node.members() {
        if !STUB_KEYS.contains(&&*member.key) {
            findings.at(member.place, &*member.key, "is not known, and is passed over");
        }
    }
    let reference = present(node, "ref").unwrap_or(node);
    let target = present(reference, "target");
    let name = target.and_then(Node::as_text);
    let name = name.ok_or_else(|| Gap::new(node.place, "target", "a stub has a text target"))?;
    let place = target.map_or(node.place, |target| target.place);
    let gap = |why: String| Gap::new(place, "target", why);
    let is_type = schema.message_type(name).is_some();
    let found: Vec<&Method> = match is_type {
        true => methods.all().iter().filter(|method| method.output == name).collect(),
        false => {
            let (service, method) = name.rsplit_once(['/', '.']).unwrap_or(("", name));
            vec![methods.find(service, method).map_err(gap)?]
        }
    };
    if is_type {
        findings.at(
            place,
            "target",
            match found.is_empty() {
                true => format!("no method answers with {name}, and rules are of methods"),
                false => format!("{name} within other messages is made from the schema"),
            },
        );
    }
    let mut made = Vec::new();
    for method in found {
        let mut stub = Stub::new(node.place, method);
        stub.name = present(reference, "id").and_then(scalar_text);
        stub.priority = present(node, "priority").and_then(integer).unwrap_or(0);
        if is_type {
            stub.priority -= TYPE_PRIORITY;
        }
        // FauxRPC looks at `active_if` only where the target is a method.
        let active = any_of(node, &["active_if", "activeIf"]).filter(|_| !is_type);
        if let Some(active) = active {
            let condition = content::condition(method, active);
            let condition = condition.map_err(|why| Gap::new(active.place, "active_if", why))?;
            stub.conditions.push(("request".to_owned(), one("cel", text(condition))));
        }
        answer(&mut stub, schema, node, findings)?;
        made.push(stub);
    }
    Ok(made)
}

/// Adds what the stub answers.
fn answer(
    stub: &mut Stub,
    schema: &Schema,
    node: &Node,
    findings: &mut Findings,
) -> Result<(), Gap> {
    if let Some(failure) = failure(node)? {
        stub.set("error", failure);
        return Ok(());
    }
    let streams = stub.method.kind.server_streams();
    if let Some(stream) = present(node, "stream") {
        if !streams {
            let why = format!("{} answers with one message", stub.method.path);
            return Err(Gap::new(stream.place, "stream", why));
        }
        let items = stream_items(schema, &stub.method, stream, findings)?;
        stub.set("stream", list(items));
        return Ok(());
    }
    let body = body(schema, &stub.method, node, "", findings)?;
    // A stream of one message, as FauxRPC has it then.
    match streams {
        true => stub.set("stream", list(vec![object(body)])),
        false => stub.answer.extend(body),
    }
    Ok(())
}

/// `body`, `fake` or `body_base64` of a stub or of an item of its stream.
fn body(
    schema: &Schema,
    method: &Method,
    node: &Node,
    key: &str,
    findings: &mut Findings,
) -> Result<crate::nodes::Members, Gap> {
    if let Some(bytes) = present(node, "proto") {
        let encoded = text(scalar_text(bytes).unwrap_or_default());
        return Ok(vec![("body_base64".to_owned(), encoded)]);
    }
    if let Some(expression) = any_of(node, &["cel_content", "celContent"]) {
        let key = format!("{key}cel_content");
        let mut gaps = Vec::new();
        let made = content::body(schema, method, expression, &key, &mut gaps);
        for gap in gaps {
            findings.at(gap.place, gap.key, gap.why);
        }
        return made;
    }
    let document = match (present(node, "content"), present(node, "json")) {
        (Some(content), _) => content.clone(),
        (None, Some(json)) => {
            let said = scalar_text(json).unwrap_or_default();
            let read = parse_json(&said);
            let read =
                read.map_err(|fault| Gap::new(json.place, format!("{key}json"), fault.message))?;
            read.unwrap_or_else(|| object(Vec::new()))
        }
        (None, None) => return Ok(vec![("fake".to_owned(), truth(true))]),
    };
    let mut members = vec![("body".to_owned(), document)];
    if key.is_empty() && !method.kind.server_streams() {
        rules_out::verbatim(&mut members);
    }
    Ok(members)
}

/// The error of a stub, or of an item.
fn failure(node: &Node) -> Result<Option<Node>, Gap> {
    let error = present(node, "error");
    let code = match error {
        Some(error) => present(error, "code"),
        None => any_of(node, &["error_code", "errorCode"]),
    };
    let message = match error {
        Some(error) => present(error, "message"),
        None => any_of(node, &["error_message", "errorMessage"]),
    };
    let Some(code) = code.filter(|code| integer(code) != Some(0)) else { return Ok(None) };
    let name = code_of(code).ok_or_else(|| {
        let why = format!("{} is not a code", scalar_text(code).unwrap_or_default());
        Gap::new(code.place, "error_code", why)
    })?;
    let message = message.and_then(scalar_text).unwrap_or_default();
    let mut members = rules_out::error(&name, &message);
    let details = error.and_then(|error| present(error, "details"));
    members.extend(details.map(|details| ("details".to_owned(), details.clone())));
    Ok(Some(object(members)))
}

fn stream_items(
    schema: &Schema,
    method: &Method,
    stream: &Node,
    findings: &mut Findings,
) -> Result<Vec<Node>, Gap> {
    let mut items = Vec::new();
    for (at, item) in present(stream, "items").map_or(&[][..], Node::items).iter().enumerate() {
        let key = format!("stream.items[{at}].");
        let mut made = match failure(item)? {
            Some(failure) => vec![("error".to_owned(), failure)],
            None => body(schema, method, item, &key, findings)?,
        };
        if let Some(delay) = present(item, "delay") {
            let said = scalar_text(delay).unwrap_or_default();
            match crate::gripmock::go_millis(&said) {
                Some(millis) => made.push(("delay".to_owned(), rules_out::millis(millis))),
                None => {
                    let why = format!("{said:?} is not a duration; it is left out");
                    findings.at(delay.place, format!("{key}delay"), why);
                }
            }
        }
        items.push(object(made));
    }
    let done = any_of(stream, &["done_after", "doneAfter"]);
    if let Some(done) = done {
        findings.at(done.place, "stream.done_after", "has no counterpart; it is left out");
    }
    if present(stream, "repeated").is_some_and(Node::is_truthy) {
        items.push(one("repeat", truth(true)));
    }
    Ok(items)
}

/// Tells of stubs of which FauxRPC would take one at random.
pub(crate) fn tell_of_chance(stubs: &[Stub], findings: &mut Findings) {
    for (at, stub) in stubs.iter().enumerate() {
        let is_same =
            |other: &&Stub| other.priority == stub.priority && other.conditions == stub.conditions;
        if let Some(other) = stubs[..at].iter().find(is_same) {
            findings.file(&stub.file);
            let name = other.name.as_deref().unwrap_or("another");
            let why = format!("FauxRPC takes this or {name} at random; here that always answers");
            findings.at(stub.place, "priority", why);
        }
    }
}

//! What a stub of GripMock answers.

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::Schema;

use super::{streams_out, unknown_keys};
use crate::finding::{Findings, Gap};
use crate::nodes::{integer, list, object, one, present, scalar_text, text};
use crate::rules_out;
use crate::stub::Stub;
use crate::templates;

const OUTPUT_KEYS: [&str; 7] = ["data", "stream", "error", "code", "details", "headers", "delay"];

/// The code of an output that has only a message.
const CODE: &str = "ABORTED";

/// Adds the answer of an output to a stub.
pub(super) fn answer(stub: &mut Stub, schema: &Schema, output: &Node, findings: &mut Findings) {
    unknown_keys(output, "output.", &OUTPUT_KEYS, findings);
    let mut gaps = Vec::new();
    if let Some(headers) = present(output, "headers")
        && let Some(made) =
            templates::value(headers, "output.headers", &templates::of_go, &mut gaps)
    {
        stub.set("headers", made);
    }
    let delay = present(output, "delay").and_then(|node| delay(node, "output.delay", &mut gaps));
    let failure = failure(output, &mut gaps);
    if streams_out(&stub.method) {
        let messages = present(output, "stream").map_or(&[][..], Node::items);
        let data = present(output, "data");
        let messages = messages.iter().chain(data.filter(|_| messages.is_empty()));
        let mut items = Vec::new();
        for (at, message) in messages.enumerate() {
            let key = format!("output.stream[{at}]");
            if let Some(item) =
                item(message, &key, schema, &stub.method.output, delay.as_ref(), &mut gaps)
            {
                items.push(item);
            }
        }
        match (failure, items.is_empty()) {
            (Some(failure), true) => {
                delay.into_iter().for_each(|delay| stub.set("delay", delay));
                stub.set("error", failure);
            }
            (failure, _) => {
                items.extend(failure.map(|failure| one("error", failure)));
                stub.set("stream", list(items));
            }
        }
    } else {
        delay.into_iter().for_each(|delay| stub.set("delay", delay));
        match (failure, present(output, "data")) {
            (Some(failure), _) => stub.set("error", failure),
            (None, Some(data)) => {
                let made = body(data, "output.data", &mut gaps);
                made.into_iter().for_each(|made| stub.set("body", made));
            }
            (None, None) => stub.set("body", object(Vec::new())),
        }
        if let Some(stream) = present(output, "stream") {
            let why = format!("{} answers with one message", stub.method.path);
            gaps.push(Gap::new(stream.place, "output.stream", why));
        }
    }
    for gap in gaps {
        findings.at(gap.place, gap.key, gap.why);
    }
}

/// A message with its templates, without members that are null.
fn body(data: &Node, key: &str, gaps: &mut Vec<Gap>) -> Option<Node> {
    if matches!(data.value, Tree::Text(_) | Tree::List(_)) {
        let why = "a message that is a text or a list has no counterpart; it is left out";
        gaps.push(Gap::new(data.place, key, why));
        return None;
    }
    templates::value(&without_nulls(data), key, &templates::of_go, gaps)
}

fn without_nulls(node: &Node) -> Node {
    let value = match &node.value {
        Tree::Object(members) => {
            let kept = members.iter().filter(|member| member.value.value != Tree::Null);
            let kept = kept.cloned().map(|mut member| {
                member.value = without_nulls(&member.value);
                member
            });
            Tree::Object(kept.collect())
        }
        Tree::List(items) => Tree::List(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    };
    Node { value, place: node.place }
}

/// A message of a stream: as it is, or `{data, delay}`, or with `_gripmock: {delay}`.
pub(super) fn item(
    message: &Node,
    key: &str,
    schema: &Schema,
    output: &str,
    common: Option<&Node>,
    gaps: &mut Vec<Gap>,
) -> Option<Node> {
    let is_field =
        |name: &str| schema.message_type(output).is_some_and(|output| output.field(name).is_some());
    let mut own = None;
    let mut data = message.clone();
    if let Some(meta) = present(message, "_gripmock") {
        own =
            present(meta, "delay").and_then(|node| delay(node, &format!("{key}._gripmock"), gaps));
        if let Tree::Object(members) = &mut data.value {
            members.retain(|member| member.key != "_gripmock");
        }
    } else if let Some(inner) = present(message, "data").filter(|_| !is_field("data")) {
        own = present(message, "delay").and_then(|node| delay(node, &format!("{key}.delay"), gaps));
        data = inner.clone();
    }
    let made = body(&data, key, gaps)?;
    let mut item = vec![("body".to_owned(), made)];
    item.extend(own.or_else(|| common.cloned()).map(|delay| ("delay".to_owned(), delay)));
    Some(object(item))
}

/// A message that is sent in answer to another.
pub(super) fn bare(message: &Node, gaps: &mut Vec<Gap>) -> Option<Node> {
    let only_data = message.members().len() == 1;
    let data = present(message, "data").filter(|_| only_data);
    body(data.unwrap_or(message), "output.stream", gaps)
}

/// The error of an output.
pub(super) fn failure(output: &Node, gaps: &mut Vec<Gap>) -> Option<Node> {
    let message = present(output, "error").and_then(scalar_text).unwrap_or_default();
    let code = present(output, "code");
    let said = code.and_then(scalar_text);
    if (message.is_empty() && code.is_none()) || matches!(said.as_deref(), Some("0" | "OK")) {
        return None;
    }
    let name = match (code, said) {
        (None, _) => CODE.to_owned(),
        (Some(node), said) => match (integer(node), said) {
            (Some(number), _) => code_name(number)?.to_owned(),
            (None, Some(name)) => name,
            (None, None) => CODE.to_owned(),
        },
    };
    let message = match templates::text(&message, &templates::of_go) {
        Ok(message) => message,
        Err(why) => {
            gaps.push(Gap::new(output.place, "output.error", format!("{why}; it is left out")));
            String::new()
        }
    };
    let mut failure = rules_out::error(&name, &message);
    let details = present(output, "details").map_or(&[][..], Node::items);
    if !details.is_empty() {
        let details = details.iter().enumerate();
        let details = details.filter_map(|(at, node)| detail(node, at, gaps)).collect();
        failure.push(("details".to_owned(), list(details)));
    }
    Some(object(failure))
}

/// A detail: its type is at `type`, here at `@type`.
fn detail(node: &Node, at: usize, gaps: &mut Vec<Gap>) -> Option<Node> {
    let key = format!("output.details[{at}]");
    let Some(name) = present(node, "type").and_then(Node::as_text) else {
        gaps.push(Gap::new(node.place, key, "a detail has a type; it is left out"));
        return None;
    };
    let made = templates::value(node, &key, &templates::of_go, gaps)?;
    let mut members = vec![("@type".to_owned(), text(name.rsplit('/').next().unwrap_or(name)))];
    let rest = made.members().iter().filter(|member| member.key != "type");
    members.extend(rest.map(|member| (member.key.clone(), member.value.clone())));
    Some(object(members))
}

/// A delay as Go spells durations: `1h30m`, `1.5s`.
fn delay(node: &Node, key: &str, gaps: &mut Vec<Gap>) -> Option<Node> {
    let said = scalar_text(node).unwrap_or_default();
    match go_millis(&said) {
        Some(0) => None,
        Some(millis) => Some(rules_out::millis(millis)),
        None => {
            let why = format!("the delay {said:?} has no counterpart; it is left out");
            gaps.push(Gap::new(node.place, key, why));
            None
        }
    }
}

/// The milliseconds of a duration of Go.
pub(crate) fn go_millis(text: &str) -> Option<i128> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" | "μs" => 0.001,
            "ns" => 0.000_001,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[end..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "bounded by the line before")]
    (total < 1e15).then(|| total.round() as i128)
}

/// The name of a code, by its number or its name in any spelling.
pub(crate) fn code_of(node: &Node) -> Option<String> {
    if let Some(number) = integer(node) {
        return code_name(number).map(str::to_owned);
    }
    let name = scalar_text(node)?.to_uppercase();
    let name = name.strip_prefix("ERROR_CODE_").unwrap_or(&name).replace("CANCELLED", "CANCELED");
    (1..=16).filter_map(code_name).find(|known| *known == name).map(str::to_owned)
}

/// The name of a code by its number.
pub(crate) fn code_name(number: i128) -> Option<&'static str> {
    let code = u32::try_from(number).ok().and_then(tidewire_service::Code::from_number)?;
    Some(match code.as_str() {
        "canceled" => "CANCELED",
        "unknown" => "UNKNOWN",
        "invalid_argument" => "INVALID_ARGUMENT",
        "deadline_exceeded" => "DEADLINE_EXCEEDED",
        "not_found" => "NOT_FOUND",
        "already_exists" => "ALREADY_EXISTS",
        "permission_denied" => "PERMISSION_DENIED",
        "resource_exhausted" => "RESOURCE_EXHAUSTED",
        "failed_precondition" => "FAILED_PRECONDITION",
        "aborted" => "ABORTED",
        "out_of_range" => "OUT_OF_RANGE",
        "unimplemented" => "UNIMPLEMENTED",
        "internal" => "INTERNAL",
        "unavailable" => "UNAVAILABLE",
        "data_loss" => "DATA_LOSS",
        _ => "UNAUTHENTICATED",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, millis) in [
            ("100ms", Some(100)),
            ("1.5s", Some(1500)),
            ("1h30m", Some(5_400_000)),
            ("0", Some(0)),
            ("10", None),
            ("", None),
            ("{{backoff}}", None),
        ] {
            assert_eq!(go_millis(text), millis, "{text}");
        }
    }
}

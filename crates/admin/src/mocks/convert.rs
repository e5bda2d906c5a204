//! What a mock knows, as messages tell it: without what is called a secret.

use serde_json::Value;
use tidewire_mock::{
    Decision, Explanation, Finding, LoggedCall, Mock, NearMiss as Missed, Outcome, Preview,
};
use tidewire_schema::{Kind, MessageType, Schema, Single};
use tidewire_service::{Code, Codec};

use crate::proto::tidewire::admin::v1::{
    MockedCall, NearMiss, NearResponse, PreviewReply, PreviewedResponse, RuleFinding,
};
use crate::{headers, micros, redact};

/// How many messages of one call are shown.
const MESSAGES_MAX: usize = 100;

pub(super) fn rule(decision: Option<&Decision>) -> String {
    match decision {
        // A stub has no line of a file.
        Some(Decision { line: 0, name, .. }) => match name {
            Some(name) => format!("stub {name}"),
            None => "a stub".to_owned(),
        },
        Some(rule) => format!("{}:{}", rule.file, rule.line),
        None => String::new(),
    }
}

pub(super) fn place(one: &Explanation) -> String {
    match one.line {
        // A stub has no line of a file.
        0 => "a stub".to_owned(),
        line => format!("{}:{line}", one.file),
    }
}

pub(super) fn call(call: &LoggedCall, with_bodies: bool) -> MockedCall {
    let mut reply = MockedCall {
        number: call.number,
        at_ms: call.at_millis,
        method: call.method.path.trim_start_matches('/').to_owned(),
        session: call.session.clone(),
        rule: rule(call.rule.as_ref()),
        code: code(call).to_owned(),
        reason: redact::text(&call.reason),
        ..Default::default()
    };
    if with_bodies {
        reply.headers = headers::without_secrets(&call.headers);
        reply.requests = call.requests.iter().map(message).collect();
    }
    reply
}

/// How a call ended, or that it runs.
fn code(call: &LoggedCall) -> &'static str {
    match call.is_running {
        true => "running",
        false => call.error.map(Code::as_str).or(call.fault).unwrap_or("ok"),
    }
}

/// A message as JSON.
fn message(message: &tidewire_schema::Message) -> String {
    let bytes = message.encode(Codec::Json).ok();
    match bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
        Some(mut value) => {
            redact::message(&mut value, message.message_type());
            value.to_string()
        }
        None => "(not shown: it has no JSON)".to_owned(),
    }
}

/// A condition that does not hold, without what was there where that is a secret: by its name, or
/// by the schema of the request.
pub(super) fn miss(text: &str, request: Option<MessageType<'_>>) -> String {
    let key = text.split(" is ").next().unwrap_or_default();
    let mut owner = request;
    let mut is_hidden = false;
    for part in key.strip_prefix("request.").unwrap_or(key).split('.') {
        let name = part.split('[').next().unwrap_or_default();
        // A key of a map is a name too.
        is_hidden |= part.split(['[', ']', '"', '\'']).any(redact::is_secret);
        // `first`, `items` and the like are not fields.
        let Some(field) = owner.and_then(|owner| owner.field(name)) else { continue };
        is_hidden |= field.is_redacted();
        owner = match field.kind() {
            Kind::One(one) | Kind::List(one) | Kind::Map { value: one, .. } => match one {
                Single::Message(message) => Some(message),
                _ => None,
            },
        };
    }
    match is_hidden {
        true => format!("{key} is another one"),
        false => redact::text(text),
    }
}

/// A call that no response answered, and the closest ones.
pub(super) fn near_miss(missed: &Missed, schema: &Schema) -> NearMiss {
    let request = schema.message_type(&missed.call.method.input);
    let closest = missed.closest.iter().map(|one| NearResponse {
        rule: place(one),
        name: one.name.clone().unwrap_or_default(),
        conditions: count(one.conditions),
        matched: count(one.matched()),
        misses: one.misses.iter().map(|one| miss(one, request)).collect(),
        loss: one.loss.clone().unwrap_or_default(),
        ..Default::default()
    });
    let closest: Vec<_> = closest.collect();
    let nearest = closest.first().cloned().unwrap_or_default();
    NearMiss {
        call: call(&missed.call, false).into(),
        nearest: nearest.rule,
        misses: nearest.misses,
        closest,
        more: count(missed.more),
        ..Default::default()
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What a verification found otherwise, without secrets: what calls had is in indented lines.
pub(super) fn problem(text: &str, request: Option<MessageType<'_>>) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("    ") {
        Some(line) => format!("    {}", miss(line, request)),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn finding(finding: &Finding) -> RuleFinding {
    let diagnostic = &finding.diagnostic;
    RuleFinding {
        line: diagnostic.line.unwrap_or(0),
        column: diagnostic.column.unwrap_or(0),
        error: finding.is_error,
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone().unwrap_or_default(),
        ..Default::default()
    }
}

/// What was found in a response that has no file.
pub(super) fn finding_text(finding: &Finding) -> String {
    let diagnostic = &finding.diagnostic;
    let help = diagnostic.help.iter().map(|help| format!("; {help}"));
    diagnostic.message.clone() + &help.collect::<String>()
}

/// What a call of a method would get.
pub(super) fn preview(mock: &Mock, method: &str, preview: &Preview) -> PreviewReply {
    let schema = mock.schema();
    let (input, output) = types(&schema, method);
    let request = schema.message_type(&input);
    let shown = |bytes: &[u8]| reply_text(&schema, &output, bytes);
    let plan = &preview.plan;
    let mut reply = PreviewReply {
        code: "ok".to_owned(),
        delay_us: micros(plan.delay),
        headers: headers::without_secrets(&plan.headers),
        trailers: headers::without_secrets(&plan.trailers),
        rule: rule(plan.rule.as_ref()),
        gate_misses: preview.gate_misses.iter().map(|one| miss(one, request)).collect(),
        ..Default::default()
    };
    let mut fail = |error: &tidewire_service::Error| {
        error.code().as_str().clone_into(&mut reply.code);
        reply.error = error.message().to_owned();
    };
    match &plan.outcome {
        Outcome::Message(bytes) => reply.replies = vec![shown(bytes)],
        Outcome::Stream(frames) => {
            if let Some(error) = &frames.error {
                fail(error);
            }
            let list = frames.list.iter().take(MESSAGES_MAX);
            let good = list.map_while(|(_, one)| one.as_ref().map_err(&mut fail).ok());
            let replies: Vec<_> = good.map(|bytes| shown(bytes)).collect();
            reply.replies = replies;
        }
        Outcome::Error(error) => fail(error),
        Outcome::Upstream => reply.code = "upstream".to_owned(),
        _ => {}
    }
    reply.faults = plan.script.faults().iter().map(|fault| format!("{fault:?}")).collect();
    reply.responses = preview.responses.iter().map(|one| response(one, request)).collect();
    reply
}

fn response(one: &Explanation, request: Option<MessageType<'_>>) -> PreviewedResponse {
    PreviewedResponse {
        rule: place(one),
        name: one.name.clone().unwrap_or_default(),
        chosen: one.is_chosen,
        misses: one.misses.iter().map(|one| miss(one, request)).collect(),
        loss: one.loss.clone().unwrap_or_default(),
        ..Default::default()
    }
}

/// The types of a method's requests and replies.
pub(super) fn types(schema: &Schema, method: &str) -> (String, String) {
    let (service, name) = method.split_once('/').unwrap_or_default();
    let interface = schema.interface(service).ok().flatten();
    let methods = interface.as_ref().map_or(&[][..], |interface| interface.methods());
    let of = methods.iter().find(|one| one.method == name);
    of.map(|of| (of.input.to_string(), of.output.to_string())).unwrap_or_default()
}

/// A reply of a preview, which is JSON, without what is a secret.
fn reply_text(schema: &Schema, output: &str, bytes: &[u8]) -> String {
    let read = serde_json::from_slice::<Value>(bytes).ok().zip(schema.message_type(output));
    match read {
        Some((mut value, of)) => {
            redact::message(&mut value, of);
            value.to_string()
        }
        None => "(not shown)".to_owned(),
    }
}

//! Custom options as `.proto` text: `(buf.validate.field).string.min_len = 1`.
//!
//! An option is an extension of a message of `descriptor.proto`. Descriptors hold it as bytes; it
//! is read here with the extensions that the schema knows. Others are left out.

use std::fmt::Write as _;
use std::sync::Arc;

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::reflect::DynamicMessage;

use crate::{Field, Message, MessageRef, Value};

/// The custom options in `options`, a message of `descriptor.proto` by its short name. That of
/// REST bindings is not among them.
pub(super) fn custom(
    pool: &Arc<DescriptorPool>,
    type_name: &str,
    options: &impl buffa::Message,
) -> Vec<String> {
    let index = pool.message_index(&format!("google.protobuf.{type_name}"));
    let Some(index) = index else { return Vec::new() };
    let mut message = Message(DynamicMessage::new(Arc::clone(pool), index));
    if message.merge(&options.encode_to_vec()).is_err() {
        return Vec::new();
    }
    let mut texts = Vec::new();
    for (field, value) in message.fields() {
        if field.extension.is_none() || field.name() == "google.api.http" {
            continue;
        }
        let name = format!("({})", field.name());
        match value {
            Value::List(list) => texts.extend(list.iter().map(|one| option(name.clone(), one))),
            value => texts.push(option(name, value)),
        }
    }
    texts
}

/// `name.field.field = value`, as deep as each message has one field only.
fn option(mut name: String, mut value: Value<'_>) -> String {
    while let Value::Message(message) = value {
        let mut fields = message.fields();
        let (Some((field, inner)), None) = (fields.next(), fields.next()) else { break };
        let inner = match inner {
            Value::Map(_) => break,
            Value::List(list) => match (list.get(0), list.get(1)) {
                (Some(only), None) => only,
                _ => break,
            },
            inner => inner,
        };
        let _ = match field.extension {
            Some(_) => write!(name, ".({})", field.name()),
            None => write!(name, ".{}", field.name()),
        };
        value = inner;
    }
    format!("{name} = {}", text(value))
}

/// A value in protobuf's text format, on one line.
fn text(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::F32(value) => value.to_string().to_lowercase(),
        Value::F64(value) => value.to_string().to_lowercase(),
        Value::String(value) => quoted(value.as_bytes()),
        Value::Bytes(value) => quoted(value),
        Value::Enum(value) => format!("{value:?}"),
        Value::Message(message) => braced(message),
        Value::List(list) => {
            let items: Vec<_> = list.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| format!("{{ key: {} value: {} }}", text(key), text(value)));
            format!("[{}]", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn braced(message: MessageRef<'_>) -> String {
    let name = |field: Field<'_>| match field.extension {
        Some(_) => format!("[{}]", field.name()),
        None => field.name().to_owned(),
    };
    let fields: Vec<_> = message
        .fields()
        .map(|(field, value)| format!("{}: {}", name(field), text(value)))
        .collect();
    match &fields[..] {
        [] => "{}".to_owned(),
        fields => format!("{{ {} }}", fields.join(" ")),
    }
}

/// Text in quotes; what is not valid UTF-8 and what cannot be seen is octal.
fn quoted(bytes: &[u8]) -> String {
    let mut out = "\"".to_owned();
    for chunk in bytes.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '"' | '\\' => out.extend(['\\', one]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                one if one.is_ascii_control() => {
                    let _ = write!(out, "\\{:03o}", u32::from(one));
                }
                one => out.push(one),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
    out.push('"');
    out
}

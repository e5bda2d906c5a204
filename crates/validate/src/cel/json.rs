//! Values as JSON, and JSON as values, for expressions that are not rules.
//!
//! | value | JSON |
//! |---|---|
//! | integers, booleans, text, null | themselves; 64 bits stay exact |
//! | `double` | itself; `"NaN"` and `"Infinity"`, which JSON does not have, as text |
//! | bytes | base64 |
//! | timestamp, duration, type | text, as protobuf writes it |
//! | message | its JSON form, and its name as `@type` |
//!
//! Writing costs steps like evaluating: a list that is there many times in another is one value in
//! memory, and many on paper.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use buffa_descriptor::reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::{Map, Value as Json};
use tidewire_service::Codec;

use super::outcome::{Budget, Failure};
use super::time;
use super::value::Value;
use tidewire_schema::MessageRef;

/// The JSON of a value.
pub(in super::super) fn to_json(value: &Value, budget: &mut Budget) -> Result<Json, Failure> {
    budget.spend(value.weight())?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) if number.is_nan() => "NaN".into(),
        Value::Double(number) if number.is_infinite() => {
            if *number > 0.0 { "Infinity" } else { "-Infinity" }.into()
        }
        Value::Double(number) => (*number).into(),
        Value::Text(text) => (**text).into(),
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Value::List(items) => {
            let items: Result<_, _> = items.iter().map(|item| to_json(item, budget)).collect();
            Json::Array(items?)
        }
        Value::Map(entries) => {
            let mut members = Map::new();
            for (key, value) in entries.iter() {
                let key = match to_json(key, budget)? {
                    Json::String(key) => key,
                    other => other.to_string(),
                };
                members.insert(key, to_json(value, budget)?);
            }
            Json::Object(members)
        }
        Value::Message(message) => of_message(message)?,
        Value::Timestamp(nanos) => time::print_timestamp(*nanos).into(),
        Value::Duration(nanos) => time::print_duration(*nanos).into(),
        Value::Type(name) => (**name).into(),
    })
}

fn of_message(message: &Arc<DynamicMessage>) -> Result<Json, Failure> {
    let bytes = MessageRef::from(&**message).encode(Codec::Json);
    let bytes = bytes.map_err(|error| Failure(error.message().to_owned()))?;
    let mut json: Json =
        serde_json::from_slice(&bytes).map_err(|error| Failure(error.to_string()))?;
    let name = message.message_descriptor().full_name();
    if let Json::Object(members) = &mut json
        && !name.starts_with("google.protobuf.")
    {
        members.insert("@type".to_owned(), format!("type.googleapis.com/{name}").into());
    }
    Ok(json)
}

/// The value that JSON writes.
pub(in super::super) fn of_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Uint(number),
            (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(of_json).collect())),
        Json::Object(members) => {
            let entries = members.iter();
            Value::Map(Arc::new(
                entries.map(|(key, value)| (Value::text(key.as_str()), of_json(value))).collect(),
            ))
        }
    }
}

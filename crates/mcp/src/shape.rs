//! A message as JSON Schema: the arguments of a tool.

use serde_json::{Map, Value, json};
use tidewire_schema::{Field, Kind, MessageType, Scalar, Schema, Single};

/// The schema of a message's JSON; of what it nests, down to a depth that no request needs.
pub(crate) fn of(schema: &Schema, message: &str) -> Map<String, Value> {
    match schema.message_type(message) {
        Some(message) => object(message, DEPTH_MAX),
        None => Map::from_iter([("type".to_owned(), json!("object"))]),
    }
}

fn object(message: MessageType<'_>, depth: usize) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in message.fields() {
        properties.insert(field.json_name().to_owned(), property(field, depth));
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn property(field: Field<'_>, depth: usize) -> Value {
    let mut schema = match field.kind() {
        Kind::One(one) => single(one, depth),
        Kind::List(one) => json!({"type": "array", "items": single(one, depth)}),
        Kind::Map { value, .. } => {
            json!({"type": "object", "additionalProperties": single(value, depth)})
        }
    };
    let comment = field.comment().map(one_line).filter(|text| !text.is_empty());
    if let (Some(comment), Value::Object(schema)) = (comment, &mut schema) {
        schema.insert("description".to_owned(), Value::String(comment));
    }
    schema
}

fn single(one: Single<'_>, depth: usize) -> Value {
    match one {
        Single::Message(message) if depth > 0 => Value::Object(object(message, depth - 1)),
        Single::Message(_) => json!({"type": "object"}),
        Single::Enum(of) => {
            let names: Vec<_> = of.values().map(|(name, _)| name).collect();
            json!({"enum": names})
        }
        Single::Scalar(scalar) => match scalar {
            Scalar::Bool => json!({"type": "boolean"}),
            Scalar::Double | Scalar::Float => json!({"type": "number"}),
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => json!({"type": "integer"}),
            Scalar::Uint32 | Scalar::Fixed32 => json!({"type": "integer", "minimum": 0}),
            // JSON of protobuf prints them as text, since not every reader holds 64 bits.
            Scalar::Int64
            | Scalar::Uint64
            | Scalar::Sint64
            | Scalar::Fixed64
            | Scalar::Sfixed64 => json!({"type": ["integer", "string"]}),
            Scalar::String | Scalar::Bytes => json!({"type": "string"}),
        },
    }
}

/// A comment of several lines as one.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const DEPTH_MAX: usize = 4;

//! A request to fill in: JSON with every field of a message and a value that shows its form.
//!
//! | field | value |
//! |---|---|
//! | number, text, bytes, boolean | `0`, `"0"` for 64 bits (as proto JSON writes them), `""`, `false` |
//! | enum | its first value's name |
//! | repeated, map | one element |
//! | oneof | its first field only |
//! | message | its fields; `{}` where it is inside of itself |
//! | well-known message | an example of its form |

use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageIndex, ScalarType, SingularKind,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

/// A request of a message type to fill in, its fields in the order of the `.proto`.
pub fn template(pool: &DescriptorPool, type_name: &str) -> Option<Json> {
    let index = pool.message_index(type_name)?;
    Some(message(pool, index, &mut Vec::new()))
}

/// JSON whose objects keep their order.
#[derive(Debug)]
pub enum Json {
    /// A number, text, or what has no order.
    Value(Value),
    /// A list of one element.
    List(Box<Self>),
    /// Names and values.
    Object(Vec<(String, Self)>),
}

impl Json {
    /// As one line.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// With a line a field.
    pub fn lines(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(to),
            Self::List(item) => [item].serialize(to),
            Self::Object(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

fn message(pool: &DescriptorPool, index: MessageIndex, inside: &mut Vec<MessageIndex>) -> Json {
    let descriptor = pool.message(index);
    if let Some(example) = well_known(descriptor.full_name()) {
        return Json::Value(example);
    }
    if inside.contains(&index) || inside.len() >= DEPTH_MAX {
        return Json::Object(Vec::new());
    }
    inside.push(index);
    let mut object = Vec::new();
    let mut oneofs = Vec::new();
    for field in descriptor.fields() {
        let oneof = field.oneof_index();
        let is_synthetic = oneof
            .and_then(|at| descriptor.oneofs().get(usize::from(at)))
            .is_some_and(|oneof| oneof.is_synthetic());
        if let Some(oneof) = oneof.filter(|_| !is_synthetic) {
            if oneofs.contains(&oneof) {
                continue;
            }
            oneofs.push(oneof);
        }
        object.push((field.json_name().to_owned(), value(pool, field, inside)));
    }
    inside.pop();
    Json::Object(object)
}

fn value(pool: &DescriptorPool, field: &FieldDescriptor, inside: &mut Vec<MessageIndex>) -> Json {
    match field.kind() {
        FieldKind::Singular(kind) => singular(pool, kind, inside),
        FieldKind::List(kind) => match singular(pool, kind, inside) {
            // An empty message in a list is one too many where it is inside of itself.
            Json::Object(empty) if empty.is_empty() => Json::Value(json!([])),
            value => Json::List(Box::new(value)),
        },
        FieldKind::Map { key, value } => {
            let key = match key {
                ScalarType::String => "key",
                ScalarType::Bool => "false",
                _ => "0",
            };
            Json::Object(vec![(key.to_owned(), singular(pool, value, inside))])
        }
    }
}

fn singular(pool: &DescriptorPool, kind: SingularKind, inside: &mut Vec<MessageIndex>) -> Json {
    match kind {
        SingularKind::Message(index) => message(pool, index, inside),
        SingularKind::Enum(index) => {
            let values = pool.enumeration(index).values();
            Json::Value(values.first().map_or_else(|| json!(0), |value| json!(value.name())))
        }
        SingularKind::Scalar(scalar) => Json::Value(match scalar {
            ScalarType::Bool => json!(false),
            ScalarType::String | ScalarType::Bytes => json!(""),
            ScalarType::Double | ScalarType::Float => json!(0.0),
            ScalarType::Int64
            | ScalarType::Uint64
            | ScalarType::Fixed64
            | ScalarType::Sfixed64
            | ScalarType::Sint64 => json!("0"),
            _ => json!(0),
        }),
    }
}

fn well_known(full_name: &str) -> Option<Value> {
    Some(match full_name.strip_prefix("google.protobuf.")? {
        "Timestamp" => json!("1970-01-01T00:00:00Z"),
        "Duration" => json!("0s"),
        "FieldMask" | "StringValue" | "BytesValue" => json!(""),
        "Struct" | "Empty" => json!({}),
        "Value" => Value::Null,
        "ListValue" => json!([]),
        "Any" => json!({ "@type": "type.googleapis.com/package.Message" }),
        "DoubleValue" | "FloatValue" => json!(0.0),
        "Int64Value" | "UInt64Value" => json!("0"),
        "Int32Value" | "UInt32Value" => json!(0),
        "BoolValue" => json!(false),
        _ => return None,
    })
}

/// How deep a template goes.
const DEPTH_MAX: usize = 8;

//! JSON schemas of messages, as they are printed and read.

use std::collections::BTreeMap;

use buffa_descriptor::{
    DescriptorPool, EnumIndex, EnumValueDescriptor, FieldDescriptor, FieldKind, MessageIndex,
    ScalarType, SingularKind,
};
use serde_json::{Map, Value, json};

use super::reference;
use crate::field::{Kind, well_known};
use crate::options::{Int64, JsonOptions, printed_name};

/// The schemas of all messages and enums that are met, by full name.
#[derive(Default)]
pub(super) struct Schemas {
    known: BTreeMap<String, Value>,
    /// Messages that were met and whose fields were not looked at. They wait here, rather than on
    /// the stack: a schema can be one chain of thousands.
    waiting: Vec<MessageIndex>,
    /// Whether they are being looked at.
    busy: bool,
}

impl Schemas {
    pub(super) fn done(self) -> BTreeMap<String, Value> {
        self.known
    }

    /// The schema of a field.
    pub(super) fn of_field(
        &mut self,
        pool: &DescriptorPool,
        field: &FieldDescriptor,
        json: JsonOptions,
    ) -> Value {
        match field.kind() {
            FieldKind::Singular(kind) => self.of(pool, kind, json),
            FieldKind::List(kind) => json!({ "type": "array", "items": self.of(pool, kind, json) }),
            FieldKind::Map { value, .. } => {
                json!({ "type": "object", "additionalProperties": self.of(pool, value, json) })
            }
        }
    }

    /// The schema of one value, by reference where it has a name.
    pub(super) fn of(
        &mut self,
        pool: &DescriptorPool,
        kind: SingularKind,
        json: JsonOptions,
    ) -> Value {
        match kind {
            SingularKind::Scalar(scalar) => of_scalar(scalar, json),
            SingularKind::Enum(index) => {
                let name = pool.enumeration(index).full_name();
                if name == "google.protobuf.NullValue" {
                    return json!({ "type": "null" });
                }
                let schema = || of_enum(pool, index);
                self.known.entry(name.to_owned()).or_insert_with(schema);
                reference(name)
            }
            SingularKind::Message(index) => self.of_message(pool, index, json),
        }
    }

    fn of_message(
        &mut self,
        pool: &DescriptorPool,
        index: MessageIndex,
        json: JsonOptions,
    ) -> Value {
        let message = pool.message(index);
        let name = message.full_name();
        match (well_known(name), name) {
            (Some(Some(kind)), "google.protobuf.Timestamp") => {
                let mut schema = of_kind(pool, kind, json);
                schema["format"] = "date-time".into();
                return schema;
            }
            (Some(Some(kind)), _) => return of_kind(pool, kind, json),
            (Some(None), "google.protobuf.Value") => return json!({}),
            (Some(None), "google.protobuf.ListValue") => return json!({ "type": "array" }),
            (Some(None), _) => return json!({ "type": "object" }),
            (None, _) => {}
        }
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), Value::Null);
            self.waiting.push(index);
            self.look_at_waiting(pool, json);
        }
        reference(name)
    }

    fn look_at_waiting(&mut self, pool: &DescriptorPool, json: JsonOptions) {
        if std::mem::replace(&mut self.busy, true) {
            return;
        }
        while let Some(index) = self.waiting.pop() {
            let message = pool.message(index);
            let mut properties = Map::new();
            for field in message.fields() {
                let schema = self.of_field(pool, field, json);
                properties.insert(printed_name(field, json).to_owned(), schema);
            }
            let schema = json!({ "type": "object", "properties": properties });
            self.known.insert(message.full_name().to_owned(), schema);
        }
        self.busy = false;
    }
}

/// The schema of a value in a path or a query.
pub(super) fn of_kind(pool: &DescriptorPool, kind: Kind, json: JsonOptions) -> Value {
    match kind {
        Kind::Scalar(scalar) | Kind::Wrapper(scalar) => of_scalar(scalar, json),
        Kind::Enum(index) => of_enum(pool, index),
        Kind::Text(_) | Kind::FieldMask => json!({ "type": "string" }),
    }
}

fn of_enum(pool: &DescriptorPool, index: EnumIndex) -> Value {
    let values = pool.enumeration(index).values();
    let names: Vec<_> = values.iter().map(EnumValueDescriptor::name).collect();
    json!({ "type": "string", "enum": names })
}

fn of_scalar(scalar: ScalarType, json: JsonOptions) -> Value {
    use ScalarType as S;
    match scalar {
        S::String => json!({ "type": "string" }),
        S::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        S::Bool => json!({ "type": "boolean" }),
        // NaN and the infinities are strings.
        S::Float => json!({ "type": ["number", "string"], "format": "float" }),
        S::Double => json!({ "type": ["number", "string"], "format": "double" }),
        S::Uint32 | S::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        wide if is_64_bit(wide) => {
            let unsigned = matches!(wide, S::Uint64 | S::Fixed64);
            let format = if unsigned { "uint64" } else { "int64" };
            match json.int64 {
                Int64::Number => json!({ "type": ["integer", "string"], "format": format }),
                Int64::Text => json!({ "type": "string", "format": format }),
            }
        }
        _ => json!({ "type": "integer", "format": "int32" }),
    }
}

const fn is_64_bit(scalar: ScalarType) -> bool {
    use ScalarType as S;
    matches!(scalar, S::Int64 | S::Uint64 | S::Fixed64 | S::Sfixed64 | S::Sint64)
}

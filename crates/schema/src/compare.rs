//! Whether two values are the same, as proto JSON sees it.
//!
//! JSON is read as the kind of what it is compared with, so every spelling that reads to the same
//! value is equal: a 64-bit integer as text or number, an enum by name or number, bytes in either
//! alphabet with or without padding, a timestamp in any zone, the members of an `Any` in any order.
//! `NaN` is equal to itself, and minus zero to zero. Where a field is absent, `null` is equal, and
//! so is the default of a field without presence.

use std::cell::Cell;
use std::sync::Arc;

use buffa_descriptor::reflect::{DynamicMessage, Value as Raw};
use buffa_descriptor::{DescriptorPool, FieldKind, ScalarType, SingularKind};
use serde::de::DeserializeSeed;
use serde_json::Value as Json;
use tidewire_json::WellKnown;

use crate::FieldError;
use crate::json::{self, DEPTH_MAX, ELEMENT_MEMORY_MAX, Reader, UnknownMembers, parts_of_any};
use crate::map_key::parse_key;
use crate::message::{Message, MessageRef};
use crate::path::AsPath;
use crate::types::{Field, Kind};
use crate::value::Value;

impl<'a> MessageRef<'a> {
    /// Whether what is at a path is what a JSON value says.
    ///
    /// ```
    /// # use tidewire_schema::{Schema, Sources};
    /// # let folder = std::env::temp_dir().join("tidewire-compare-doctest");
    /// # std::fs::create_dir_all(&folder)?;
    /// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
    /// # message Item { int64 count = 1; bytes key = 2; string note = 3; optional int32 size = 4; }"#)?;
    /// use serde_json::json;
    /// let schema = Schema::from_folder(&folder)?;
    /// let item = schema.from_json("Item", &json!({"count": "3", "key": "+/8"}))?;
    /// assert!(item.matches("count", &json!(3))? && item.matches("count", &json!("3"))?);
    /// assert!(item.matches("key", &json!("-_8="))?);
    /// assert!(item.matches("note", &json!(""))? && item.matches("note", &json!(null))?);
    /// assert!(!item.matches("size", &json!(0))?, "absent is not zero where there is presence");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn matches(self, path: impl AsPath, json: &Json) -> Result<bool, FieldError> {
        let path = path.as_path()?;
        if let Some(value) = self.get(&*path)? {
            return Ok(value.matches(json));
        }
        if json.is_null() {
            return Ok(true);
        }
        let (last, before) = match path.steps().split_last() {
            Some((last, before)) => (last, before.len()),
            None => return Ok(false),
        };
        let owner = self.get(&path.up_to(before))?.and_then(Value::as_message);
        let field = owner.and_then(|owner| owner.message_type().field(last.text()));
        Ok(field.is_some_and(|field| is_default(field, json)))
    }
}

/// Whether JSON says what a field without presence has when nothing is set.
fn is_default(field: Field<'_>, json: &Json) -> bool {
    match field.kind() {
        _ if field.has_presence() => false,
        Kind::List(_) => json.as_array().is_some_and(Vec::is_empty),
        Kind::Map { .. } => json.as_object().is_some_and(serde_json::Map::is_empty),
        Kind::One(_) => {
            let budget = Cell::new(ELEMENT_MEMORY_MAX);
            let reader = Reader::new(field.message.pool, UnknownMembers::Refused, &budget);
            let read = reader.field(field.descriptor).deserialize(json);
            let FieldKind::Singular(kind) = field.descriptor.kind() else { return false };
            let default = default(field.message.pool, kind);
            matches!((read, default), (Ok(Some(read)), Some(default)) if same(&read, &default, 0))
        }
    }
}

/// The default of a kind; `None` for messages.
fn default(pool: &DescriptorPool, kind: SingularKind) -> Option<Raw> {
    use ScalarType as S;
    Some(match kind {
        SingularKind::Message(_) => return None,
        SingularKind::Enum(index) => Raw::EnumNumber(
            pool.enumeration(index).values().first().map_or(0, |value| value.number()),
        ),
        SingularKind::Scalar(scalar) => match scalar {
            S::Double => Raw::F64(0.0),
            S::Float => Raw::F32(0.0),
            S::Int64 | S::Sint64 | S::Sfixed64 => Raw::I64(0),
            S::Uint64 | S::Fixed64 => Raw::U64(0),
            S::Int32 | S::Sint32 | S::Sfixed32 => Raw::I32(0),
            S::Uint32 | S::Fixed32 => Raw::U32(0),
            S::Bool => Raw::Bool(false),
            S::String => Raw::String(String::new()),
            S::Bytes => Raw::Bytes(Vec::new()),
        },
    })
}

impl Value<'_> {
    /// Whether it is what a JSON value says.
    pub fn matches(self, json: &Json) -> bool {
        match self {
            Self::Message(message) => {
                let pool = message.pool();
                let index = message.0.message_index();
                let owner = message.message_type().full_name();
                if json.is_null() && WellKnown::of(owner) != Some(WellKnown::Value) {
                    return false;
                }
                json::read_tree(pool, index, json, UnknownMembers::Refused)
                    .is_ok_and(|read| same_message(message.0, &read, 0))
            }
            Self::List(list) => json.as_array().is_some_and(|items| {
                items.len() == list.len()
                    && list.iter().zip(items).all(|(value, item)| value.matches(item))
            }),
            Self::Map(map) => json.as_object().is_some_and(|entries| {
                // Two spellings of one key would hide that another is missing.
                let keys = entries.keys().map(|key| parse_key(map.key, key));
                let keys: Option<std::collections::BTreeSet<_>> = keys.collect();
                keys.is_some_and(|keys| keys.len() == map.len() && entries.len() == map.len())
                    && entries
                        .iter()
                        .all(|(key, item)| map.get(key).is_some_and(|value| value.matches(item)))
            }),
            Self::Enum(value) => {
                let kind = SingularKind::Enum(value.index);
                reads_as(value.pool, kind, json, &Raw::EnumNumber(value.number()))
            }
            _ => self.scalar_matches(json),
        }
    }

    fn scalar_matches(self, json: &Json) -> bool {
        let (kind, raw) = match self {
            Self::Bool(value) => (ScalarType::Bool, Raw::Bool(value)),
            Self::I32(value) => (ScalarType::Int32, Raw::I32(value)),
            Self::I64(value) => (ScalarType::Int64, Raw::I64(value)),
            Self::U32(value) => (ScalarType::Uint32, Raw::U32(value)),
            Self::U64(value) => (ScalarType::Uint64, Raw::U64(value)),
            Self::F32(value) => (ScalarType::Float, Raw::F32(value)),
            Self::F64(value) => (ScalarType::Double, Raw::F64(value)),
            Self::String(value) => return json.as_str() == Some(value),
            Self::Bytes(value) => (ScalarType::Bytes, Raw::Bytes(value.to_vec())),
            Self::Enum(_) | Self::Message(_) | Self::List(_) | Self::Map(_) => return false,
        };
        !json.is_null() && json::read_scalar(kind, json).is_ok_and(|read| same(&read, &raw, 0))
    }
}

fn reads_as(pool: &Arc<DescriptorPool>, kind: SingularKind, json: &Json, raw: &Raw) -> bool {
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let reader = Reader::new(pool, UnknownMembers::Refused, &budget);
    // An enum may hold numbers that its type does not name; then JSON may say them too.
    let open = Some(buffa::editions::EnumType::Open);
    reader.present(kind, open, json).is_ok_and(|read| same(&read, raw, 0))
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

/// The same type with the same fields, unknown ones included. `NaN` is equal to itself here.
impl PartialEq for MessageRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        same_message(self.0, other.0, 0) && self.0.unknown_fields() == other.0.unknown_fields()
    }
}

/// Whether two messages have the same fields, unknown ones aside.
fn same_message(a: &DynamicMessage, b: &DynamicMessage, depth: u32) -> bool {
    let a = MessageRef(a);
    let b = MessageRef(b);
    let owner = a.message_type();
    if owner != b.message_type() || depth > DEPTH_MAX {
        return false;
    }
    if WellKnown::of(owner.full_name()) == Some(WellKnown::Any) {
        return same_any(a.0, b.0, depth);
    }
    let count = |message: MessageRef<'_>| message.fields().count();
    count(a) == count(b)
        && a.fields().all(|(field, _)| {
            b.value_of(field).is_some()
                && match (a.0.field_by_number(field.number()), b.0.field_by_number(field.number()))
                {
                    (Some(a), Some(b)) => same(a, b, depth),
                    _ => false,
                }
        })
}

/// Whether two `Any`s hold the same: their bytes may differ in the order of fields.
fn same_any(a: &DynamicMessage, b: &DynamicMessage, depth: u32) -> bool {
    if parts_of_any(a) == parts_of_any(b) {
        return true;
    }
    match (a.unpack_any(), b.unpack_any()) {
        (Ok(a), Ok(b)) => same_message(&a, &b, depth + 1),
        _ => false,
    }
}

fn same(a: &Raw, b: &Raw, depth: u32) -> bool {
    match (a, b) {
        (Raw::F32(a), Raw::F32(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Raw::F64(a), Raw::F64(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Raw::Message(a), Raw::Message(b)) => same_message(a, b, depth + 1),
        (Raw::List(a), Raw::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, depth))
        }
        (Raw::Map(a), Raw::Map(b)) => {
            let pairs = a.entries().iter().zip(b.entries());
            a.len() == b.len()
                && pairs.into_iter().all(|(a, b)| a.0 == b.0 && same(&a.1, &b.1, depth))
        }
        (a, b) => a == b,
    }
}

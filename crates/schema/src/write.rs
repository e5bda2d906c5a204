//! Setting and clearing what is at a path.

use std::cell::Cell;
use std::sync::Arc;

use buffa::json_helpers as scalar;
use buffa_descriptor::reflect::{
    DynamicMessage, MapKey, MapValue, ReflectMessageMut as _, Value as Raw,
};
use buffa_descriptor::{DescriptorPool, FieldKind, ScalarType, SingularKind};
use serde::Serialize;
use tidewire_json::{NULL_VALUE, WellKnown};
use tidewire_service::Codec;

use crate::FieldError;
use crate::json::{DEPTH_MAX, ELEMENT_MEMORY_MAX, Reader, UnknownMembers};
use crate::map_key::parse_key;
use crate::path::{Path, Step};
use crate::types::MessageType;
use crate::value::Value;

/// Sets what is at a path.
///
/// # Errors
/// When the path leads nowhere, or the value does not fit.
pub(crate) fn set(
    message: &mut DynamicMessage,
    path: &Path,
    value: Value<'_>,
) -> Result<(), FieldError> {
    if path.steps().len() + depth(value) > DEPTH_MAX as usize {
        let why = format_args!("messages would nest deeper than {DEPTH_MAX}");
        return Err(FieldError::new(path, why));
    }
    Walk { path, at: 0 }.message(message, &mut Action::Set(value))
}

/// Clears what is at a path.
///
/// # Errors
/// When the path leads nowhere.
pub(crate) fn clear(message: &mut DynamicMessage, path: &Path) -> Result<(), FieldError> {
    Walk { path, at: 0 }.message(message, &mut Action::Clear)
}

/// How deep messages nest in a value.
fn depth(value: Value<'_>) -> usize {
    match value {
        Value::Message(message) => {
            1 + message.fields().map(|(_, value)| depth(value)).max().unwrap_or_default()
        }
        Value::List(list) => list.iter().map(depth).max().unwrap_or_default(),
        Value::Map(map) => map.iter().map(|(_, value)| depth(value)).max().unwrap_or_default(),
        _ => 0,
    }
}

/// What is done at the end of a path.
enum Action<'v> {
    Set(Value<'v>),
    Clear,
}

/// How far a path was followed.
#[derive(Clone, Copy)]
struct Walk<'p> {
    path: &'p Path,
    at: usize,
}

impl Walk<'_> {
    fn step(&self) -> Option<&Step> {
        self.path.steps().get(self.at)
    }

    const fn further(self) -> Self {
        Self { at: self.at + 1, ..self }
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.path.steps().len()
    }

    fn wrong(&self, why: impl std::fmt::Display) -> FieldError {
        FieldError::new(self.path.up_to(self.at + 1), why)
    }

    /// Follows a step into a message.
    fn message(
        self,
        message: &mut DynamicMessage,
        action: &mut Action<'_>,
    ) -> Result<(), FieldError> {
        let pool = Arc::clone(message.pool());
        let owner = MessageType { pool: &pool, index: message.message_index() };
        let step = self.step().ok_or_else(|| FieldError::new("", "the path is empty"))?;
        let known = WellKnown::of(owner.full_name());
        let (field, inner) = match known {
            Some(WellKnown::Struct | WellKnown::ListValue) => (owner.numbered(1), self),
            Some(WellKnown::Value) => (owner.numbered(value_member(step)), self),
            _ => (owner.field(step.text()), self.further()),
        };
        let field = field
            .ok_or_else(|| self.wrong(format_args!("{} has no such field", owner.full_name())))?;
        let descriptor = field.descriptor;
        let set = |message: &mut DynamicMessage, raw| {
            message.try_set(descriptor, raw).map_err(|why| self.wrong(why))
        };
        if inner.at > self.at && self.is_last() {
            return match action {
                Action::Clear => message.try_clear(descriptor).map_err(|why| self.wrong(why)),
                Action::Set(value) => {
                    let raw = fitted_field(&pool, descriptor.kind(), *value)
                        .map_err(|why| self.wrong(why))?;
                    set(message, raw)
                }
            };
        }
        if let Some(raw) = message.field_by_number_mut(descriptor.number()) {
            return inner.value(&pool, descriptor.kind(), raw, action);
        }
        if matches!(action, Action::Clear) {
            return Ok(());
        }
        // Made apart, so that what does not fit changes nothing.
        let mut raw = empty(&pool, descriptor.kind(), &inner)?;
        inner.value(&pool, descriptor.kind(), &mut raw, action)?;
        set(message, raw)
    }

    /// Follows a step into the value of a field.
    fn value(
        self,
        pool: &Arc<DescriptorPool>,
        kind: FieldKind,
        raw: &mut Raw,
        action: &mut Action<'_>,
    ) -> Result<(), FieldError> {
        match (kind, raw) {
            (FieldKind::Singular(_), Raw::Message(message)) => self.message(message, action),
            (FieldKind::List(kind), Raw::List(items)) => self.list(pool, kind, items, action),
            (FieldKind::Map { key, value }, Raw::Map(map)) => {
                let mut entries = std::mem::take(map).into_entries();
                let outcome = self.entries(pool, (key, value), &mut entries, action);
                *map = MapValue::from_entries(entries);
                outcome
            }
            _ => Err(self.wrong("what is before it has no fields")),
        }
    }

    fn list(
        self,
        pool: &Arc<DescriptorPool>,
        kind: SingularKind,
        items: &mut Vec<Raw>,
        action: &mut Action<'_>,
    ) -> Result<(), FieldError> {
        let index = self.step().and_then(Step::index).ok_or_else(|| self.wrong("not an index"))?;
        if index >= items.len() {
            match action {
                Action::Clear => return Ok(()),
                Action::Set(_) if index > items.len() => {
                    let len = items.len();
                    return Err(self.wrong(format_args!("the list has {len} elements")));
                }
                Action::Set(_) => {
                    let item = self.item(pool, kind, None, action)?;
                    items.extend(item);
                    return Ok(());
                }
            }
        }
        if self.is_last() && matches!(action, Action::Clear) {
            items.remove(index);
            return Ok(());
        }
        let Some(slot) = items.get_mut(index) else { return Ok(()) };
        if let Some(item) = self.item(pool, kind, Some(slot), action)? {
            *slot = item;
        }
        Ok(())
    }

    fn entries(
        self,
        pool: &Arc<DescriptorPool>,
        (key, kind): (ScalarType, SingularKind),
        entries: &mut Vec<(MapKey, Raw)>,
        action: &mut Action<'_>,
    ) -> Result<(), FieldError> {
        let text = self.step().map_or("", Step::text);
        let key = parse_key(key, text)
            .ok_or_else(|| self.wrong(format_args!("not a key of kind {key:?}")))?;
        let found = entries.iter().position(|(known, _)| *known == key);
        match (found, &action) {
            (None, Action::Clear) => Ok(()),
            (Some(index), Action::Clear) if self.is_last() => {
                entries.remove(index);
                Ok(())
            }
            (found, _) => {
                let slot = found.and_then(|index| entries.get_mut(index)).map(|entry| &mut entry.1);
                if let Some(item) = self.item(pool, kind, slot, action)? {
                    entries.push((key, item));
                }
                Ok(())
            }
        }
    }

    /// What an element becomes, or `None` where it was changed in its place.
    fn item(
        self,
        pool: &Arc<DescriptorPool>,
        kind: SingularKind,
        slot: Option<&mut Raw>,
        action: &mut Action<'_>,
    ) -> Result<Option<Raw>, FieldError> {
        if self.is_last() {
            let Action::Set(value) = action else { return Ok(None) };
            return fitted(pool, kind, *value).map(Some).map_err(|why| self.wrong(why));
        }
        let inner = self.further();
        let SingularKind::Message(index) = kind else {
            return Err(inner.wrong("what is before it has no fields"));
        };
        if let Some(Raw::Message(message)) = slot {
            return inner.message(message, action).map(|()| None);
        }
        let mut message = DynamicMessage::new(Arc::clone(pool), index);
        inner.message(&mut message, action)?;
        Ok(Some(Raw::Message(message)))
    }
}

/// The member of a `google.protobuf.Value` that a step goes into.
fn value_member(step: &Step) -> u32 {
    match step {
        Step::Key(key) if key.bytes().all(|byte| byte.is_ascii_digit()) => 6,
        _ => 5,
    }
}

/// What a field has before anything in it is set.
fn empty(pool: &Arc<DescriptorPool>, kind: FieldKind, walk: &Walk<'_>) -> Result<Raw, FieldError> {
    Ok(match kind {
        FieldKind::Singular(SingularKind::Message(index)) => {
            Raw::Message(DynamicMessage::new(Arc::clone(pool), index))
        }
        FieldKind::Singular(_) => return Err(walk.wrong("what is before it has no fields")),
        FieldKind::List(_) => Raw::List(Vec::new()),
        FieldKind::Map { .. } => Raw::Map(MapValue::new()),
    })
}

/// A value as a field holds it.
fn fitted_field(
    pool: &Arc<DescriptorPool>,
    kind: FieldKind,
    value: Value<'_>,
) -> Result<Raw, String> {
    match (kind, value) {
        (FieldKind::Singular(kind), value) => fitted(pool, kind, value),
        (FieldKind::List(kind), Value::List(list)) => list
            .iter()
            .map(|item| fitted(pool, kind, item))
            .collect::<Result<_, _>>()
            .map(Raw::List),
        (FieldKind::Map { key, value: kind }, Value::Map(map)) => {
            let entries = map.iter().map(|(name, item)| {
                let name = key_text(name);
                let parsed =
                    parse_key(key, &name).ok_or_else(|| format!("{name:?} is not a key of it"))?;
                Ok((parsed, fitted(pool, kind, item)?))
            });
            let entries: Result<Vec<_>, String> = entries.collect();
            Ok(Raw::Map(MapValue::from_entries(entries?)))
        }
        (FieldKind::List(_), _) => Err("it is a list".to_owned()),
        (FieldKind::Map { .. }, _) => Err("it is a map".to_owned()),
    }
}

fn key_text(key: Value<'_>) -> String {
    match key {
        Value::Bool(key) => key.to_string(),
        Value::I32(key) => key.to_string(),
        Value::I64(key) => key.to_string(),
        Value::U32(key) => key.to_string(),
        Value::U64(key) => key.to_string(),
        Value::String(key) => key.to_owned(),
        _ => String::new(),
    }
}

/// A value as an element of a kind holds it: as it is, or by way of its proto JSON form.
fn fitted(pool: &Arc<DescriptorPool>, kind: SingularKind, value: Value<'_>) -> Result<Raw, String> {
    use ScalarType as S;
    let raw = match value {
        Value::Bool(value) => Raw::Bool(value),
        Value::I32(value) => Raw::I32(value),
        Value::I64(value) => Raw::I64(value),
        Value::U32(value) => Raw::U32(value),
        Value::U64(value) => Raw::U64(value),
        Value::F32(value) => Raw::F32(value),
        Value::F64(value) => Raw::F64(value),
        Value::String(value) => Raw::String(value.to_owned()),
        Value::Bytes(value) => Raw::Bytes(value.to_vec()),
        Value::Enum(value) => {
            if named_alike(pool, kind, value) {
                return Ok(Raw::EnumNumber(value.number()));
            }
            let is_null = value.pool.enumeration(value.index).full_name() == NULL_VALUE;
            return match value.name() {
                Some(_) if is_null => by_json(pool, kind, &()),
                Some(name) => by_json(pool, kind, &name),
                None => by_json(pool, kind, &value.number()),
            };
        }
        Value::Message(message) => {
            if is_of_type(pool, kind, message.message_type().full_name()) {
                return Ok(Raw::Message(message.0.clone()));
            }
            let json = message.encode(Codec::Json).map_err(|why| why.message().to_owned())?;
            let tree: serde_json::Value =
                serde_json::from_slice(&json).map_err(|why| why.to_string())?;
            return by_json(pool, kind, &tree);
        }
        Value::List(_) | Value::Map(_) => return Err("it takes a single value".to_owned()),
    };
    match (kind, &raw) {
        (SingularKind::Scalar(to), raw) if holds(to, raw) => return Ok(raw.clone()),
        // Numbers of Rust are numbers, whatever their width; JSON would make text of wide ones.
        (SingularKind::Scalar(to), Raw::I64(number)) if to != S::String => {
            return by_json(pool, kind, number);
        }
        (SingularKind::Scalar(to), Raw::U64(number)) if to != S::String => {
            return by_json(pool, kind, number);
        }
        (SingularKind::Enum(_), Raw::I64(number)) => return by_json(pool, kind, number),
        (SingularKind::Enum(_), Raw::U64(number)) => return by_json(pool, kind, number),
        _ => {}
    }
    by_json(pool, kind, &json_of(&raw).map_err(|why| why.to_string())?)
}

/// The proto JSON of a scalar.
fn json_of(raw: &Raw) -> serde_json::Result<serde_json::Value> {
    use serde_json::value::Serializer;
    match raw {
        Raw::Bool(value) => value.serialize(Serializer),
        Raw::I32(value) => value.serialize(Serializer),
        Raw::U32(value) => value.serialize(Serializer),
        Raw::I64(value) => value.to_string().serialize(Serializer),
        Raw::U64(value) => value.to_string().serialize(Serializer),
        Raw::F32(value) => scalar::float::serialize(value, Serializer),
        Raw::F64(value) => scalar::double::serialize(value, Serializer),
        Raw::String(value) => value.serialize(Serializer),
        Raw::Bytes(value) => scalar::bytes::serialize(value, Serializer),
        // Not of scalars.
        Raw::EnumNumber(_) | Raw::Message(_) | Raw::List(_) | Raw::Map(_) => {
            ().serialize(Serializer)
        }
    }
}

/// Whether a scalar field holds a value as it is.
const fn holds(kind: ScalarType, raw: &Raw) -> bool {
    use ScalarType as S;
    matches!(
        (kind, raw),
        (S::Bool, Raw::Bool(_))
            | (S::Int32 | S::Sint32 | S::Sfixed32, Raw::I32(_))
            | (S::Int64 | S::Sint64 | S::Sfixed64, Raw::I64(_))
            | (S::Uint32 | S::Fixed32, Raw::U32(_))
            | (S::Uint64 | S::Fixed64, Raw::U64(_))
            | (S::Float, Raw::F32(_))
            | (S::Double, Raw::F64(_))
            | (S::String, Raw::String(_))
            | (S::Bytes, Raw::Bytes(_))
    )
}

fn named_alike(
    pool: &DescriptorPool,
    kind: SingularKind,
    value: crate::value::EnumValue<'_>,
) -> bool {
    let SingularKind::Enum(index) = kind else { return false };
    let to = pool.enumeration(index);
    to.full_name() == value.pool.enumeration(value.index).full_name()
}

fn is_of_type(pool: &DescriptorPool, kind: SingularKind, full_name: &str) -> bool {
    let SingularKind::Message(index) = kind else { return false };
    pool.message(index).full_name() == full_name
}

fn by_json(
    pool: &Arc<DescriptorPool>,
    kind: SingularKind,
    value: &impl Serialize,
) -> Result<Raw, String> {
    let tree = serde_json::to_value(value).map_err(|why| why.to_string())?;
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let reader = Reader::new(pool, UnknownMembers::Ignored, &budget);
    reader.present(kind, None, &tree).map_err(|why| why.to_string())
}

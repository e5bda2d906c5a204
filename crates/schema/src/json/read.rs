//! Reading a message from proto JSON.
//!
//! | in JSON | becomes |
//! |---|---|
//! | `null` | nothing, but a value in `google.protobuf.Value` and in a oneof's `NullValue` |
//! | a field twice, by either name; two members of a oneof | an error |
//! | a key of a map twice | the later entry |
//! | an enum | its number, by name or number; a closed enum has the numbers that it names |
//! | a field that the type does not have | nothing, or an error, as the caller says |

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use buffa::editions::EnumType as Openness;
use buffa::json_helpers as scalar;
use buffa_descriptor::reflect::{
    DynamicMessage, MapKey, MapValue, ReflectMessageMut as _, Value as Raw,
};
use buffa_descriptor::{
    DescriptorPool, EnumIndex, FieldDescriptor, FieldKind, MessageIndex, ScalarType, SingularKind,
};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use tidewire_json::WellKnown;

use super::{DEPTH_MAX, ELEMENT_MEMORY_MAX, well_known};
use crate::map_key::parse_key;
use crate::types::MessageType;

/// What becomes of members of a JSON object that name no field of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownMembers {
    /// Nothing, as generated code does.
    Ignored,
    /// An error that names the member.
    Refused,
}

/// Reads messages of a schema; a copy for each level.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'p> {
    pub(super) pool: &'p Arc<DescriptorPool>,
    pub(super) unknown: UnknownMembers,
    budget: &'p Cell<usize>,
    depth: u32,
}

impl<'p> Reader<'p> {
    pub(crate) fn new(
        pool: &'p Arc<DescriptorPool>,
        unknown: UnknownMembers,
        budget: &'p Cell<usize>,
    ) -> Self {
        Self { pool, unknown, budget, depth: DEPTH_MAX }
    }

    /// Reads a message of a type.
    pub(crate) fn message(self, index: MessageIndex) -> MessageSeed<'p> {
        MessageSeed { reader: self, index }
    }

    /// A message of a type without fields.
    pub(super) fn empty(self, index: MessageIndex) -> DynamicMessage {
        DynamicMessage::new(Arc::clone(self.pool), index)
    }

    /// One message deeper.
    pub(super) fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth
            .ok_or_else(|| E::custom(format_args!("messages nest deeper than {DEPTH_MAX}")))?;
        Ok(Self { depth, ..self })
    }

    /// Pays for one more element of a list or a map.
    fn pay<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.budget.get().checked_sub(bytes).ok_or_else(|| {
            E::custom(format_args!("lists and maps take over {ELEMENT_MEMORY_MAX} bytes of memory"))
        })?;
        self.budget.set(left);
        Ok(())
    }

    /// One value that is not `null`.
    pub(crate) fn present<'de, D: Deserializer<'de>>(
        self,
        kind: SingularKind,
        openness: Option<Openness>,
        deserializer: D,
    ) -> Result<Raw, D::Error> {
        match kind {
            SingularKind::Scalar(kind) => read_scalar(kind, deserializer),
            SingularKind::Enum(index) => deserializer
                .deserialize_any(EnumVisitor { pool: self.pool, index, openness })
                .map(Raw::EnumNumber),
            SingularKind::Message(index) => {
                self.deeper()?.message(index).deserialize(deserializer).map(Raw::Message)
            }
        }
    }

    /// The value of a field; `None` where it says that there is none.
    pub(crate) fn field(self, field: &'p FieldDescriptor) -> FieldSeed<'p> {
        FieldSeed { reader: self, field }
    }
}

pub(crate) fn read_scalar<'de, D: Deserializer<'de>>(
    kind: ScalarType,
    deserializer: D,
) -> Result<Raw, D::Error> {
    use ScalarType as S;
    Ok(match kind {
        S::Double => Raw::F64(scalar::double::deserialize(deserializer)?),
        S::Float => Raw::F32(scalar::float::deserialize(deserializer)?),
        S::Int64 | S::Sint64 | S::Sfixed64 => Raw::I64(scalar::int64::deserialize(deserializer)?),
        S::Uint64 | S::Fixed64 => Raw::U64(scalar::uint64::deserialize(deserializer)?),
        S::Int32 | S::Sint32 | S::Sfixed32 => Raw::I32(scalar::int32::deserialize(deserializer)?),
        S::Uint32 | S::Fixed32 => Raw::U32(scalar::uint32::deserialize(deserializer)?),
        S::Bool => Raw::Bool(scalar::proto_bool::deserialize(deserializer)?),
        S::String => Raw::String(scalar::proto_string::deserialize(deserializer)?),
        S::Bytes => Raw::Bytes(scalar::bytes::deserialize(deserializer)?),
    })
}

/// A message of which one field is read.
#[derive(Clone, Copy)]
pub(crate) struct Part<'p> {
    pub(crate) reader: Reader<'p>,
    pub(crate) index: MessageIndex,
    pub(crate) field: &'p FieldDescriptor,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { reader, index, field } = self;
        let mut message = reader.empty(index);
        if let Some(value) = reader.field(field).deserialize(deserializer)? {
            message.try_set(field, value).map_err(D::Error::custom)?;
        }
        Ok(message)
    }
}

/// A message of a type.
#[derive(Clone, Copy)]
pub(crate) struct MessageSeed<'p> {
    reader: Reader<'p>,
    index: MessageIndex,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { reader, index } = self;
        match WellKnown::of(reader.pool.message(index).full_name()) {
            Some(known) => well_known::read(known, reader, index, deserializer),
            None => deserializer.deserialize_map(MessageVisitor { reader, index }),
        }
    }
}

/// The JSON object of a message without a special form.
struct MessageVisitor<'p> {
    reader: Reader<'p>,
    index: MessageIndex,
}

impl<'de> Visitor<'de> for MessageVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of {}", self.reader.pool.message(self.index).full_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { reader, index } = self;
        let mut message = reader.empty(index);
        let owner = MessageType { pool: reader.pool, index };
        let mut seen = BTreeSet::new();
        let mut seen_oneofs = BTreeSet::new();
        while let Some(name) = map.next_key_seed(Name { owner })? {
            let field = match name {
                ObjectKey::Field(field) => field,
                ObjectKey::Unknown(name) if reader.unknown == UnknownMembers::Refused => {
                    return Err(A::Error::custom(format_args!(
                        "unknown field {name:?} on message {}",
                        owner.full_name()
                    )));
                }
                ObjectKey::Unknown(_) => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value_seed(reader.field(field))?;
            if !seen.insert(field.number()) {
                return Err(A::Error::custom(format_args!("{} occurs twice", field.name())));
            }
            let Some(value) = value else { continue };
            if let Some(oneof) = field.oneof_index()
                && !seen_oneofs.insert(oneof)
            {
                let oneofs = owner.descriptor().oneofs();
                let name = oneofs.get(usize::from(oneof)).map_or("", |oneof| oneof.name());
                return Err(A::Error::custom(format_args!("two members of oneof {name} are set")));
            }
            message.try_set(field, value).map_err(A::Error::custom)?;
        }
        Ok(message)
    }
}

/// A key of a message's JSON object.
enum ObjectKey<'p> {
    Field(&'p FieldDescriptor),
    Unknown(String),
}

struct Name<'p> {
    owner: MessageType<'p>,
}

impl<'de, 'p> DeserializeSeed<'de> for Name<'p> {
    type Value = ObjectKey<'p>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Name<'p> {
    type Value = ObjectKey<'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if let Some(field) = self.owner.field(name) {
            return Ok(ObjectKey::Field(field.descriptor));
        }
        let extension = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match extension.and_then(|name| self.owner.pool.extension_by_name(name)) {
            Some(_) => Err(E::custom(format_args!(
                "{name} is not an extension of {}",
                self.owner.full_name()
            ))),
            None => Ok(ObjectKey::Unknown(name.to_owned())),
        }
    }
}

/// The value of a field; `None` where it says that there is none.
pub(crate) struct FieldSeed<'p> {
    reader: Reader<'p>,
    field: &'p FieldDescriptor,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Option<Raw>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { reader, field } = self;
        let one = |kind| ValueSeed { reader, kind, openness: field.enum_type() };
        match field.kind() {
            FieldKind::Singular(kind) => {
                let null = null_of(reader.pool, kind, field);
                deserializer.deserialize_option(Nullable { one: one(kind), null })
            }
            FieldKind::List(kind) => deserializer.deserialize_any(ListVisitor(one(kind))),
            FieldKind::Map { key, value } => {
                deserializer.deserialize_any(EntriesVisitor { key, one: one(value) })
            }
        }
    }
}

/// What `null` is for a singular field.
fn null_of(pool: &Arc<DescriptorPool>, kind: SingularKind, field: &FieldDescriptor) -> Option<Raw> {
    match kind {
        SingularKind::Message(index) => well_known::null(pool, index).map(Raw::Message),
        SingularKind::Enum(index) => (field.oneof_index().is_some()
            && pool.enumeration(index).full_name() == "google.protobuf.NullValue")
            .then_some(Raw::EnumNumber(0)),
        SingularKind::Scalar(_) => None,
    }
}

/// One value, of a field, a list or a map.
#[derive(Clone, Copy)]
struct ValueSeed<'p> {
    reader: Reader<'p>,
    kind: SingularKind,
    openness: Option<Openness>,
}

impl ValueSeed<'_> {
    /// An element of a list or a map: `null` is not allowed, except where the type has a `null`.
    fn null(self) -> Option<Raw> {
        match self.kind {
            SingularKind::Message(index) => {
                well_known::null(self.reader.pool, index).map(Raw::Message)
            }
            SingularKind::Enum(index) => {
                let name = self.reader.pool.enumeration(index).full_name();
                (name == "google.protobuf.NullValue").then_some(Raw::EnumNumber(0))
            }
            SingularKind::Scalar(_) => None,
        }
    }
}

/// A value, or what `null` is in its place.
struct Nullable<'p> {
    one: ValueSeed<'p>,
    null: Option<Raw>,
}

impl<'de> Visitor<'de> for Nullable<'_> {
    type Value = Option<Raw>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.null)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let ValueSeed { reader, kind, openness } = self.one;
        reader.present(kind, openness, deserializer).map(Some)
    }
}

/// An element of a list or a value of a map.
struct Item<'p>(ValueSeed<'p>);

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Raw;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let nullable = Nullable { null: self.0.null(), one: self.0 };
        let value = deserializer.deserialize_option(nullable)?;
        value.ok_or_else(|| D::Error::custom("null is not an element"))
    }
}

struct ListVisitor<'p>(ValueSeed<'p>);

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Option<Raw>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Item(self.0))? {
            self.0.reader.pay(size_of::<Raw>())?;
            items.push(item);
        }
        Ok(Some(Raw::List(items)))
    }
}

struct EntriesVisitor<'p> {
    key: ScalarType,
    one: ValueSeed<'p>,
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = Option<Raw>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let parsed = parse_key(self.key, &key).ok_or_else(|| {
                A::Error::custom(format_args!("{key:?} is not a key of kind {:?}", self.key))
            })?;
            let value = map.next_value_seed(Item(self.one))?;
            self.one.reader.pay(size_of::<MapKey>() + size_of::<Raw>())?;
            entries.push((parsed, value));
        }
        Ok(Some(Raw::Map(MapValue::from_entries(entries))))
    }
}

/// An enum, by name or number.
struct EnumVisitor<'p> {
    pool: &'p DescriptorPool,
    index: EnumIndex,
    openness: Option<Openness>,
}

impl Visitor<'_> for EnumVisitor<'_> {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {}", self.pool.enumeration(self.index).full_name())
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
        let known = self.pool.enumeration(self.index);
        let value = known.value_by_name(name).ok_or_else(|| {
            E::custom(format_args!("{} has no value {name:?}", known.full_name()))
        })?;
        Ok(value.number())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
        let known = self.pool.enumeration(self.index);
        let closed = self.openness.unwrap_or_else(|| known.enum_type()) == Openness::Closed;
        let fits = i32::try_from(number).ok().filter(|n| !closed || known.value(*n).is_some());
        fits.ok_or_else(|| E::custom(format_args!("{} has no value {number}", known.full_name())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

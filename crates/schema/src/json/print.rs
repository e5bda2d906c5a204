//! Printing a message as proto JSON, with the text of generated code unless a style says otherwise.
//!
//! Order: fields as declared, then the set member of each oneof, then extensions. How deep messages
//! nest is bounded, through `Any` as well: its payload is decoded here.

use std::sync::Arc;

use buffa::json_helpers as scalar;
use buffa_descriptor::reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value as Raw};
use buffa_descriptor::{DescriptorPool, EnumIndex, FieldKind, ScalarType, SingularKind};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{DEPTH_MAX, well_known};
use crate::message::MessageRef;
use crate::types::{Field, MessageType};
use crate::well_known::WellKnown;

/// The enum whose only value is `null`.
const NULL_VALUE: &str = "google.protobuf.NullValue";

/// How JSON is printed; the default is canonical proto JSON, the text that generated code prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonStyle {
    proto_names: bool,
    defaults: bool,
    numbers: bool,
    enum_numbers: bool,
}

impl JsonStyle {
    /// Names of fields as in the `.proto` instead of `lowerCamelCase`.
    #[must_use]
    pub const fn with_proto_names(mut self) -> Self {
        self.proto_names = true;
        self
    }

    /// Fields without presence are printed though they have their default value: `0`, `""`, `[]`.
    #[must_use]
    pub const fn with_defaults(mut self) -> Self {
        self.defaults = true;
        self
    }

    /// 64-bit integers are numbers where a double holds them exactly, within ±(2⁵³ − 1).
    #[must_use]
    pub const fn with_int64_as_numbers(mut self) -> Self {
        self.numbers = true;
        self
    }

    /// Enums are numbers instead of names.
    #[must_use]
    pub const fn with_enums_as_numbers(mut self) -> Self {
        self.enum_numbers = true;
        self
    }
}

/// A message about to be printed.
#[derive(Clone, Copy)]
pub(crate) struct Printed<'a> {
    pub(super) message: &'a DynamicMessage,
    pub(super) printer: Printer,
}

/// A style, and how much deeper messages may nest.
#[derive(Clone, Copy)]
pub(super) struct Printer {
    style: JsonStyle,
    pub(super) depth: u32,
}

impl Printer {
    /// One message deeper.
    pub(super) fn deeper<E: serde::ser::Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| {
            E::custom(format_args!("messages nest deeper than {DEPTH_MAX}, Any included"))
        })?;
        Ok(Self { depth, ..self })
    }

    pub(super) const fn element<'a>(
        self,
        pool: &'a Arc<DescriptorPool>,
        kind: SingularKind,
        value: &'a Raw,
    ) -> Element<'a> {
        Element { printer: self, pool, kind, value }
    }
}

impl<'a> Printed<'a> {
    pub(crate) fn new(message: MessageRef<'a>, style: JsonStyle) -> Self {
        Self { message: message.0, printer: Printer { style, depth: DEPTH_MAX } }
    }

    /// The members of the JSON object of a message that has no form of its own.
    pub(super) fn members<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        let message_type = MessageRef(self.message).message_type();
        for field in message_type.fields().filter(|field| field.oneof().is_none()) {
            self.member(map, field)?;
        }
        for oneof in message_type.oneofs() {
            for field in oneof.fields().filter(|field| self.message.has(field.descriptor)) {
                self.member(map, field)?;
            }
        }
        for field in message_type.extensions() {
            self.member(map, field)?;
        }
        Ok(())
    }

    fn member<M: SerializeMap>(self, map: &mut M, field: Field<'a>) -> Result<(), M::Error> {
        let Printer { style, .. } = self.printer;
        let name = match (style.proto_names, field.extension) {
            (true, None) => field.name(),
            _ => field.json_name(),
        };
        let value = self.message.field_by_number(field.number());
        match value.filter(|value| is_printed(field, value, self.message)) {
            Some(value) => {
                map.serialize_entry(name, &FieldValue { printer: self.printer, field, value })
            }
            None if style.defaults && !field.has_presence() && field.extension.is_none() => {
                map.serialize_entry(name, &Default { printer: self.printer, field })
            }
            None => Ok(()),
        }
    }
}

/// Whether a field that is there is printed. Zero is not, where it is the same as absent; minus zero
/// is the same in JSON, though protobuf sends it.
fn is_printed(field: Field<'_>, value: &Raw, message: &DynamicMessage) -> bool {
    let is_zero = match value {
        Raw::F32(value) => *value == 0.0,
        Raw::F64(value) => *value == 0.0,
        _ => false,
    };
    message.has(field.descriptor) && (field.has_presence() || !is_zero)
}

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.message.message_descriptor().full_name();
        if let Some(known) = WellKnown::of(name) {
            return well_known::print(known, *self, serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        self.members(&mut map)?;
        map.end()
    }
}

/// A field by itself: its value, or what stands in for it.
pub(crate) struct PrintedField<'a> {
    printed: Printed<'a>,
    number: u32,
}

impl<'a> PrintedField<'a> {
    pub(crate) fn new(message: MessageRef<'a>, number: u32, style: JsonStyle) -> Self {
        Self { printed: Printed::new(message, style), number }
    }
}

impl Serialize for PrintedField<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Printed { message, printer } = self.printed;
        let field = MessageRef(message).message_type().numbered(self.number);
        let Some(field) = field else { return serializer.serialize_unit() };
        match message.field_by_number(self.number).filter(|_| message.has(field.descriptor)) {
            Some(value) => FieldValue { printer, field, value }.serialize(serializer),
            None if field.has_presence() => serializer.serialize_unit(),
            None => Default { printer, field }.serialize(serializer),
        }
    }
}

/// The value of a field.
struct FieldValue<'a> {
    printer: Printer,
    field: Field<'a>,
    value: &'a Raw,
}

impl Serialize for FieldValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let MessageType { pool, .. } = self.field.message;
        let element = |kind, value| self.printer.element(pool, kind, value);
        match (self.field.descriptor.kind(), self.value) {
            // The member of a oneof is null whatever its number, as generated code has it.
            (FieldKind::Singular(SingularKind::Enum(index)), _)
                if self.field.oneof().is_some()
                    && pool.enumeration(index).full_name() == NULL_VALUE =>
            {
                serializer.serialize_unit()
            }
            (FieldKind::Singular(kind), value) => element(kind, value).serialize(serializer),
            (FieldKind::List(kind), Raw::List(items)) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&element(kind, item))?;
                }
                list.end()
            }
            (FieldKind::Map { value: kind, .. }, Raw::Map(entries)) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&Key(key), &element(kind, value))?;
                }
                map.end()
            }
            _ => Err(S::Error::custom("a field holds what its kind does not allow")),
        }
    }
}

/// The key of a map: text, whatever its kind.
struct Key<'a>(&'a MapKey);

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MapKey::Bool(key) => serializer.collect_str(key),
            MapKey::I32(key) => serializer.collect_str(key),
            MapKey::I64(key) => serializer.collect_str(key),
            MapKey::U32(key) => serializer.collect_str(key),
            MapKey::U64(key) => serializer.collect_str(key),
            MapKey::String(key) => serializer.serialize_str(key),
        }
    }
}

/// One value: of a field, a list or a map.
pub(crate) struct Element<'a> {
    printer: Printer,
    pool: &'a Arc<DescriptorPool>,
    kind: SingularKind,
    value: &'a Raw,
}

impl<'a> Element<'a> {
    /// A value by itself, in the default style.
    pub(crate) fn new(pool: &'a Arc<DescriptorPool>, kind: SingularKind, value: &'a Raw) -> Self {
        let printer = Printer { style: JsonStyle::default(), depth: DEPTH_MAX };
        printer.element(pool, kind, value)
    }
}

impl Serialize for Element<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Raw::Bool(value) => serializer.serialize_bool(*value),
            Raw::I32(value) => serializer.serialize_i32(*value),
            Raw::U32(value) => serializer.serialize_u32(*value),
            Raw::I64(value) if self.printer.style.numbers && is_safe(value.unsigned_abs()) => {
                serializer.serialize_i64(*value)
            }
            Raw::U64(value) if self.printer.style.numbers && is_safe(*value) => {
                serializer.serialize_u64(*value)
            }
            Raw::I64(value) => serializer.collect_str(value),
            Raw::U64(value) => serializer.collect_str(value),
            Raw::F32(value) => scalar::float::serialize(value, serializer),
            Raw::F64(value) => scalar::double::serialize(value, serializer),
            Raw::String(value) => serializer.serialize_str(value),
            Raw::Bytes(value) => scalar::bytes::serialize(value, serializer),
            Raw::EnumNumber(number) => match self.kind {
                SingularKind::Enum(index) => self.enumeration(index, *number, serializer),
                _ => serializer.serialize_i32(*number),
            },
            Raw::Message(message) => {
                Printed { message, printer: self.printer.deeper()? }.serialize(serializer)
            }
            Raw::List(_) | Raw::Map(_) => {
                Err(S::Error::custom("a field holds what its kind does not allow"))
            }
        }
    }
}

impl Element<'_> {
    fn enumeration<S: Serializer>(
        &self,
        index: EnumIndex,
        number: i32,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let known = self.pool.enumeration(index);
        if number == 0 && known.full_name() == NULL_VALUE {
            return serializer.serialize_unit();
        }
        match known.value(number) {
            Some(value) if !self.printer.style.enum_numbers => {
                serializer.serialize_str(value.name())
            }
            _ => serializer.serialize_i32(number),
        }
    }
}

const fn is_safe(magnitude: u64) -> bool {
    magnitude < 1 << 53
}

/// What a field without presence has when nothing is set.
struct Default<'a> {
    printer: Printer,
    field: Field<'a>,
}

impl Serialize for Default<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = match self.field.descriptor.kind() {
            FieldKind::List(_) => return serializer.serialize_seq(Some(0))?.end(),
            FieldKind::Map { .. } => return serializer.serialize_map(Some(0))?.end(),
            FieldKind::Singular(kind) => kind,
        };
        let pool = self.field.message.pool;
        match default(pool, kind) {
            Some(value) => self.printer.element(pool, kind, &value).serialize(serializer),
            None => serializer.serialize_unit(),
        }
    }
}

/// The default of a kind; `None` for messages.
pub(crate) fn default(pool: &DescriptorPool, kind: SingularKind) -> Option<Raw> {
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

//! The types of fields, by their numbers in `google.protobuf.FieldDescriptorProto.Type`.

use buffa::editions::FieldPresence;
use buffa_descriptor::{FieldDescriptor, FieldKind, ScalarType, SingularKind};

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Double = 1,
    Float = 2,
    Int64 = 3,
    Uint64 = 4,
    Int32 = 5,
    Fixed64 = 6,
    Fixed32 = 7,
    Bool = 8,
    String = 9,
    Group = 10,
    Message = 11,
    Bytes = 12,
    Uint32 = 13,
    Enum = 14,
    Sfixed32 = 15,
    Sfixed64 = 16,
    Sint32 = 17,
    Sint64 = 18,
}

impl Kind {
    pub(super) fn of_scalar(scalar: ScalarType) -> Self {
        match scalar {
            ScalarType::Double => Self::Double,
            ScalarType::Float => Self::Float,
            ScalarType::Int64 => Self::Int64,
            ScalarType::Uint64 => Self::Uint64,
            ScalarType::Int32 => Self::Int32,
            ScalarType::Fixed64 => Self::Fixed64,
            ScalarType::Fixed32 => Self::Fixed32,
            ScalarType::Bool => Self::Bool,
            ScalarType::String => Self::String,
            ScalarType::Bytes => Self::Bytes,
            ScalarType::Uint32 => Self::Uint32,
            ScalarType::Sfixed32 => Self::Sfixed32,
            ScalarType::Sfixed64 => Self::Sfixed64,
            ScalarType::Sint32 => Self::Sint32,
            ScalarType::Sint64 => Self::Sint64,
        }
    }

    pub(super) fn of_value(kind: SingularKind, delimited: bool) -> Self {
        match kind {
            SingularKind::Scalar(scalar) => Self::of_scalar(scalar),
            SingularKind::Enum(_) => Self::Enum,
            SingularKind::Message(_) if delimited => Self::Group,
            SingularKind::Message(_) => Self::Message,
        }
    }

    /// The type of a field, or of its items; a map is a list of messages.
    pub(super) fn of_field(field: &FieldDescriptor) -> Self {
        match field.kind() {
            FieldKind::Singular(kind) | FieldKind::List(kind) => {
                Self::of_value(kind, field.is_delimited())
            }
            FieldKind::Map { .. } => Self::Message,
        }
    }

    pub(super) fn is_message(self) -> bool {
        matches!(self, Self::Message | Self::Group)
    }

    /// The wire type of one value.
    pub(super) fn wire(self) -> u8 {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => 1,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => 5,
            Self::String | Self::Bytes | Self::Message => 2,
            Self::Group => 3,
            _ => 0,
        }
    }

    /// The name of its rules in `buf.validate.FieldRules`, and their number there.
    pub(super) fn rules(self) -> Option<(u32, &'static str)> {
        Some(match self {
            Self::Float => (1, "float"),
            Self::Double => (2, "double"),
            Self::Int32 => (3, "int32"),
            Self::Int64 => (4, "int64"),
            Self::Uint32 => (5, "uint32"),
            Self::Uint64 => (6, "uint64"),
            Self::Sint32 => (7, "sint32"),
            Self::Sint64 => (8, "sint64"),
            Self::Fixed32 => (9, "fixed32"),
            Self::Fixed64 => (10, "fixed64"),
            Self::Sfixed32 => (11, "sfixed32"),
            Self::Sfixed64 => (12, "sfixed64"),
            Self::Bool => (13, "bool"),
            Self::String => (14, "string"),
            Self::Bytes => (15, "bytes"),
            Self::Enum => (16, "enum"),
            Self::Group | Self::Message => return None,
        })
    }

    /// The number that a wire value stands for.
    #[inline]
    pub(super) fn integer(self, bits: u64) -> i128 {
        match self {
            Self::Int64 | Self::Sfixed64 => i128::from(bits.cast_signed()),
            Self::Int32 | Self::Enum | Self::Sfixed32 => i128::from((bits as u32).cast_signed()),
            Self::Uint32 | Self::Fixed32 => i128::from(bits as u32),
            Self::Sint32 => {
                let bits = bits as u32;
                i128::from((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
            }
            Self::Sint64 => i128::from((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()),
            Self::Bool => i128::from(bits != 0),
            _ => i128::from(bits),
        }
    }

    /// The number with a fraction that a wire value stands for.
    #[inline]
    pub(super) fn float(self, bits: u64) -> f64 {
        match self {
            Self::Float => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Double | Self::Float)
    }
}

/// Whether a field tells "not set" from "set to its default".
pub(super) fn has_presence(field: &FieldDescriptor) -> bool {
    match field.kind() {
        FieldKind::Singular(SingularKind::Message(_)) => true,
        FieldKind::Singular(_) => {
            field.presence() != FieldPresence::Implicit || field.oneof_index().is_some()
        }
        FieldKind::List(_) | FieldKind::Map { .. } => false,
    }
}

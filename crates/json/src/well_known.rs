//! The types of `google.protobuf` with a special JSON form.

use buffa_descriptor::{DescriptorPool, MessageIndex, ScalarType};

/// A type with a special JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WellKnown {
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `Duration`.
    Duration,
    /// `FieldMask`.
    FieldMask,
    /// `Empty`.
    Empty,
    /// `Struct`.
    Struct,
    /// `Value`.
    Value,
    /// `ListValue`.
    ListValue,
    /// `Any`.
    Any,
    /// A wrapper, whose JSON is that of its scalar.
    Wrapper(ScalarType),
}

impl WellKnown {
    /// The form of a type, by its full name.
    pub fn of(full_name: &str) -> Option<Self> {
        use ScalarType as S;
        Some(match full_name.strip_prefix("google.protobuf.")? {
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "Empty" => Self::Empty,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "ListValue" => Self::ListValue,
            "Any" => Self::Any,
            "DoubleValue" => Self::Wrapper(S::Double),
            "FloatValue" => Self::Wrapper(S::Float),
            "Int64Value" => Self::Wrapper(S::Int64),
            "UInt64Value" => Self::Wrapper(S::Uint64),
            "Int32Value" => Self::Wrapper(S::Int32),
            "UInt32Value" => Self::Wrapper(S::Uint32),
            "BoolValue" => Self::Wrapper(S::Bool),
            "StringValue" => Self::Wrapper(S::String),
            "BytesValue" => Self::Wrapper(S::Bytes),
            _ => return None,
        })
    }

    /// Whether an `Any` holds its JSON under `value` rather than beside `@type`.
    pub fn is_value_of_any(self) -> bool {
        self != Self::Empty
    }
}

/// The members of the oneof of a `google.protobuf.Value`.
pub const NULL: u32 = 1;
/// A number.
pub const NUMBER: u32 = 2;
/// Text.
pub const TEXT: u32 = 3;
/// A bool.
pub const BOOL: u32 = 4;
/// An object.
pub const STRUCT: u32 = 5;
/// An array.
pub const LIST: u32 = 6;

/// The type that the URL of an `Any` names: what follows its last slash.
pub fn type_of_url(pool: &DescriptorPool, url: &str) -> Option<MessageIndex> {
    pool.message_index(url.rsplit_once('/')?.1)
}

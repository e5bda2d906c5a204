//! The types of `google.protobuf` with a JSON form of their own.

use buffa_descriptor::ScalarType;

/// A type with a JSON form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WellKnown {
    Timestamp,
    Duration,
    FieldMask,
    Empty,
    Struct,
    Value,
    ListValue,
    Any,
    /// A wrapper, whose JSON is that of its scalar.
    Wrapper(ScalarType),
}

impl WellKnown {
    pub(crate) fn of(full_name: &str) -> Option<Self> {
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
    pub(crate) fn is_value_of_any(self) -> bool {
        self != Self::Empty
    }
}

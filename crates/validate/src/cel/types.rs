//! The types of expressions, and which of them a field or a constant has.

use std::fmt;
use std::sync::Arc;

use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageIndex, ScalarType, SingularKind,
};

use super::value::{Value, is_wrapper};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Message(MessageIndex, Arc<str>),
    /// A value that may be null.
    Wrapper(Box<Self>),
    Timestamp,
    Duration,
    /// A type, which is a value too.
    Name,
}

impl Type {
    /// The type of a field's value.
    pub(in super::super) fn of_field(pool: &DescriptorPool, field: &FieldDescriptor) -> Self {
        match field.kind() {
            FieldKind::Singular(kind) => Self::of_value(pool, kind),
            FieldKind::List(kind) => Self::List(Box::new(Self::of_value(pool, kind))),
            FieldKind::Map { key, value } => Self::Map(
                Box::new(Self::of_value(pool, SingularKind::Scalar(key))),
                Box::new(Self::of_value(pool, value)),
            ),
        }
    }

    /// The same, with nothing known of what is in a list or map: for rules that are for all of
    /// them.
    pub(in super::super) fn of_any_field(pool: &DescriptorPool, field: &FieldDescriptor) -> Self {
        match Self::of_field(pool, field) {
            Self::List(_) => Self::List(Box::new(Self::Dyn)),
            Self::Map(..) => Self::Map(Box::new(Self::Dyn), Box::new(Self::Dyn)),
            other => other,
        }
    }

    /// The type of one value.
    pub(in super::super) fn of_value(pool: &DescriptorPool, kind: SingularKind) -> Self {
        match kind {
            SingularKind::Enum(_) => Self::Int,
            SingularKind::Message(index) => Self::of_message(pool, index),
            SingularKind::Scalar(scalar) => match scalar {
                ScalarType::Bool => Self::Bool,
                ScalarType::String => Self::Text,
                ScalarType::Bytes => Self::Bytes,
                ScalarType::Double | ScalarType::Float => Self::Double,
                ScalarType::Uint32
                | ScalarType::Uint64
                | ScalarType::Fixed32
                | ScalarType::Fixed64 => Self::Uint,
                _ => Self::Int,
            },
        }
    }

    /// The type of a message, or of what a well-known one stands for.
    pub(in super::super) fn of_message(pool: &DescriptorPool, index: MessageIndex) -> Self {
        let message = pool.message(index);
        match message.full_name() {
            "google.protobuf.Duration" => Self::Duration,
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Any"
            | "google.protobuf.Value"
            | "google.protobuf.Struct"
            | "google.protobuf.ListValue" => Self::Dyn,
            name if is_wrapper(name) => match message.field(1) {
                Some(field) => Self::Wrapper(Box::new(Self::of_field(pool, field))),
                None => Self::Dyn,
            },
            name => Self::Message(index, name.into()),
        }
    }

    pub(super) fn of_constant(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Int(_) => Self::Int,
            Value::Uint(_) => Self::Uint,
            Value::Double(_) => Self::Double,
            Value::Text(_) => Self::Text,
            Value::Bytes(_) => Self::Bytes,
            Value::Type(_) => Self::Name,
            _ => Self::Dyn,
        }
    }

    /// The value's type where it cannot be null.
    pub(in super::super) fn plain(&self) -> &Self {
        match self {
            Self::Wrapper(inner) => inner,
            other => other,
        }
    }

    /// Whether values of both can be one.
    pub(super) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, other) | (other, Self::Null) => {
                matches!(other, Self::Null | Self::Wrapper(_) | Self::Message(..))
                    || matches!(other, Self::Timestamp | Self::Duration)
            }
            (Self::List(a), Self::List(b)) => a.fits(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.fits(c) && b.fits(d),
            (a, b) => a.plain() == b.plain(),
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.plain(), Self::Int | Self::Uint | Self::Double)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Message(_, name) => f.write_str(name),
            Self::Wrapper(of) => write!(f, "wrapper({of})"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Name => f.write_str("type"),
        }
    }
}

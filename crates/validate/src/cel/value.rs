//! Values of expressions, and how those of messages become them.

use std::cmp::Ordering;
use std::sync::Arc;

use buffa_descriptor::reflect::{
    DynamicMessage, MapKey, MapValue, ReflectMessage, Value as Stored,
};
use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageIndex, ScalarType, SingularKind,
};

/// A value.
#[derive(Debug, Clone)]
pub(in super::super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Self>>),
    Map(Arc<Vec<(Self, Self)>>),
    Message(Arc<DynamicMessage>),
    /// Nanoseconds since 1970.
    Timestamp(i128),
    /// Nanoseconds.
    Duration(i64),
    Type(Arc<str>),
}

impl Value {
    pub(in super::super) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// What kind of value it is, as CEL names it.
    pub(super) fn type_name(&self) -> String {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Message(message) => message.message_descriptor().full_name(),
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
        }
        .to_owned()
    }

    /// Numbers, text and times in order; `None` where there is none.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), other) => order_double(*a, other.whole()?),
            (this, Self::Double(b)) => order_double(*b, this.whole()?).map(Ordering::reverse),
            (this, other) => Some(this.whole()?.cmp(&other.whole()?)),
        }
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some((*number).into()),
            Self::Uint(number) => Some((*number).into()),
            _ => None,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// Equality of CEL: numbers by what they are, whatever their type.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                let has = |key: &Self, value: &Self| {
                    lookup(b, key).is_some_and(|found| found.equals(value))
                };
                a.len() == b.len() && a.iter().all(|(key, value)| has(key, value))
            }
            (Self::Message(a), Self::Message(b)) => same(a, b),
            (Self::Type(a), Self::Type(b)) => a == b,
            (a, b) => a.order(b) == Some(Ordering::Equal),
        }
    }

    /// How many steps making or looking through it counts for.
    pub(super) fn weight(&self) -> u64 {
        let weight = match self {
            Self::Text(text) => text.len() / 32,
            Self::Bytes(bytes) => bytes.len() / 32,
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Message(message) => message.encoded_len() / 32,
            _ => 0,
        };
        weight as u64 + 1
    }

    /// The value of a field; its default where it is not set.
    pub(in super::super) fn of_field(message: &DynamicMessage, field: &FieldDescriptor) -> Self {
        let pool = message.pool();
        match message.field_by_number(field.number()) {
            Some(stored) => Self::of_stored(stored, field.kind()),
            None => Self::default_of(pool, field),
        }
    }

    /// A stored value of a field.
    pub(in super::super) fn of_stored(stored: &Stored, kind: FieldKind) -> Self {
        match stored {
            Stored::Bool(value) => Self::Bool(*value),
            Stored::I32(value) | Stored::EnumNumber(value) => Self::Int((*value).into()),
            Stored::I64(value) => Self::Int(*value),
            Stored::U32(value) => Self::Uint((*value).into()),
            Stored::U64(value) => Self::Uint(*value),
            Stored::F32(value) => Self::Double((*value).into()),
            Stored::F64(value) => Self::Double(*value),
            Stored::String(text) => Self::text(text.as_str()),
            Stored::Bytes(bytes) => Self::Bytes(bytes.as_slice().into()),
            Stored::Message(message) => Self::of_message(Arc::new(message.clone())),
            Stored::List(items) => {
                Self::List(Arc::new(items.iter().map(|item| Self::of_stored(item, kind)).collect()))
            }
            Stored::Map(entries) => Self::of_map(entries, kind),
        }
    }

    fn of_map(entries: &MapValue, kind: FieldKind) -> Self {
        let entry = |(key, value): (&MapKey, &Stored)| {
            let key = match key {
                MapKey::Bool(key) => Self::Bool(*key),
                MapKey::I32(key) => Self::Int((*key).into()),
                MapKey::I64(key) => Self::Int(*key),
                MapKey::U32(key) => Self::Uint((*key).into()),
                MapKey::U64(key) => Self::Uint(*key),
                MapKey::String(key) => Self::text(key.as_str()),
            };
            (key, Self::of_stored(value, kind))
        };
        Self::Map(Arc::new(entries.iter().map(entry).collect()))
    }

    /// A message, or what a well-known one stands for.
    pub(in super::super) fn of_message(message: Arc<DynamicMessage>) -> Self {
        let number = |number| match message.field_by_number(number) {
            Some(Stored::I64(value)) => *value,
            Some(Stored::I32(value)) => (*value).into(),
            _ => 0,
        };
        let descriptor = message.message_descriptor();
        match descriptor.full_name() {
            "google.protobuf.Duration" => Self::Duration(duration_nanos(number(1), number(2))),
            "google.protobuf.Timestamp" => {
                Self::Timestamp(i128::from(number(1)) * 1_000_000_000 + i128::from(number(2)))
            }
            name if is_wrapper(name) => match descriptor.field(1) {
                Some(field) => Self::of_field(&message, field),
                None => Self::Null,
            },
            _ => Self::Message(message),
        }
    }

    fn default_of(pool: &Arc<DescriptorPool>, field: &FieldDescriptor) -> Self {
        match field.kind() {
            FieldKind::List(_) => Self::List(Arc::new(Vec::new())),
            FieldKind::Map { .. } => Self::Map(Arc::new(Vec::new())),
            FieldKind::Singular(kind) => match kind {
                SingularKind::Enum(_) => Self::Int(0),
                SingularKind::Message(index) if is_wrapper(pool.message(index).full_name()) => {
                    Self::Null
                }
                SingularKind::Message(index) => Self::empty(pool, index),
                SingularKind::Scalar(scalar) => Self::zero(scalar),
            },
        }
    }

    fn empty(pool: &Arc<DescriptorPool>, index: MessageIndex) -> Self {
        Self::of_message(Arc::new(DynamicMessage::new(Arc::clone(pool), index)))
    }

    fn zero(scalar: ScalarType) -> Self {
        match scalar {
            ScalarType::Bool => Self::Bool(false),
            ScalarType::String => Self::text(""),
            ScalarType::Bytes => Self::Bytes(Arc::from([].as_slice())),
            ScalarType::Double | ScalarType::Float => Self::Double(0.0),
            ScalarType::Uint32 | ScalarType::Uint64 | ScalarType::Fixed32 | ScalarType::Fixed64 => {
                Self::Uint(0)
            }
            _ => Self::Int(0),
        }
    }
}

/// Whether two messages have the same fields set to equal values.
fn same(a: &DynamicMessage, b: &DynamicMessage) -> bool {
    let equal = |field: &FieldDescriptor| match (a.has(field), b.has(field)) {
        (true, true) => Value::of_field(a, field).equals(&Value::of_field(b, field)),
        (one, other) => one == other,
    };
    a.message_index() == b.message_index()
        && a.message_descriptor().fields().iter().all(equal)
        && a.unknown_fields() == b.unknown_fields()
}

/// Nanoseconds, at the ends of the range where there are more.
pub(in super::super) fn duration_nanos(seconds: i64, nanos: i64) -> i64 {
    let all = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    i64::try_from(all).unwrap_or(if all < 0 { i64::MIN } else { i64::MAX })
}

/// Messages that stand for the value in them.
pub(in super::super) fn is_wrapper(name: &str) -> bool {
    matches!(
        name.strip_prefix("google.protobuf."),
        Some(
            "BoolValue"
                | "BytesValue"
                | "DoubleValue"
                | "FloatValue"
                | "Int32Value"
                | "Int64Value"
                | "StringValue"
                | "UInt32Value"
                | "UInt64Value"
        )
    )
}

/// The value of a key.
pub(super) fn lookup<'a>(entries: &'a [(Value, Value)], key: &Value) -> Option<&'a Value> {
    entries.iter().find(|(one, _)| one.equals(key)).map(|(_, value)| value)
}

fn order_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond these, no integer of 64 bits is near.
    if double >= 3e19 {
        return Some(Ordering::Greater);
    }
    if double <= -3e19 {
        return Some(Ordering::Less);
    }
    let floor = double.floor();
    match (floor as i128).cmp(&whole) {
        Ordering::Equal if double > floor => Some(Ordering::Greater),
        order => Some(order),
    }
}

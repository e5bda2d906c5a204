//! The value of a field, borrowed: as cheap to hand about as a number or a slice.

use std::fmt;
use std::sync::Arc;

use buffa_descriptor::reflect::{MapKey, MapValue, Value as Raw};
use buffa_descriptor::{DescriptorPool, EnumIndex, ScalarType, SingularKind};

use crate::map_key::parse_key;
use crate::message::{Message, MessageRef};

/// The value of a field, of an element of a list, of a key or a value of a map.
///
/// Integers and floats have the width of their field. Numbers, text and bytes of Rust are values
/// too ([`Message::set`] takes them), and so are messages.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-value-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { repeated string items = 1; int64 cents = 2; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::schema::Value;
/// use tidewire::{Codec, Schema};
///
/// let order = schema.decode("Order", Codec::Json, br#"{"items":["tea"],"cents":"420"}"#)?;
/// assert!(matches!(order.get("cents")?, Some(Value::I64(420))));
/// assert_eq!(order.get("items[0]")?.and_then(Value::as_str), Some("tea"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// `bool`.
    Bool(bool),
    /// `int32`, `sint32`, `sfixed32`.
    I32(i32),
    /// `int64`, `sint64`, `sfixed64`.
    I64(i64),
    /// `uint32`, `fixed32`.
    U32(u32),
    /// `uint64`, `fixed64`.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// `string`.
    String(&'a str),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// A value of an enum.
    Enum(EnumValue<'a>),
    /// A message.
    Message(MessageRef<'a>),
    /// All elements of a `repeated` field.
    List(List<'a>),
    /// All entries of a `map` field.
    Map(Map<'a>),
}

/// A value of an enum: its number, and its name unless the schema does not know it.
#[derive(Clone, Copy)]
pub struct EnumValue<'a> {
    pub(crate) pool: &'a Arc<DescriptorPool>,
    pub(crate) index: EnumIndex,
    number: i32,
}

impl<'a> EnumValue<'a> {
    /// Its number.
    pub fn number(self) -> i32 {
        self.number
    }

    /// Its first name, or `None` for a number that the enum does not name.
    pub fn name(self) -> Option<&'a str> {
        self.pool.enumeration(self.index).value(self.number).map(|value| value.name())
    }
}

impl fmt::Debug for EnumValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.number),
        }
    }
}

impl<'a> Value<'a> {
    /// One value as the library holds it; `None` for a shape that its kind does not have.
    pub(crate) fn new(
        pool: &'a Arc<DescriptorPool>,
        kind: SingularKind,
        raw: &'a Raw,
    ) -> Option<Self> {
        Some(match raw {
            Raw::Bool(value) => Self::Bool(*value),
            Raw::I32(value) => Self::I32(*value),
            Raw::I64(value) => Self::I64(*value),
            Raw::U32(value) => Self::U32(*value),
            Raw::U64(value) => Self::U64(*value),
            Raw::F32(value) => Self::F32(*value),
            Raw::F64(value) => Self::F64(*value),
            Raw::String(value) => Self::String(value),
            Raw::Bytes(value) => Self::Bytes(value),
            Raw::EnumNumber(number) => {
                let SingularKind::Enum(index) = kind else { return None };
                Self::Enum(EnumValue { pool, index, number: *number })
            }
            Raw::Message(message) => Self::Message(MessageRef(message)),
            Raw::List(_) | Raw::Map(_) => return None,
        })
    }

    /// The text, where it is text.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The message, where it is one.
    pub fn as_message(self) -> Option<MessageRef<'a>> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}

macro_rules! from_numbers {
    ($($variant:ident $type:ty;)*) => {$(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

from_numbers! {
    Bool bool;
    I32 i32;
    I64 i64;
    U32 u32;
    U64 u64;
    F32 f32;
    F64 f64;
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::String(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<MessageRef<'a>> for Value<'a> {
    fn from(message: MessageRef<'a>) -> Self {
        Self::Message(message)
    }
}

impl<'a> From<&'a Message> for Value<'a> {
    fn from(message: &'a Message) -> Self {
        Self::Message(message.as_ref())
    }
}

/// The elements of a `repeated` field.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-list-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { repeated string items = 1; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::schema::Value;
/// use tidewire::{Codec, Schema};
///
/// let order = schema.decode("Order", Codec::Json, br#"{"items":["tea","cocoa"]}"#)?;
/// let Some(Value::List(items)) = order.get("items")? else { panic!("they are there") };
/// let names: Vec<_> = items.iter().filter_map(Value::as_str).collect();
/// assert_eq!(names, ["tea", "cocoa"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct List<'a> {
    pub(crate) pool: &'a Arc<DescriptorPool>,
    pub(crate) kind: SingularKind,
    pub(crate) items: &'a [Raw],
}

impl<'a> List<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.items.len()
    }

    /// Whether there is none; a list that is there has one at least.
    pub fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The element at an index.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        Value::new(self.pool, self.kind, self.items.get(index)?)
    }

    /// All elements in their order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Value<'a>> {
        (0..self.items.len()).map(move |index| {
            self.get(index)
                .expect("a list holds values of its kind: try_set and decoding see to it")
        })
    }
}

impl fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The entries of a `map` field, ordered by key.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-map-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { map<string, string> labels = 1; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::schema::Value;
/// use tidewire::{Codec, Schema};
///
/// let order = schema.decode("Order", Codec::Json, br#"{"labels":{"color":"green"}}"#)?;
/// let Some(Value::Map(labels)) = order.get("labels")? else { panic!("they are there") };
/// assert_eq!(labels.get("color").and_then(Value::as_str), Some("green"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Map<'a> {
    pub(crate) pool: &'a Arc<DescriptorPool>,
    pub(crate) key: ScalarType,
    pub(crate) kind: SingularKind,
    pub(crate) entries: &'a MapValue,
}

impl<'a> Map<'a> {
    /// How many entries there are.
    pub fn len(self) -> usize {
        self.entries.len()
    }

    /// Whether there is none; a map that is there has one at least.
    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key, which is spelled as in JSON: `7`, `true`, any text.
    pub fn get(self, key: &str) -> Option<Value<'a>> {
        let raw = match self.key {
            ScalarType::String => self.entries.get_str(key)?,
            kind => self.entries.get(&parse_key(kind, key)?)?,
        };
        Value::new(self.pool, self.kind, raw)
    }

    /// All entries in the order of their keys.
    pub fn iter(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        self.entries.iter().filter_map(move |(key, raw)| {
            Some((key_value(key), Value::new(self.pool, self.kind, raw)?))
        })
    }
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn key_value(key: &MapKey) -> Value<'_> {
    match key {
        MapKey::Bool(value) => Value::Bool(*value),
        MapKey::I32(value) => Value::I32(*value),
        MapKey::I64(value) => Value::I64(*value),
        MapKey::U32(value) => Value::U32(*value),
        MapKey::U64(value) => Value::U64(*value),
        MapKey::String(value) => Value::String(value),
    }
}

//! What is known of types: fields, kinds, names, oneofs, values of enums.
//!
//! Everything here borrows the schema and is as cheap as a pointer.

use std::fmt;
use std::sync::Arc;

use buffa::editions::{EnumType as Openness, FieldPresence};
use buffa_descriptor::{
    DescriptorPool, EnumIndex, ExtensionDescriptor, FieldDescriptor, FieldKind, MessageDescriptor,
    MessageIndex, OneofDescriptor, ScalarType, SingularKind,
};

use crate::comment;

/// A message type of a schema.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-types-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { string item = 1; int64 total_cents = 2; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
/// use tidewire::schema::{Kind, Scalar, Single};
///
/// let order = schema.message_type("Order").expect("it is in the schema");
/// let names: Vec<_> = order.fields().map(|field| field.json_name()).collect();
/// assert_eq!(names, ["item", "totalCents"]);
/// let item = order.field("item").expect("it has such a field");
/// assert!(matches!(item.kind(), Kind::One(Single::Scalar(Scalar::String))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct MessageType<'a> {
    pub(crate) pool: &'a Arc<DescriptorPool>,
    pub(crate) index: MessageIndex,
}

impl<'a> MessageType<'a> {
    pub(crate) fn descriptor(self) -> &'a MessageDescriptor {
        self.pool.message(self.index)
    }

    /// Its full name, `shop.v1.Item`.
    pub fn full_name(self) -> &'a str {
        self.descriptor().full_name()
    }

    /// Another type of the same schema, by its full name.
    pub fn sibling(self, type_name: &str) -> Option<Self> {
        let index = self.pool.message_index(type_name)?;
        Some(Self { pool: self.pool, index })
    }

    /// The fields in the order of the `.proto`.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        self.descriptor().fields().iter().map(move |descriptor| Field {
            message: self,
            descriptor,
            extension: None,
        })
    }

    /// The extensions of it that the schema knows.
    pub fn extensions(self) -> impl Iterator<Item = Field<'a>> {
        self.pool.extensions_of(self.index).map(move |extension| Field {
            message: self,
            descriptor: extension.field(),
            extension: Some(extension),
        })
    }

    /// A field by its name in the `.proto`, its JSON name, or `[package.name]` of an extension.
    pub fn field(self, name: &str) -> Option<Field<'a>> {
        let Some(extension) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) else {
            let descriptor = self.descriptor().field_by_name(name)?;
            return Some(Field { message: self, descriptor, extension: None });
        };
        let extension = self.pool.extension_by_name(extension)?;
        let descriptor = extension.field();
        (extension.extendee() == self.index).then_some(Field {
            message: self,
            descriptor,
            extension: Some(extension),
        })
    }

    /// The field of a number, extensions included.
    pub(crate) fn numbered(self, number: u32) -> Option<Field<'a>> {
        if let Some(descriptor) = self.descriptor().field(number) {
            return Some(Field { message: self, descriptor, extension: None });
        }
        let extension = self.pool.extension_for(self.index, number)?;
        Some(Field { message: self, descriptor: extension.field(), extension: Some(extension) })
    }

    /// The oneofs in the order of the `.proto`; those that stand for `optional` are left out.
    pub fn oneofs(self) -> impl Iterator<Item = Oneof<'a>> {
        let all = self.descriptor().oneofs().iter();
        all.filter(|oneof| !oneof.is_synthetic())
            .map(move |descriptor| Oneof { message: self, descriptor })
    }

    /// The comment before it, where the schema was loaded from sources or from descriptors that
    /// hold comments.
    pub fn comment(self) -> Option<&'a str> {
        comment::of(self.pool, self.full_name(), None)
    }
}

impl PartialEq for MessageType<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.full_name() == other.full_name()
    }
}

impl Eq for MessageType<'_> {}

impl fmt::Debug for MessageType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full_name())
    }
}

/// A field of a message type, or an extension of it.
///
/// ```
/// # mod tidewire { pub use tidewire_schema::{Message, Schema}; pub use tidewire_service::*; }
/// # let folder = std::env::temp_dir().join("tidewire-field-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { optional int64 total_cents = 2; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
///
/// let order = schema.message_type("Order").expect("it is in the schema");
/// let total = order.field("total_cents").expect("it has such a field");
/// assert_eq!((total.number(), total.json_name()), (2, "totalCents"));
/// assert!(total.has_presence(), "zero is told from nothing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub(crate) message: MessageType<'a>,
    pub(crate) descriptor: &'a FieldDescriptor,
    pub(crate) extension: Option<&'a ExtensionDescriptor>,
}

impl<'a> Field<'a> {
    /// Its name in the `.proto`; of an extension the full name.
    pub fn name(self) -> &'a str {
        self.extension.map_or_else(|| self.descriptor.name(), ExtensionDescriptor::full_name)
    }

    /// Its name in JSON: `firstName`, or `[package.name]` of an extension.
    pub fn json_name(self) -> &'a str {
        self.extension.map_or_else(|| self.descriptor.json_name(), ExtensionDescriptor::json_key)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.descriptor.number()
    }

    /// What it holds.
    pub fn kind(self) -> Kind<'a> {
        let one = |kind| Single::new(self.message.pool, kind);
        match self.descriptor.kind() {
            FieldKind::Singular(kind) => Kind::One(one(kind)),
            FieldKind::List(kind) => Kind::List(one(kind)),
            FieldKind::Map { key, value } => Kind::Map { key: key.into(), value: one(value) },
        }
    }

    /// Whether "absent" differs from "the default value": messages, members of a oneof, `optional`.
    pub fn has_presence(self) -> bool {
        self.descriptor.presence() != FieldPresence::Implicit
    }

    /// Whether it is `required`, as proto2 and editions know it.
    pub fn is_required(self) -> bool {
        self.descriptor.presence() == FieldPresence::LegacyRequired
    }

    /// Whether its value is not to be shown to people (`[debug_redact = true]`).
    pub fn is_redacted(self) -> bool {
        self.descriptor.options().is_some_and(|options| options.debug_redact == Some(true))
    }

    /// The oneof that it is a member of.
    pub fn oneof(self) -> Option<Oneof<'a>> {
        let index = usize::from(self.descriptor.oneof_index()?);
        let descriptor = self.message.descriptor().oneofs().get(index)?;
        (!descriptor.is_synthetic()).then_some(Oneof { message: self.message, descriptor })
    }

    /// The default that the `.proto` declares (`[default = 7]`), as descriptors spell it: numbers
    /// and `true` as they are, an enum by name, text as it is, bytes with C escapes. It is what an
    /// absent field means; [`Message::get`](crate::Message::get) says that the field is absent. Not
    /// of extensions.
    pub fn declared_default(self) -> Option<&'a str> {
        comment::default(self.message.pool, self.message.full_name(), self.number())
    }

    /// The comment before it, where the schema was loaded from sources or from descriptors that
    /// hold comments.
    pub fn comment(self) -> Option<&'a str> {
        let message = self.message;
        comment::of(message.pool, message.full_name(), Some(self.number()))
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.message.full_name(), self.name())
    }
}

/// A oneof of a message type.
///
/// ```
/// # mod tidewire { pub use tidewire_schema::{Message, Schema}; pub use tidewire_service::*; }
/// # let folder = std::env::temp_dir().join("tidewire-oneof-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Payment { oneof by { string card = 1; string iban = 2; } }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::{Codec, Schema};
///
/// let payment = schema.decode("Payment", Codec::Json, br#"{"iban":"NL00"}"#)?;
/// assert_eq!(payment.which("by").map(|field| field.name()), Some("iban"));
/// let by = payment.message_type().oneofs().next().expect("it has one");
/// assert_eq!(by.fields().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Oneof<'a> {
    message: MessageType<'a>,
    pub(crate) descriptor: &'a OneofDescriptor,
}

impl<'a> Oneof<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.descriptor.name()
    }

    /// Its members.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        let all = self.message.descriptor().fields();
        let members = self.descriptor.field_indices().iter();
        members.filter_map(|index| all.get(usize::from(*index))).map(move |descriptor| Field {
            message: self.message,
            descriptor,
            extension: None,
        })
    }
}

impl fmt::Debug for Oneof<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a field holds.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-kind-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { repeated string items = 1; map<string, int64> cents = 2; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
/// use tidewire::schema::{Kind, Scalar, Single};
///
/// let order = schema.message_type("Order").expect("it is in the schema");
/// let items = order.field("items").expect("it has such a field");
/// assert!(matches!(items.kind(), Kind::List(Single::Scalar(Scalar::String))));
/// assert!(matches!(order.field("cents").map(|field| field.kind()), Some(Kind::Map { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Kind<'a> {
    /// One value.
    One(Single<'a>),
    /// A `repeated` field.
    List(Single<'a>),
    /// A `map` field.
    Map {
        /// The kind of its keys.
        key: Scalar,
        /// The kind of its values.
        value: Single<'a>,
    },
}

/// The kind of one value: of a field, of an element of a list, of a value of a map.
#[derive(Debug, Clone, Copy)]
pub enum Single<'a> {
    /// A number, a bool, text or bytes.
    Scalar(Scalar),
    /// An enum.
    Enum(EnumType<'a>),
    /// A message.
    Message(MessageType<'a>),
}

impl<'a> Single<'a> {
    pub(crate) fn new(pool: &'a Arc<DescriptorPool>, kind: SingularKind) -> Self {
        match kind {
            SingularKind::Scalar(scalar) => Self::Scalar(scalar.into()),
            SingularKind::Enum(index) => Self::Enum(EnumType { pool, index }),
            SingularKind::Message(index) => Self::Message(MessageType { pool, index }),
        }
    }
}

macro_rules! scalars {
    ($($name:ident $proto:literal;)*) => {
        /// A scalar type of protobuf.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Scalar {$(
            #[doc = concat!("`", $proto, "`.")]
            $name,
        )*}

        impl Scalar {
            /// Its name in a `.proto`.
            pub const fn as_str(self) -> &'static str {
                match self {$(Self::$name => $proto,)*}
            }
        }

        impl From<ScalarType> for Scalar {
            fn from(scalar: ScalarType) -> Self {
                match scalar {$(ScalarType::$name => Self::$name,)*}
            }
        }
    };
}

scalars! {
    Double "double";
    Float "float";
    Int64 "int64";
    Uint64 "uint64";
    Int32 "int32";
    Fixed64 "fixed64";
    Fixed32 "fixed32";
    Bool "bool";
    String "string";
    Bytes "bytes";
    Uint32 "uint32";
    Sfixed32 "sfixed32";
    Sfixed64 "sfixed64";
    Sint32 "sint32";
    Sint64 "sint64";
}

impl Scalar {
    /// Whether text is a key of a map with keys of this kind, as JSON spells it.
    pub fn is_key(self, text: &str) -> bool {
        match self {
            Self::String => true,
            Self::Bool => text.parse::<bool>().is_ok(),
            Self::Int32 | Self::Sint32 | Self::Sfixed32 => text.parse::<i32>().is_ok(),
            Self::Int64 | Self::Sint64 | Self::Sfixed64 => text.parse::<i64>().is_ok(),
            Self::Uint32 | Self::Fixed32 => text.parse::<u32>().is_ok(),
            Self::Uint64 | Self::Fixed64 => text.parse::<u64>().is_ok(),
            Self::Double | Self::Float | Self::Bytes => false,
        }
    }
}

/// An enum of a schema.
///
/// ```
/// # mod tidewire { pub use tidewire_schema::{Message, Schema}; pub use tidewire_service::*; }
/// # let folder = std::env::temp_dir().join("tidewire-enum-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # enum State { STATE_UNSPECIFIED = 0; STATE_PAID = 1; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
///
/// let state = schema.enum_type("State").expect("it is in the schema");
/// assert_eq!(state.name_of(1), Some("STATE_PAID"));
/// assert_eq!(state.number_of("STATE_LOST"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct EnumType<'a> {
    pub(crate) pool: &'a Arc<DescriptorPool>,
    pub(crate) index: EnumIndex,
}

impl<'a> EnumType<'a> {
    /// Its full name.
    pub fn full_name(self) -> &'a str {
        self.pool.enumeration(self.index).full_name()
    }

    /// Its values, name and number, in the order of the `.proto`.
    pub fn values(self) -> impl Iterator<Item = (&'a str, i32)> {
        self.pool.enumeration(self.index).values().iter().map(|one| (one.name(), one.number()))
    }

    /// The first name of a number.
    pub fn name_of(self, number: i32) -> Option<&'a str> {
        self.pool.enumeration(self.index).value(number).map(|value| value.name())
    }

    /// The number of a name.
    pub fn number_of(self, name: &str) -> Option<i32> {
        self.pool.enumeration(self.index).value_by_name(name).map(|value| value.number())
    }

    /// Whether numbers without a name are unknown fields, as in proto2, rather than values.
    pub fn is_closed(self) -> bool {
        self.pool.enumeration(self.index).enum_type() == Openness::Closed
    }
}

impl fmt::Debug for EnumType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.full_name())
    }
}

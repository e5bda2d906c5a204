//! A message whose type is known only at run time, and reading its fields.
//!
//! [`Message`] owns, [`MessageRef`] borrows; both read alike. Storage and the binary encoding are
//! the message library's, JSON and comparison are this crate's.

use std::fmt;
use std::sync::Arc;

use buffa_descriptor::reflect::{DynamicMessage, ReflectMessage as _, Value as Raw};
use buffa_descriptor::{DescriptorPool, FieldKind};
use bytes::Bytes;
use tidewire_json::{JsonStyle, PrintScope, WellKnown};
use tidewire_service::{Codec, Error, Result};

use crate::path::AsPath;
use crate::types::{Field, Kind, MessageType, Single};
use crate::value::{List, Map, Value};
use crate::{FieldError, write};

/// A value of a message type that is known only at run time.
///
/// ```
/// use tidewire_schema::{Schema, Sources};
/// use tidewire_service::Codec;
/// # let folder = std::env::temp_dir().join("tidewire-message-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { repeated Item items = 1; }
/// # message Item { string name = 1; int64 count = 2; float price = 3; map<string, string> labels = 4; }"#)?;
/// let schema = Schema::from_folder(&folder)?;
/// let mut order = schema.message("Order")?;
/// order.set("items[0].name", "tea")?;
/// order.set("items[0].count", 3)?;
/// order.set("items[0].price", 4.2)?;
/// order.set("items[0].labels[color]", "green")?;
/// assert!(order.matches("items[0].count", &serde_json::json!("3"))?);
/// assert_eq!(
///     order.encode(Codec::Json)?,
///     r#"{"items":[{"name":"tea","count":"3","price":4.2,"labels":{"color":"green"}}]}"#,
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Message(pub(crate) DynamicMessage);

impl Message {
    /// The same message, borrowed: as cheap as a pointer.
    pub fn as_ref(&self) -> MessageRef<'_> {
        MessageRef(&self.0)
    }

    /// The full name of its type.
    pub fn type_name(&self) -> &str {
        self.as_ref().message_type().full_name()
    }

    /// Its type.
    pub fn message_type(&self) -> MessageType<'_> {
        self.as_ref().message_type()
    }

    /// What is at a path; see [`MessageRef::get`].
    ///
    /// # Errors
    /// When the text is not a path, or leads through something that the type does not have.
    pub fn get(&self, path: impl AsPath) -> Result<Option<Value<'_>>, FieldError> {
        self.as_ref().get(path)
    }

    /// Whether something is at a path.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn has(&self, path: impl AsPath) -> Result<bool, FieldError> {
        Ok(self.get(path)?.is_some())
    }

    /// Whether what is at a path is what a JSON value says; see [`MessageRef::matches`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn matches(&self, path: impl AsPath, json: &serde_json::Value) -> Result<bool, FieldError> {
        self.as_ref().matches(path, json)
    }

    /// Merges an encoded message of its type into it: single values replace those that are there,
    /// lists grow, messages are merged in turn.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument) for bytes that are no
    /// such message; what it holds then is not defined.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<()> {
        self.0
            .merge(bytes)
            .map_err(|e| Error::invalid_argument(format!("not a valid {}: {e}", self.type_name())))
    }

    /// The fields that are set, in the order of their numbers, extensions among them.
    pub fn fields(&self) -> impl Iterator<Item = (Field<'_>, Value<'_>)> {
        self.as_ref().fields()
    }

    /// Which member of a oneof is set.
    pub fn which(&self, oneof: &str) -> Option<Field<'_>> {
        self.as_ref().which(oneof)
    }

    /// Sets what is at a path; messages on the way are made where they are missing.
    ///
    /// A value fits a field where its proto JSON form does: an integer of any width that holds it,
    /// an enum by name or number, bytes as base64, a timestamp as text, another message by its
    /// fields. One past the end of a list appends to it. A member of a oneof clears the others.
    ///
    /// # Errors
    /// When the path leads nowhere, or the value does not fit; the message is as before.
    pub fn set<'v>(
        &mut self,
        path: impl AsPath,
        value: impl Into<Value<'v>>,
    ) -> Result<(), FieldError> {
        write::set(&mut self.0, &*path.as_path()?, value.into())
    }

    /// Clears a field, an element of a list or an entry of a map; nothing where there is none.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn clear(&mut self, path: impl AsPath) -> Result<(), FieldError> {
        write::clear(&mut self.0, &*path.as_path()?)
    }

    /// Encodes it: as JSON with the text that generated code prints.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) when it has no JSON form, such as a
    /// timestamp out of range.
    pub fn encode(&self, codec: Codec) -> Result<Bytes> {
        self.as_ref().encode(codec)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl<'a> From<&'a DynamicMessage> for MessageRef<'a> {
    fn from(message: &'a DynamicMessage) -> Self {
        Self(message)
    }
}

impl From<MessageRef<'_>> for Message {
    fn from(message: MessageRef<'_>) -> Self {
        Self(message.0.clone())
    }
}

/// A borrowed [`Message`], or one that is part of another.
///
/// ```
/// # mod tidewire {
/// #     pub mod schema { pub use tidewire_schema::*; }
/// #     pub use tidewire_schema::{Message, Schema};
/// #     pub use tidewire_service::*;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-message-ref-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Order { Item item = 1; } message Item { string name = 1; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::schema::Value;
/// use tidewire::{Codec, Schema};
///
/// let order = schema.decode("Order", Codec::Json, br#"{"item":{"name":"tea"}}"#)?;
/// let item = order.get("item")?.and_then(Value::as_message).expect("it is a message");
/// assert_eq!(item.encode(Codec::Json)?, r#"{"name":"tea"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct MessageRef<'a>(pub(crate) &'a DynamicMessage);

impl<'a> MessageRef<'a> {
    pub(crate) fn pool(self) -> &'a Arc<DescriptorPool> {
        self.0.pool()
    }

    /// The message library's form of it.
    pub fn as_dynamic(self) -> &'a DynamicMessage {
        self.0
    }

    /// Its type.
    pub fn message_type(self) -> MessageType<'a> {
        MessageType { pool: self.pool(), index: self.0.message_index() }
    }

    /// What is at a path, or `None` where nothing is set.
    ///
    /// A field without presence is set when it differs from its default. In a
    /// `google.protobuf.Struct`, `Value` or `ListValue` a path goes as in its JSON form.
    ///
    /// # Errors
    /// When the text is not a path, or leads through something that the type does not have. What
    /// lies beyond an absent message is not looked at: [`MessageType::check`] does.
    pub fn get(self, path: impl AsPath) -> Result<Option<Value<'a>>, FieldError> {
        let path = path.as_path()?;
        let mut value = Value::Message(self);
        for (index, step) in path.steps().iter().enumerate() {
            let wrong = |why: String| FieldError::new(path.up_to(index + 1), why);
            let next = match unwrapped(value) {
                Value::Message(message) => {
                    match WellKnown::of(message.message_type().full_name()) {
                        Some(WellKnown::Struct) => {
                            message.map(1).and_then(|map| map.get(step.text()))
                        }
                        Some(WellKnown::ListValue) => {
                            let index =
                                step.index().ok_or_else(|| wrong("not an index".to_owned()))?;
                            message.list(1).and_then(|list| list.get(index))
                        }
                        Some(WellKnown::Value) => None,
                        _ => {
                            let owner = message.message_type();
                            let field = owner.field(step.text()).ok_or_else(|| {
                                wrong(format!("{} has no such field", owner.full_name()))
                            })?;
                            message.value_of(field)
                        }
                    }
                }
                Value::List(list) => {
                    let index = step.index().ok_or_else(|| wrong("not an index".to_owned()))?;
                    list.get(index)
                }
                Value::Map(map) => map.get(step.text()),
                _ => return Err(wrong("what is before it has no fields".to_owned())),
            };
            match next {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// The value of a field of this message's type, where it is set.
    pub fn value_of(self, field: Field<'_>) -> Option<Value<'a>> {
        // Looked up anew: the library refuses descriptors of another schema, though equal.
        let own = self.message_type();
        let field = (own == field.message).then(|| own.numbered(field.number()))??;
        if !self.0.has(field.descriptor) {
            return None;
        }
        let raw = self.0.field_by_number(field.number())?;
        let pool = self.pool();
        Some(match (field.descriptor.kind(), raw) {
            (FieldKind::Singular(kind), raw) => return Value::new(pool, kind, raw),
            (FieldKind::List(kind), Raw::List(items)) => Value::List(List { pool, kind, items }),
            (FieldKind::Map { key, value }, Raw::Map(entries)) => {
                Value::Map(Map { pool, key, kind: value, entries })
            }
            _ => return None,
        })
    }

    /// The fields that are set, in the order of their numbers, extensions among them.
    pub fn fields(self) -> impl Iterator<Item = (Field<'a>, Value<'a>)> {
        let mut numbers = Vec::new();
        self.0.for_each_set(&mut |field, _| numbers.push(field.number()));
        numbers.into_iter().filter_map(move |number| {
            let field = self.message_type().numbered(number)?;
            Some((field, self.value_of(field)?))
        })
    }

    /// Which member of a oneof is set.
    pub fn which(self, oneof: &str) -> Option<Field<'a>> {
        let found = self.message_type().oneofs().find(|one| one.name() == oneof)?;
        found.fields().find(|field| self.value_of(*field).is_some())
    }

    /// Whether protobuf fields came with it that its type does not know.
    pub fn has_unknown_fields(self) -> bool {
        !self.0.unknown_fields().is_empty()
    }

    /// Its JSON, printed in a style.
    ///
    /// # Errors
    /// As [`Message::encode`].
    pub fn print(self, style: JsonStyle) -> Result<Bytes> {
        let bytes = self.encode(Codec::Proto)?;
        let mut out = Vec::with_capacity(bytes.len() * 2);
        let asked = (PrintScope::Message, style);
        let printed =
            tidewire_json::print(self.pool(), self.0.message_index(), &bytes, asked, &mut out);
        printed.map(|()| Bytes::from(out)).map_err(|why| {
            Error::internal(format!("the message has no JSON form: {why}")).with_cause(why)
        })
    }

    /// Encodes it: as JSON with the text that generated code prints.
    ///
    /// # Errors
    /// As [`Message::encode`].
    pub fn encode(self, codec: Codec) -> Result<Bytes> {
        match codec {
            Codec::Proto => self
                .0
                .try_encode_to_vec()
                .map(Bytes::from)
                .map_err(|e| Error::internal("the message cannot be encoded").with_cause(e)),
            Codec::Json => self.print(JsonStyle::default()),
        }
    }

    /// The list of a number, for well-known types.
    pub(crate) fn list(self, number: u32) -> Option<List<'a>> {
        match self.value_of(self.message_type().numbered(number)?)? {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The map of a number, for well-known types.
    pub(crate) fn map(self, number: u32) -> Option<Map<'a>> {
        match self.value_of(self.message_type().numbered(number)?)? {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }
}

impl fmt::Debug for MessageRef<'_> {
    /// The type and its JSON; fields with `debug_redact` are left to the library's own form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a `google.protobuf.Value` holds, or the value itself.
fn unwrapped(value: Value<'_>) -> Value<'_> {
    let Value::Message(message) = value else { return value };
    let owner = message.message_type();
    if WellKnown::of(owner.full_name()) != Some(WellKnown::Value) {
        return value;
    }
    owner
        .oneofs()
        .flat_map(|one| one.fields())
        .find_map(|one| message.value_of(one))
        .unwrap_or(value)
}

impl<'a> MessageType<'a> {
    /// What a path leads to in messages of this type; `None` where only the message itself can say:
    /// in the JSON of a `google.protobuf.Struct`.
    ///
    /// # Errors
    /// When the text is not a path, or leads through something that the type does not have.
    pub fn check(self, path: impl AsPath) -> Result<Option<Kind<'a>>, FieldError> {
        let path = path.as_path()?;
        let mut kind = Kind::One(Single::Message(self));
        for (index, step) in path.steps().iter().enumerate() {
            let wrong = |why: String| FieldError::new(path.up_to(index + 1), why);
            kind = match kind {
                Kind::One(Single::Message(message)) => {
                    if matches!(
                        WellKnown::of(message.full_name()),
                        Some(WellKnown::Struct | WellKnown::Value | WellKnown::ListValue)
                    ) {
                        return Ok(None);
                    }
                    let field = message.field(step.text()).ok_or_else(|| {
                        wrong(format!("{} has no such field", message.full_name()))
                    })?;
                    field.kind()
                }
                Kind::List(single) => {
                    step.index().ok_or_else(|| wrong("not an index".to_owned()))?;
                    Kind::One(single)
                }
                Kind::Map { key, value } => {
                    if !key.is_key(step.text()) {
                        return Err(wrong(format!("not a key of kind {}", key.as_str())));
                    }
                    Kind::One(value)
                }
                Kind::One(_) => {
                    return Err(wrong("what is before it has no fields".to_owned()));
                }
            };
        }
        Ok(Some(kind))
    }
}

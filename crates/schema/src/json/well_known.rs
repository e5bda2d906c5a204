//! Reading the JSON forms of the types of `google.protobuf` that have a special one; how they
//! are printed is of the crate `json`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use buffa::json_helpers as scalar;
use buffa::json_helpers::wkt;
use buffa_descriptor::reflect::{DynamicMessage, ReflectMessageMut as _, Value as Raw};
use buffa_descriptor::{DescriptorPool, MessageIndex};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

use tidewire_json::WellKnown;
use tidewire_json::well_known::{BOOL, LIST, NULL, NUMBER, STRUCT, TEXT, type_of_url};

use super::read::{Reader, UnknownMembers, read_scalar};
use crate::types::MessageType;

/// The name and the bytes of what an `Any` holds.
pub(crate) fn parts_of_any(any: &DynamicMessage) -> (&str, &[u8]) {
    let name = match any.field_by_number(1) {
        Some(Raw::String(name)) => name.as_str(),
        _ => "",
    };
    let bytes: &[u8] = match any.field_by_number(2) {
        Some(Raw::Bytes(bytes)) => bytes,
        _ => &[],
    };
    (name, bytes)
}

/// What `null` is where a message is expected.
pub(super) fn null(pool: &Arc<DescriptorPool>, index: MessageIndex) -> Option<DynamicMessage> {
    let known = WellKnown::of(pool.message(index).full_name())?;
    (known == WellKnown::Value).then(|| {
        let mut message = DynamicMessage::new(Arc::clone(pool), index);
        put(&mut message, NULL, Raw::EnumNumber(0));
        message
    })
}

/// Sets a field that the type has by definition.
fn put(message: &mut DynamicMessage, number: u32, value: Raw) {
    let pool = Arc::clone(message.pool());
    let owner = MessageType { pool: &pool, index: message.message_index() };
    if let Some(field) = owner.numbered(number) {
        // A schema may hold a google.protobuf type of its own making; what does not fit is left
        // out.
        let _ = message.try_set(field.descriptor, value);
    }
}

/// Reads the form of a type.
pub(super) fn read<'de, D: Deserializer<'de>>(
    known: WellKnown,
    reader: Reader<'_>,
    index: MessageIndex,
    deserializer: D,
) -> Result<DynamicMessage, D::Error> {
    let mut message = reader.empty(index);
    match known {
        WellKnown::Timestamp | WellKnown::Duration => {
            let text = Cow::<str>::deserialize(deserializer)?;
            let (seconds, nanos) = match known {
                WellKnown::Timestamp => wkt::parse_timestamp(&text),
                _ => wkt::parse_duration(&text),
            }
            .map_err(D::Error::custom)?;
            put(&mut message, 1, Raw::I64(seconds));
            put(&mut message, 2, Raw::I32(nanos));
        }
        WellKnown::FieldMask => {
            let text = Cow::<str>::deserialize(deserializer)?;
            let paths = text.split(',').filter(|_| !text.is_empty()).map(snake);
            let paths: Result<Vec<Raw>, _> = paths.collect();
            put(&mut message, 1, Raw::List(paths.map_err(D::Error::custom)?));
        }
        WellKnown::Empty => deserializer.deserialize_map(EmptyVisitor(reader.unknown))?,
        WellKnown::Wrapper(kind) => put(&mut message, 1, read_scalar(kind, deserializer)?),
        WellKnown::Struct | WellKnown::ListValue => {
            let Some(field) = (MessageType { pool: reader.pool, index }).numbered(1) else {
                return Ok(message);
            };
            let value = reader.field(field.descriptor).deserialize(deserializer)?;
            let value =
                value.ok_or_else(|| D::Error::custom("null is neither an object nor an array"))?;
            message.try_set(field.descriptor, value).map_err(D::Error::custom)?;
        }
        WellKnown::Value => return deserializer.deserialize_any(ValueVisitor { reader, message }),
        WellKnown::Any => read_any(reader, &mut message, deserializer)?,
    }
    Ok(message)
}

fn snake(path: &str) -> Result<Raw, String> {
    let snake = wkt::camel_to_snake(path);
    let fits = !path.contains('_')
        && wkt::field_mask_path_round_trips(&snake)
        && wkt::snake_to_camel(&snake) == path;
    fits.then_some(Raw::String(snake))
        .ok_or_else(|| format!("{path:?} is not a path in camel case"))
}

/// An object without members, or whose members are ignored.
struct EmptyVisitor(UnknownMembers);

impl<'de> Visitor<'de> for EmptyVisitor {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if self.0 == UnknownMembers::Refused {
                let why = format_args!("unknown field {name:?} on message google.protobuf.Empty");
                return Err(A::Error::custom(why));
            }
            map.next_value::<serde::de::IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A `google.protobuf.Value`: any JSON.
struct ValueVisitor<'p> {
    reader: Reader<'p>,
    message: DynamicMessage,
}

impl ValueVisitor<'_> {
    fn with(mut self, number: u32, value: Raw) -> DynamicMessage {
        put(&mut self.message, number, value);
        self.message
    }

    /// The message that a member holds.
    fn inner<'de, D: Deserializer<'de>>(
        self,
        number: u32,
        deserializer: D,
    ) -> Result<DynamicMessage, D::Error> {
        let owner = MessageType { pool: self.reader.pool, index: self.message.message_index() };
        let kind = owner.numbered(number).map(|field| field.descriptor.kind());
        let Some(buffa_descriptor::FieldKind::Singular(kind)) = kind else {
            return Err(D::Error::custom("google.protobuf.Value is not the one that is known"));
        };
        let value = self.reader.present(kind, None, deserializer)?;
        Ok(self.with(number, value))
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.with(NULL, Raw::EnumNumber(0)))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.with(BOOL, Raw::Bool(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.with(NUMBER, Raw::F64(value)))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of JSON are doubles here")]
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of JSON are doubles here")]
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.with(TEXT, Raw::String(value.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.inner(STRUCT, MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        self.inner(LIST, SeqAccessDeserializer::new(list))
    }
}

/// Reads an `Any`, whose `@type` may come last: the object is taken whole before it is understood.
fn read_any<'de, D: Deserializer<'de>>(
    reader: Reader<'_>,
    any: &mut DynamicMessage,
    deserializer: D,
) -> Result<(), D::Error> {
    let mut object = serde_json::Map::<String, serde_json::Value>::deserialize(deserializer)?;
    let url = match object.remove("@type") {
        Some(serde_json::Value::String(url)) => url,
        None if object.is_empty() => return Ok(()),
        _ => return Err(D::Error::custom("the @type of an Any is missing, or is not text")),
    };
    if url.rsplit_once('/').is_none_or(|(_, name)| name.is_empty()) {
        return Err(D::Error::custom(format_args!(
            "the @type {url:?} of an Any is not like type.googleapis.com/package.Message"
        )));
    }
    let bytes = bytes_of_any(reader, &url, object).map_err(D::Error::custom)?;
    put(any, 1, Raw::String(url));
    put(any, 2, Raw::Bytes(bytes));
    Ok(())
}

fn bytes_of_any(
    reader: Reader<'_>,
    url: &str,
    mut object: serde_json::Map<String, serde_json::Value>,
) -> Result<Vec<u8>, serde_json::Error> {
    let Some(index) = type_of_url(reader.pool, url) else {
        return match object.remove("value") {
            Some(serde_json::Value::String(text)) => {
                let text: serde::de::value::StringDeserializer<_> = text.into_deserializer();
                scalar::bytes::deserialize(text)
            }
            _ => Ok(Vec::new()),
        };
    };
    let known = WellKnown::of(reader.pool.message(index).full_name());
    let json = match known.is_some_and(WellKnown::is_value_of_any) {
        true => object.remove("value").unwrap_or_default(),
        false => serde_json::Value::Object(object),
    };
    let inner = reader.deeper::<serde_json::Error>()?.message(index).deserialize(json)?;
    inner.try_encode_to_vec().map_err(serde::de::Error::custom)
}

//! Messages as JSON without their secrets: what is called one, and what a schema marks with
//! `debug_redact`.
//!
//! A secret becomes `***`, so that a reader and a comparison see that something is there. Where a
//! field takes no text, its mask is what the field takes: the bytes of `***`, a list of one. A
//! number, an enum and a message have no mask and are left out.

use tidewire_admin::redact;
use tidewire_schema::{Kind, Message, MessageType, Scalar, Schema, Single};
use tidewire_service::Codec;
use tidewire_service::generated::serde_json::{self, Value as Json, json};

/// What redaction puts in the place of a secret.
pub(super) const MASK: &str = "***";

/// The bytes of it in base64.
const MASKED_BYTES: &str = "Kioq";

/// A message as JSON.
pub(super) struct MaskedMessage {
    pub(super) whole: Json,
    /// With [`MASK`] for each secret, whatever its field takes.
    pub(super) shown: Json,
}

impl MaskedMessage {
    /// A message in protobuf.
    ///
    /// # Errors
    /// When it does not decode, or has no JSON.
    pub(super) fn decode(schema: &Schema, name: &str, bytes: &[u8]) -> Result<Self, String> {
        let message = schema.decode(name, Codec::Proto, bytes).map_err(|why| why.to_string())?;
        Self::new(&message)
    }

    /// A message.
    ///
    /// # Errors
    /// When it has no JSON.
    pub(super) fn new(message: &Message) -> Result<Self, String> {
        let text = message.encode(Codec::Json).map_err(|why| why.to_string())?;
        let whole: Json = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
        let mut shown = whole.clone();
        redact::message(&mut shown, message.message_type());
        Ok(Self { whole, shown })
    }

    /// Whether a message comes back from its JSON, be it with its fields in another order; what is
    /// not in the JSON are fields that the schema does not have, and -0.
    pub(super) fn is_whole(&self, schema: &Schema, name: &str, bytes: &[u8]) -> bool {
        let again = schema.from_json(name, &self.whole).and_then(|one| one.encode(Codec::Proto));
        again.is_ok_and(|again| again.len() == bytes.len())
    }

    /// What is shown, in the form that the type takes.
    pub(super) fn into_readable(self, of: MessageType<'_>) -> Json {
        let Self { whole, mut shown } = self;
        if whole != shown {
            fit_message(&mut shown, of);
        }
        shown
    }
}

/// Puts masks into the form that their fields take, and takes away those that have none.
fn fit_message(value: &mut Json, of: MessageType<'_>) {
    let of = within_any(value, of);
    let Json::Object(members) = value else { return };
    members.retain(|name, value| match of.field(name).map(|field| field.kind()) {
        Some(Kind::One(single)) => fit(value, single),
        Some(Kind::List(single)) => match value {
            Json::Array(items) => {
                items.retain_mut(|item| fit(item, single));
                true
            }
            hidden => {
                let mut one = json!(MASK);
                let is_fit = fit(&mut one, single);
                *hidden = json!([one]);
                is_fit
            }
        },
        Some(Kind::Map { value: single, .. }) => match value {
            Json::Object(entries) => {
                entries.retain(|_, value| fit(value, single));
                true
            }
            _ => false,
        },
        // The JSON of a `Struct`, and the type of an `Any`.
        None => true,
    });
}

/// The type of what an `Any` holds, and otherwise the type itself.
fn within_any<'s>(value: &Json, of: MessageType<'s>) -> MessageType<'s> {
    let name = value["@type"].as_str().filter(|_| of.full_name() == "google.protobuf.Any");
    let inner = name.and_then(|name| of.sibling(name.rsplit('/').next().unwrap_or_default()));
    inner.unwrap_or(of)
}

/// The same of one value; whether there is anything left of it.
fn fit(value: &mut Json, of: Single<'_>) -> bool {
    let is_masked = value == MASK;
    match of {
        Single::Scalar(Scalar::String) => true,
        Single::Scalar(Scalar::Bytes) if is_masked => {
            *value = MASKED_BYTES.into();
            true
        }
        Single::Scalar(_) | Single::Enum(_) => !is_masked,
        Single::Message(of) => match of.full_name() {
            "google.protobuf.StringValue" | "google.protobuf.Value" => true,
            "google.protobuf.BytesValue" => fit(value, Single::Scalar(Scalar::Bytes)),
            "google.protobuf.ListValue" if is_masked => {
                *value = json!([MASK]);
                true
            }
            "google.protobuf.Struct" => !is_masked,
            _ => {
                fit_message(value, of);
                !is_masked
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use tidewire_schema::Sources;

    use super::*;

    #[test]
    fn what_json_does_not_say_of_a_message_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let proto = "syntax = \"proto3\"; package a.v1;
            message M { string text = 1; double size = 2; map<string, string> more = 3; M next = 4; }";
        std::fs::write(folder.path().join("a.proto"), proto).unwrap();
        let schema = Schema::compile(&Sources::new().folder(folder.path())).unwrap();
        let is_whole = |bytes: &[u8]| {
            let masked = MaskedMessage::decode(&schema, "a.v1.M", bytes).unwrap();
            masked.is_whole(&schema, "a.v1.M", bytes)
        };
        // `text`, then an unknown field 127.
        assert!(is_whole(b"\x0a\x01x"));
        assert!(!is_whole(b"\x0a\x01x\xfa\x07\x01y"));
        assert!(!is_whole(b"\x22\x04\xfa\x07\x01y"));
        // -0, 1 and entries in another order.
        assert!(!is_whole(b"\x11\0\0\0\0\0\0\0\x80"));
        assert!(is_whole(b"\x11\0\0\0\0\0\0\xf0\x3f"));
        assert!(is_whole(b"\x1a\x06\x0a\x01b\x12\x01x\x1a\x06\x0a\x01a\x12\x01y"));
    }
}

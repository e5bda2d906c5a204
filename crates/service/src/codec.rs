//! How a message becomes bytes: protobuf binary or proto JSON.
//!
//! JSON that does not fit a message is refused with the path of the offending field: the fast
//! decoder runs first, and only a failure pays for the one that knows paths.

use buffa::{Message, MessageName};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// How a message becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Protobuf's binary encoding.
    #[default]
    Proto,
    /// Protobuf's JSON mapping.
    Json,
}

impl Codec {
    /// The name as protocols spell it: `proto` or `json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proto => "proto",
            Self::Json => "json",
        }
    }

    /// Encodes a message.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) when the message has no JSON form (a timestamp out
    /// of range, for example) or is larger than protobuf's 2 GiB.
    pub fn encode<M: Message + Serialize>(self, message: &M) -> Result<Bytes> {
        match self {
            Self::Proto => message
                .try_encode_to_bytes()
                .map_err(|e| Error::internal("the reply cannot be encoded").with_cause(e)),
            Self::Json => serde_json::to_vec(message).map(Bytes::from).map_err(|e| {
                Error::internal(format!("the reply has no JSON form: {e}")).with_cause(e)
            }),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument), for JSON with the path of the field.
    pub fn decode<M: Message + MessageName + DeserializeOwned>(self, bytes: &[u8]) -> Result<M> {
        match self {
            Self::Proto => M::decode_from_slice(bytes).map_err(|e| {
                Error::invalid_argument(format!("request is not a valid message: {e}"))
            }),
            Self::Json if bytes.is_empty() => Err(Error::invalid_argument(
                "request body is empty; send a JSON object, {} for a message without fields",
            )),
            Self::Json if is_array(bytes) && !ARRAYS.contains(&M::FULL_NAME) => {
                Err(Error::invalid_argument("request is a JSON array; send a JSON object"))
            }
            Self::Json => serde_json::from_slice(bytes).map_err(|e| json_error::<M>(bytes, &e)),
        }
    }
}

/// The messages whose JSON form is an array, or may be one.
const ARRAYS: [&str; 2] = ["google.protobuf.ListValue", "google.protobuf.Value"];

/// Generated decoders would read an array as the fields in their order.
fn is_array(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'[')
}

/// Finds the path of what does not fit, by decoding once more with a decoder that keeps it.
fn json_error<M: DeserializeOwned>(bytes: &[u8], plain: &serde_json::Error) -> Error {
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let located = M::deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    match located {
        Ok(_) => invalid_json(plain, None),
        Err(cause) => invalid_json(&cause, Some(&track.path())),
    }
}

/// What is wrong with JSON: the field that does not fit, or the text that is no JSON.
pub(crate) fn invalid_json(
    cause: &serde_json::Error,
    path: Option<&serde_path_to_error::Path>,
) -> Error {
    let path = path.filter(|_| cause.is_data()).map(ToString::to_string);
    match path.filter(|path| path != "." && !path.contains('?')) {
        Some(path) => Error::invalid_argument(format!("field {path}: {cause}")),
        None => Error::invalid_argument(format!("request is not valid JSON: {cause}")),
    }
}

//! How a message becomes bytes: protobuf binary or proto JSON.
//!
//! Decoding says whose fault it is: a request that does not decode is the caller's, a reply that
//! does not decode is a fault of whoever sent it. JSON that does not fit a message is refused with
//! the path of the offending field: the fast decoder runs first, and only a failure pays for the
//! one that knows paths.

use buffa::{Message, MessageName, SizeCache};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Messages, Result};

/// How a message becomes bytes.
///
/// Exhaustive on purpose: another encoding is a decision for every protocol.
///
/// ```
/// # mod tidewire {
/// #     pub use tidewire_service::*;
/// #     pub mod types { pub use tidewire_service::generated::buffa_types::google::protobuf::*; }
/// # }
/// use tidewire::Codec;
/// use tidewire::types::Timestamp;
///
/// let time: Timestamp = Codec::Json.decode_request(b"\"1970-01-01T00:01:00Z\"")?;
/// assert_eq!(time.seconds, 60);
/// assert_eq!(Codec::Proto.encode(&time)?.as_ref(), [8, 60]);
/// # Ok::<(), tidewire::Error>(())
/// ```
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
                .map_err(|e| Error::internal("the message cannot be encoded").with_cause(e)),
            Self::Json => {
                let mut json = Vec::with_capacity(JSON_BYTES);
                serde_json::to_writer(&mut json, message).map_err(|e| {
                    Error::internal(format!("the message has no JSON form: {e}")).with_cause(e)
                })?;
                Ok(json.into())
            }
        }
    }

    /// Adds the encoded message to others, if it fits in with them: JSON does not.
    #[inline]
    pub(crate) fn add<M: Message>(self, message: &M, messages: &mut Messages) -> bool {
        if self == Self::Json {
            return false;
        }
        let mut cache = SizeCache::new();
        let size = message.compute_size(&mut cache) as usize;
        let takes = messages.takes(size);
        if takes {
            messages.add_with(size, |bytes| message.write_to(&mut cache, bytes));
        }
        takes
    }

    /// Decodes a request, on the side that serves.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument), for JSON with the path of the
    /// field.
    #[inline]
    pub fn decode_request<M>(self, bytes: &[u8]) -> Result<M>
    where
        M: Message + MessageName + DeserializeOwned,
    {
        self.decode(bytes).map_err(|wrong| Error::invalid_argument(wrong.of("request")))
    }

    /// Decodes a reply, on the side that calls.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal): the service answered with what is not such a
    /// message.
    pub fn decode_reply<M>(self, bytes: &[u8]) -> Result<M>
    where
        M: Message + MessageName + DeserializeOwned,
    {
        self.decode(bytes).map_err(|wrong| Error::internal(wrong.of("reply")).from_upstream())
    }

    #[inline]
    fn decode<M>(self, bytes: &[u8]) -> Result<M, DecodeFault>
    where
        M: Message + MessageName + DeserializeOwned,
    {
        match self {
            Self::Proto => {
                M::decode_from_slice(bytes).map_err(|e| DecodeFault::Message(e.to_string()))
            }
            Self::Json if bytes.is_empty() => Err(DecodeFault::Empty),
            Self::Json if is_array(bytes) && !ARRAYS.contains(&M::FULL_NAME) => {
                Err(DecodeFault::Array)
            }
            Self::Json => {
                // Text that is checked as a whole need not be checked string by string.
                let text = std::str::from_utf8(bytes).ok();
                let message = text.and_then(|text| serde_json::from_str(text).ok());
                message.map_or_else(|| located(bytes), Ok).map_err(DecodeFault::Json)
            }
        }
    }
}

/// Room for the JSON of a small message.
const JSON_BYTES: usize = 256;

/// Why bytes are not message.
enum DecodeFault {
    Message(String),
    Empty,
    Array,
    Json(JsonMismatch),
}

impl DecodeFault {
    fn of(self, what: &str) -> String {
        match self {
            Self::Message(why) => format!("{what} is not a valid message: {why}"),
            Self::Empty => format!(
                "{what} body is empty; send a JSON object, {{}} for a message without fields"
            ),
            Self::Array => format!("{what} is a JSON array; send a JSON object"),
            Self::Json(JsonMismatch { path: Some(path), why }) => format!("field {path}: {why}"),
            Self::Json(JsonMismatch { path: None, why }) => {
                format!("{what} is not valid JSON: {why}")
            }
        }
    }
}

/// The messages whose JSON form is an array, or may be one.
const ARRAYS: [&str; 2] = ["google.protobuf.ListValue", "google.protobuf.Value"];

/// Generated decoders would read an array as the fields in their order.
fn is_array(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'[')
}

/// What of JSON does not fit a type, and where.
pub(crate) struct JsonMismatch {
    /// The field; `None` when the text is not JSON at all.
    path: Option<String>,
    why: String,
}

impl std::fmt::Display for JsonMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "field {path}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

/// Decodes JSON with a decoder that knows where it is.
pub(crate) fn located<T: DeserializeOwned>(json: &[u8]) -> Result<T, JsonMismatch> {
    let mut track = serde_path_to_error::Track::new();
    let mut decoder = serde_json::Deserializer::from_slice(json);
    let decoded = T::deserialize(serde_path_to_error::Deserializer::new(&mut decoder, &mut track));
    decoded.and_then(|value| decoder.end().map(|()| value)).map_err(|cause| {
        let path = cause.is_data().then(|| track.path().to_string());
        let path = path.filter(|path| path != "." && !path.contains('?'));
        JsonMismatch { path, why: cause.to_string() }
    })
}

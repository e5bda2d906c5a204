//! What is worked out of a reply before the first one, and what a reply is when it is sent.

use bytes::Bytes;
use http::HeaderValue;
use tidewire_schema::{JsonStyle, Schema};
use tidewire_service::{Error, Result};

/// How a reply message becomes an HTTP body.
#[derive(Debug)]
pub(crate) struct ReplyPlan {
    pub(crate) schema: Schema,
    /// The full name of the message.
    pub(crate) message: String,
    /// The field that `response_body` names.
    pub(crate) field: Option<u32>,
    /// Whether what is sent is a `google.api.HttpBody`.
    pub(crate) raw: bool,
    pub(crate) style: JsonStyle,
}

/// A reply as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedReply {
    /// What it is; `None` for raw bytes of no type.
    pub content_type: Option<HeaderValue>,
    /// The body.
    pub body: Bytes,
}

impl ReplyPlan {
    /// Appends a message as it is printed: all of it, or the field that `response_body` names.
    ///
    /// # Errors
    /// When it is not a message of its type, or has no JSON form.
    pub(crate) fn print_into(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let Some(message_type) = self.schema.message_type(&self.message) else {
            return Err(Error::internal(format!("the schema has no {}", self.message)));
        };
        match self.field {
            None => message_type.print_reply(message, self.style, out),
            Some(number) => message_type.print_reply_field(message, number, self.style, out),
        }
    }
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

//! What a rule sees of a call: the request, its headers, and what the session remembers.

use std::borrow::Cow;
use std::collections::HashMap;

use tidewire_schema::Message;
use tidewire_service::Headers;

use crate::value::node::{Node, Number};
use crate::value::view::View;

/// The header that names a session.
pub const SESSION_HEADER: &str = "x-mock-session";

/// Everything that conditions and templates may look at.
#[derive(Debug, Clone)]
pub(crate) struct EvalContext<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) headers: &'a Headers,
    /// The message that a bidirectional rule answers.
    pub(crate) message: Option<&'a Message>,
    /// The item of a stream that is made.
    pub(crate) item: Option<ItemIndex>,
    pub(crate) state: &'a HashMap<String, Node>,
    /// How many calls of this method the session has made, this one included.
    pub(crate) attempt: u64,
    /// How many milliseconds the caller still waits, where it said so.
    pub(crate) timeout_ms: Option<u64>,
    /// The variables of the rule file.
    pub(crate) vars: Option<&'a Node>,
}

/// Which item of a stream, and of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemIndex {
    pub(crate) index: usize,
    pub(crate) total: usize,
}

/// What was asked: one message, or all of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    One(&'a Message),
    Many(&'a [Message]),
}

impl<'a> EvalContext<'a> {
    /// A header; several of one name with commas between them, `-bin` as text where it is.
    pub(crate) fn header(&self, name: &str) -> View<'a> {
        let mut all = self.headers.get_all(name).iter();
        let Some(first) = all.next() else { return View::Missing };
        let text = |value: &'a http::HeaderValue| -> Cow<'a, str> {
            if name.ends_with("-bin") {
                let decoded = decode_binary(value.as_bytes());
                if let Some(bytes) = decoded {
                    return Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            String::from_utf8_lossy(value.as_bytes())
        };
        let mut joined = text(first);
        for value in all {
            let joined = joined.to_mut();
            joined.push_str(", ");
            joined.push_str(&text(value));
        }
        View::Text(joined)
    }

    /// What is at `stream`.
    pub(crate) fn position(&self, steps: &[String]) -> View<'a> {
        let Some(ItemIndex { index, total }) = self.item else { return View::Missing };
        match steps {
            [] => View::Object,
            [name] => match name.as_str() {
                "index" => View::count(index),
                "total" => View::count(total),
                "isFirst" => View::Bool(index == 0),
                "isLast" => View::Bool(index + 1 == total),
                _ => View::Missing,
            },
            _ => View::Missing,
        }
    }

    /// The same, while an item of a stream is made.
    pub(crate) fn at_item(&self, index: usize, total: usize) -> Self {
        Self { item: Some(ItemIndex { index, total }), ..self.clone() }
    }
}

/// A number of milliseconds as rules see it.
pub(crate) fn millis<'a>(millis: u64) -> View<'a> {
    View::Number(Number::Integer(i128::from(millis)))
}

/// The bytes of a header whose name ends with `-bin`.
fn decode_binary(value: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    const ANY: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    ANY.decode(value).ok()
}

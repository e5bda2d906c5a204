//! What a reply is kept under: the call as it arrived.
//!
//! A key is looked up with the bytes of the request as they came, at no cost but reference counts; before
//! it is kept it gets bytes of its own ([`Key::detached`]), since those of a request are a view into the
//! buffer of its connection.

use std::fmt;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Method, Uri};
use tidewire_service::{Body, Call, Codec, Sharing, Target};

use crate::identity::{self, Identity};

/// A call, as far as its answer depends on it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    what: What,
    whose: Identity,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum What {
    Message { codec: Codec, accept: Codec, message: Bytes },
    Page { uri: Uri, accept: Option<HeaderValue> },
}

impl Key {
    /// The key of a call whose message is complete; `None` for a call that is never memoized.
    pub(crate) fn of(call: &Call, sharing: &Sharing) -> Option<Self> {
        let what = match (&call.target, &call.body) {
            (Target::Method(_), Body::Full(message)) => {
                What::Message { codec: call.codec, accept: call.accept, message: message.clone() }
            }
            (Target::Method(_), Body::Empty) => {
                What::Message { codec: call.codec, accept: call.accept, message: Bytes::new() }
            }
            (Target::Http(target), Body::Empty) if target.method == Method::GET => {
                let mut accepts = call.context.headers().get_all(ACCEPT).iter();
                let accept = accepts.next().cloned();
                if accepts.next().is_some() {
                    return None;
                }
                What::Page { uri: target.uri.clone(), accept }
            }
            _ => return None,
        };
        Some(Self { what, whose: identity::of(sharing, &call.context) })
    }

    /// The bytes that the key holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        match &self.what {
            What::Message { message, .. } => message.len(),
            What::Page { uri, accept } => {
                let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
                path + accept.as_ref().map_or(0, |value| value.len())
            }
        }
    }

    /// The same key with bytes of its own.
    pub(crate) fn detached(&self) -> Self {
        let what = match &self.what {
            What::Message { codec, accept, message } => What::Message {
                codec: *codec,
                accept: *accept,
                message: Bytes::copy_from_slice(message),
            },
            What::Page { uri, accept } => What::Page {
                // A URI that was parsed once parses again.
                uri: uri.to_string().parse().unwrap_or_else(|_| uri.clone()),
                accept: accept.as_ref().map(|value| {
                    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
                }),
            },
        };
        Self { what, whose: self.whose }
    }
}

/// Names the page, or the size of the message: what is in a message may be nobody else's business.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Message { codec, message, .. } => {
                write!(f, "{codec:?} message of {} bytes", message.len())?;
            }
            What::Page { uri, .. } => f.write_str(uri.path())?,
        }
        if self.whose == 0 { Ok(()) } else { write!(f, " for {:08x}", self.whose >> 96) }
    }
}

//! What a reply is kept under: the call as it arrived.
//!
//! A call is looked up by what it lends ([`Asked`]), at no cost; a key of its own bytes ([`Key`]) is made
//! where an answer is to be kept, since those of a request are a view into the buffer of its connection.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderValue, Method, Uri};
use tidewire_service::{Body, Call, Codec, Sharing, Target};

use crate::identity::{self, Identity};

/// A call, as far as its answer depends on it.
#[derive(Clone)]
pub(crate) struct Key {
    what: What,
    whose: Identity,
}

#[derive(Clone)]
enum What {
    Message { codec: Codec, accept: Codec, message: Bytes },
    Page { uri: Uri, accept: Option<HeaderValue> },
}

/// The same, lent by a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asked<'a> {
    what: Lent<'a>,
    whose: Identity,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Lent<'a> {
    Message {
        codec: Codec,
        accept: Codec,
        message: &'a [u8],
    },
    /// Letters stay as they came: who asks for `HTTP://A/` and for `http://a/` may be told so.
    Page {
        scheme: Option<&'a str>,
        authority: Option<&'a str>,
        path: &'a str,
        accept: Option<&'a [u8]>,
    },
}

impl<'a> Asked<'a> {
    /// What is asked by a call whose message is complete; `None` for a call that is never memoized.
    pub(crate) fn of(call: &'a Call, sharing: &Sharing) -> Option<Self> {
        let what = match (&call.target, &call.body) {
            (Target::Method(_), Body::Full(message)) => {
                Lent::Message { codec: call.codec, accept: call.accept, message }
            }
            (Target::Method(_), Body::Empty) => {
                Lent::Message { codec: call.codec, accept: call.accept, message: &[] }
            }
            (Target::Http(target), Body::Empty) if target.method == Method::GET => {
                let mut accepts = call.context.headers().get_all(ACCEPT).iter();
                let accept = accepts.next();
                if accepts.next().is_some() {
                    return None;
                }
                page(&target.uri, accept)
            }
            _ => return None,
        };
        Some(Self { what, whose: identity::of(sharing, &call.context) })
    }

    /// How many bytes there are that a caller can choose.
    pub(crate) fn bytes(&self) -> usize {
        match &self.what {
            Lent::Message { message, .. } => message.len(),
            Lent::Page { scheme, authority, path, accept } => {
                let hosts = [scheme, authority].map(|part| part.map_or(0, str::len));
                hosts.iter().sum::<usize>() + path.len() + accept.map_or(0, <[u8]>::len)
            }
        }
    }

    /// The key, with bytes of its own.
    pub(crate) fn to_key(self) -> Key {
        let what = match self.what {
            Lent::Message { codec, accept, message } => {
                What::Message { codec, accept, message: Bytes::copy_from_slice(message) }
            }
            Lent::Page { scheme, authority, path, accept } => {
                let mut uri = Uri::builder().path_and_query(path.to_owned());
                if let Some(scheme) = scheme {
                    uri = uri.scheme(scheme);
                }
                if let Some(authority) = authority {
                    uri = uri.authority(authority);
                }
                What::Page {
                    // The parts of a URI that was parsed once.
                    uri: uri.build().unwrap_or_default(),
                    accept: accept.and_then(|accept| HeaderValue::from_bytes(accept).ok()),
                }
            }
        };
        Key { what, whose: self.whose }
    }
}

fn page<'a>(uri: &'a Uri, accept: Option<&'a HeaderValue>) -> Lent<'a> {
    Lent::Page {
        scheme: uri.scheme_str(),
        authority: uri.authority().map(|authority| authority.as_str()),
        path: uri.path_and_query().map_or("", |path| path.as_str()),
        accept: accept.map(HeaderValue::as_bytes),
    }
}

impl Key {
    fn asked(&self) -> Asked<'_> {
        let what = match &self.what {
            What::Message { codec, accept, message } => {
                Lent::Message { codec: *codec, accept: *accept, message }
            }
            What::Page { uri, accept } => page(uri, accept.as_ref()),
        };
        Asked { what, whose: self.whose }
    }

    /// The bytes that the key holds beside itself.
    pub(crate) fn bytes(&self) -> usize {
        self.asked().bytes()
    }
}

/// Keys and what is lent, for looking up one by the other.
pub(crate) trait Parts {
    fn parts(&self) -> Asked<'_>;
}

impl Parts for Key {
    fn parts(&self) -> Asked<'_> {
        self.asked()
    }
}

impl Parts for Asked<'_> {
    fn parts(&self) -> Asked<'_> {
        *self
    }
}

impl<'a> Borrow<dyn Parts + 'a> for Key {
    fn borrow(&self) -> &(dyn Parts + 'a) {
        self
    }
}

impl PartialEq for dyn Parts + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Parts + '_ {}

impl Hash for dyn Parts + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.asked() == other.asked()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.asked().hash(state);
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

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn what_is_lent_finds_the_key_that_is_made_of_it() {
        let uris = ["/a?b=%20", "http://Host:1/a?b=%20", "http://host:1/a?b=%20", "*"];
        let uris = uris.map(Uri::from_static);
        let accept = HeaderValue::from_static("text/html");
        let lent = [
            page(&uris[0], None),
            page(&uris[1], None),
            page(&uris[2], None),
            page(&uris[3], Some(&accept)),
            Lent::Message { codec: Codec::Json, accept: Codec::Proto, message: b"{}" },
            Lent::Message { codec: Codec::Proto, accept: Codec::Proto, message: b"{}" },
        ]
        .map(|what| Asked { what, whose: 7 });
        let hasher = std::hash::RandomState::new();
        for one in lent {
            let key = one.to_key();
            for other in lent {
                let looked: &dyn Parts = &other;
                let known: &dyn Parts = key.borrow();
                assert_eq!(known == looked, one == other);
                assert_eq!(key.bytes(), one.bytes());
            }
            let looked: &dyn Parts = &one;
            assert_eq!(hasher.hash_one(looked), hasher.hash_one(&key));
        }
    }
}

//! What a reply is kept under: the call as it arrived.
//!
//! A lookup borrows the key from the call ([`BorrowedKey`]). A [`Key`] is made only to keep an
//! answer, because the bytes of a request are a view into the buffer of its connection.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderValue, Method, Uri};
use tidewire_service::{Body, Call, Codec, Target};

use crate::identity::{self, Identity};
use crate::scope::Scope;

/// A call, as far as its answer depends on it: in one piece, which whoever holds the key shares.
#[derive(Clone)]
pub(crate) struct Key {
    kind: Kind,
    /// Whose it is, then the message, or the parts of a page one behind the other.
    bytes: Arc<[u8]>,
}

#[derive(Clone, Copy)]
enum Kind {
    Message {
        codec: Codec,
        accept: Codec,
    },
    /// How long each part is that is there; what the caller accepts is the rest.
    Page {
        scheme: Option<u16>,
        authority: Option<u16>,
        path: u32,
        has_accept: bool,
    },
}

/// The same, lent by a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BorrowedKey<'a> {
    what: BorrowedParts<'a>,
    whose: Identity,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum BorrowedParts<'a> {
    Message {
        codec: Codec,
        accept: Codec,
        message: &'a [u8],
    },
    /// Letters stay as they came: who asks for `HTTP://A/` and for `http://a/` may be told so.
    Page {
        scheme: Option<&'a [u8]>,
        authority: Option<&'a [u8]>,
        path: &'a [u8],
        accept: Option<&'a [u8]>,
    },
}

impl<'a> BorrowedKey<'a> {
    /// What is asked by a call whose message is complete; `None` for a call that is never memoized.
    pub(crate) fn of(call: &'a Call, scope: &Scope) -> Option<Self> {
        let what = match (&call.target, &call.body) {
            (Target::Method(_), Body::Full(message)) => {
                BorrowedParts::Message { codec: call.codec, accept: call.accept, message }
            }
            (Target::Method(_), Body::Empty) => {
                BorrowedParts::Message { codec: call.codec, accept: call.accept, message: &[] }
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
        Some(Self { what, whose: identity::of(scope, &call.context) })
    }

    /// The same, asked by a call that is part of others: see [`identity::of_chain`].
    pub(crate) fn within(self, chain: Identity) -> Self {
        Self { whose: self.whose ^ chain, ..self }
    }

    /// How many bytes there are that a caller can choose.
    pub(crate) fn bytes(&self) -> usize {
        match &self.what {
            BorrowedParts::Message { message, .. } => message.len(),
            BorrowedParts::Page { scheme, authority, path, accept } => {
                let hosts = [scheme, authority].map(|part| part.map_or(0, <[u8]>::len));
                hosts.iter().sum::<usize>() + path.len() + accept.map_or(0, <[u8]>::len)
            }
        }
    }

    /// The key, with its own bytes; `None` for a page with a host that no key has room for.
    pub(crate) fn to_key(self) -> Option<Key> {
        let whose = self.whose.to_be_bytes();
        match self.what {
            BorrowedParts::Message { codec, accept, message } => {
                // Its length is known, so this is one allocation.
                let bytes = whose.iter().chain(message).copied().collect();
                Some(Key { kind: Kind::Message { codec, accept }, bytes })
            }
            BorrowedParts::Page { scheme, authority, path, accept } => {
                let length =
                    |part: Option<&[u8]>| part.map(|it| u16::try_from(it.len())).transpose();
                let kind = Kind::Page {
                    scheme: length(scheme).ok()?,
                    authority: length(authority).ok()?,
                    path: u32::try_from(path.len()).ok()?,
                    has_accept: accept.is_some(),
                };
                let [scheme, authority] = [scheme, authority].map(Option::unwrap_or_default);
                let accept = accept.unwrap_or_default();
                let bytes = [&whose[..], scheme, authority, path, accept].concat().into();
                Some(Key { kind, bytes })
            }
        }
    }
}

fn page<'a>(uri: &'a Uri, accept: Option<&'a HeaderValue>) -> BorrowedParts<'a> {
    BorrowedParts::Page {
        scheme: uri.scheme_str().map(str::as_bytes),
        authority: uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: uri.path_and_query().map_or("", |path| path.as_str()).as_bytes(),
        accept: accept.map(HeaderValue::as_bytes),
    }
}

/// A part of this length, if there is one, and what comes behind it.
fn cut(bytes: &[u8], length: Option<u16>) -> (Option<&[u8]>, &[u8]) {
    let (part, rest) = bytes.split_at(length.unwrap_or_default().into());
    (length.map(|_| part), rest)
}

impl Key {
    fn as_borrowed(&self) -> BorrowedKey<'_> {
        let (whose, rest) = self.bytes.split_first_chunk().expect("a key begins with whose it is");
        let what = match self.kind {
            Kind::Message { codec, accept } => {
                BorrowedParts::Message { codec, accept, message: rest }
            }
            Kind::Page { scheme, authority, path, has_accept } => {
                let (scheme, rest) = cut(rest, scheme);
                let (authority, rest) = cut(rest, authority);
                let (path, accept) = rest.split_at(path as usize);
                BorrowedParts::Page {
                    scheme,
                    authority,
                    path,
                    accept: has_accept.then_some(accept),
                }
            }
        };
        BorrowedKey { what, whose: Identity::from_be_bytes(*whose) }
    }

    /// Whether the reply is a protobuf message.
    pub(crate) fn is_protobuf(&self) -> bool {
        matches!(self.kind, Kind::Message { accept: Codec::Proto, .. })
    }

    /// The path, or the beginning of the message, for developers.
    pub(crate) fn summary(&self) -> String {
        match self.as_borrowed().what {
            BorrowedParts::Page { path, .. } => format!("{:?}", String::from_utf8_lossy(path)),
            BorrowedParts::Message { codec: Codec::Json, message, .. } => {
                let message = &message[..message.len().min(SHOWN_MAX)];
                format!("{:?}", String::from_utf8_lossy(message))
            }
            BorrowedParts::Message { message, .. } => {
                let message = message.iter().take(SHOWN_MAX / 2);
                message.map(|byte| format!("{byte:02x}")).collect()
            }
        }
    }

    /// How many bytes there are beside those of the key itself.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// How many characters of a message are shown.
const SHOWN_MAX: usize = 200;

/// Keys and what is lent, for looking up one by the other.
pub(crate) trait Parts {
    fn parts(&self) -> BorrowedKey<'_>;
}

impl Parts for Key {
    fn parts(&self) -> BorrowedKey<'_> {
        self.as_borrowed()
    }
}

impl Parts for BorrowedKey<'_> {
    fn parts(&self) -> BorrowedKey<'_> {
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
        self.as_borrowed() == other.as_borrowed()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_borrowed().hash(state);
    }
}

/// Names the page, or the size of the message: what is in a message may be nobody else's business.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BorrowedKey { what, whose } = self.as_borrowed();
        match what {
            BorrowedParts::Message { codec, message, .. } => {
                write!(f, "{codec:?} message of {} bytes", message.len())?;
            }
            BorrowedParts::Page { path, .. } => {
                let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
                f.write_str(&String::from_utf8_lossy(path))?;
            }
        }
        if whose == 0 { Ok(()) } else { write!(f, " for {:08x}", whose >> 96) }
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
            BorrowedParts::Message { codec: Codec::Json, accept: Codec::Proto, message: b"{}" },
            BorrowedParts::Message { codec: Codec::Proto, accept: Codec::Proto, message: b"{}" },
        ]
        .map(|what| BorrowedKey { what, whose: 7 });
        let hasher = std::hash::RandomState::new();
        for one in lent {
            let key = one.to_key().unwrap();
            for other in lent {
                let looked: &dyn Parts = &other;
                let known: &dyn Parts = key.borrow();
                assert_eq!(known == looked, one == other);
                assert_eq!(key.bytes(), one.bytes() + 16);
            }
            let looked: &dyn Parts = &one;
            assert_eq!(hasher.hash_one(looked), hasher.hash_one(&key));
        }
    }
}

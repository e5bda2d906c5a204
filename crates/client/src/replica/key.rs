//! What a replica is of: a query as it is sent.
//!
//! Headers belong to it, since the answer may depend on them (credentials above all); but for those
//! of a trace, which differ with each call. A call is looked up by what it lends ([`BorrowedKey`]),
//! at no cost; an owned key is made where there is no replica yet.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderName;
use tidewire_service::{
    Body, Call, Codec, Context, Headers, Method, StreamKind, Target, Validator,
};

use crate::trace::now;

/// A query as it is sent; clones share it.
#[derive(Clone)]
pub(crate) struct Key(Arc<Parts>);

struct Parts {
    method: Method,
    codec: Codec,
    message: Bytes,
    /// Without those of a trace.
    headers: Headers,
}

/// The same, lent by a call.
#[derive(Clone, Copy)]
pub(crate) struct BorrowedKey<'a> {
    method: &'a Method,
    codec: Codec,
    message: &'a [u8],
    headers: &'a Headers,
}

impl<'a> BorrowedKey<'a> {
    /// What is asked by a call; `None` for what is not a query with one answer.
    pub(crate) fn of(call: &'a Call) -> Option<Self> {
        let Target::Method(method) = &call.target else { return None };
        if !method.is_query() || method.kind != StreamKind::Unary || call.codec != call.accept {
            return None;
        }
        let message = match &call.body {
            Body::Full(message) => &message[..],
            Body::Empty => &[],
            Body::Stream(_) => return None,
        };
        Some(Self { method, codec: call.codec, message, headers: call.context.headers() })
    }

    /// The key, with its own bytes.
    pub(crate) fn to_key(self) -> Key {
        let Self { method, codec, message, headers } = self;
        let mut headers = headers.clone();
        for name in OF_A_TRACE {
            headers.remove(name);
        }
        let message = Bytes::copy_from_slice(message);
        Key(Arc::new(Parts { method: method.clone(), codec, message, headers }))
    }

    fn names(&self) -> impl Iterator<Item = &'a HeaderName> + use<'a> {
        self.headers.keys().filter(|name| !OF_A_TRACE.contains(&name.as_str()))
    }

    fn has_headers_of(&self, other: &Self) -> bool {
        if self.headers.is_empty() && other.headers.is_empty() {
            return true;
        }
        let [one, two] = [self.headers, other.headers];
        self.names().count() == other.names().count()
            && self.names().all(|name| one.get_all(name) == two.get_all(name))
    }
}

/// Headers that say of which trace a call is a part.
const OF_A_TRACE: [&str; 2] = ["traceparent", "tracestate"];

impl PartialEq for BorrowedKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
            && self.codec == other.codec
            && self.method.path == other.method.path
            && self.has_headers_of(other)
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.method.path.hash(state);
        self.codec.hash(state);
        self.message.hash(state);
        self.names().count().hash(state);
    }
}

/// Keys and what is lent, for looking up one by the other.
pub(crate) trait KeyView {
    fn as_borrowed(&self) -> BorrowedKey<'_>;
}

impl KeyView for Key {
    fn as_borrowed(&self) -> BorrowedKey<'_> {
        let Parts { method, codec, message, headers } = &*self.0;
        BorrowedKey { method, codec: *codec, message, headers }
    }
}

impl KeyView for BorrowedKey<'_> {
    fn as_borrowed(&self) -> BorrowedKey<'_> {
        *self
    }
}

impl<'a> Borrow<dyn KeyView + 'a> for Key {
    fn borrow(&self) -> &(dyn KeyView + 'a) {
        self
    }
}

impl PartialEq for dyn KeyView + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.as_borrowed() == other.as_borrowed()
    }
}

impl Eq for dyn KeyView + '_ {}

impl Hash for dyn KeyView + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_borrowed().hash(state);
    }
}

impl Key {
    /// The call that asks for it, of whoever holds the content with this validator.
    pub(crate) fn call(&self, held: Option<Validator>, timeout: Duration) -> Call {
        let Parts { method, codec, message, headers } = &*self.0;
        let mut context = Context::new(headers.clone()).with_deadline(now().checked_add(timeout));
        context.set_held(held.into_iter().collect());
        Call::method(method.clone(), context, *codec, message.clone())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_borrowed() == other.as_borrowed()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_borrowed().hash(state);
    }
}

impl fmt::Debug for Key {
    /// Without headers, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.0.method.path, self.0.message.len())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use tidewire_service::{Idempotency, Spec};

    use super::*;

    fn call(message: &'static str, headers: &[(&'static str, &str)]) -> Call {
        let mut map = Headers::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header value"));
        }
        let spec = Spec::dynamic("a.B", "C", StreamKind::Unary, ["a.D", "a.E"])
            .idempotency(Idempotency::NoSideEffects);
        let message = Bytes::from_static(message.as_bytes());
        Call::method(Arc::new(spec), Context::new(map), Codec::Proto, message)
    }

    #[test]
    fn what_is_lent_finds_the_key_that_is_made_of_it_and_no_other() {
        let (a, b) = (("authorization", "a"), ("authorization", "b"));
        let (trace, x, y) = (("traceparent", "1"), ("x", "1"), ("x", "2"));
        let calls = [
            vec![call("1", &[]), call("1", &[trace])],
            vec![call("2", &[])],
            vec![call("1", &[a]), call("1", &[trace, a]), call("1", &[a, trace])],
            vec![call("1", &[b])],
            vec![call("1", &[x, y]), call("1", &[trace, x, y])],
            vec![call("1", &[y, x])],
            vec![call("1", &[x])],
            vec![call("1", &[a, x]), call("1", &[x, a])],
        ];
        let hasher = std::hash::RandomState::new();
        for (at, these) in calls.iter().enumerate() {
            for (other, those) in calls.iter().enumerate() {
                for (one, two) in
                    these.iter().flat_map(|one| those.iter().map(move |two| (one, two)))
                {
                    let key = BorrowedKey::of(one).expect("a query").to_key();
                    let lent = BorrowedKey::of(two).expect("a query");
                    let lent: &dyn KeyView = &lent;
                    let borrowed: &dyn KeyView = key.borrow();
                    assert_eq!(borrowed == lent, at == other, "{at} and {other}");
                    if at == other {
                        assert_eq!(hasher.hash_one(&key), hasher.hash_one(lent), "{at}");
                    }
                }
            }
        }
    }
}

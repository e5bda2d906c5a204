//! What a replica is of: a query as it is sent.
//!
//! Headers belong to it, since the answer may depend on them (credentials above all); but for those of a
//! trace, which differ with each call.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tidewire_service::{Call, Codec, Context, Method, Target, Validator};

use crate::trace::now;

/// A query as it is sent; clones share it.
#[derive(Clone)]
pub(crate) struct Key(Arc<Parts>);

struct Parts {
    method: Method,
    codec: Codec,
    message: Bytes,
    headers: HeaderMap,
}

impl Key {
    /// The key of a call of a method; `None` for other calls.
    pub(crate) fn of(call: &Call, message: Bytes) -> Option<Self> {
        let Target::Method(method) = &call.target else { return None };
        if call.codec != call.accept {
            return None;
        }
        let mut headers = call.context.headers().clone();
        for name in ["traceparent", "tracestate"] {
            headers.remove(name);
        }
        Some(Self(Arc::new(Parts { method: method.clone(), codec: call.codec, message, headers })))
    }

    /// The call that asks for it, of who holds the content with this validator.
    pub(crate) fn call(&self, held: Option<Validator>, timeout: Duration) -> Call {
        let Parts { method, codec, message, headers } = &*self.0;
        let mut context = Context::new(headers.clone()).with_deadline(now().checked_add(timeout));
        context.set_held(held.into_iter().collect());
        Call::method(method.clone(), context, *codec, message.clone())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0)
            || one.message == two.message
                && one.codec == two.codec
                && one.method.path == two.method.path
                && one.headers == two.headers
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Parts { method, codec, message, headers } = &*self.0;
        method.path.hash(state);
        codec.hash(state);
        message.hash(state);
        headers.len().hash(state);
    }
}

impl fmt::Debug for Key {
    /// Without headers, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.0.method.path, self.0.message.len())
    }
}

//! What the check of hits (`verify.rs`) finds, and who is told.

use std::fmt;
use std::sync::Arc;

/// A cached reply that differed when its method ran again, although nothing that it declared had
/// changed; see [`ReplyCache::verify`](crate::ReplyCache::verify).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The method, `/shop.v1.Items/Get`, or `pages` for plain handlers.
    pub method: String,
    /// The beginning of the request: its path, its message as JSON, or as protobuf in hexadecimal.
    pub key: String,
    /// What the reply depends on, as far as it was declared: `source(key)`, at most 100.
    pub declared: Vec<String>,
    /// The first thing that differs, such as `field "count"`.
    pub difference: String,
}

/// Who is told of a mismatch.
#[derive(Clone)]
pub(crate) struct OnMismatch(pub(crate) Arc<dyn Fn(&Mismatch) + Send + Sync>);

impl Default for OnMismatch {
    /// An error in the log.
    fn default() -> Self {
        Self(Arc::new(|mismatch| {
            tracing::error!(method = %mismatch.method, "{mismatch}");
        }))
    }
}

impl fmt::Debug for OnMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnMismatch")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, key, declared, difference } = self;
        let declared = match &declared[..] {
            [] => "nothing".to_owned(),
            declared => declared.join(", "),
        };
        write!(
            f,
            "the cached reply of {method} to {key} is wrong: the method ran again and gave another \
             {difference}, although what it reads as far as it says ({declared}) has not changed; \
             read the rest through a source too, or give the method a ttl"
        )
    }
}

//! Why a reply was not kept.

use std::fmt;

use http::StatusCode;
use tidewire_service::Code;

/// Why the reply of a query was not kept. Its text is what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The handler read something of the call that is not in the key.
    Private(String),
    /// Nothing would end it: no source and no memo was read, and no `ttl` or `immutable` is
    /// declared.
    Untracked,
    /// Nothing tells of the end of something that it is made of: another answer that is not kept,
    /// or what [`read_untracked`](tidewire_memo::read_untracked) said.
    Untold,
    /// The code says nothing about the next call.
    Code(Code),
    /// The HTTP status says nothing about the next call.
    Status(StatusCode),
    /// The reply sets a cookie.
    Cookie,
    /// The body is a stream, or the reply is one that cannot be given again (an upgrade, a script).
    Stream,
    /// The reply is larger than what is kept.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The setting that it passed.
        reply_bytes_max: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private(part) => write!(f, "read {part}, which is not in its key: private"),
            Self::Untracked => f.write_str(
                "read no source and no memo, and declares neither ttl nor immutable: not memoized",
            ),
            Self::Untold => f.write_str(
                "depends on something that no source announces, such as a reply that is not cached: not memoized",
            ),
            Self::Code(code) => write!(f, "failed with {code}: not memoized"),
            Self::Status(status) => {
                write!(f, "has the status {}: not memoized", status.as_u16())
            }
            Self::Cookie => f.write_str("sets a cookie: not memoized"),
            Self::Stream => f.write_str("is a stream: not memoized"),
            Self::TooLarge { bytes, reply_bytes_max } => {
                write!(f, "has {bytes} bytes, over reply_bytes_max {reply_bytes_max}: not memoized")
            }
        }
    }
}

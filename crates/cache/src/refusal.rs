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
            Self::Private(part) => {
                write!(f, "depends on {part} of its request, which is not in its key: not cached")
            }
            Self::Untracked => f.write_str(
                "depends on nothing that can change: its handler named no source (`depends` in an \
                 SDK; reading a source or a memo in Rust), and its method declares neither ttl nor \
                 immutable: not cached",
            ),
            Self::Untold => f.write_str(
                "depends on something whose changes nobody tells, such as the reply of a method that \
                 is not cached: not cached",
            ),
            Self::Code(code) => write!(f, "failed with {code}: not cached"),
            Self::Status(status) => {
                write!(f, "has the status {}: not cached", status.as_u16())
            }
            Self::Cookie => f.write_str("sets a cookie: not cached"),
            Self::Stream => f.write_str("is a stream: not cached"),
            Self::TooLarge { bytes, reply_bytes_max } => {
                write!(f, "has {bytes} bytes, over reply_bytes_max {reply_bytes_max}: not cached")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_sources_is_told_for_programs_in_any_language() {
        let text = Refusal::Untracked.to_string();
        assert!(text.contains("`depends` in an SDK") && text.ends_with("not cached"), "{text}");
    }
}

//! The host that a request asks for: one rule for HTTP/1.1 and HTTP/2.
//!
//! | request | answer |
//! |---|---|
//! | no host at all; HTTP/1.0 needs none (RFC 9112, section 3.2; RFC 9113, section 8.3.1) | 400 |
//! | two `Host` fields | 400 |
//! | a host that is not `HOST` or `HOST:PORT`: `user@a`, `a,b`, `a:99999` | 400 |
//! | `Host` unlike the host of the target (`:authority`, `GET http://a/`) | 400 |
//!
//! A target in absolute form decides over `Host` (RFC 9112, section 3.2.2), and not every program
//! before and behind a server knows that. So a request that names two hosts is refused rather than
//! read in one of two ways.

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use tidewire_service::{Error, Result};
use tidewire_wire::is_host;

/// Checks the host of a request.
///
/// # Errors
/// As in the table.
#[inline]
pub(crate) fn check(version: Version, headers: &HeaderMap, uri: &Uri) -> Result<()> {
    let target = uri.authority().map(Authority::as_str);
    if let Some(target) = target
        && !is_host(target.as_bytes())
    {
        return Err(wrong("host of the target", &format!("is {target:?}")));
    }
    // Most requests have no name twice, and looking all values up costs more than the first.
    let is_twice =
        || headers.len() > headers.keys_len() && headers.get_all(HOST).iter().count() > 1;
    match (first(headers, &HOST), target) {
        (None, Some(_)) if version > Version::HTTP_11 => Ok(()),
        (None, _) if version < Version::HTTP_11 => Ok(()),
        (None, _) => Err(wrong("header host", "is missing")),
        (Some(_), _) if is_twice() => Err(wrong("header host", "occurs twice")),
        (Some(host), _) if !is_host(host.as_bytes()) => {
            Err(wrong("header host", &format!("is {host:?}")))
        }
        (Some(host), Some(target)) if !target.as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
            let text =
                format!("header host is {host:?}, but the target is of {target:?}; send one");
            Err(Error::invalid_argument(text))
        }
        (Some(_), _) => Ok(()),
    }
}

/// The first value of a header.
#[inline]
fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    // Few names are compared sooner than one is hashed.
    match headers.len() {
        ..=FEW => headers.iter().find(|(other, _)| *other == name).map(|(_, value)| value),
        _ => headers.get(name),
    }
}

const FEW: usize = 8;

#[cold]
fn wrong(which: &str, what: &str) -> Error {
    Error::invalid_argument(format!("{which} {what}; send it once, as HOST or HOST:PORT"))
}

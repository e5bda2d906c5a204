//! What was done for a request is told in `Cache-Status` (RFC 9211).

use http::{HeaderName, HeaderValue};
use tidewire_service::Headers;

/// Appends to `Cache-Status`: who is nearest to the caller is last.
pub(super) fn append_cache_status(headers: &mut Headers, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.append(CACHE_STATUS, value);
    }
}

/// The parameter of a request that waited for another one.
pub(super) fn collapsed(was: bool) -> &'static str {
    if was { "; collapsed" } else { "" }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

//! The host that a request is for, as a header.

use http::Uri;
use http::header::{HOST, HeaderValue};
use tidewire_service::Context;

/// HTTP/2 has the host in its target; who makes a URL, or looks who is asked for, reads the header.
/// Where both are there the target counts (RFC 9113, section 8.3.1; RFC 9112, section 3.2.2).
pub(crate) fn add_host(context: &mut Context, uri: &Uri) {
    if let Some(authority) = uri.authority()
        && context.headers().get(HOST).is_none_or(|host| host != authority.as_str())
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        context.headers_mut().insert(HOST, host);
    }
}

//! What the headers of a request say of its body and of the reply that is wanted.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use tidewire_service::{Error, Headers, Result};

use crate::binding::Binding;

/// Checks that a body is in a form that is read here.
///
/// # Errors
/// 415 for another content type or a compressed body.
pub(crate) fn check(binding: &Binding, headers: &Headers, has_body: bool) -> Result<()> {
    if !has_body {
        return Ok(());
    }
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|value| *value != "identity") {
        return Err(unsupported(format!(
            "content encoding {encoding:?} is not read for REST; send the body as it is"
        )));
    }
    let Some(content_type) = content_type(headers) else {
        // A page of any origin may send such a body without asking (Fetch, section 2.2.2).
        return match binding.request.raw {
            true => Ok(()),
            false => Err(unsupported(format!(
                "a body without a content type is not read here; send {}",
                expected_types(binding)
            ))),
        };
    };
    let essence = content_type.to_str().unwrap_or_default();
    let essence = essence.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = || essence == "application/json" || essence.ends_with("+json");
    let known = if binding.method.kind.client_streams() {
        NDJSON.contains(&&*essence) || json()
    } else {
        json()
    };
    if binding.request.raw || known {
        return Ok(());
    }
    let wanted = expected_types(binding);
    Err(unsupported(format!("content type {essence:?} is not read here; send {wanted}")))
}

fn expected_types(binding: &Binding) -> &'static str {
    match binding.method.kind.client_streams() {
        true => "application/x-ndjson, one JSON message a line",
        false => "application/json",
    }
}

/// The content type of a request.
pub(crate) fn content_type(headers: &Headers) -> Option<&HeaderValue> {
    headers.get(CONTENT_TYPE)
}

/// Whether a stream of replies is to come as lines.
pub(crate) fn wants_lines(headers: &Headers) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        NDJSON.iter().any(|known| essence.eq_ignore_ascii_case(known))
    })
}

/// The error for a body where none is read.
pub(crate) fn no_body() -> Error {
    Error::invalid_argument("a body is not read here; give the fields in the path or the query")
}

fn unsupported(message: String) -> Error {
    Error::invalid_argument(message).with_http_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Names of the same format: one JSON value a line.
const NDJSON: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

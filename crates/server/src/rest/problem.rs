//! Errors as `application/problem+json` (RFC 9457), for servers that are told so.

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use tidewire_service::{Body, Error};

use super::options::ErrorFormat;
use crate::plain::{error_json, error_response};

/// The response for an error.
pub(crate) fn response(error: &Error, format: ErrorFormat) -> Response<Body> {
    let mut response = error_response(error);
    if format == ErrorFormat::Problem {
        *response.body_mut() = Body::Full(problem(error).into());
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, problem);
    }
    response
}

/// `title` is the status, `detail` the message; code and details are extension members.
fn problem(error: &Error) -> String {
    let mut members: serde_json::Value =
        serde_json::from_slice(&error_json(error)).unwrap_or_default();
    let status = error.http_status();
    let mut problem = serde_json::json!({
        "title": status.canonical_reason().unwrap_or_else(|| error.code().as_str()),
        "status": status.as_u16(),
        "detail": error.message(),
        "code": error.code().as_str(),
    });
    if let Some(details) = members.get_mut("details") {
        problem["details"] = details.take();
    }
    problem.to_string()
}

//! Errors as bodies: as Connect has them, or `application/problem+json` (RFC 9457).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};
use tidewire_service::Error;

use crate::options::ErrorFormat;
use crate::reply::{JSON, PrintedReply};

impl ErrorFormat {
    /// The body for an error.
    pub fn print(self, error: &Error) -> PrintedReply {
        match self {
            Self::Connect => PrintedReply { content_type: Some(JSON), body: error_json(error) },
            Self::Problem => PrintedReply {
                content_type: Some(PROBLEM),
                body: problem(error).to_string().into(),
            },
        }
    }
}

/// An error as Connect has it in JSON: `{"code":"not_found","message":"…"}`.
pub fn error_json(error: &Error) -> Bytes {
    let mut json = json!({ "code": error.code().as_str(), "message": error.message() });
    add_details(&mut json, error);
    json.to_string().into()
}

/// `title` is the status, `detail` the message; code and details are extension members.
fn problem(error: &Error) -> Value {
    let status = error.http_status();
    let mut problem = json!({
        "title": status.canonical_reason().unwrap_or_else(|| error.code().as_str()),
        "status": status.as_u16(),
        "detail": error.message(),
        "code": error.code().as_str(),
    });
    add_details(&mut problem, error);
    problem
}

fn add_details(json: &mut Value, error: &Error) {
    let details: Vec<_> = error
        .details()
        .iter()
        .map(|detail| {
            json!({ "type": detail.type_name, "value": STANDARD_NO_PAD.encode(&detail.value) })
        })
        .collect();
    if !details.is_empty() {
        json["details"] = details.into();
    }
}

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

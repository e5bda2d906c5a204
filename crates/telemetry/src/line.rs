//! One line of the access log.
//!
//! What callers send is in it only as far as it is needed to find the request again: path, address,
//! ids. Queries and headers may hold secrets, and are left out; what could end the line is escaped.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use tidewire_service::{End, OneLine, Principal};

use crate::LineFormat;
use crate::series::{Series, outcome};

/// What is known of a request when it begins.
#[derive(Debug, Clone)]
pub(crate) struct RequestStart {
    pub(crate) method: String,
    pub(crate) is_plain: bool,
    pub(crate) protocol: &'static str,
    pub(crate) peer: String,
    pub(crate) request_id: String,
    pub(crate) trace_id: String,
}

pub(crate) fn line(format: LineFormat, begun: &RequestStart, end: &End, taken: Duration) -> String {
    let outcome = outcome(end, begun.is_plain);
    let status = end.status.map_or(0, |status| status.as_u16());
    let milliseconds = taken.as_micros() as f64 / 1e3;
    match format {
        LineFormat::Json => json!({
            "method": begun.method,
            "protocol": begun.protocol,
            "code": outcome,
            "status": status,
            "ms": milliseconds,
            "bytes_in": end.bytes_in,
            "bytes_out": end.bytes_out,
            "peer": begun.peer,
            "caller": caller(end).map_or_else(String::new, |name| OneLine(name).to_string()),
            "program": end.program.as_deref().map(|name| OneLine(name).to_string()),
            "cache": Series::from_memory(end).map(cache_state),
            // JSON lets pass what steers a terminal.
            "request_id": OneLine(&begun.request_id).to_string(),
            "trace_id": begun.trace_id,
        })
        .to_string(),
        LineFormat::Text => {
            let mut line = String::new();
            let RequestStart { method, protocol, peer, request_id, .. } = begun;
            let method = method.escape_default();
            let request_id = field(request_id);
            let bytes_in = end.bytes_in;
            let bytes_out = end.bytes_out;
            let _ = write!(
                line,
                "{method} {protocol} {outcome} {milliseconds}ms in={bytes_in} out={bytes_out} \
                 peer={peer} id={request_id}"
            );
            if let Some(caller) = caller(end) {
                let _ = write!(line, " caller={}", field(caller));
            }
            if let Some(program) = &end.program {
                let _ = write!(line, " program={}", field(program));
            }
            if let Some(from_memory) = Series::from_memory(end) {
                let _ = write!(line, " cache={}", cache_state(from_memory));
            }
            line
        }
    }
}

/// A text as the value of a field: in quotes where it could be taken for more than one.
fn field(text: &str) -> String {
    let text = text.escape_default().to_string();
    if text.contains([' ', '=', '"']) { format!("\"{text}\"") } else { text }
}

/// The caller's name, which its issuer knows it by.
fn caller(end: &End) -> Option<&str> {
    end.caller.as_ref().map(Principal::subject)
}

const fn cache_state(from_memory: bool) -> &'static str {
    if from_memory { "hit" } else { "miss" }
}

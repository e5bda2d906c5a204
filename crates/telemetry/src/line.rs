//! One line of the access log.
//!
//! What callers send is in it only as far as it is needed to find the request again: path, address,
//! ids. Queries and headers may hold secrets, and are left out; what could end the line is escaped.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use http::HeaderValue;
use serde_json::json;
use tidewire_service::{End, OneLine, Principal, Protocol, Target};

use crate::LineFormat;
use crate::record::called;
use crate::series::{Series, outcome};

/// What is known of a request when it begins. It becomes text once its line is written: of most
/// requests none may be.
#[derive(Debug, Clone)]
pub(crate) struct RequestStart {
    pub(crate) target: Target,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) traceparent: Option<HeaderValue>,
}

pub(crate) fn line(format: LineFormat, begun: &RequestStart, end: &End, taken: Duration) -> String {
    let RequestStart { target, peer, .. } = begun;
    let outcome = outcome(end, matches!(target, Target::Http(_)));
    let protocol = begun.protocol.map_or("inside", Protocol::as_str);
    let request_id = text(begun.request_id.as_ref());
    let End { bytes_in, bytes_out, .. } = end;
    match format {
        LineFormat::Json => json!({
            "method": called(target),
            "protocol": protocol,
            "code": outcome,
            "status": end.status.map_or(0, |status| status.as_u16()),
            "ms": taken.as_micros() as f64 / 1e3,
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
            "peer": peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string()),
            "caller": caller(end).map_or_else(String::new, |name| OneLine(name).to_string()),
            "program": end.program.as_deref().map(|name| OneLine(name).to_string()),
            "cache": Series::from_memory(end).map(cache_state),
            // JSON lets pass what steers a terminal.
            "request_id": OneLine(request_id).to_string(),
            "trace_id": text(begun.traceparent.as_ref()).get(3..35).unwrap_or_default(),
        })
        .to_string(),
        LineFormat::Text => {
            let mut line = String::with_capacity(LINE_BYTES);
            match target {
                Target::Method(method) => escape(&mut line, method.path.trim_start_matches('/')),
                other => escape(&mut line, &called(other)),
            }
            let part = taken.as_micros() % 1000;
            let _ = write!(line, " {protocol} {outcome} {}", taken.as_millis());
            if part > 0 {
                let _ = write!(line, ".{part:03}");
                line.truncate(line.trim_end_matches('0').len());
            }
            let _ = write!(line, "ms in={bytes_in} out={bytes_out} peer=");
            let _ = match peer {
                Some(peer) => write!(line, "{peer}"),
                None => write!(line, "-"),
            };
            field(&mut line, " id=", request_id);
            if let Some(caller) = caller(end) {
                field(&mut line, " caller=", caller);
            }
            if let Some(program) = &end.program {
                field(&mut line, " program=", program);
            }
            if let Some(from_memory) = Series::from_memory(end) {
                line.push_str(" cache=");
                line.push_str(cache_state(from_memory));
            }
            line
        }
    }
}

/// A header as text.
fn text(value: Option<&HeaderValue>) -> &str {
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Appends a text with everything escaped that is not plain ASCII.
fn escape(line: &mut String, text: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !b"\\\"'".contains(&byte);
    if text.bytes().all(is_plain) {
        line.push_str(text);
    } else {
        let _ = write!(line, "{}", text.escape_default());
    }
}

/// Appends a field: its value is in quotes where it could be taken for more than one.
fn field(line: &mut String, name: &str, value: &str) {
    line.push_str(name);
    let begin = line.len();
    escape(line, value);
    if line[begin..].contains([' ', '=', '"']) {
        line.insert(begin, '"');
        line.push('"');
    }
}

/// The caller's name, which its issuer knows it by.
fn caller(end: &End) -> Option<&str> {
    end.caller.as_ref().map(Principal::subject)
}

const fn cache_state(from_memory: bool) -> &'static str {
    if from_memory { "hit" } else { "miss" }
}

/// The room of a line, which most lines fit in.
const LINE_BYTES: usize = 192;

//! Server-Sent Events as bytes (HTML Living Standard, section 9.2): an answer that is followed,
//! event by event.
//!
//! | field | value |
//! |---|---|
//! | `id` | names the answer and how it is printed; who comes back with it as `Last-Event-ID` is told what changed since |
//! | `event` | `failed` for an error; else none, which is `message` |
//! | `data` | the JSON of the answer, or of the error |

use bytes::Bytes;
use http::Method;
use http::header::ACCEPT;
use tidewire_service::{Headers, StreamKind, Validator};

use crate::binding::Binding;

/// What a comment looks like: proxies that end silent connections are given one from time to time.
pub const COMMENT: &[u8] = b":\n\n";

/// The content type of events.
pub const EVENTS: &str = "text/event-stream";

impl Binding {
    /// Whether a client that asks so wants the answers to a query as events.
    pub fn wants_events(&self, verb: &Method, headers: &Headers) -> bool {
        self.is_followable()
            && *verb == Method::GET
            && headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
                value.split(',').any(|range| {
                    let essence = range.split(';').next().unwrap_or_default().trim();
                    essence.eq_ignore_ascii_case(EVENTS)
                })
            })
    }

    /// Whether its answers may be told as events: those of a query, in JSON.
    pub fn is_followable(&self) -> bool {
        let method = self.method();
        method.is_query() && method.kind == StreamKind::Unary && !self.reply.raw
    }

    /// The answer that a client has which comes back.
    pub fn held_event(&self, headers: &Headers) -> Option<Validator> {
        let id = headers.get("last-event-id")?.to_str().ok()?;
        id.strip_suffix(self.edition())?.strip_suffix('.')?.parse().ok()
    }

    /// An answer as an event; `content` names it.
    pub fn event(&self, json: &[u8], content: Option<Validator>) -> Bytes {
        let id = content.map(|content| format!("id: {content}.{}\n", self.edition()));
        lines(&id.unwrap_or_default(), json)
    }
}

/// An error as an event.
pub fn failed_event(json: &[u8]) -> Bytes {
    lines("event: failed\n", json)
}

/// How long a client waits before it comes back.
pub fn retry_event(milliseconds: u64) -> Bytes {
    format!("retry: {milliseconds}\n\n").into()
}

fn lines(fields: &str, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(fields.len() + data.len() + 16);
    out.extend_from_slice(fields.as_bytes());
    // JSON that is printed over several lines has no other ends of lines in it than these.
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_several_lines_is_one_event() {
        assert_eq!(&failed_event(b"{}")[..], b"event: failed\ndata: {}\n\n");
        assert_eq!(&lines("id: a\n", b"{\n}")[..], b"id: a\ndata: {\ndata: }\n\n");
        assert_eq!(&lines("", b"")[..], b"data: \n\n");
        assert_eq!(&retry_event(3)[..], b"retry: 3\n\n");
    }
}

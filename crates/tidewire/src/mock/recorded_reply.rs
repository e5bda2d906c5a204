//! Replies in protobuf as a rule file says them, without secrets.

use bytes::Bytes;
use tidewire_admin::redact;
use tidewire_schema::Schema;
use tidewire_service::generated::serde_json::{Map, Value as Json, json};
use tidewire_service::{Codec, Detail, Error, Headers, Method};

use super::mask::MaskedMessage;
use super::record::object;

/// What a service answered.
pub(super) struct RecordedReply<'a> {
    pub(super) headers: &'a Headers,
    pub(super) messages: &'a [Bytes],
    pub(super) trailers: &'a Headers,
    pub(super) error: Option<&'a Error>,
}

/// The answer of a response.
pub(super) fn answer(
    schema: &Schema,
    method: &Method,
    reply: &RecordedReply<'_>,
) -> Result<Json, String> {
    let mut answer = Map::new();
    for (key, lines) in [("headers", lines(reply.headers)), ("trailers", lines(reply.trailers))] {
        if !lines.is_empty() {
            answer.insert(key.to_owned(), lines.into());
        }
    }
    let messages = reply.messages.iter().map(|bytes| body(schema, &method.output, bytes));
    let mut messages: Vec<_> = messages.collect::<Result<_, _>>()?;
    let error = reply.error.map(|error| failure(schema, error));
    if method.kind.server_streams() && (error.is_none() || !messages.is_empty()) {
        messages.extend(error.map(|error| json!({"error": error})));
        answer.insert("stream".to_owned(), messages.into());
    } else if let Some(error) = error {
        answer.insert("error".to_owned(), error);
    } else if let Some(Json::Object(body)) = messages.pop() {
        answer.extend(body);
    }
    Ok(Json::Object(answer))
}

/// A message: readable where its bytes come back from that, and else by its bytes.
fn body(schema: &Schema, name: &str, bytes: &Bytes) -> Result<Json, String> {
    let message = schema.decode(name, Codec::Proto, bytes).map_err(|why| why.to_string())?;
    let masked = MaskedMessage::new(&message)?;
    let again = schema.from_json(name, &masked.whole);
    // Nobody knows what is in fields that the schema does not have.
    let is_exact = again.and_then(|one| one.encode(Codec::Proto)).is_ok_and(|one| one == *bytes);
    let is_known = !message.as_ref().has_unknown_fields();
    Ok(match masked.whole == masked.shown && !is_exact && is_known {
        true => json!({"body_base64": base64(bytes)}),
        false => {
            if !masked.is_whole(schema, name, bytes) {
                tracing::warn!(
                    "a message of {name} has more than its JSON says, fields that the schema does \
                     not have or -0: they are not recorded"
                );
            }
            json!({"body": masked.into_readable(message.message_type())})
        }
    })
}

/// An error.
fn failure(schema: &Schema, error: &Error) -> Json {
    let details: Vec<_> =
        error.details().iter().filter_map(|detail| self::detail(schema, detail)).collect();
    let mut failure = object([
        ("code", error.code().as_str().into()),
        ("message", redact::text(error.message()).into()),
    ]);
    if !details.is_empty() {
        failure.insert("details".to_owned(), details.into());
    }
    Json::Object(failure)
}

fn detail(schema: &Schema, detail: &Detail) -> Option<Json> {
    let name = &*detail.type_name;
    let known = tidewire_mock::error_details();
    let schema = if schema.message_type(name).is_some() { schema } else { known };
    // What is in a message that nobody knows may be a secret.
    let Json::Object(body) = body(schema, name, &detail.value).ok()? else { return None };
    let mut told = object([("@type", name.into())]);
    match (body.get("body"), body.get("body_base64")) {
        (Some(Json::Object(members)), _) => told.extend(members.clone()),
        (_, Some(bytes)) => drop(told.insert("@base64".to_owned(), bytes.clone())),
        _ => return None,
    }
    Some(Json::Object(told))
}

/// Headers or trailers, without those of the protocol and of one response, and without secrets.
fn lines(headers: &Headers) -> Vec<Json> {
    let mut lines = Vec::new();
    for (name, value) in headers.iter() {
        let name = name.as_str();
        let is_ours = ["grpc-", "connect-", "content-", "tidewire-", "access-control-", "trace"];
        let is_one = ["date", "server", "vary", "te", "trailer", "connection", "keep-alive", "age"];
        let is_more = ["transfer-encoding", "accept-encoding", "alt-svc", "x-request-id", "etag"];
        let is_left = is_ours.iter().any(|part| name.starts_with(part))
            || is_one.contains(&name)
            || is_more.contains(&name)
            || redact::is_secret(name);
        let Some(text) = value.to_str().ok().filter(|_| !is_left) else { continue };
        if redact::text(text) == text {
            lines.push(json!({"name": name, "value": text}));
        }
    }
    lines
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at > part.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

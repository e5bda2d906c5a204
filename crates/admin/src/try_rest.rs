//! A call by hand as the HTTP request of one of the method's REST bindings.
//!
//! Whoever calls makes the request, so that what is sent is what can be copied; one that fits no
//! binding of the method is refused here.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{StatusCode, Uri};
use serde_json::Value;
use tidewire_rest::rest_rules;
use tidewire_schema::Schema;
use tidewire_service::{Body, Call, Code, Context, Error, Method, Result};

use crate::proto::tidewire::admin::v1::{RestBinding, RestRequest, SentHeader};

/// The bindings of a method, its own first.
pub(crate) fn bindings(schema: &Schema, method: &Method) -> Vec<RestBinding> {
    use buffa::Message as _;
    let service = schema.pool().service_by_name(&method.service);
    let options = service.and_then(|it| it.method(&method.method)?.options());
    let rules = options.and_then(|options| rest_rules(&options.encode_to_vec()).ok());
    let binding = |rule: tidewire_rest::RestRule| RestBinding {
        verb: rule.verb.unwrap_or(http::Method::POST).to_string(),
        template: rule.template,
        body: rule.body,
        ..Default::default()
    };
    rules.unwrap_or_default().into_iter().map(binding).collect()
}

/// The request that somebody made, as a call.
///
/// # Errors
/// It is none of a binding of the method.
pub(crate) fn call(
    schema: &Schema,
    method: &Method,
    sent: RestRequest,
    context: Context,
) -> Result<Call> {
    if method.kind.client_streams() {
        let text = "a stream of messages is not sent by REST from here; choose another protocol";
        return Err(Error::invalid_argument(text));
    }
    let RestRequest { verb, path, body, .. } = sent;
    let wrong = || {
        let name = method.path.trim_start_matches('/');
        Error::invalid_argument(format!("{verb} {path:?} is not a REST request of {name}"))
    };
    let uri: Uri = path.parse().map_err(|_| wrong())?;
    let fits = |binding: &RestBinding| binding.verb == verb && fits(&binding.template, uri.path());
    if uri.authority().is_some() || !bindings(schema, method).iter().any(fits) {
        return Err(wrong());
    }
    let verb = http::Method::from_bytes(verb.as_bytes()).map_err(|_| wrong())?;
    let mut context = context;
    let body = match body {
        Some(text) => {
            let headers = context.headers_mut();
            if !headers.contains_key(CONTENT_TYPE) {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            Body::Full(Bytes::from(text))
        }
        None => Body::Empty,
    };
    Ok(Call::http(verb, uri, context, body))
}

/// Whether a path may be one of a template, by its fixed parts. Which method answers it says the
/// server.
fn fits(template: &str, path: &str) -> bool {
    let mut rest = path;
    let mut parts = template.split(['{', '}']).enumerate().peekable();
    while let Some((at, part)) = parts.next() {
        let is_variable = at % 2 == 1;
        if is_variable {
            continue;
        }
        let is_last = parts.peek().is_none();
        let found = match (at, is_last) {
            (0, true) => return rest == part,
            (0, false) => rest.starts_with(part).then_some(0),
            (_, true) => return rest.len() > part.len() && rest.ends_with(part),
            // A variable has at least one character.
            (_, false) => rest
                .char_indices()
                .skip(1)
                .map(|(at, _)| at)
                .find(|at| rest[*at..].starts_with(part)),
        };
        let Some(found) = found else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

/// The status of a response, as headers are shown.
pub(crate) fn status(status: StatusCode) -> SentHeader {
    let value = Some(status.as_u16().to_string());
    SentHeader { name: ":status".to_owned(), value, ..Default::default() }
}

/// The error that a response says, in any of the forms that a server may have for it.
pub(crate) fn error(status: StatusCode, body: &[u8]) -> Error {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let inner = if said["error"].is_object() { &said["error"] } else { &said };
    let name = [&inner["code"], &inner["status"]].into_iter().find_map(Value::as_str);
    let code = name.and_then(|name| name.to_ascii_lowercase().parse::<Code>().ok());
    let message = [&inner["message"], &inner["detail"]].into_iter().find_map(Value::as_str);
    let message = message
        .map_or_else(|| String::from_utf8_lossy(body).chars().take(500).collect(), str::to_owned);
    let code = code.unwrap_or(Code::Unknown);
    Error::new(code, format!("HTTP {}: {message}", status.as_u16()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_a_template_are_sent() {
        for (template, path, expected) in [
            ("/v1/items", "/v1/items", true),
            ("/v1/items", "/v1/items/", false),
            ("/v1/items/{sku}", "/v1/items/tea", true),
            ("/v1/items/{sku}", "/v1/items/", false),
            ("/v1/items/{sku}", "/v1/carts/tea", false),
            ("/v1/items/{sku}:sell", "/v1/items/tea:sell", true),
            ("/v1/items/{sku}:sell", "/v1/items/tea", false),
            ("/v1/{name=items/*}/parts/{part}", "/v1/items/tea/parts/bag", true),
            ("/v1/{name=items/*}/parts/{part}", "/v1/items/tea/bag", false),
        ] {
            assert_eq!(fits(template, path), expected, "{template} {path}");
        }
    }

    #[test]
    fn an_error_is_read_in_each_of_its_forms() {
        for (body, code, message) in [
            (r#"{"code":"not_found","message":"gone"}"#, Code::NotFound, "HTTP 404: gone"),
            (
                r#"{"error":{"code":404,"status":"NOT_FOUND","message":"gone"}}"#,
                Code::NotFound,
                "HTTP 404: gone",
            ),
            (r#"{"detail":"gone"}"#, Code::Unknown, "HTTP 404: gone"),
            ("<h1>gone", Code::Unknown, "HTTP 404: <h1>gone"),
        ] {
            let error = error(StatusCode::NOT_FOUND, body.as_bytes());
            assert_eq!((error.code(), error.message()), (code, message), "{body}");
        }
    }
}

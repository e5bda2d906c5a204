//! Connect's errors in JSON: the body of a failed unary call, part of the end of a stream.
//!
//! Written as `{"code": …, "message": …, "details": [{"type": …, "value": …}]}`, values in base64
//! without padding. Read leniently: a part that is not as specified does not hide the others.

use base64::Engine as _;
use http::StatusCode;
use serde_json::{Map, Value};
use tidewire_service::{Code, Detail, Error};

use crate::headers::BASE64;

/// An error as JSON.
pub(crate) fn to_value(error: &Error) -> Value {
    let mut json = Map::new();
    json.insert("code".to_owned(), error.code().as_str().into());
    if !error.message().is_empty() {
        json.insert("message".to_owned(), error.message().into());
    }
    if !error.details().is_empty() {
        let details = error.details().iter().map(|detail| {
            let value = BASE64.encode(&detail.value);
            serde_json::json!({ "type": detail.type_name, "value": value })
        });
        json.insert("details".to_owned(), details.collect());
    }
    Value::Object(json)
}

/// The error that a body of JSON holds. What it leaves out comes from the HTTP status.
pub(crate) fn of_body(body: &[u8], status: StatusCode, host: &str) -> Error {
    match serde_json::from_slice(body) {
        Ok(json) => of(json, code_of_status(status)),
        Err(_) => of_status(status, host),
    }
}

/// The error of a response that holds none.
pub(crate) fn of_status(status: StatusCode, host: &str) -> Error {
    let text = status.canonical_reason().unwrap_or("no known reason");
    Error::new(
        code_of_status(status),
        format!("{host} answered with HTTP status {} {text}", status.as_u16()),
    )
}

/// The error in the end of a stream.
pub(crate) fn of_value(json: Value) -> Error {
    match json {
        Value::Object(json) => of(json, Code::Unknown),
        _ => Error::unknown("the server failed, with an error that is not valid"),
    }
}

fn of(mut json: Map<String, Value>, otherwise: Code) -> Error {
    let named = json.get("code").and_then(Value::as_str).and_then(|name| name.parse().ok());
    let message = match json.remove("message") {
        Some(Value::String(message)) => message,
        _ => String::new(),
    };
    let details = json.get("details").and_then(Value::as_array).into_iter().flatten();
    details
        .filter_map(detail)
        .fold(Error::new(named.unwrap_or(otherwise), message), Error::with_detail)
}

fn detail(json: &Value) -> Option<Detail> {
    let json = json.as_object()?;
    let text = |name| json.get(name).map_or(Some(""), Value::as_str);
    let value = BASE64.decode(text("value")?).ok()?;
    let type_name = text("type")?.rsplit('/').next().unwrap_or_default().to_owned();
    Some(Detail { type_name, value: value.into() })
}

/// The code for a response that is none of the protocol's: the table that Connect and gRPC share.
fn code_of_status(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn what_is_written_is_read_again() {
        let detail = Detail { type_name: "t.T".to_owned(), value: Bytes::from_static(&[1, 2]) };
        let error = Error::not_found("no ✓").with_detail(detail.clone());
        let json = to_value(&error);
        let text =
            r#"{"code":"not_found","details":[{"type":"t.T","value":"AQI"}],"message":"no ✓"}"#;
        assert_eq!(json, serde_json::from_str::<Value>(text).unwrap());
        let back = of_value(json);
        assert_eq!((back.code(), back.message()), (Code::NotFound, "no ✓"));
        assert_eq!(back.details(), [detail]);
        assert_eq!(to_value(&Error::unknown("")), serde_json::json!({"code": "unknown"}));
    }

    #[test]
    fn a_part_that_is_not_valid_does_not_hide_the_others() {
        let check = |json: &str, code, message: &str, details: usize| {
            let error = of_body(json.as_bytes(), StatusCode::SERVICE_UNAVAILABLE, "h");
            let found = (error.code(), error.message(), error.details().len());
            assert_eq!(found, (code, message, details), "{json}");
        };
        let no = Code::NotFound;
        check(r#"{"code":"not_found","message":"m","details":null}"#, no, "m", 0);
        check(r#"{"code":"not_found","message":"m","details":7}"#, no, "m", 0);
        check(r#"{"code":"not_found","message":"m","details":[1,{"type":"a"}]}"#, no, "m", 1);
        check(r#"{"code":"not_found","message":7}"#, no, "", 0);
        check(r#"{"code":"odd","message":"m"}"#, Code::Unavailable, "m", 0);
        check(r#"{"code":null}"#, Code::Unavailable, "", 0);
        let text = "h answered with HTTP status 503 Service Unavailable";
        check("[]", Code::Unavailable, text, 0);
        check("<html>", Code::Unavailable, text, 0);
    }
}

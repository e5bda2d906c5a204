//! Connect's errors in JSON: the body of a failed unary call, part of the end of a stream.

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use tidewire_service::{Code, Detail, Error};

use super::headers::BASE64;

#[derive(Deserialize)]
struct Json {
    code: Option<Value>,
    message: Option<String>,
    #[serde(default)]
    details: Vec<DetailJson>,
}

#[derive(Deserialize)]
struct DetailJson {
    #[serde(rename = "type", default)]
    type_name: String,
    #[serde(default)]
    value: String,
}

/// The error that a body of JSON holds. What it leaves out comes from the HTTP status.
pub(crate) fn of_body(body: &[u8], status: StatusCode, host: &str) -> Error {
    match serde_json::from_slice::<Json>(body) {
        Ok(json) => of(json, super::code_of_status(status)),
        Err(_) => of_status(status, host),
    }
}

/// The error of a response that holds none.
pub(crate) fn of_status(status: StatusCode, host: &str) -> Error {
    let text = status.canonical_reason().unwrap_or("no known reason");
    Error::new(
        super::code_of_status(status),
        format!("{host} answered with HTTP status {} {text}", status.as_u16()),
    )
}

/// The error in the end of a stream.
pub(crate) fn of_value(value: Value) -> Error {
    match serde_json::from_value::<Json>(value) {
        Ok(json) => of(json, Code::Unknown),
        Err(_) => Error::unknown("the server failed, with an error that is not valid"),
    }
}

fn of(json: Json, otherwise: Code) -> Error {
    let named = json.code.as_ref().and_then(Value::as_str).and_then(|name| name.parse().ok());
    let mut error = Error::new(named.unwrap_or(otherwise), json.message.unwrap_or_default());
    for detail in json.details {
        use base64::Engine as _;
        let Ok(value) = BASE64.decode(detail.value) else { continue };
        let type_name = detail.type_name.rsplit('/').next().unwrap_or_default().to_owned();
        error = error.with_detail(Detail { type_name, value: value.into() });
    }
    error
}

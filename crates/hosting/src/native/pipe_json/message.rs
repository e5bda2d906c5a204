//! A request as a JSON object, and a response of one.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidewire_service::{
    Body, Error, Headers, HttpTarget, Reply, Result, end_to_end, headers_without, is_of_connection,
};

use super::message_end::is_before;

/// Base64 as RFC 4648 has it first; its padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// All of a request but its body, which comes last.
#[derive(Serialize)]
struct RequestHead<'a> {
    method: &'a str,
    uri: &'a str,
    headers: Vec<(&'a str, Cow<'a, str>)>,
}

/// The object of a request.
///
/// # Errors
/// None that is known: all of it can be JSON.
pub(super) fn request(target: &HttpTarget, headers: &Headers, body: &[u8]) -> Result<Vec<u8>> {
    let uri = target.uri.path_and_query().map_or("/", |uri| uri.as_str());
    let headers = headers_without(headers.clone(), |name| is_of_connection(name) || name == EXPECT);
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), text_of(value)));
    let head = RequestHead { method: target.method.as_str(), uri, headers: pairs.collect() };
    let mut text = serde_json::to_string(&head)
        .map_err(|error| Error::internal("the request cannot be JSON").with_cause(error))?;
    text.pop();
    text.reserve(body.len().div_ceil(3) * 4 + 16);
    text.push_str(r#","body":""#);
    BASE64.encode_string(body, &mut text);
    text.push_str("\"}");
    Ok(text.into_bytes())
}

/// UTF-8, or each byte the character of its number.
fn text_of(value: &HeaderValue) -> Cow<'_, str> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.into(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

/// The object of a response; members of other names are left alone.
#[derive(Deserialize)]
struct ResponseObject<'a> {
    status: Option<Value>,
    #[serde(default)]
    headers: Value,
    #[serde(borrow)]
    body: Option<Cow<'a, str>>,
}

/// The reply of a response.
///
/// # Errors
/// Why it is not of the protocol.
pub(super) fn response(text: &[u8], is_head: bool) -> Result<Reply, String> {
    let begin = text.iter().position(|byte| !is_before(*byte)).unwrap_or(text.len());
    let object: ResponseObject<'_> = serde_json::from_slice(&text[begin..])
        .map_err(|error| format!("its response cannot be read: {error}"))?;
    let status = status(object.status, object.body.is_some())?;
    let mut headers = Headers::new();
    add_headers(object.headers, &mut headers)?;
    let mut headers = end_to_end(headers);
    let body = body(object.body.as_deref().unwrap_or_default())?;
    let has_content = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    // What it says of its length may be wrong.
    headers.remove(CONTENT_LENGTH);
    if is_head && has_content && !body.is_empty() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let body = match has_content && !is_head && !body.is_empty() {
        true => Body::Full(Bytes::from(body)),
        false => Body::Empty,
    };
    Ok(Reply::new(body).with_status(status).with_headers(headers))
}

/// 200 where it says none and has a body: the protocol's first gateway took it so.
fn status(status: Option<Value>, has_body: bool) -> Result<StatusCode, String> {
    let Some(status) = status else {
        return match has_body {
            true => Ok(StatusCode::OK),
            false => Err("its response has neither status nor body".to_owned()),
        };
    };
    let number = status.as_u64().filter(|number| (200..=599).contains(number));
    let number = number.and_then(|number| StatusCode::from_u16(u16::try_from(number).ok()?).ok());
    number.ok_or_else(|| format!("status {status} of its response is not a number of 200 to 599"))
}

/// An object of names and values, or of names and lists of values; or pairs as requests have them.
fn add_headers(said: Value, headers: &mut Headers) -> Result<(), String> {
    match said {
        Value::Null => Ok(()),
        Value::Object(members) => add_members(members, headers),
        Value::Array(pairs) => pairs.into_iter().try_for_each(|pair| match pair {
            Value::Array(pair) => match &pair[..] {
                [Value::String(name), value] => add_header(name, value, headers),
                _ => Err(not_headers()),
            },
            _ => Err(not_headers()),
        }),
        _ => Err(not_headers()),
    }
}

fn not_headers() -> String {
    "headers of its response are neither an object nor a list of pairs".to_owned()
}

fn add_members(members: Map<String, Value>, headers: &mut Headers) -> Result<(), String> {
    members.iter().try_for_each(|(name, value)| match value {
        Value::Array(values) => {
            values.iter().try_for_each(|value| add_header(name, value, headers))
        }
        value => add_header(name, value, headers),
    })
}

fn add_header(name: &str, value: &Value, headers: &mut Headers) -> Result<(), String> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(format!("header {name:?} of its response is not a text")),
    };
    let wrong = |what: &str| format!("header {name:?} of its response has {what} that none can");
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("a name"))?;
    let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| wrong("a value"))?;
    headers.try_append(known, value).map_err(|_| "its response has too many headers".to_owned())?;
    Ok(())
}

/// What is in base64, which may be of several lines.
fn body(text: &str) -> Result<Vec<u8>, String> {
    let decoded = match text.contains(|c: char| c.is_ascii_whitespace()) {
        false => BASE64.decode(text),
        true => BASE64.decode(text.split_ascii_whitespace().collect::<String>()),
    };
    decoded.map_err(|error| format!("body of its response is not base64: {error}"))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use tidewire_service::{Call, Context};

    use super::*;

    #[test]
    fn a_request_is_one_object_with_all_its_headers() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("accept", &b"a"[..]),
            ("accept", b"b"),
            ("x-city", b"K\xf6ln"),
            ("x-tea", "\"grün\"".as_bytes()),
            ("te", b"trailers"),
            ("connection", b"x-hop"),
            ("x-hop", b"1"),
        ] {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let uri = "http://a/b%20c?d=e&f".parse().unwrap();
        let call = Call::http(Method::PUT, uri, Context::default(), Body::Empty);
        let text = request(call.http_target().unwrap(), &headers, b"\x00\xff\"").unwrap();
        let expected = r#"{"method":"PUT","uri":"/b%20c?d=e&f","headers":[["accept","a"],["accept","b"],["x-city","Köln"],["x-tea","\"grün\""]],"body":"AP8i"}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    fn read(text: &str) -> Result<String, String> {
        let reply = response(text.as_bytes(), false)?;
        let pairs = reply
            .headers
            .iter()
            .map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value.as_bytes())));
        let headers = pairs.collect::<String>();
        let Body::Full(body) = reply.body else {
            return Ok(format!("{}{headers}", reply.status.as_u16()));
        };
        Ok(format!("{}{headers} {}", reply.status.as_u16(), String::from_utf8_lossy(&body)))
    }

    #[test]
    fn a_response_is_what_its_object_says() {
        for (text, expected) in [
            (r#"{"status":201,"headers":{"X-A":"b"},"body":"dGVh"}"#, "201 x-a=b tea"),
            (
                r#"{"status":200,"headers":{"set-cookie":["a=1","b=2"]}}"#,
                "200 set-cookie=a=1 set-cookie=b=2",
            ),
            (r#"{"status":200,"headers":[["a","1"],["a","2"]],"body":""}"#, "200 a=1 a=2"),
            (r#"{"status":200,"headers":{"age":7,"gone":null},"body":null}"#, "200 age=7"),
            (
                "\u{feff}{\"status\":200,\"body\":\"\\u002B\\u002B8=\",\"id\":7}",
                "200 \u{fffd}\u{fffd}",
            ),
            (r#"{"body":"dGVh"}"#, "200 tea"),
            (r#"{"status":200,"body":"dG\nVh\n"}"#, "200 tea"),
            (r#"{"status":200,"body":"dGU"}"#, "200 te"),
            (r#"{"status":204,"body":"dGVh"}"#, "204"),
            (
                r#"{"status":200,"headers":{"content-length":"9","connection":"x","x":"1"},"body":"dGVh"}"#,
                "200 tea",
            ),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_response_that_is_not_of_the_protocol_says_why() {
        for (text, part) in [
            ("{}", "neither status nor body"),
            (r#"{"status":"200"}"#, r#"status "200""#),
            (r#"{"status":101}"#, "status 101"),
            (r#"{"status":1e3}"#, "status 1000.0"),
            (r#"{"status":200,"body":"?"}"#, "not base64"),
            (r#"{"status":200,"body":7}"#, "cannot be read"),
            (r#"{"status":200,"headers":"a: b"}"#, "neither an object nor a list"),
            (r#"{"status":200,"headers":[["a"]]}"#, "neither an object nor a list"),
            (r#"{"status":200,"headers":{"a b":"1"}}"#, "a name that none can"),
            (r#"{"status":200,"headers":{"a":"1\r\nb: 2"}}"#, "a value that none can"),
            (r#"{"status":200,"headers":{"a":{}}}"#, "not a text"),
            (r#"{"status":200 "body":""}"#, "cannot be read"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn the_response_to_head_has_a_length_and_no_body() {
        let reply = response(br#"{"status":200,"body":"dGVh"}"#, true).unwrap();
        assert!(matches!(reply.body, Body::Empty));
        assert_eq!(reply.headers[CONTENT_LENGTH], "3");
    }
}

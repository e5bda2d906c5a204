//! What is particular to Connect: unary calls without envelopes, streams that end in JSON.
//!
//! | | a unary call | a stream |
//! |---|---|---|
//! | HTTP status | that of the error, which is its code's unless it has another | 200 |
//! | error | the body, in JSON | in the last envelope, in JSON |
//! | trailers | headers that start with `trailer-` | `metadata` in the last envelope |

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tidewire_service::{Error, Result};

use crate::end::End;
use crate::envelope::{CONNECT_END, seal};
use crate::error_json;
use crate::headers::{self, TRAILER, TRAILERS_MAX};

/// Adds trailers to the headers of a unary call.
pub(crate) fn put_trailers(headers: &mut HeaderMap, trailers: HeaderMap) {
    for (name, value) in &headers::own(trailers) {
        if let Ok(name) = HeaderName::try_from(format!("{TRAILER}{name}")) {
            headers.append(name, value.clone());
        }
    }
}

/// The service's own headers of a unary call.
#[derive(Debug, PartialEq)]
pub(crate) struct OwnHeaders {
    pub(crate) headers: HeaderMap,
    /// Those that are trailers by their names.
    pub(crate) trailers: HeaderMap,
}

pub(crate) fn split(all: HeaderMap) -> OwnHeaders {
    let mut trailers = HeaderMap::new();
    for (name, value) in &all {
        let name = name.as_str().strip_prefix(TRAILER);
        if let Some(name) = name.and_then(|name| HeaderName::try_from(name).ok()) {
            trailers.append(name, value.clone());
        }
    }
    OwnHeaders { headers: headers::own(all), trailers: headers::own(trailers) }
}

/// The body of a failed unary call.
pub(crate) fn error_body(error: &Error) -> Bytes {
    error_json::to_value(error).to_string().into()
}

/// The last envelope of a stream.
pub(crate) fn last_envelope(trailers: HeaderMap, error: Option<&Error>) -> Bytes {
    let trailers = headers::own(trailers);
    if trailers.is_empty() && error.is_none() {
        return Bytes::from_static(b"\x02\0\0\0\x02{}");
    }
    let mut json = Map::new();
    if let Some(error) = error {
        json.insert("error".to_owned(), error_json::to_value(error));
    }
    if !trailers.is_empty() {
        let mut metadata = Map::new();
        for name in trailers.keys() {
            let values = trailers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            metadata.insert(name.to_string(), values.collect());
        }
        json.insert("metadata".to_owned(), Value::Object(metadata));
    }
    let json = Value::Object(json).to_string();
    // An end of over 4 GiB cannot be said; the caller then sees that there is none.
    seal(CONNECT_END, json.into()).map(|pieces| pieces.concat().into()).unwrap_or_default()
}

/// The end of a stream: `{"error": …, "metadata": …}`.
pub(crate) fn end(json: &[u8], host: &str) -> End {
    let unreadable = |what: &str| End::missing(Error::unknown(format!("{host} {what}")));
    let mut json = match serde_json::from_slice::<Map<String, Value>>(json) {
        Ok(json) => json,
        Err(error) => {
            return unreadable(&format!("ended a stream with what is not valid JSON: {error}"));
        }
    };
    let Some(raw) = metadata(json.get("metadata")) else {
        return unreadable(&format!("ended a stream with over {TRAILERS_MAX} trailers"));
    };
    let outcome = match json.remove("error") {
        None | Some(Value::Null) => Ok(()),
        Some(error) => Err(error_json::of_value(error)),
    };
    End { raw, outcome }
}

/// `{"name": ["value", …], …}`; `None` if there are too many.
fn metadata(json: Option<&Value>) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    for (name, values) in json.and_then(Value::as_object).into_iter().flatten() {
        let Ok(name) = HeaderName::try_from(name) else { continue };
        for value in values.as_array().into_iter().flatten() {
            let value = value.as_str().and_then(|text| HeaderValue::try_from(text).ok());
            if let Some(value) = value {
                if trailers.len() == TRAILERS_MAX {
                    return None;
                }
                trailers.append(&name, value);
            }
        }
    }
    Some(trailers)
}

/// Whether a request names a version of the protocol that there is.
///
/// # Errors
/// `invalid_argument` for another than 1.
pub(crate) fn check_version(named: Option<&[u8]>, known: &str) -> Result<()> {
    match named {
        None => Ok(()),
        Some(version) if version == known.as_bytes() => Ok(()),
        Some(version) => Err(Error::invalid_argument(format!(
            "no version {} of the Connect protocol; {known} is known",
            String::from_utf8_lossy(version)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::HEAD;
    use tidewire_service::Code;

    fn map(entries: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in entries {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn trailers_of_a_unary_call_are_headers_and_back() {
        let own = map(&[("x-a", "1"), ("x-a", "2"), ("x-b-bin", "AA")]);
        let mut headers = map(&[("x-h", "1"), ("content-type", "application/json")]);
        put_trailers(&mut headers, own.clone());
        assert_eq!(headers.get_all("trailer-x-a").iter().count(), 2);
        let headers = split(headers);
        assert_eq!((headers.headers, headers.trailers), (map(&[("x-h", "1")]), own));
    }

    #[test]
    fn reserved_names_are_neither_sent_nor_taken_as_trailers() {
        let reserved = ["grpc-status", "grpc-message", "transfer-encoding", "content-length"];
        for name in reserved {
            let mut headers = HeaderMap::new();
            let trailers = map(&[(name, "5"), ("x-a", "1")]);
            put_trailers(&mut headers, trailers.clone());
            assert_eq!(headers, map(&[("trailer-x-a", "1")]));
            headers.insert(
                HeaderName::try_from(format!("trailer-{name}")).unwrap(),
                HeaderValue::from_static("5"),
            );
            headers.insert(name, HeaderValue::from_static("5"));
            let headers = split(headers);
            assert_eq!(
                (headers.headers, headers.trailers),
                (HeaderMap::new(), map(&[("x-a", "1")]))
            );

            let json = last_envelope(trailers, None);
            assert_eq!(&json[HEAD..], br#"{"metadata":{"x-a":["1"]}}"#);
            let json = format!(r#"{{"metadata":{{"{name}":["5"],"x-a":["1"]}}}}"#);
            let trailers = end(json.as_bytes(), "h").into_result().unwrap();
            assert_eq!(trailers, map(&[("x-a", "1")]));
        }
    }

    #[test]
    fn the_end_of_a_stream_is_read_as_it_is_written() {
        assert_eq!(last_envelope(HeaderMap::new(), None)[..], b"\x02\0\0\0\x02{}"[..]);
        let trailers = map(&[("x-a", "1"), ("x-a", "2")]);
        let error = Error::not_found("m");
        let written = last_envelope(trailers.clone(), Some(&error));
        assert_eq!(written[..HEAD], [2, 0, 0, 0, (written.len() - HEAD) as u8]);
        let back = end(&written[HEAD..], "h").into_result().unwrap_err();
        assert_eq!((back.code(), back.message()), (Code::NotFound, "m"));
        assert_eq!(*back.trailers(), trailers.into());
    }

    #[test]
    fn the_end_of_a_stream_that_is_not_valid_is_a_failure() {
        for (json, expected) in [
            ("{}", None),
            (r#"{"error":null,"metadata":null}"#, None),
            (r#"{"metadata":{"x":"no list","y":[1],"z z":["1"]}}"#, None),
            (r#"{"error":{}}"#, Some(Code::Unknown)),
            (r#"{"error":7}"#, Some(Code::Unknown)),
            (r#"{"error":{"code":"aborted","details":null}}"#, Some(Code::Aborted)),
            ("", Some(Code::Unknown)),
            ("[]", Some(Code::Unknown)),
        ] {
            let outcome = end(json.as_bytes(), "h").into_result();
            assert_eq!(outcome.err().map(|error| error.code()), expected, "{json}");
        }
        let values = vec!["1"; TRAILERS_MAX + 1];
        let flood = serde_json::json!({ "metadata": { "a": values } }).to_string();
        assert!(end(flood.as_bytes(), "h").into_result().is_err());
    }
}

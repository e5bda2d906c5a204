//! Queries of Connect by GET: the message is in the URL, so that HTTP caches on the way can answer.
//!
//! | parameter | what it says |
//! |---|---|
//! | `connect` | the version, `v1` |
//! | `encoding` | `proto` or `json` |
//! | `message` | the message; as text, or in base64 |
//! | `base64` | `1` when it is in base64 (URL-safe, padded or not) |
//! | `compression` | how the message was compressed before that |
//!
//! One of these twice is refused, as two readers may not agree on which counts; others are ignored.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tidewire_service::{Codec, Error, Result};

use crate::compression::{Coders, Encoding};
use crate::connect::check_version;
use crate::sender::Sender;

/// What the parameters say, apart from the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GetParameters {
    pub(crate) codec: Codec,
    pub(crate) compression: Option<Encoding>,
}

/// Why the parameters are refused.
#[derive(Debug)]
pub(crate) enum GetRefusal {
    /// There is no such codec: HTTP's 415.
    Codec(String),
    /// There is no such compression.
    Compression(String),
    /// They are not as specified.
    Invalid(Error),
}

impl From<Error> for GetRefusal {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}

#[derive(Default)]
struct Parameters<'a> {
    connect: Option<&'a str>,
    encoding: Option<&'a str>,
    message: Option<&'a str>,
    base64: Option<&'a str>,
    compression: Option<&'a str>,
}

/// The codec and the compression that a query string names.
pub(crate) fn parse_query(query: Option<&str>) -> Result<GetParameters, GetRefusal> {
    let parameters = Parameters::of(query.unwrap_or_default())?;
    let version = parameters.connect.map(decoded);
    check_version(version.as_deref(), "v1")?;
    let Some(name) = parameters.encoding.map(decoded) else {
        return Err(Error::invalid_argument(
            "a GET of a method needs the parameter encoding, proto or json, and message",
        )
        .into());
    };
    let codec = match &*name {
        b"proto" => Codec::Proto,
        b"json" => Codec::Json,
        other => return Err(GetRefusal::Codec(String::from_utf8_lossy(other).into_owned())),
    };
    let name = parameters.compression.map(decoded).unwrap_or_default();
    let compression = Encoding::of(&name)
        .ok_or_else(|| GetRefusal::Compression(String::from_utf8_lossy(&name).into_owned()))?;
    Ok(GetParameters { codec, compression })
}

/// The message in a query string; empty if there is none.
pub(crate) fn message(
    query: Option<&str>,
    compression: Option<Encoding>,
    coders: &Coders,
    bytes_max: usize,
) -> Result<Bytes> {
    let parameters = Parameters::of(query.unwrap_or_default())?;
    let text = decoded(parameters.message.unwrap_or_default());
    let message = if parameters.base64 == Some("1") {
        BASE64.decode(&text).map_err(|error| {
            Error::invalid_argument(format!("the parameter message is not base64: {error}"))
        })?
    } else {
        text.into_owned()
    };
    if message.len() > bytes_max {
        return Err(Sender::Client.too_large(bytes_max));
    }
    match compression {
        None => Ok(message.into()),
        Some(encoding) => coders.unfold(encoding, &message, bytes_max, Sender::Client),
    }
}

impl<'a> Parameters<'a> {
    fn of(query: &'a str) -> Result<Self> {
        let mut parameters = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "connect" => &mut parameters.connect,
                "encoding" => &mut parameters.encoding,
                "message" => &mut parameters.message,
                "base64" => &mut parameters.base64,
                "compression" => &mut parameters.compression,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(Error::invalid_argument(format!(
                    "the parameter {name} occurs twice; send it once"
                )));
            }
        }
        Ok(parameters)
    }
}

/// A value as forms encode it: `+` is a space.
fn decoded(value: &str) -> Cow<'_, [u8]> {
    if !value.contains(['+', '%']) {
        return Cow::Borrowed(value.as_bytes());
    }
    Cow::Owned(percent_decode_str(&value.replace('+', " ")).collect())
}

/// A longer URL goes as POST: servers and what is between refuse it.
const URL_BYTES_MAX: usize = 8 << 10;

/// The URL of a query; parameters in the order of the Connect specification. `None` if it would be
/// too long.
///
/// # Errors
/// `invalid_argument` when the path is invalid.
pub(crate) fn url(path: &str, codec: Codec, message: &[u8]) -> Result<Option<PathAndQuery>> {
    if message.len() > URL_BYTES_MAX {
        return Ok(None);
    }
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let url = match codec {
        Codec::Json => {
            let text = String::from_utf8_lossy(message);
            let text = utf8_percent_encode(&text, KEPT);
            format!("{path}?connect=v1&encoding=json&message={text}")
        }
        Codec::Proto => {
            let text = BASE64.encode(message);
            format!("{path}?connect=v1&base64=1&encoding=proto&message={text}")
        }
    };
    if url.len() > URL_BYTES_MAX {
        return Ok(None);
    }
    PathAndQuery::from_maybe_shared(Bytes::from(url))
        .map(Some)
        .map_err(|error| Error::invalid_argument(format!("{path} is not a path: {error}")))
}

/// Written without padding, read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::Code;

    #[test]
    fn a_url_holds_the_message_that_is_read_from_it() {
        let coders = Coders::default();
        for (codec, sent) in [
            (Codec::Json, &br#"{"a":"+ %&=?\u00e9"}"#[..]),
            (Codec::Json, "{\"a\":\"é✓\"}".as_bytes()),
            (Codec::Proto, &[0, 0xff, 0xfb, 0xef, 0x3e]),
            (Codec::Proto, b""),
        ] {
            let url = url("/a.B/C", codec, sent).unwrap().unwrap();
            assert_eq!(url.path(), "/a.B/C");
            assert_eq!(
                parse_query(url.query()).unwrap(),
                GetParameters { codec, compression: None }
            );
            assert_eq!(message(url.query(), None, &coders, 100).unwrap(), sent);
        }
    }

    #[test]
    fn a_message_that_is_too_long_for_a_url_has_none() {
        for codec in [Codec::Json, Codec::Proto] {
            for length in [URL_BYTES_MAX, URL_BYTES_MAX + 1, 1 << 20] {
                assert_eq!(url("/a.B/C", codec, &vec![b'a'; length]).unwrap(), None);
            }
            assert!(url("/a.B/C", codec, &[b'a'; 1000]).unwrap().is_some());
        }
    }

    #[test]
    fn messages_are_read_in_every_form() {
        let check = |query: &str, expected: Result<&[u8], Code>| {
            let coders = Coders::default();
            let compression = parse_query(Some(query)).unwrap().compression;
            let message = message(Some(query), compression, &coders, 8);
            let found = message.as_deref().map_err(Error::code);
            assert_eq!(found, expected, "{query}");
        };
        check("encoding=json&message=%7b%7D", Ok(b"{}"));
        check("encoding=json&message=a+b%2Bc", Ok(b"a b+c"));
        check("encoding=proto&base64=1&message=_-8", Ok(b"\xff\xef"));
        check("encoding=proto&base64=1&message=_-8%3D", Ok(b"\xff\xef"));
        check("encoding=proto&base64=1&message=_-8=", Ok(b"\xff\xef"));
        check("encoding=proto&base64=0&message=_-8", Ok(b"_-8"));
        check("encoding=proto&base64=1&message=/+8", Err(Code::InvalidArgument));
        check("encoding=proto&x=1&x=2", Ok(b""));
        check("encoding=proto&message=123456789", Err(Code::ResourceExhausted));
        let eight = Coders::default().compress(Encoding::Gzip, &[b'a'; 100]).unwrap();
        let bomb = BASE64.encode(eight);
        let query = format!("encoding=proto&base64=1&compression=gzip&message={bomb}");
        check(&query, Err(Code::ResourceExhausted));
        check("encoding=proto&compression=identity&message=a", Ok(b"a"));
        check("encoding=proto&compression=gzip&message=a", Err(Code::InvalidArgument));
    }

    #[test]
    fn parameters_that_are_not_as_specified_are_refused() {
        let check = |query: Option<&str>, expected: &str| {
            let found = match parse_query(query).unwrap_err() {
                GetRefusal::Codec(name) => format!("codec {name}"),
                GetRefusal::Compression(name) => format!("compression {name}"),
                GetRefusal::Invalid(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{query:?}: {found}");
        };
        check(None, "needs the parameter encoding");
        check(Some("message=1"), "needs the parameter encoding");
        check(Some("encoding=xml"), "codec xml");
        check(Some("encoding=json&compression=br"), "compression br");
        check(Some("encoding=json&connect=v2"), "no version v2");
        check(Some("encoding=json&encoding=proto"), "encoding occurs twice");
        assert!(message(Some("message=1&message=2"), None, &Coders::default(), 9).is_err());
    }
}

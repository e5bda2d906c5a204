//! HTTP/1.1: what a head has to be beside what the HTTP library checks.
//!
//! | head | answer |
//! |---|---|
//! | no `Host`, two, or one that is none (RFC 9112, section 3.2); HTTP/1.0 needs none | 400 |
//! | `chunked` twice, or not last (RFC 9112, section 6.1) | 400 |
//! | another transfer coding than `chunked` (RFC 9112, section 6.1) | 501 |
//!
//! The connection is closed after such an answer: what follows cannot be told apart from a body.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use tidewire_service::{Error, Result};

use crate::connection::Connection;
use crate::outgoing::Outgoing;
use crate::plain;
use crate::response::{Responding, ResponseBody};
use crate::vigil::Vigil;

/// The hyper service of one HTTP/1.1 connection.
pub(crate) struct Calls {
    pub(crate) connection: Connection,
    pub(crate) vigil: Arc<Vigil>,
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.connection.gathering.owes();
        let response = match check(&request) {
            Ok(()) => self.connection.answer(request),
            Err(error) => Responding::ready(refusal(&error)),
        };
        Answering { response, vigil: Arc::clone(&self.vigil) }
    }
}

/// A response that is counted if it is large.
pub(crate) struct Answering {
    response: Responding,
    vigil: Arc<Vigil>,
}

impl Future for Answering {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        Poll::Ready(response.map(|response| Outgoing::counted_if_large(response, &self.vigil)))
    }
}

/// Checks what the HTTP library does not.
fn check(request: &Request<Incoming>) -> Result<()> {
    check_host(request.version(), request.headers())?;
    if request.body().is_end_stream() {
        return Ok(());
    }
    check_coding(request.headers())
}

fn check_host(version: Version, headers: &HeaderMap) -> Result<()> {
    let wrong = |what: &str| {
        let text = format!("header host {what}; send it once, as HOST or HOST:PORT");
        Err(Error::invalid_argument(text))
    };
    // Most requests have no name twice, and looking all values up costs more than the first.
    let is_twice =
        || headers.len() > headers.keys_len() && headers.get_all(HOST).iter().count() > 1;
    match headers.get(HOST) {
        None if version < Version::HTTP_11 => Ok(()),
        None => wrong("is missing"),
        Some(_) if is_twice() => wrong("is there twice"),
        Some(host) if is_host(host.as_bytes()) => Ok(()),
        Some(host) => wrong(&format!("is {host:?}")),
    }
}

/// Whether it is `uri-host [ ":" port ]` of RFC 3986, where the host may be empty.
fn is_host(value: &[u8]) -> bool {
    let is_name = |byte: &u8| NAME[usize::from(*byte)];
    let is_address = |byte: &u8| *byte == b':' || (*byte != b'%' && is_name(byte));
    let (is_right, port) = match value.strip_prefix(b"[") {
        None => {
            let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
            (value[..end].iter().all(is_name), &value[end..])
        }
        Some(value) => {
            let Some(end) = value.iter().position(|byte| *byte == b']') else { return false };
            (end > 0 && value[..end].iter().all(is_address), &value[end + 1..])
        }
    };
    let is_port = match port.split_first() {
        None => true,
        Some((colon, digits)) => *colon == b':' && digits.iter().all(u8::is_ascii_digit),
    };
    is_right && is_port
}

/// The bytes that a name may have: unreserved ones, sub-delimiters, and `%`.
const NAME: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0_u8);
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(byte, b'*' | b'+' | b',' | b';' | b'=' | b'%');
        byte += 1;
    }
    table
};

fn check_coding(headers: &HeaderMap) -> Result<()> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let codings: Vec<_> = values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty())
        .collect();
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if let Some(other) = codings.iter().find(|coding| !is_chunked(coding)) {
        let text = format!(
            "no transfer coding {}; send the body as it is, or chunked",
            other.escape_ascii()
        );
        return Err(Error::unimplemented(text).with_http_status(StatusCode::NOT_IMPLEMENTED));
    }
    if codings.len() > 1 {
        return Err(Error::invalid_argument("the request body is chunked twice; do so once"));
    }
    Ok(())
}

fn refusal(error: &Error) -> Response<tidewire_service::Body> {
    let mut response = plain::error_response(error);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for right in [
            "",
            "a",
            "a.example",
            "a.example:80",
            "a:",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "x_y",
            "%41",
        ] {
            assert!(is_host(right.as_bytes()), "{right}");
        }
        for wrong in [
            "a b", "a/b", "a@b", "a:b", "a:1:2", "[::1", "::1]", "[]", "[::1]x", "a?b", "a#b",
            "\u{e4}", "http://a",
        ] {
            assert!(!is_host(wrong.as_bytes()), "{wrong}");
        }
    }
}

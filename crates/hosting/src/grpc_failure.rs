//! What a gRPC caller of a program of plain HTTP is told of a failure: a bare status of HTTP would
//! say nothing but that, so the code and the message go in the headers of a reply without a body
//! (`Trailers-Only` of gRPC).

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidewire_service::{Answer, Body, Error, Progress, Reply, Result};

/// Whether a request is one of gRPC, but for gRPC-Web, whose failures are in a body.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let of_grpc = |value: &HeaderValue| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| matches!(byte, b'+' | b';')))
    };
    headers.get(CONTENT_TYPE).is_some_and(of_grpc)
}

/// Lets a gRPC caller read a failure.
pub(crate) fn told(answer: Answer) -> Answer {
    match answer.into_progress() {
        Progress::Ready(outcome) => {
            Answer::from(Progress::Ready(outcome.or_else(|error| reply(&error).map(Box::new))))
        }
        Progress::Pending(pending) => {
            Answer::pending(async move { pending.await.or_else(|error| reply(&error)) })
        }
    }
}

fn reply(error: &Error) -> Result<Reply> {
    let mut reply = Reply::text("").with_headers(error.headers().clone());
    reply.body = Body::Empty;
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    reply.headers.insert(STATUS, HeaderValue::from(u16::from(error.code().number())));
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(error.message())) {
        reply.headers.insert(MESSAGE, message);
    }
    Ok(reply)
}

/// As gRPC has messages: all but visible ASCII and the space, and the percent sign, as bytes.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_is_told_in_headers() {
        let error = Error::unavailable("shop broke off: 100 % \u{e4}");
        let told = told(Answer::ready(Err(error))).await.expect("a reply");
        assert_eq!(told.status.as_u16(), 200);
        assert_eq!(told.headers.get("grpc-status").expect("a status"), "14");
        let message = told.headers.get("grpc-message").expect("a message");
        assert_eq!(message, "shop broke off: 100 %25 %C3%A4");
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let value = HeaderValue::from_static(content_type);
            assert_eq!(is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, value)])), expected);
        }
    }
}

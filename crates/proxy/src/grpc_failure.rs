//! Lets a gRPC caller of a program of plain HTTP read a failure: a bare HTTP status would only say
//! that there was one. The error gets the content type of gRPC, by which the server writes it as a
//! reply of that protocol.

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tidewire_service::{Answer, Error, Headers, Progress};

/// Whether a request is one of gRPC, but for gRPC-Web, whose failures are in a body.
pub(crate) fn is_grpc(headers: &Headers) -> bool {
    let of_grpc = |value: &HeaderValue| {
        let rest = value.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| matches!(byte, b'+' | b';')))
    };
    headers.get(CONTENT_TYPE).is_some_and(of_grpc)
}

/// The same answer, whose failure is to be written for a gRPC caller.
pub(crate) fn marked(answer: Answer) -> Answer {
    match answer.into_progress() {
        Progress::Ready(outcome) => Answer::from(Progress::Ready(outcome.map_err(mark))),
        Progress::Pending(pending) => Answer::pending(async move { pending.await.map_err(mark) }),
    }
}

fn mark(mut error: Error) -> Error {
    error.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_stays_one_and_is_marked() {
        let error = || Error::unavailable("shop broke off");
        let pending = Answer::pending(async move { Err(error()) });
        for answer in [Answer::ready(Err(error())), pending] {
            let marked = marked(answer).await.expect_err("a failure");
            assert_eq!(marked.message(), "shop broke off");
            assert_eq!(marked.headers().get(CONTENT_TYPE).unwrap(), "application/grpc");
        }
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let value = HeaderValue::from_static(content_type);
            assert_eq!(is_grpc(&Headers::from_iter([(CONTENT_TYPE, value)])), expected);
        }
    }
}

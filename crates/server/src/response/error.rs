//! Errors as responses of plain HTTP and REST.

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use tidewire_rest::{ErrorFormat, PrintedReply};
use tidewire_service::{Body, Error};
use tidewire_wire::{Head, negotiate};

use crate::request::failure::RequestFailure;
use crate::request::failure_log::log;
use crate::response::page::uncached;

/// The response for an error: its status and, as JSON, its code and message.
///
/// The body has the shape of a Connect error, so a client handles both alike.
pub(crate) fn error_response(error: &Error) -> Response<Body> {
    error_response_in(ErrorFormat::Connect, error)
}

/// The same in the format that REST was told to have; an error whose content type is that of gRPC
/// is written as gRPC has it, whatever was asked.
pub(crate) fn error_response_in(format: ErrorFormat, error: &Error) -> Response<Body> {
    log(error, "http");
    let mut response = grpc_response(error).unwrap_or_else(|| printed(format, error));
    // A cache may keep a 404, 405, 414 or 501 that says nothing, and some keep others.
    uncached(response.headers_mut());
    response.extensions_mut().insert(RequestFailure::new(error));
    response
}

/// `Trailers-Only`: the status in the headers of a reply without a body.
fn grpc_response(error: &Error) -> Option<Response<Body>> {
    const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
    if error.headers().get(CONTENT_TYPE) != Some(&GRPC) {
        return None;
    }
    let asked = HeaderMap::from_iter([(CONTENT_TYPE, GRPC)]);
    let version = Version::HTTP_2;
    let head = Head { verb: &Method::POST, query: None, version, headers: &asked };
    let exchange = negotiate(&head, None).ok()?;
    let mut error = error.clone();
    let own = std::mem::take(error.headers_mut()).into();
    let told = exchange.failed(error);
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = told.status;
    *response.headers_mut() = own;
    response.headers_mut().extend(told.headers);
    Some(response)
}

fn printed(format: ErrorFormat, error: &Error) -> Response<Body> {
    let PrintedReply { content_type, body } = format.print(error);
    let mut response = Response::new(Body::Full(body));
    *response.status_mut() = error.http_status();
    *response.headers_mut() = error.headers().clone().into();
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// The response for a path that is known under other verbs.
pub(crate) fn wrong_verb(allowed: &str) -> Response<Body> {
    let mut error = Error::unimplemented(format!("this path answers {allowed}"))
        .with_http_status(StatusCode::METHOD_NOT_ALLOWED);
    if let Ok(value) = HeaderValue::from_str(allowed) {
        error.headers_mut().insert(ALLOW, value);
    }
    error_response(&error)
}

#[cfg(test)]
mod tests {
    use http::header::CACHE_CONTROL;
    use tidewire_service::Detail;

    use super::*;

    #[test]
    fn an_error_for_grpc_is_told_in_headers_and_counts_as_a_failure() {
        let mut error = Error::unavailable("shop broke off: 100 % \u{e4}")
            .with_detail(Detail { type_name: "shop.v1.Why".to_owned(), value: vec![1].into() });
        let printed = error_response(&error);
        assert_eq!((printed.status().as_u16(), printed.headers().get("grpc-status")), (503, None));
        assert_eq!(printed.headers()[CACHE_CONTROL], "private, no-cache");
        let headers = error.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
        let response = error_response(&error);
        assert_eq!(response.status(), StatusCode::OK);
        assert!(matches!(response.body(), Body::Empty));
        let header = |name| response.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("content-type"), "application/grpc+proto");
        assert_eq!((header("grpc-status"), header("retry-after")), ("14", "1"));
        assert_eq!(header("grpc-message"), "shop broke off: 100 %25 %C3%A4");
        assert!(!header("grpc-status-details-bin").is_empty());
        assert!(response.extensions().get::<RequestFailure>().is_some());
    }
}

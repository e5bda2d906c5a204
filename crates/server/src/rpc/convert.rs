//! Between the library's types and ours: contexts, errors, details.

use crate::plain;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use connectrpc::{ConnectError, ErrorCode, ErrorDetail, RequestContext};
use tidewire_service::{Code, Context, Detail, Error, ErrorParts, Protocol};

/// The call's context; headers and extensions are moved, not copied.
pub(super) fn context(mut ctx: RequestContext) -> Context {
    let headers = std::mem::take(ctx.headers_mut());
    let extensions = std::mem::take(ctx.extensions_mut());
    let protocol = match ctx.protocol() {
        Some(connectrpc::Protocol::Grpc) => Protocol::Grpc,
        Some(connectrpc::Protocol::GrpcWeb) => Protocol::GrpcWeb,
        _ => Protocol::Connect,
    };
    plain::context(headers, extensions, protocol).with_deadline(ctx.deadline())
}

/// Our error as the library sends it.
pub(super) fn error_out(error: Error) -> ConnectError {
    let http_status = error.http_status();
    let ErrorParts { code, message, details, headers, trailers, .. } = error.into_parts();
    let numbered = ErrorCode::from_grpc_code(code.number().into());
    let mut out = ConnectError::new(numbered.unwrap_or(ErrorCode::Unknown), message);
    if http_status != code.http_status() {
        out = out.with_http_status(http_status);
    }
    for detail in details {
        out = out.with_detail(ErrorDetail {
            type_url: detail.type_name,
            value: Some(STANDARD_NO_PAD.encode(&detail.value)),
            debug: None,
        });
    }
    if !headers.is_empty() {
        out.set_response_headers(headers.into_map());
    }
    if !trailers.is_empty() {
        out.set_trailers(trailers.into_map());
    }
    out
}

/// The library's error, for example of a request stream that breaks off, as ours.
pub(super) fn error_in(error: ConnectError) -> Error {
    let code = Code::from_number(error.code.grpc_code()).unwrap_or(Code::Unknown);
    let mut ours = Error::new(code, error.message.clone().unwrap_or_default());
    for detail in &error.details {
        let text = detail.value.as_deref().unwrap_or_default();
        let value = STANDARD_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text));
        let type_name = detail.type_url.rsplit('/').next().unwrap_or_default().to_owned();
        ours = ours.with_detail(Detail { type_name, value: value.unwrap_or_default().into() });
    }
    *ours.headers_mut() = error.response_headers().clone().into();
    *ours.trailers_mut() = error.trailers().clone().into();
    ours
}

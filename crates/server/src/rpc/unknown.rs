//! The answer to a call of a method that is not there, in the caller's protocol and with a hint.

use connectrpc::{ConnectError, ConnectRpcBody};
use http::{HeaderMap, Response, StatusCode};

use super::Methods;

/// The response, in the protocol that the request's headers speak.
pub(crate) fn unknown_method(
    methods: &Methods,
    path: &str,
    headers: &HeaderMap,
) -> Response<ConnectRpcBody> {
    ConnectError::unimplemented(message(methods, path))
        .with_http_status(StatusCode::NOT_FOUND)
        .into_http_response(headers)
}

fn message(methods: &Methods, path: &str) -> String {
    let service = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let prefix = format!("/{service}/");
    let mut known: Vec<_> = methods.paths().filter_map(|p| p.strip_prefix(&prefix)).collect();
    known.sort_unstable();
    if known.is_empty() {
        let mut services: Vec<_> =
            methods.paths().filter_map(|p| p.trim_start_matches('/').split('/').next()).collect();
        services.sort_unstable();
        services.dedup();
        return format!("no service {service}; there is {}", list(&services));
    }
    format!("no method {path}; {service} has {}", list(&known))
}

fn list(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 12;
    match names {
        [] => "none".to_owned(),
        names if names.len() <= SHOWN_MAX => names.join(", "),
        names => format!("{} and {} more", names[..SHOWN_MAX].join(", "), names.len() - SHOWN_MAX),
    }
}

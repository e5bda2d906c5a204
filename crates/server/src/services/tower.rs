//! Any `tower::Service` (an `axum::Router`, a proxy, a file server) as a plain HTTP service.
//!
//! It then goes through the same layers, limits and isolation as everything else.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use tidewire_service::{Answer, Body, Call, Error, Reply, Service, Target};

/// Wraps a tower service of HTTP requests.
///
/// ```
/// use axum::{Router, routing::get};
/// let pages = tidewire_server::tower(Router::new().route("/", get(|| async { "hello" })));
/// let server = tidewire_server::Server::builder().mount("/pages", pages);
/// ```
pub fn tower<S, B>(service: S) -> Tower<S>
where
    S: tower_service::Service<Request<Body>, Response = Response<B>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    Tower(service)
}

/// A wrapped tower service; see [`tower`].
pub struct Tower<S>(S);

impl<S, B> Service for Tower<S>
where
    S: tower_service::Service<Request<Body>, Response = Response<B>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    S::Error: fmt::Display + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    fn call(&self, call: Call) -> Answer {
        let Target::Http(target) = call.target else {
            return Answer::ready(Err(Error::unimplemented("only plain HTTP requests go here")));
        };
        let mut request = Request::new(call.body);
        *request.method_mut() = target.method;
        *request.uri_mut() = target.uri;
        let (headers, extensions) = call.context.into_http();
        *request.headers_mut() = headers.into();
        *request.extensions_mut() = extensions;
        let mut service = self.0.clone();
        Answer::pending(async move {
            let failed = |e: S::Error| {
                Error::internal("the mounted service failed").with_cause(TowerError(e.to_string()))
            };
            std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
            let (parts, body) = service.call(request).await.map_err(failed)?.into_parts();
            let mut reply = Reply::new(Body::wrap(body)).with_status(parts.status);
            reply.headers = parts.headers.into();
            Ok(reply)
        })
    }
}

impl<S> fmt::Debug for Tower<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tower")
    }
}

/// The text of a tower service's error, which need not be an `Error` itself.
#[derive(Debug)]
struct TowerError(String);

impl fmt::Display for TowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TowerError {}

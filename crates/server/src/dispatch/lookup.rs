//! What a request is for, found once by its head.
//!
//! | request | found |
//! |---|---|
//! | path of a method | that method, with what its head agrees to; or why that is refused |
//! | the same of a stream, with JSON and a route at it | that route |
//! | the same in gRPC-Web with JSON, where `Builder::web_json_to_routes` is on | that route |
//! | the same for a command, by a page of another origin | 403 (`gate/origin.rs`) |
//! | verb and path of a `google.api.http` binding | that binding |
//! | `/openapi.json`, where that is on | the document of these bindings |
//! | path of a route or below a mount | that plain HTTP service |
//! | other path with the content type of an RPC protocol | `unimplemented`, in that protocol |
//! | anything else | 404 |
//!
//! What is refused here was still asked for: gates and observers see it like any other request.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use tidewire_rest::Binding;
use tidewire_service::{
    Body, Codec, Error, HttpTarget, PathParams, Protocol, Service, StreamKind, Target,
};
use tidewire_wire::{Dialect, Exchange, Head, Refusal, negotiate, speaks};

use crate::app::App;
use crate::gate::origin;
use crate::protocols::rest::{Rest, RestTarget};
use crate::protocols::rpc;
use crate::request::deadline;
use crate::request::failure::RequestFailure;
use crate::request::failure_log::log;
use crate::response::body::ResponseBody;
use crate::response::error::{error_response, wrong_verb};
use crate::services::entry::Entry;
use crate::services::routes;

/// What a request is for.
pub(crate) enum RequestTarget<'a> {
    /// A method, in an RPC protocol.
    Method(Cow<'a, Arc<Entry>>, Exchange),
    /// A method, by REST.
    Binding(Cow<'a, Arc<Binding>>, Cow<'a, Arc<dyn Service>>, Option<Duration>),
    /// The OpenAPI document of the REST bindings.
    Document,
    /// A plain HTTP service, and the URI that it is to see when that differs.
    Plain(Cow<'a, Arc<dyn Service>>, PathParams, Option<Box<Uri>>, Option<Duration>),
    /// Nothing that is called: what is answered instead.
    Answer(Box<EarlyResponse>),
}

/// A request that is answered without a call.
pub(crate) struct EarlyResponse {
    target: Target,
    protocol: Protocol,
    pub(crate) response: Response<ResponseBody>,
}

/// Where requests are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) app: &'a App,
    pub(crate) rest: &'a Rest,
}

impl<'a> Lookup<'a> {
    /// Finds what a request is for.
    #[inline]
    pub(crate) fn find(self, parts: &Parts) -> RequestTarget<'a> {
        let path = parts.uri.path();
        if let Some(entry) = self.app.methods.find(path) {
            return match negotiate(&head(parts), Some(&entry.method)) {
                Ok(exchange)
                    if self.app.web_json_to_routes && self.has_web_json_route(&exchange, parts) =>
                {
                    self.find_plain(parts)
                }
                Ok(exchange) => match self.own_page(&entry.method, parts) {
                    Ok(()) => RequestTarget::Method(entry, exchange),
                    Err(error) => foreign(&entry.method, &exchange, error),
                },
                Err(_) if self.has_route_instead(&entry.method, parts) => self.find_plain(parts),
                Err(refusal) => {
                    let target = Target::Method(entry.method.clone());
                    refusal_response(target, protocol_of(parts), refusal)
                }
            };
        }
        match self.rest.find(&parts.method, path) {
            RestTarget::Elsewhere => self.find_plain(parts),
            RestTarget::Document => RequestTarget::Document,
            RestTarget::Response(response) => early_response(http(parts), Protocol::Rest, response),
            RestTarget::Binding(binding, service) => match self
                .own_page(binding.method(), parts)
                .and_then(|()| deadline::of(&parts.headers))
            {
                Ok(timeout) => {
                    RequestTarget::Binding(Cow::Borrowed(binding), Cow::Borrowed(service), timeout)
                }
                Err(error) => {
                    let target = Target::Method(binding.method().clone());
                    early_response(target, Protocol::Rest, self.rest.refusal(&error))
                }
            },
        }
    }

    /// Whether a route takes JSON for a stream, which no RPC protocol does.
    #[cold]
    fn has_route_instead(self, method: &tidewire_service::Method, parts: &Parts) -> bool {
        let is_of_none = method.kind != StreamKind::Unary && is_method_in_json(parts);
        let found = || self.app.routes.find(&parts.method, &parts.uri);
        is_of_none && matches!(found(), Ok(routes::RouteMatch::Service(..)))
    }

    /// Whether a route takes gRPC-Web with JSON whose client gives no name
    /// ([`Builder::web_json_to_routes`](crate::Builder::web_json_to_routes)).
    #[cold]
    fn has_web_json_route(self, exchange: &Exchange, parts: &Parts) -> bool {
        exchange.dialect() == Dialect::GrpcWeb
            && exchange.codec() == Codec::Json
            && !exchange.kind().client_streams()
            && !parts.headers.contains_key("x-user-agent")
            && matches!(
                self.app.routes.find(&parts.method, &parts.uri),
                Ok(routes::RouteMatch::Service(..))
            )
    }

    #[inline]
    fn find_plain(self, parts: &Parts) -> RequestTarget<'a> {
        let failed = |error: &Error| plain_answer(parts, error_response(error));
        match self.app.routes.find(&parts.method, &parts.uri) {
            Ok(routes::RouteMatch::Service(service, params)) => {
                let is_safe = origin::is_safe(&parts.method);
                let own =
                    if is_safe { Ok(()) } else { origin::check(parts, self.app.cors.as_deref()) };
                match own.and_then(|()| deadline::of(&parts.headers)) {
                    Ok(timeout) => {
                        RequestTarget::Plain(Cow::Borrowed(service), params, None, timeout)
                    }
                    Err(error) => failed(&error),
                }
            }
            Ok(routes::RouteMatch::Mounted(..)) if wants_tunnel(parts) => failed(&no_tunnel()),
            Ok(routes::RouteMatch::Mounted(service, uri)) => match deadline::of(&parts.headers) {
                Ok(timeout) => RequestTarget::Plain(
                    Cow::Borrowed(service),
                    PathParams::default(),
                    uri,
                    timeout,
                ),
                Err(error) => failed(&error),
            },
            Ok(routes::RouteMatch::WrongVerb(allowed)) => plain_answer(parts, wrong_verb(&allowed)),
            Ok(routes::RouteMatch::Nothing) => self.nothing(parts),
            Err(error) => failed(&error),
        }
    }

    /// Whether a request may run a method, by the page that it comes from.
    #[inline]
    fn own_page(self, method: &tidewire_service::Method, parts: &Parts) -> Result<(), Error> {
        if method.is_query() {
            return Ok(());
        }
        origin::check(parts, self.app.cors.as_deref())
    }

    /// Nothing is at the path; who speaks an RPC protocol is told so in it.
    #[cold]
    fn nothing(self, parts: &Parts) -> RequestTarget<'a> {
        let path = parts.uri.path();
        let head = head(parts);
        if speaks(&head).is_none() && !is_method_in_json(parts) {
            let error = Error::not_found(format!("nothing is at {path}"));
            return plain_answer(parts, self.rest.refusal(&error));
        }
        let target = Target::Unknown(path.into());
        match negotiate(&head, None) {
            Err(refusal) => refusal_response(target, protocol_of(parts), refusal),
            Ok(exchange) => {
                let protocol = exchange.dialect().protocol();
                let response = rpc::error_response(&exchange, self.app.methods.unknown(path));
                RequestTarget::Answer(Box::new(EarlyResponse { target, protocol, response }))
            }
        }
    }
}

impl RequestTarget<'_> {
    /// The same for a request that has to wait.
    pub(crate) fn into_owned(self) -> RequestTarget<'static> {
        match self {
            Self::Method(entry, exchange) => {
                RequestTarget::Method(Cow::Owned(entry.into_owned()), exchange)
            }
            Self::Binding(binding, service, timeout) => RequestTarget::Binding(
                Cow::Owned(binding.into_owned()),
                Cow::Owned(service.into_owned()),
                timeout,
            ),
            Self::Document => RequestTarget::Document,
            Self::Plain(service, params, uri, timeout) => {
                RequestTarget::Plain(Cow::Owned(service.into_owned()), params, uri, timeout)
            }
            Self::Answer(answered) => RequestTarget::Answer(answered),
        }
    }

    /// What gates and observers are told that it is.
    pub(crate) fn target(&self, parts: &Parts) -> Target {
        match self {
            Self::Method(entry, _) => Target::Method(entry.method.clone()),
            Self::Binding(binding, ..) => Target::Method(binding.method().clone()),
            Self::Plain(_, params, ..) => {
                let target = HttpTarget::new(parts.method.clone(), parts.uri.clone());
                Target::Http(target.with_params(params.clone()))
            }
            Self::Document => http(parts),
            Self::Answer(answered) => answered.target.clone(),
        }
    }

    /// The protocol that the request is in.
    #[inline]
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Method(_, exchange) => exchange.dialect().protocol(),
            Self::Binding(..) | Self::Document => Protocol::Rest,
            Self::Plain(..) => Protocol::Http,
            Self::Answer(answered) => answered.protocol,
        }
    }

    /// How long the caller waits from now on.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Method(_, exchange) => exchange.timeout(),
            Self::Binding(_, _, timeout) | Self::Plain(_, _, _, timeout) => *timeout,
            Self::Document | Self::Answer(_) => None,
        }
    }

    /// The response that refuses the request, in its protocol.
    pub(crate) fn refusal(
        &self,
        rest: &Rest,
        parts: &Parts,
        error: Error,
    ) -> Response<ResponseBody> {
        log(&error, "gate");
        match self {
            Self::Method(_, exchange) => rpc::error_response(exchange, error),
            Self::Answer(answered) if is_rpc(answered.protocol) => refusal_in_rpc(parts, error),
            // What is called there may be a gRPC server: its callers look for a `grpc-status`.
            Self::Plain(..) if is_grpc_call(parts) => refusal_in_rpc(parts, error),
            _ if self.protocol() == Protocol::Rest => rest.refusal(&error).map(ResponseBody::plain),
            _ => error_response(&error).map(ResponseBody::plain),
        }
    }
}

fn head(parts: &Parts) -> Head<'_> {
    Head {
        verb: &parts.method,
        query: parts.uri.query(),
        version: parts.version,
        headers: &parts.headers,
    }
}

fn http(parts: &Parts) -> Target {
    Target::Http(HttpTarget::new(parts.method.clone(), parts.uri.clone()))
}

fn early_response<'a>(
    target: Target,
    protocol: Protocol,
    response: Response<Body>,
) -> RequestTarget<'a> {
    let response = response.map(ResponseBody::plain);
    RequestTarget::Answer(Box::new(EarlyResponse { target, protocol, response }))
}

/// Refuses a command of a page of another origin, in the protocol that it is in.
#[cold]
fn foreign<'a>(
    method: &tidewire_service::Method,
    exchange: &Exchange,
    error: Error,
) -> RequestTarget<'a> {
    let target = Target::Method(method.clone());
    let protocol = exchange.dialect().protocol();
    let response = rpc::error_response(exchange, error);
    RequestTarget::Answer(Box::new(EarlyResponse { target, protocol, response }))
}

/// Whether a request asks for a tunnel or another protocol, and not for a WebSocket (RFC 8441):
/// what is mounted would be sent it as a verb with a path, which HTTP/1.1 does not know.
fn wants_tunnel(parts: &Parts) -> bool {
    let protocol = parts.extensions.get::<hyper::ext::Protocol>();
    parts.method == Method::CONNECT && protocol.is_none_or(|it| it.as_str() != "websocket")
}

#[cold]
fn no_tunnel() -> Error {
    let text = "CONNECT opens no tunnel here; over HTTP/2 it opens a WebSocket, with :protocol = \
                websocket";
    Error::unimplemented(text).with_http_status(StatusCode::NOT_IMPLEMENTED)
}

fn plain_answer<'a>(parts: &Parts, response: Response<Body>) -> RequestTarget<'a> {
    early_response(http(parts), Protocol::Http, response)
}

/// Refuses a request in the RPC protocol that its head says.
fn refusal_in_rpc(parts: &Parts, error: Error) -> Response<ResponseBody> {
    match negotiate(&head(parts), None) {
        Ok(exchange) => rpc::error_response(&exchange, error),
        Err(_) => error_response(&error).map(ResponseBody::plain),
    }
}

fn refusal_response<'a>(target: Target, protocol: Protocol, refusal: Refusal) -> RequestTarget<'a> {
    let failed = RequestFailure::new(refusal.error());
    let mut response = rpc::whole(refusal.into_response());
    response.extensions_mut().insert(failed);
    RequestTarget::Answer(Box::new(EarlyResponse { target, protocol, response }))
}

/// The RPC protocol of a request that was not agreed to; Connect unless it says another.
fn protocol_of(parts: &Parts) -> Protocol {
    speaks(&head(parts)).unwrap_or_default().protocol()
}

/// Whether a request is of gRPC or gRPC-Web, and not JSON in lines
/// ([`Builder::web_json_to_routes`](crate::Builder::web_json_to_routes)).
fn is_grpc_call(parts: &Parts) -> bool {
    negotiate(&head(parts), None).is_ok_and(|exchange| match exchange.dialect() {
        Dialect::Grpc => true,
        Dialect::GrpcWeb => exchange.codec() != Codec::Json,
        _ => false,
    })
}

const fn is_rpc(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Connect | Protocol::Grpc | Protocol::GrpcWeb)
}

/// Whether somebody who sends plain JSON, as with curl, means a method: it could be one by its
/// path.
fn is_method_in_json(parts: &Parts) -> bool {
    const JSON: &[u8] = b"application/json";
    let content_type = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    parts.method == Method::POST
        && content_type.get(..JSON.len()).is_some_and(|start| start.eq_ignore_ascii_case(JSON))
        && parts.uri.path().trim_matches('/').split('/').count() == 2
}

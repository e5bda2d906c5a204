//! A request that wants to become a WebSocket of the live protocol: RFC 6455, section 4.2, and over
//! HTTP/2 RFC 8441, where it takes one stream and its neighbours on the connection go on.
//!
//! | request | answered |
//! |---|---|
//! | `GET` with `Upgrade: websocket` at the protocol's path, key and version in order | 101 |
//! | HTTP/2: `CONNECT` with `:protocol` websocket there, which needs no key | 200 |
//! | without the subprotocol | 400, which names it |
//! | another version of WebSocket | 426, with the one that is spoken |
//! | with an `Origin` that is not the server's own and not in `cors.origins` | 403 |
//! | with another `Sec-Fetch-Site` than `same-origin` and `none`, and no `Origin` of `cors.origins` | 403 |
//! | any other at that path | as at every path |
//!
//! Browsers let every page open a WebSocket to every host, with its cookies and without asking
//! first, so the origin is looked at here, whether or not there is a cookie: a server on loopback
//! has no other fence.

use std::sync::Arc;

use http::header::{
    CONNECTION, COOKIE, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use tidewire_live::{PATH, SUBPROTOCOL, accept_key};
use tidewire_service::{Body, Error, Headers, Peer};

use crate::gate::cors::Policy;
use crate::gate::origin::{is_of_other_site, is_own_page};
use crate::response::error::error_response;

/// A connection that will be handed over.
pub(crate) struct Takeover {
    pub(super) connection: OnUpgrade,
    /// The headers of its request that say who it is.
    pub(super) headers: Headers,
    /// Who opened it.
    pub(super) peer: Arc<Peer>,
}

/// The answer to a request that wants to become a live connection, and that connection unless
/// it is refused; `None` when that is not what it wants.
pub(crate) fn upgrade<B>(
    cors: Option<&Policy>,
    request: &mut Request<B>,
    peer: &Arc<Peer>,
) -> Option<(Response<Body>, Option<Takeover>)> {
    let how = upgrade_kind(request)?;
    let key = match check_upgrade(cors, request, how, peer) {
        Ok(key) => key,
        Err(error) => return Some((error_response(&error), None)),
    };
    let mut response = Response::new(Body::Empty);
    let headers = response.headers_mut();
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Some(key) = key {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, key);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    }
    if withholds_cookies(cors, request, peer) {
        request.headers_mut().remove(COOKIE);
    }
    let connection = request.extensions_mut().remove::<OnUpgrade>()?;
    let headers = of_connection(std::mem::take(request.headers_mut()).into());
    let peer = Arc::clone(peer);
    Some((response, Some(Takeover { connection, headers, peer })))
}

/// Checks that it may be; what proves over HTTP/1.1 that it was understood.
fn check_upgrade<B>(
    cors: Option<&Policy>,
    request: &Request<B>,
    how: UpgradeKind,
    peer: &Peer,
) -> Result<Option<HeaderValue>, Error> {
    let headers = request.headers();
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut error = Error::unimplemented("WebSocket version 13 is spoken")
            .with_http_status(StatusCode::UPGRADE_REQUIRED);
        error.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Err(error);
    }
    if !lists(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        let text = format!("{PATH} takes WebSockets of the subprotocol {SUBPROTOCOL}; name it");
        return Err(Error::invalid_argument(text));
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.find(|origin| !may_connect(cors, origin, request, peer)) {
        let text = format!("pages of {origin:?} may not connect; add it to cors.origins");
        return Err(Error::permission_denied(text));
    }
    if is_of_other_site(headers) && !headers.contains_key(ORIGIN) {
        let text = "pages of other origins may not connect; see cors.origins";
        return Err(Error::permission_denied(text));
    }
    if how == UpgradeKind::Connect {
        return Ok(None);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == KEY_BYTES);
    let key = key.and_then(|key| HeaderValue::try_from(accept_key(key.as_bytes())).ok());
    let key = key.ok_or_else(|| {
        Error::invalid_argument("header sec-websocket-key is not a base64 key of 16 bytes")
    })?;
    Ok(Some(key))
}

/// Whether the page may connect, and its cookies say nothing: browsers send them whatever a
/// page asks for.
fn withholds_cookies<B>(cors: Option<&Policy>, request: &Request<B>, peer: &Peer) -> bool {
    let withholds = |policy: &Policy, origin: &HeaderValue| {
        policy.withholds_cookies(origin) && !is_own(origin, request, peer)
    };
    let mut origins = request.headers().get_all(ORIGIN).iter();
    cors.is_some_and(|policy| origins.any(|origin| withholds(policy, origin)))
}

/// Whether pages of this origin may connect: those of this server, and those that are named.
fn may_connect<B>(
    cors: Option<&Policy>,
    origin: &HeaderValue,
    request: &Request<B>,
    peer: &Peer,
) -> bool {
    let is_named = || cors.is_some_and(|policy| policy.names(origin));
    is_own(origin, request, peer) || is_named()
}

/// Whether this origin is the server's own, and the browser does not say otherwise.
fn is_own<B>(origin: &HeaderValue, request: &Request<B>, peer: &Peer) -> bool {
    let headers = request.headers();
    !is_of_other_site(headers) && is_own_page(origin, headers, request.uri(), peer)
}

/// How a request asks for a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpgradeKind {
    /// HTTP/1.1: for all of its connection.
    Upgrade,
    /// HTTP/2: for its stream.
    Connect,
}

/// How a request asks for a WebSocket of the protocol; `None` if it does not.
fn upgrade_kind<B>(request: &Request<B>) -> Option<UpgradeKind> {
    if request.uri().path() != PATH {
        return None;
    }
    let protocol = request.extensions().get::<Protocol>();
    match *request.method() {
        Method::GET if lists(request.headers(), &UPGRADE, "websocket") => {
            Some(UpgradeKind::Upgrade)
        }
        Method::CONNECT if protocol.is_some_and(|protocol| protocol.as_str() == "websocket") => {
            Some(UpgradeKind::Connect)
        }
        _ => None,
    }
}

/// Whether a header that is a list has this in it, in whatever case.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut listed = values.flat_map(|value| value.split(','));
    listed.any(|item| item.trim().eq_ignore_ascii_case(wanted))
}

/// The headers that say something of the connection's calls: not those of HTTP's connection, nor of
/// the handshake.
fn of_connection(mut headers: Headers) -> Headers {
    let dropped = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            name.starts_with("sec-websocket-") || HOP_BY_HOP.contains(&name)
        })
        .cloned()
        .collect::<Vec<_>>();
    dropped.iter().for_each(|name| drop(headers.remove(name)));
    headers
}

const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
];
/// Sixteen bytes in base64.
const KEY_BYTES: usize = 24;

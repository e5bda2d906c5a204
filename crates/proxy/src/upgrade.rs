//! A request that takes its connection over, WebSocket above all: passed to a server of plain
//! HTTP.
//!
//! ```text
//!  caller: GET, Upgrade: websocket ─▶ program, on its own connection
//!  caller: CONNECT of HTTP/2, RFC 8441 ─▶ the same, which answers 200 in place of 101
//!  caller ◀─ 101 ─ program            then bytes both ways, until both have ended
//!  caller ◀─ anything else ─ program  an answer like any other; to CONNECT 502 for 2xx
//! ```
//!
//! What is said on the connection is not looked at. `Upgrade: h2c` is not passed: the program is
//! spoken to in HTTP/1.1, and the caller may go on in that.

use std::borrow::Cow;
use std::path::Path;
use std::pin::Pin;

use futures_util::stream::poll_fn;
use http::header::{CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use tidewire_client::RawDialer;
use tidewire_service::{
    Body, Call, Error, Frame, Outcome, Reply, Result, Target, Upgrade, end_to_end,
};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

/// What a request wants its connection to become.
pub fn upgrade_header(call: &Call) -> Option<HeaderValue> {
    let target = call.http_target()?;
    if is_over_http2(call) {
        return Some(HeaderValue::from_static("websocket"));
    }
    let headers = call.context.headers();
    let wanted = headers.get(UPGRADE).filter(|_| target.method == Method::GET)?;
    let is_named = headers.get_all(CONNECTION).iter().any(|value| {
        let names = value.to_str().unwrap_or_default().split(',');
        names.into_iter().any(|name| name.trim().eq_ignore_ascii_case("upgrade"))
    });
    (is_named && !wanted.as_bytes().eq_ignore_ascii_case(b"h2c")).then(|| wanted.clone())
}

/// Whether it is a WebSocket on a stream of HTTP/2.
fn is_over_http2(call: &Call) -> bool {
    let is_connect = call.http_target().is_some_and(|target| target.method == Method::CONNECT);
    let protocol = call.context.extensions().get::<Protocol>();
    is_connect && protocol.is_some_and(|protocol| protocol.as_str() == "websocket")
}

/// The answer to such a request where the server speaks a protocol that has no upgrades: 501.
pub fn refused_upgrade(protocol: &str) -> Error {
    let text = format!("WebSockets and other upgrades do not pass to a server of {protocol}");
    Error::unimplemented(text)
}

/// Where a server listens that such a request goes to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum UpgradeAddress<'a> {
    /// At a Unix socket.
    Unix(Cow<'a, Path>),
    /// At `HOST:PORT`.
    Tcp(Cow<'a, str>),
    /// Where this one connects to, over TLS.
    Tls(&'a RawDialer),
}

/// Passes such a request to the server at `address`.
///
/// # Errors
/// It cannot be reached, or its answer is not HTTP.
pub async fn pass_upgrade(
    address: &UpgradeAddress<'_>,
    call: Call,
    wanted: HeaderValue,
) -> Result<Reply> {
    match address {
        UpgradeAddress::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await;
            ask(stream.map_err(unreachable)?, call, wanted).await
        }
        UpgradeAddress::Tcp(address) => {
            let stream = tokio::net::TcpStream::connect(&**address).await;
            let stream = stream.map_err(unreachable)?;
            // It works without, too.
            let _ = stream.set_nodelay(true);
            ask(stream, call, wanted).await
        }
        UpgradeAddress::Tls(dialer) => ask(dialer.dial().await?, call, wanted).await,
    }
}

async fn ask<S>(stream: S, call: Call, wanted: HeaderValue) -> Result<Reply>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_over_http2 = is_over_http2(&call);
    let mut request = request(call, wanted)?;
    if is_over_http2 {
        *request.method_mut() = Method::GET;
        request.headers_mut().insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static(KEY));
    }
    let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // It ends with the answer, or hands its socket over.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection that was to be taken over ended");
        }
    });
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    Ok(match response.status() {
        StatusCode::SWITCHING_PROTOCOLS if is_over_http2 => {
            let reply = switched(response);
            let mut headers = end_to_end(reply.headers.clone().into());
            headers.remove(SEC_WEBSOCKET_ACCEPT);
            reply.with_status(StatusCode::OK).with_headers(headers)
        }
        StatusCode::SWITCHING_PROTOCOLS => switched(response),
        status if is_over_http2 && status.is_success() => return Err(not_opened(status)),
        _ => to_reply(response),
    })
}

fn request(call: Call, wanted: HeaderValue) -> Result<Request<String>> {
    let Call { target: Target::Http(target), context, .. } = call else {
        return Err(Error::internal("a call of a method takes no connection over"));
    };
    let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(String::new());
    *request.method_mut() = target.method;
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *request.version_mut() = Version::HTTP_11;
    let mut headers = end_to_end(context.into_headers());
    // Of a body nothing passes.
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, wanted);
    *request.headers_mut() = headers.into();
    Ok(request)
}

/// The program agreed: what follows passes both ways.
fn switched(mut response: Response<Incoming>) -> Reply {
    let program = hyper::upgrade::on(&mut response);
    let upgrade = Upgrade::new(move |mut caller| async move {
        match program.await {
            Ok(program) => {
                // An end that breaks off is an end.
                let _ = copy_bidirectional(&mut caller, &mut TokioIo::new(program)).await;
            }
            Err(error) => {
                tracing::debug!(%error, "the server behind did not hand its connection over")
            }
        }
    });
    let (head, _) = response.into_parts();
    Reply::upgrade(head.status, upgrade).with_headers(head.headers)
}

fn to_reply(response: Response<Incoming>) -> Reply {
    let (head, mut body) = response.into_parts();
    let frames = poll_fn(move |cx| {
        Pin::new(&mut body).poll_frame(cx).map(|frame| {
            frame.map(|frame| match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => Ok(Frame::Data(data)),
                Ok(Err(frame)) => {
                    Ok(Frame::Trailers(frame.into_trailers().unwrap_or_default().into()))
                }
                Err(error) => Err(broken(&error)),
            })
        })
    });
    let headers = end_to_end(head.headers.into());
    Reply::new(Body::frames(frames)).with_status(head.status).with_headers(headers)
}

/// The program answered with a page, which over HTTP/2 would say that the WebSocket is open.
fn not_opened(status: StatusCode) -> Error {
    let text = format!(
        "the server behind answered {} to a WebSocket, where 101 opens it",
        status.as_u16()
    );
    Error::failed_precondition(text)
        .with_http_status(StatusCode::BAD_GATEWAY)
        .with_outcome(Outcome::Unknown)
}

fn unreachable(error: std::io::Error) -> Error {
    let text = format!("the server behind cannot be reached: {error}");
    Error::unavailable(text).with_outcome(Outcome::NotRun).with_cause(error)
}

fn broken(error: &hyper::Error) -> Error {
    Error::unavailable(format!("the connection to the server behind broke: {error}"))
        .with_outcome(Outcome::Unknown)
}

/// What HTTP/1.1 wants of a caller and HTTP/2 does not: proof of nothing on a connection that no
/// cache sees.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

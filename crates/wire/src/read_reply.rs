//! Messages in envelopes: everything of gRPC and gRPC-Web, and the streams of Connect.
//!
//! A reply of one message is read to its end before the caller sees it; a reply of many is a stream
//! that ends with the trailers, or in the error that they hold.

use std::task::{Context, Poll, ready};

use futures_util::StreamExt;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, TE};
use http::{HeaderMap, StatusCode};
use tidewire_service::{Body, Code, Codec, Error, Frame, Method, Reply, Result, StreamKind};

use super::compression::Encoding;
use super::end::{End, web_trailers};
use super::envelope::{CONNECT_END, Opener, WEB_TRAILERS, seal};
use super::{Dialect, Expected, Message, error_json, headers, status, unary};
use crate::Protocol;
use crate::exchange::{Inbound, Outbound, Received};
use crate::outgoing::Outgoing;
use crate::trace::{Step, Trace, tell};

pub(super) fn request(
    dialect: &Dialect,
    method: &Method,
    codec: Codec,
    mut headers: HeaderMap,
    message: Message,
    trace: Option<&Trace>,
) -> Result<Outbound> {
    let (encoding, accepted) = match dialect.protocol {
        Protocol::Connect => {
            headers.insert(CONNECT_VERSION, HeaderValue::from_static("1"));
            (CONNECT_ENCODING, CONNECT_ACCEPT)
        }
        Protocol::Grpc => {
            headers.insert(TE, HeaderValue::from_static("trailers"));
            (GRPC_ENCODING, GRPC_ACCEPT)
        }
        Protocol::GrpcWeb => {
            headers.insert(GRPC_WEB, HeaderValue::from_static("1"));
            (GRPC_ENCODING, GRPC_ACCEPT)
        }
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(dialect.protocol, codec)));
    if let Some(requests) = dialect.compression.requests {
        headers.insert(encoding, requests.value());
    }
    if let Some(accepts) = dialect.compression.accepted() {
        headers.insert(accepted, accepts);
    }
    let (body, cancel) = match message {
        Message::One(message) => {
            let (head, message) = seal(message, &dialect.compression)?;
            (Outgoing::whole(head, message, trace.cloned()), None)
        }
        Message::Many(body) => {
            let (body, cancel) = Outgoing::stream(sealed(dialect, body), trace.cloned());
            (body, Some(cancel))
        }
    };
    let path = super::path_of(method)?;
    Ok(Outbound { method: http::Method::POST, path, headers, body, cancel })
}

/// Each message in its envelope; the caller's trailers have no place in a request.
fn sealed(dialect: &Dialect, body: Body) -> Body {
    let compression = dialect.compression.clone();
    let Body::Stream(frames) = body else { return body };
    let pieces = frames.filter_map(move |frame| {
        let piece = match frame {
            Ok(Frame::Data(message)) => Some(seal(message, &compression)),
            Ok(Frame::Trailers(_)) => None,
            Err(error) => Some(Err(error)),
        };
        std::future::ready(piece)
    });
    Body::stream(pieces.flat_map(|piece| {
        let both = match piece {
            Ok((head, message)) => [Some(Ok(head)), (!message.is_empty()).then_some(Ok(message))],
            Err(error) => [Some(Err(error)), None],
        };
        futures_util::stream::iter(both.into_iter().flatten())
    }))
}

pub(super) async fn reply(
    dialect: &Dialect,
    expected: &Expected,
    received: Received,
) -> Result<Reply> {
    let Received { head, body } = received;
    let host = body.host().clone();
    if head.status != StatusCode::OK {
        let mut error = error_json::of_status(head.status, &host);
        *error.headers_mut() = headers::own(head.headers);
        return Err(error);
    }
    let essence = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    check_type(unary::essence(essence), dialect.protocol, expected.codec, &host)?;
    let encoding = match dialect.protocol {
        Protocol::Connect => {
            // Stops a response that an HTTP intermediary compressed as a whole.
            Encoding::of_response(head.headers.get(CONTENT_ENCODING), &host)?;
            Encoding::of_response(head.headers.get(CONNECT_ENCODING), &host)?
        }
        _ => Encoding::of_response(head.headers.get(GRPC_ENCODING), &host)?,
    };
    let is_grpc = dialect.protocol != Protocol::Connect;
    let headers = head.headers;
    // A response of headers only: they are the trailers. Trailers that follow say more.
    let of_headers = match is_grpc && headers.contains_key(status::GRPC_STATUS) {
        true => End::grpc(headers.clone()),
        false => None,
    };
    if body.is_end()
        && let Some(end) = of_headers
    {
        return end.into_result().and_then(|trailers| empty(expected.kind, trailers, &host));
    }
    let mut replies = Replies {
        body,
        opener: Opener::new(dialect.message_bytes_max),
        protocol: dialect.protocol,
        bytes_max: dialect.message_bytes_max,
        encoding,
        end: None,
        of_headers,
        is_done: false,
    };
    let headers = headers::own(headers);
    match expected.kind {
        StreamKind::Unary | StreamKind::Client => one(replies, headers, &host).await,
        StreamKind::Server | StreamKind::Bidi => {
            let mut reply = Reply::new(Body::Empty);
            let metadata = headers.clone();
            reply.headers = headers;
            let items = futures_util::stream::poll_fn(move |cx| replies.poll_next_frame(cx));
            reply.body = Body::frames(items.map(move |item| {
                item.map_err(|mut error| {
                    if error.headers().is_empty() {
                        error.headers_mut().clone_from(&metadata);
                    }
                    error
                })
            }));
            Ok(reply)
        }
    }
}

/// A reply without a message.
fn empty(kind: StreamKind, trailers: HeaderMap, host: &str) -> Result<Reply> {
    if !kind.server_streams() {
        return Err(no_message(host));
    }
    let mut reply = Reply::new(Body::Empty);
    reply.trailers = trailers.into();
    Ok(reply)
}

/// The one message that is expected, and the trailers after it.
async fn one(mut replies: Replies, headers: HeaderMap, host: &str) -> Result<Reply> {
    let outcome = async {
        let mut message = None;
        loop {
            match std::future::poll_fn(|cx| replies.poll_next_frame(cx)).await.transpose()? {
                Some(Frame::Data(_)) if message.is_some() => {
                    return Err(Error::unimplemented(format!(
                        "{host} sent more than one message where one is expected"
                    )));
                }
                Some(Frame::Data(data)) => message = Some(data),
                Some(Frame::Trailers(trailers)) => {
                    let message = message.ok_or_else(|| no_message(host))?;
                    return Ok((message, trailers));
                }
                None => return Err(no_status(host)),
            }
        }
    };
    match outcome.await {
        Ok((message, trailers)) => {
            let mut reply = Reply::new(Body::Full(message));
            (reply.headers, reply.trailers) = (headers, trailers.into());
            Ok(reply)
        }
        Err(mut error) => {
            if error.headers().is_empty() {
                *error.headers_mut() = headers;
            }
            Err(error)
        }
    }
}

fn check_type(essence: &[u8], protocol: Protocol, codec: Codec, host: &str) -> Result<()> {
    let wanted = content_type(protocol, codec);
    let (plain, prefix): (&[u8], &[u8]) = match protocol {
        Protocol::Connect => (b"", b"application/connect+"),
        Protocol::Grpc => (b"application/grpc", b"application/grpc+"),
        Protocol::GrpcWeb => (b"application/grpc-web", b"application/grpc-web+"),
    };
    if essence == wanted.as_bytes() || (essence == plain && codec == Codec::Proto) {
        return Ok(());
    }
    let text = format!(
        "{host} answered with content-type {:?} where {wanted:?} is expected; it may not speak {}",
        String::from_utf8_lossy(essence),
        protocol.as_str(),
    );
    let speaks = essence.starts_with(prefix) || (!plain.is_empty() && essence == plain);
    Err(Error::new(if speaks { Code::Internal } else { Code::Unknown }, text))
}

const fn content_type(protocol: Protocol, codec: Codec) -> &'static str {
    match (protocol, codec) {
        (Protocol::Connect, Codec::Proto) => "application/connect+proto",
        (Protocol::Connect, Codec::Json) => "application/connect+json",
        (Protocol::Grpc, Codec::Proto) => "application/grpc+proto",
        (Protocol::Grpc, Codec::Json) => "application/grpc+json",
        (Protocol::GrpcWeb, Codec::Proto) => "application/grpc-web+proto",
        (Protocol::GrpcWeb, Codec::Json) => "application/grpc-web+json",
    }
}

/// The messages of a response, then its trailers.
struct Replies {
    body: Inbound,
    opener: Opener,
    protocol: Protocol,
    encoding: Option<Encoding>,
    bytes_max: usize,
    /// The end, once it is known; what follows it is no part of the reply.
    end: Option<End>,
    /// What the headers said of the end, for a response without a body and trailers.
    of_headers: Option<End>,
    is_done: bool,
}

impl Replies {
    fn poll_next_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let item = ready!(self.poll_item(cx));
        self.is_done = !matches!(item, Ok(Frame::Data(_)));
        Poll::Ready(Some(item))
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame>> {
        let host = self.body.host().clone();
        loop {
            if self.end.is_none()
                && let Some(envelope) = self.opener.next(&host)?
            {
                let wire_bytes = envelope.wire_bytes;
                let flags = envelope.flags;
                let data = envelope.unfolded(self.encoding, self.bytes_max, &host)?;
                match self.protocol {
                    Protocol::Connect if flags & CONNECT_END != 0 => {
                        let end = End::connect(&data, &host);
                        tell(self.body.trace(), || Step::Trailers { trailers: &end.trailers });
                        self.end = Some(end);
                    }
                    Protocol::GrpcWeb if flags & WEB_TRAILERS != 0 => {
                        let trailers = web_trailers(&data);
                        tell(self.body.trace(), || Step::Trailers { trailers: &trailers });
                        let end = End::grpc(trailers);
                        self.end = Some(end.unwrap_or_else(|| End::missing(no_status(&host))));
                    }
                    _ => {
                        tell(self.body.trace(), || Step::MessageReceived { wire_bytes });
                        return Poll::Ready(Ok(Frame::Data(data)));
                    }
                }
            }
            match ready!(self.body.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) if self.end.is_some() => {
                    if data.is_empty() {
                        continue;
                    }
                    return Poll::Ready(Err(Error::internal(format!(
                        "{host} sent more after the end of its reply"
                    ))));
                }
                Some(Ok(Frame::Data(data))) => {
                    if !data.is_empty() {
                        self.of_headers = None;
                    }
                    self.opener.push(data);
                }
                Some(Ok(Frame::Trailers(trailers))) => {
                    if self.protocol == Protocol::Grpc && self.end.is_none() {
                        self.end = End::grpc(trailers);
                    }
                }
                Some(Err(error)) => {
                    // What the end said counts, even if the connection broke after it.
                    return Poll::Ready(match self.end.take() {
                        Some(end) => end.into_result().map(Frame::Trailers),
                        None => Err(error),
                    });
                }
                None => return Poll::Ready(self.ended(&host)),
            }
        }
    }

    fn ended(&mut self, host: &str) -> Result<Frame> {
        let end = self.end.take().or_else(|| self.of_headers.take());
        let is_ok = end.as_ref().is_none_or(|end| end.outcome.is_ok());
        if is_ok && self.opener.is_partial() {
            return Err(Error::internal(format!(
                "{host} ended its reply in the middle of a message"
            )));
        }
        end.unwrap_or_else(|| End::missing(no_status(host))).into_result().map(Frame::Trailers)
    }
}

fn no_message(host: &str) -> Error {
    Error::unimplemented(format!("{host} sent no message where one is expected"))
}

fn no_status(host: &str) -> Error {
    Error::internal(format!("{host} ended its reply without saying whether the call succeeded"))
}

const CONNECT_VERSION: HeaderName = headers::name("connect-protocol-version");
const CONNECT_ENCODING: HeaderName = headers::name("connect-content-encoding");
const CONNECT_ACCEPT: HeaderName = headers::name("connect-accept-encoding");
const GRPC_ENCODING: HeaderName = headers::name("grpc-encoding");
const GRPC_ACCEPT: HeaderName = headers::name("grpc-accept-encoding");
const GRPC_WEB: HeaderName = headers::name("x-grpc-web");

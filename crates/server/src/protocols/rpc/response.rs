//! Replies and errors as responses of the RPC protocols.
//!
//! A reply of one message is one response whose bytes are there. Of many, each is sealed as it
//! comes; those that are ready together leave together, up to [`BATCH_BYTES`], so that a stream of
//! small messages does not cost a frame a message, and a slow reader never makes more than that
//! wait here.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::{Frame as HttpFrame, SizeHint};
use tidewire_service::{Body, Error, Frame, Method, Reply, Result};
use tidewire_wire::{Coders, Exchange, Message, Pieces, ReplyEnd};

use crate::request::observe::{RequestFailure, Watch};
use crate::response::body::{Kind, ResponseBody};
use crate::response::plain::log;

/// The response for an error before anything was sent.
pub(crate) fn error_response(exchange: &Exchange, error: Error) -> Response<ResponseBody> {
    let failed = RequestFailure::new(&error);
    let mut response = whole(exchange.failed(error));
    response.extensions_mut().insert(failed);
    response
}

/// A response of the crate `wire` as the HTTP library sends it.
pub(crate) fn whole(response: tidewire_wire::Response) -> Response<ResponseBody> {
    let tidewire_wire::Response { status, headers, body: mut pieces, trailers } = response;
    let body = match (trailers, pieces.next(), pieces.is_empty()) {
        (None, None, _) => ResponseBody::plain(Body::Empty),
        (None, Some(only), true) => ResponseBody::plain(Body::Full(only)),
        (trailers, first, _) => {
            ResponseBody::of(Kind::Whole(Box::new(FullBody { first, pieces, trailers })))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The response for a reply of one message, which is there.
///
/// # Errors
/// Of a message that cannot be sent.
pub(super) fn one(
    exchange: &Exchange,
    reply: Reply,
    coders: &Coders,
    without_end: bool,
) -> Result<Response<ResponseBody>> {
    let Reply { headers, body, trailers, freshness, .. } = reply;
    let message = match body {
        Body::Full(message) if !without_end && let Some(keeper) = freshness.keeper(&message) => {
            let message = Message::cached(message, Arc::clone(keeper));
            let headers = headers.into_map();
            let trailers = trailers.into_map();
            return Ok(whole(exchange.reply(headers, message, trailers, coders)));
        }
        Body::Full(message) => message,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    };
    let headers = headers.into_map();
    let trailers = trailers.into_map();
    if without_end {
        return without_trailers(exchange, headers, message, coders);
    }
    Ok(whole(exchange.reply(headers, message, trailers, coders)))
}

/// A single message whose reply came as a stream, and its trailers.
///
/// # Errors
/// Those of the stream; and one that has no message, or several, is a fault of the service.
pub(crate) async fn gathered(body: Body) -> Result<(Bytes, HeaderMap)> {
    let Body::Stream(mut frames) = body else { return Ok(Default::default()) };
    let mut message = None;
    let mut trailers = HeaderMap::new();
    while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
        match frame? {
            Frame::Trailers(late) => trailers = late.into_map(),
            Frame::Data(data) if message.is_none() => message = Some(data),
            Frame::Data(_) => {
                return Err(Error::internal("the service sent several messages for one"));
            }
        }
    }
    let message = message.ok_or_else(|| Error::internal("the service sent no message"))?;
    Ok((message, trailers))
}

/// What a script asks for: everything but the end.
fn without_trailers(
    exchange: &Exchange,
    headers: HeaderMap,
    message: Bytes,
    coders: &Coders,
) -> Result<Response<ResponseBody>> {
    let mut response = exchange.reply(headers, message.clone(), HeaderMap::new(), coders);
    if response.trailers.take().is_none() && exchange.dialect() != tidewire_wire::Dialect::Connect {
        response.body = Bytes::from(exchange.message(message, coders)?.concat()).into();
    }
    Ok(whole(response))
}

/// The response for a reply of many messages.
pub(super) fn many(
    exchange: Exchange,
    method: &Method,
    reply: Reply,
    (coders, watch): (&Arc<Coders>, Option<Watch>),
    without_end: bool,
) -> Response<ResponseBody> {
    let Reply { headers, body, trailers, .. } = reply;
    let body = Replies {
        exchange,
        method: method.clone(),
        source: Some(body),
        trailers: trailers.into_map(),
        coders: Arc::clone(coders),
        batch: BytesMut::new(),
        ready: None,
        end: None,
        without_end,
        watch,
    };
    let mut response = Response::new(ResponseBody::of(Kind::Replies(Box::new(body))));
    *response.headers_mut() = exchange.head(headers.into_map());
    response
}

/// A body whose bytes are there.
pub(crate) struct FullBody {
    first: Option<Bytes>,
    pieces: Pieces,
    trailers: Option<HeaderMap>,
}

impl FullBody {
    pub(crate) fn next(&mut self) -> Option<HttpFrame<Bytes>> {
        let data = self.first.take().or_else(|| self.pieces.next());
        data.map(HttpFrame::data).or_else(|| self.trailers.take().map(HttpFrame::trailers))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none() && self.pieces.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.trailers {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.waiting_bytes() as u64),
        }
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.pieces.len()
    }
}

/// The body of a response of many messages.
pub(crate) struct Replies {
    exchange: Exchange,
    method: Method,
    source: Option<Body>,
    /// Those that were known before the messages, or that came after them.
    trailers: HeaderMap,
    coders: Arc<Coders>,
    /// Small messages that were ready together.
    batch: BytesMut,
    /// A large piece that follows the batch.
    ready: Option<Bytes>,
    /// What follows everything.
    end: Option<ReplyEnd>,
    without_end: bool,
    watch: Option<Watch>,
}

impl Replies {
    pub(crate) fn is_over(&self) -> bool {
        self.source.is_none()
            && self.batch.is_empty()
            && self.ready.is_none()
            && self.end.as_ref().is_none_or(|end| end.data.is_empty() && end.trailers.is_none())
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.batch.len() + self.ready.as_ref().map_or(0, Bytes::len)
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<HttpFrame<Bytes>>> {
        while self.source.is_some() && self.ready.is_none() && self.batch.len() < BATCH_BYTES {
            match self.poll_source(cx) {
                Poll::Ready(Some(Ok(Frame::Data(message)))) => self.add(message),
                Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) => {
                    self.trailers = trailers.into_map();
                }
                Poll::Ready(Some(Err(error))) => self.fail(error),
                Poll::Ready(None) => self.finish(),
                Poll::Pending if self.batch.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(self.next())
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame>>> {
        match &mut self.source {
            Some(Body::Stream(frames)) => frames.as_mut().poll_next(cx),
            Some(whole @ Body::Full(_)) => match std::mem::take(whole) {
                Body::Full(message) => Poll::Ready(Some(Ok(Frame::Data(message)))),
                _ => Poll::Ready(None),
            },
            Some(Body::Empty) | None => Poll::Ready(None),
        }
    }

    fn add(&mut self, message: Bytes) {
        let added = self.exchange.message_after(&mut self.batch, message, &self.coders);
        let [first, second] = match added {
            Ok(None) => return,
            Ok(Some(pieces)) => pieces,
            Err(error) => return self.fail(error),
        };
        if second.is_empty() && first.len() < BATCH_BYTES {
            self.batch.extend_from_slice(&first);
        } else {
            self.batch.extend_from_slice(&first[..first.len().min(HEAD_MAX)]);
            let rest = first.slice(first.len().min(HEAD_MAX)..);
            self.ready = Some(if second.is_empty() { rest } else { second });
        }
    }

    fn finish(&mut self) {
        self.source = None;
        let trailers = std::mem::take(&mut self.trailers);
        if !self.without_end {
            self.end = Some(self.exchange.end(trailers));
        }
    }

    fn fail(&mut self, mut error: Error) {
        self.source = None;
        let path = &self.method.path;
        Watch::within(&mut self.watch, || log(&error, path));
        if let Some(watch) = &self.watch {
            watch.failed(&error);
        }
        let mut known = Vec::new();
        for name in self.trailers.keys().filter(|name| !error.trailers().contains_key(*name)) {
            known.extend(self.trailers.get_all(name).iter().map(|value| (name, value)));
        }
        for (name, value) in known {
            error.trailers_mut().append(name.clone(), value.clone());
        }
        self.end = Some(self.exchange.end_failed(error));
    }

    fn next(&mut self) -> Option<HttpFrame<Bytes>> {
        if !self.batch.is_empty() {
            return Some(HttpFrame::data(self.batch.split().freeze()));
        }
        if let Some(piece) = self.ready.take() {
            return Some(HttpFrame::data(piece));
        }
        let end = self.end.as_mut()?;
        if !end.data.is_empty() {
            return Some(HttpFrame::data(std::mem::take(&mut end.data)));
        }
        end.trailers.take().map(HttpFrame::trailers)
    }
}

/// What is gathered before it leaves.
const BATCH_BYTES: usize = 16 << 10;
/// The head of an envelope, which goes with the batch.
const HEAD_MAX: usize = tidewire_wire::ENVELOPE_HEAD;

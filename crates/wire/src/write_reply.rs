//! A reply as bytes: its head, its messages, its end, in the form of the call's protocol.
//!
//! | reply | with |
//! |---|---|
//! | of one message | [`Exchange::reply`] |
//! | of many | [`Exchange::head`], [`Exchange::message`] each, [`Exchange::end`] |
//! | a failure before anything was sent | [`Exchange::failed`] |
//!
//! Headers and trailers of a service that bear a name of the protocols are left out.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tidewire_service::{Error, Headers, Messages, Result, StreamKind, vary};

use crate::compression::{Coders, Encoding};
use crate::dialect::{Dialect, Framing};
use crate::envelope::{COMPRESSED, COPIED_MAX, Head, Message, seal};
use crate::negotiate::Exchange;
use crate::{connect, grpc, grpc_web, headers};

/// A response that is there as a whole.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status.
    pub status: StatusCode,
    /// All headers but the length of the body, which [`Pieces::len`] knows.
    pub headers: HeaderMap,
    /// The body.
    pub body: Pieces,
    /// HTTP trailers, of gRPC only.
    pub trailers: Trailers,
}

/// HTTP trailers of gRPC.
///
/// Those of a success to which the service adds nothing are made when they are sent, so that most
/// replies are moved about without them.
#[derive(Debug, Clone, Default)]
pub enum Trailers {
    /// None: another protocol, or the headers say all of it.
    #[default]
    None,
    /// Those of a success, and none of the service's.
    Success,
    /// Any others.
    Other(Box<HeaderMap>),
}

/// A body in up to three pieces: a large message is not copied to stand behind its envelope's head.
/// Most have one, and replies are moved about, so the others are kept aside.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    first: Bytes,
    others: Option<Box<[Bytes; 2]>>,
}

/// The end of a reply: the last bytes of its body, and HTTP trailers of gRPC.
#[derive(Debug, Clone, Default)]
pub struct ReplyEnd {
    /// The last bytes; may be empty.
    pub data: Bytes,
    /// HTTP trailers.
    pub trailers: Trailers,
}

impl Trailers {
    fn success(own: HeaderMap) -> Self {
        match own.is_empty() {
            true => Self::Success,
            false => Self::other(grpc::success(own)),
        }
    }

    fn other(trailers: HeaderMap) -> Self {
        Self::Other(Box::new(trailers))
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Takes them out, to be sent.
    pub fn take(&mut self) -> Option<HeaderMap> {
        match std::mem::take(self) {
            Self::None => None,
            Self::Success => Some(grpc::success(HeaderMap::new())),
            Self::Other(trailers) => Some(*trailers),
        }
    }
}

impl Pieces {
    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        let others = self.others.iter().flat_map(|others| others.iter());
        self.first.len() + others.map(Bytes::len).sum::<usize>()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    /// The next piece that is not empty.
    fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        let piece = self.others.as_mut()?.iter_mut().find(|piece| !piece.is_empty())?;
        Some(std::mem::take(piece))
    }
}

impl From<Bytes> for Pieces {
    #[inline]
    fn from(first: Bytes) -> Self {
        Self { first, others: None }
    }
}

impl From<[Bytes; 3]> for Pieces {
    fn from([first, second, third]: [Bytes; 3]) -> Self {
        let has_others = !second.is_empty() || !third.is_empty();
        Self { first, others: has_others.then(|| Box::new([second, third])) }
    }
}

impl Response {
    /// A plain text.
    pub(crate) fn text(status: StatusCode, text: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Self { status, headers, body: Bytes::from(text).into(), trailers: Trailers::None }
    }
}

impl Exchange {
    /// A reply of one message.
    ///
    /// What cannot be sent, since it is over 4 GiB, becomes a failure.
    pub fn reply(
        &self,
        headers: HeaderMap,
        message: impl Into<Message>,
        trailers: HeaderMap,
        coders: &Coders,
    ) -> Response {
        let message = message.into();
        let written = match self.format.framing {
            Framing::Bare => self.bare(headers, message, trailers, coders),
            Framing::Enveloped | Framing::Text => self.single(headers, message, trailers, coders),
        };
        written.unwrap_or_else(|error| self.failed(error))
    }

    /// The message as the body, of Connect's unary calls.
    fn bare(
        &self,
        headers: HeaderMap,
        message: Message,
        trailers: HeaderMap,
        coders: &Coders,
    ) -> Result<Response> {
        let mut headers = Headers::from(headers::own(headers));
        headers.insert(CONTENT_TYPE, self.format.header());
        if self.is_get {
            // A cache on the way keeps one reply for each compression.
            vary(&mut headers, "accept-encoding");
        }
        let mut headers = HeaderMap::from(headers);
        if !trailers.is_empty() {
            connect::put_trailers(&mut headers, trailers);
        }
        let body = match coders.shrink(self.replies, &message)? {
            None => message.into_bytes(),
            Some((encoding, small)) => {
                headers.insert(CONTENT_ENCODING, encoding.value());
                small
            }
        };
        Ok(Response {
            status: StatusCode::OK,
            headers,
            body: body.into(),
            trailers: Trailers::None,
        })
    }

    /// One message in an envelope, and the end behind it.
    fn single(
        &self,
        headers: HeaderMap,
        message: Message,
        trailers: HeaderMap,
        coders: &Coders,
    ) -> Result<Response> {
        let (encoding, [first, second]) = self.seal(message, coders)?;
        let closing = self.end(trailers);
        let mut pieces = [first, second, closing.data];
        if pieces[1].is_empty() && !pieces[2].is_empty() && self.format.framing != Framing::Text {
            // Small enough for one piece with the end.
            pieces = [pieces.concat().into(), Bytes::new(), Bytes::new()];
        }
        Ok(Response {
            status: StatusCode::OK,
            headers: self.head_with(headers, encoding),
            body: pieces.into(),
            trailers: closing.trailers,
        })
    }

    /// The headers of a reply of many messages; its status is 200.
    pub fn head(&self, headers: HeaderMap) -> HeaderMap {
        self.head_with(headers, self.replies)
    }

    fn head_with(&self, headers: HeaderMap, encoding: Option<Encoding>) -> HeaderMap {
        let mut headers = headers::own(headers);
        headers.insert(CONTENT_TYPE, self.format.header());
        if let Some(encoding) = encoding {
            headers.insert(self.dialect().encoding_header(), encoding.value());
        }
        headers
    }

    /// A message of a reply of many, in its envelope; the second piece may be empty.
    ///
    /// # Errors
    /// A message of over 4 GiB, which cannot be sent.
    pub fn message(&self, message: impl Into<Message>, coders: &Coders) -> Result<[Bytes; 2]> {
        self.seal(message.into(), coders).map(|(_, pieces)| pieces)
    }

    /// Where whoever makes the messages of a reply of many puts those that are small; `None` where
    /// each is made into something else.
    pub fn small_messages(&self) -> Option<Messages> {
        let size_max = self.replies.map_or(Messages::BYTES_MAX, |_| Coders::UNCOMPRESSED_MAX);
        (self.format.framing == Framing::Enveloped).then(|| Messages::in_envelopes(size_max))
    }

    /// [`message`](Self::message), appended to those before it where it is small and neither
    /// compressed nor base64; otherwise what is left to be sent after them.
    ///
    /// # Errors
    /// As [`message`](Self::message).
    pub fn message_after(
        &self,
        batch: &mut Vec<u8>,
        message: Bytes,
        coders: &Coders,
    ) -> Result<Option<[Bytes; 2]>> {
        let is_alone = self.format.framing != Framing::Enveloped
            || message.len() > COPIED_MAX
            || Coders::shrinks(self.replies, &message);
        if is_alone {
            return self.message(message, coders).map(Some);
        }
        batch.extend_from_slice(&Head::of(&message)?.bytes());
        batch.extend_from_slice(&message);
        Ok(None)
    }

    /// The message in its envelope, and how it was compressed.
    fn seal(&self, message: Message, coders: &Coders) -> Result<(Option<Encoding>, [Bytes; 2])> {
        let (encoding, pieces) = match coders.shrink(self.replies, &message)? {
            None => (None, message.seal()?),
            Some((encoding, small)) => (Some(encoding), seal(COMPRESSED, small)?),
        };
        Ok(match self.format.framing {
            Framing::Text => (encoding, [grpc_web::encode(&pieces), Bytes::new()]),
            Framing::Bare | Framing::Enveloped => (encoding, pieces),
        })
    }

    /// The end of a reply that succeeded.
    pub fn end(&self, trailers: HeaderMap) -> ReplyEnd {
        match self.dialect() {
            Dialect::Connect => self.last(connect::last_envelope(trailers, None)),
            Dialect::Grpc => ReplyEnd { data: Bytes::new(), trailers: Trailers::success(trailers) },
            Dialect::GrpcWeb => self.last(grpc_web::last_envelope(&grpc::success(trailers))),
        }
    }

    /// The end of a reply that failed after its head was sent; its headers come too late.
    pub fn end_failed(&self, mut error: Error) -> ReplyEnd {
        match self.dialect() {
            Dialect::Connect => {
                let trailers = std::mem::take(error.trailers_mut()).into();
                self.last(connect::last_envelope(trailers, Some(&error)))
            }
            Dialect::Grpc => {
                let trailers = Trailers::other(grpc::failure(&mut error));
                ReplyEnd { data: Bytes::new(), trailers }
            }
            Dialect::GrpcWeb => self.last(grpc_web::last_envelope(&grpc::failure(&mut error))),
        }
    }

    fn last(&self, envelope: Bytes) -> ReplyEnd {
        let data = match self.format.framing {
            Framing::Text => grpc_web::encode(&[envelope]),
            _ => envelope,
        };
        ReplyEnd { data, trailers: Trailers::None }
    }

    /// A failure as a whole response, when nothing was sent before.
    pub fn failed(&self, mut error: Error) -> Response {
        let own = headers::own(std::mem::take(error.headers_mut()).into());
        if self.format.framing == Framing::Bare {
            return failed_bare(own, error);
        }
        let status = StatusCode::OK;
        if self.dialect() != Dialect::Grpc {
            let headers = self.head_with(own, None);
            let ReplyEnd { data, trailers } = self.end_failed(error);
            return Response { status, headers, body: data.into(), trailers };
        }
        let trailers = grpc::failure(&mut error);
        if own.is_empty() {
            let mut headers = trailers;
            headers.insert(CONTENT_TYPE, self.format.header());
            return Response { status, headers, body: Pieces::default(), trailers: Trailers::None };
        }
        let headers = self.head_with(own, None);
        Response { status, headers, body: Pieces::default(), trailers: Trailers::other(trailers) }
    }

    /// Whether the reply has one message at most.
    pub fn is_single_reply(&self) -> bool {
        matches!(self.kind, StreamKind::Unary | StreamKind::Client)
    }
}

fn failed_bare(own: HeaderMap, mut error: Error) -> Response {
    let trailers = HeaderMap::from(std::mem::take(error.trailers_mut()));
    let mut headers = own;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !trailers.is_empty() {
        connect::put_trailers(&mut headers, trailers);
    }
    let body = connect::error_body(&error).into();
    Response { status: error.http_status(), headers, body, trailers: Trailers::None }
}

//! An answer: a body, what goes with it, and how long it stays true.
//!
//! The same shape serves handlers and the wire: a typed handler returns `Reply<GetContactReply>`,
//! a [`Service`](crate::Service) returns `Reply<Body>`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::{Body, Freshness, Trailers};

/// A successful answer.
///
/// ```
/// use tidewire_service::Reply;
/// let reply = Reply::new(42).with_status(http::StatusCode::CREATED);
/// assert_eq!(reply.map(|n| n + 1).body, 43);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Reply<T = Body> {
    /// The HTTP status; protocols with their own notion of success do not send it.
    pub status: StatusCode,
    /// Headers; duplicates and their order are kept.
    pub headers: HeaderMap,
    /// What was asked for.
    pub body: T,
    /// Sent after the body where the protocol can. A body that is a stream may instead end with
    /// [`Frame::Trailers`](crate::Frame::Trailers).
    pub trailers: Trailers,
    /// How long it stays true.
    pub freshness: Freshness,
}

impl<T> Reply<T> {
    /// A reply with status 200 and nothing beside its body.
    #[inline]
    pub fn new(body: T) -> Self {
        Self {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body,
            trailers: Trailers::default(),
            freshness: Freshness::default(),
        }
    }

    /// Sets the HTTP status, for REST and plain HTTP.
    #[must_use]
    #[inline]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a header; an earlier one of the same name stays.
    #[must_use]
    #[inline]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Adds a trailer; an earlier one of the same name stays.
    #[must_use]
    pub fn with_trailer(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.trailers.append(name, value);
        self
    }

    /// Sets how long the answer stays true.
    #[must_use]
    pub fn with_freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = freshness;
        self
    }

    /// The same reply around another body.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        let Self { status, headers, body, trailers, freshness } = self;
        Reply { status, headers, body: f(body), trailers, freshness }
    }

    /// [`map`](Self::map) with a function that may fail.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Reply<U>, E> {
        let Self { status, headers, body, trailers, freshness } = self;
        Ok(Reply { status, headers, body: f(body)?, trailers, freshness })
    }
}

impl Reply {
    /// A plain HTTP answer of text.
    #[inline]
    pub fn text(text: impl Into<Body>) -> Self {
        Self::of_type("text/plain; charset=utf-8", text.into())
    }

    /// A plain HTTP answer of encoded JSON.
    #[inline]
    pub fn json(json: impl Into<Bytes>) -> Self {
        Self::of_type("application/json", Body::Full(json.into()))
    }

    /// A plain HTTP answer without a body.
    #[inline]
    pub fn empty(status: StatusCode) -> Self {
        Self::new(Body::Empty).with_status(status)
    }

    #[inline]
    fn of_type(content_type: &'static str, body: Body) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self {
            status: StatusCode::OK,
            headers,
            body,
            trailers: Trailers::default(),
            freshness: Freshness::default(),
        }
    }
}

impl<T> From<T> for Reply<T> {
    fn from(body: T) -> Self {
        Self::new(body)
    }
}

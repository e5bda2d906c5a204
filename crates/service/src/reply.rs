//! An answer: a body, what goes with it, and how long it stays true.
//!
//! The same shape serves handlers and the wire: a typed handler returns `Reply<GetContactReply>`,
//! a [`Service`](crate::Service) returns `Reply<Body>`.

use std::fmt::Display;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::headers::header;
use crate::{Body, Error, Freshness, Result, Script, ThinHeaders, Upgrade, Validator};

/// A successful answer.
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_service::*; }
/// use tidewire::http;
/// use tidewire::Reply;
/// let reply = Reply::new(42).with_status(http::StatusCode::CREATED);
/// assert_eq!(reply.map(|n| n + 1).body, 43);
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Reply<T = Body> {
    /// The HTTP status; protocols with their own notion of success do not send it.
    pub status: StatusCode,
    /// Headers; duplicates and their order are kept.
    pub headers: ThinHeaders,
    /// What was asked for.
    pub body: T,
    /// Sent after the body where the protocol can; REST sends none, and plain HTTP/1.1 to those
    /// only who send `TE: trailers`. A body that is a stream may instead end with
    /// [`Frame::Trailers`](crate::Frame::Trailers).
    pub trailers: ThinHeaders,
    /// How long it stays true.
    pub freshness: Freshness,
    kind: Option<Box<Kind>>,
}

/// What few replies are.
#[derive(Debug, Default)]
struct Kind {
    is_unchanged: bool,
    upgrade: Option<Upgrade>,
    script: Option<Script>,
}

impl<T> Reply<T> {
    /// A reply with status 200 and nothing beside its body.
    #[inline]
    pub fn new(body: T) -> Self {
        Self {
            status: StatusCode::OK,
            headers: ThinHeaders::default(),
            body,
            trailers: ThinHeaders::default(),
            freshness: Freshness::default(),
            kind: None,
        }
    }

    /// Sets the HTTP status, for REST and plain HTTP.
    #[must_use]
    #[inline]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets a header in place of earlier ones of the same name.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) where the name or the value cannot be one of a
    /// header, such as a text with a line feed.
    pub fn set_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.headers.insert(name, value);
        Ok(())
    }

    /// Adds a header behind earlier ones of the same name.
    ///
    /// # Errors
    /// As of [`set_header`](Self::set_header).
    pub fn append_header<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.headers.append(name, value);
        Ok(())
    }

    /// The same with a header, as of [`set_header`](Self::set_header).
    ///
    /// # Errors
    /// As there.
    pub fn with_header<N, V>(mut self, name: N, value: V) -> Result<Self>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        self.set_header(name, value)?;
        Ok(self)
    }

    /// Sets all headers.
    #[must_use]
    pub fn with_headers(mut self, headers: impl Into<ThinHeaders>) -> Self {
        self.headers = headers.into();
        self
    }

    /// Sets a trailer in place of earlier ones of the same name.
    ///
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) where the name or the value cannot be one of a
    /// header, such as a text with a line feed.
    pub fn set_trailer<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.trailers.insert(name, value);
        Ok(())
    }

    /// Adds a trailer behind earlier ones of the same name.
    ///
    /// # Errors
    /// As of [`set_trailer`](Self::set_trailer).
    pub fn append_trailer<N, V>(&mut self, name: N, value: V) -> Result<()>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        let (name, value) = header(name, value)?;
        self.trailers.append(name, value);
        Ok(())
    }

    /// The same with a trailer, as of [`set_trailer`](Self::set_trailer).
    ///
    /// # Errors
    /// As there.
    pub fn with_trailer<N, V>(mut self, name: N, value: V) -> Result<Self>
    where
        N: TryInto<HeaderName, Error: Display>,
        V: TryInto<HeaderValue, Error: Display>,
    {
        self.set_trailer(name, value)?;
        Ok(self)
    }

    /// Sets all trailers.
    #[must_use]
    pub fn with_trailers(mut self, trailers: impl Into<ThinHeaders>) -> Self {
        self.trailers = trailers.into();
        self
    }

    /// Sets how long the answer stays true. What is [unchanged](Reply::unchanged) keeps its
    /// validator unless there is another in `freshness`.
    #[must_use]
    pub fn with_freshness(mut self, freshness: Freshness) -> Self {
        let before = std::mem::replace(&mut self.freshness, freshness);
        if self.is_unchanged() && self.freshness.validator().is_none() {
            let freshness = std::mem::take(&mut self.freshness);
            self.freshness = freshness.with_validator(before.validator());
        }
        self
    }

    /// The same reply around another body.
    #[inline]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        let Self { status, headers, body, trailers, freshness, kind } = self;
        Reply { status, headers, body: f(body), trailers, freshness, kind }
    }

    /// [`map`](Self::map) with a function that may fail.
    ///
    /// # Errors
    /// Those of `f`.
    #[inline]
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Reply<U>, E> {
        let Self { status, headers, body, trailers, freshness, kind } = self;
        Ok(Reply { status, headers, body: f(body)?, trailers, freshness, kind })
    }

    /// Lets the reply misbehave; see [`Script`].
    #[must_use]
    pub fn with_script(mut self, script: Script) -> Self {
        self.kind.get_or_insert_default().script = Some(script);
        self
    }

    /// What goes wrong with the reply on purpose.
    pub fn script(&self) -> Option<&Script> {
        self.kind.as_ref()?.script.as_ref()
    }

    /// Whether it says that what the caller holds is still right.
    pub fn is_unchanged(&self) -> bool {
        self.kind.as_ref().is_some_and(|kind| kind.is_unchanged)
    }

    /// Whether its content is among what a caller holds.
    pub fn is_held(&self, held: &[Validator]) -> bool {
        self.freshness.validator().is_some_and(|validator| held.contains(&validator))
    }

    /// Whether it is an answer like any other: neither *unchanged*, nor an upgrade, nor scripted.
    pub fn is_ordinary(&self) -> bool {
        self.kind.is_none()
    }

    /// Takes out what is to run on the connection.
    pub fn take_upgrade(&mut self) -> Option<Upgrade> {
        self.kind.as_mut()?.upgrade.take()
    }
}

impl Reply {
    /// An answer of plain HTTP that is text.
    #[inline]
    pub fn text(text: impl Into<Body>) -> Self {
        Self::content("text/plain; charset=utf-8", text)
    }

    /// An answer of plain HTTP with a value as JSON.
    ///
    /// An answer of plain HTTP is anything that [`Call`](crate::Call)'s handler turns into a reply:
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::{Call, Reply, Result};
    ///
    /// #[derive(serde::Serialize)]
    /// struct Order { id: u64, item: &'static str }
    ///
    /// async fn order(_: Call) -> Result<Reply> {
    ///     Reply::json(&Order { id: 7, item: "tea" })
    /// }
    /// # let reply = Reply::json(&Order { id: 7, item: "tea" })?;
    /// # assert_eq!(reply.headers["content-type"], "application/json");
    /// # Ok::<(), tidewire::Error>(())
    /// ```
    /// # Errors
    /// [`Code::Internal`](crate::Code::Internal) when the value has no JSON form, such as a map
    /// with keys that are not text.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        match serde_json::to_vec(value) {
            Ok(json) => Ok(Self::content("application/json", Bytes::from(json))),
            Err(cause) => Err(Error::internal("the reply has no JSON form").with_cause(cause)),
        }
    }

    /// An answer of plain HTTP with bytes of a content type.
    #[inline]
    pub fn content(content_type: &'static str, body: impl Into<Body>) -> Self {
        let mut reply = Self::new(body.into());
        reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        reply
    }

    /// An answer of plain HTTP without a body.
    #[inline]
    pub fn empty(status: StatusCode) -> Self {
        Self::new(Body::Empty).with_status(status)
    }

    /// What the caller holds is still right: the content with this validator, which has to be among
    /// [`Context::caller_validators`](crate::Context::caller_validators).
    ///
    /// 304 over HTTP. Protocols that have no such answer never say that they hold anything. To a
    /// caller who does not hold it this is an error of the service.
    pub fn unchanged(validator: Validator) -> Self {
        let mut reply = Self::empty(StatusCode::NOT_MODIFIED)
            .with_freshness(Freshness::default().with_validator(validator));
        reply.kind.get_or_insert_default().is_unchanged = true;
        reply
    }

    /// Takes the connection over, for plain HTTP: the server sends `status` (101 for a protocol of
    /// the header `Upgrade`, 200 for `CONNECT`) and this reply's headers, and then runs `upgrade`.
    pub fn upgrade(status: StatusCode, upgrade: Upgrade) -> Self {
        let mut reply = Self::empty(status);
        reply.kind.get_or_insert_default().upgrade = Some(upgrade);
        reply
    }
}

impl<T> From<T> for Reply<T> {
    fn from(body: T) -> Self {
        Self::new(body)
    }
}

impl From<&'static str> for Reply {
    /// Text, as [`Reply::text`].
    fn from(text: &'static str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Reply {
    /// Text, as [`Reply::text`].
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Bytes> for Reply {
    /// Bytes of no particular type: `application/octet-stream`.
    fn from(bytes: Bytes) -> Self {
        Self::content("application/octet-stream", bytes)
    }
}

impl From<StatusCode> for Reply {
    /// No body, as [`Reply::empty`].
    fn from(status: StatusCode) -> Self {
        Self::empty(status)
    }
}

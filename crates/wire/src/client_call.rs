//! A call as an HTTP request, and how its reply is read: the side that calls.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidewire_service::{Codec, Error, Result, Spec, StreamKind};

use crate::compression::{Coders, Compression};
use crate::dialect::{CONNECT_VERSION, Dialect, Format, Framing, GRPC_WEB};
use crate::envelope::{COMPRESSED, seal};
use crate::{connect_get, headers};

/// How a client speaks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The protocol.
    pub dialect: Dialect,
    /// What is compressed.
    pub compression: Compression,
    /// Whether queries go by GET over Connect.
    pub queries_by_get: bool,
    /// The largest message of a reply, as it arrives and unfolded.
    pub message_bytes_max: usize,
    /// What compresses and unfolds.
    pub coders: Arc<Coders>,
}

/// An HTTP request for a call.
#[derive(Debug)]
pub struct Request {
    /// The verb.
    pub verb: Method,
    /// Path and query.
    pub path: PathAndQuery,
    /// All headers but those of the connection.
    pub headers: HeaderMap,
    /// The body of a request of one message, in up to two pieces. Those of a stream are made by
    /// [`Caller::message`], each.
    pub body: [Bytes; 2],
}

impl Caller {
    /// The request for a call of one message, or of a stream of them where `message` is `None`.
    ///
    /// # Errors
    /// An invalid path; a message of over 4 GiB.
    pub fn request(
        &self,
        method: &Spec,
        codec: Codec,
        headers: HeaderMap,
        message: Option<Bytes>,
    ) -> Result<Request> {
        let mut headers = headers::passed_on(headers);
        headers.entry(USER_AGENT).or_insert(NAME);
        let format = Format::of_call(self.dialect, method.kind, codec);
        match (format.framing, message) {
            (Framing::Bare, Some(message)) => self.bare(method, format, headers, message),
            (_, message) => self.enveloped(method, format, headers, message),
        }
    }

    fn bare(
        &self,
        method: &Spec,
        format: Format,
        mut headers: HeaderMap,
        message: Bytes,
    ) -> Result<Request> {
        if let Some(accepted) = self.compression.accepted() {
            headers.insert(ACCEPT_ENCODING, accepted);
        }
        if self.queries_by_get
            && method.is_query()
            && let Some(path) = connect_get::url(&method.path, format.codec, &message)?
        {
            return Ok(Request { verb: Method::GET, path, headers, body: Default::default() });
        }
        headers.insert(CONNECT_VERSION, ONE);
        headers.insert(CONTENT_TYPE, format.header());
        let message = match self.compression.for_message(message.len()) {
            None => message,
            Some(encoding) => {
                headers.insert(CONTENT_ENCODING, encoding.value());
                self.coders.compress(encoding, &message)?
            }
        };
        let path = path_of(method)?;
        Ok(Request { verb: Method::POST, path, headers, body: [message, Bytes::new()] })
    }

    fn enveloped(
        &self,
        method: &Spec,
        format: Format,
        mut headers: HeaderMap,
        message: Option<Bytes>,
    ) -> Result<Request> {
        let (name, value) = match self.dialect {
            Dialect::Connect => (CONNECT_VERSION, ONE),
            Dialect::Grpc => (TE, TRAILERS),
            Dialect::GrpcWeb => (GRPC_WEB, ONE),
        };
        headers.insert(name, value);
        headers.insert(CONTENT_TYPE, format.header());
        if let Some(requests) = self.compression.requests {
            headers.insert(self.dialect.encoding_header(), requests.value());
        }
        if let Some(accepted) = self.compression.accepted() {
            headers.insert(self.dialect.accept_header(), accepted);
        }
        let body = message.map_or(Ok(Default::default()), |message| self.message(message))?;
        Ok(Request { verb: Method::POST, path: path_of(method)?, headers, body })
    }

    /// A message of a request in its envelope; the second piece may be empty.
    ///
    /// # Errors
    /// A message of over 4 GiB.
    pub fn message(&self, message: Bytes) -> Result<[Bytes; 2]> {
        match self.compression.for_message(message.len()) {
            None => seal(0, message),
            Some(encoding) => seal(COMPRESSED, self.coders.compress(encoding, &message)?),
        }
    }

    /// The header that tells the server how long it has.
    pub fn timeout(&self, left: Duration) -> (HeaderName, HeaderValue) {
        self.dialect.timeout(left)
    }

    /// Whether the request of such a call is one without envelopes.
    pub fn is_bare(&self, kind: StreamKind) -> bool {
        Format::of_call(self.dialect, kind, Codec::Proto).framing == Framing::Bare
    }
}

const ONE: HeaderValue = HeaderValue::from_static("1");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// What clients of this library call themselves.
const NAME: HeaderValue = HeaderValue::from_static(concat!("tidewire/", env!("CARGO_PKG_VERSION")));

/// The path of a method.
fn path_of(method: &Spec) -> Result<PathAndQuery> {
    let path = match &method.path {
        Cow::Borrowed(path) => PathAndQuery::from_maybe_shared(Bytes::from_static(path.as_bytes())),
        Cow::Owned(path) => PathAndQuery::try_from(path.as_str()),
    };
    path.map_err(|error| {
        Error::invalid_argument(format!("{} is not a path of a method: {error}", method.path))
    })
}

//! The messages of a reply and its end, out of the bytes of a response in whatever pieces they
//! arrive.
//!
//! [`Replies`] is fed with [`push`](Replies::push), [`trailers`](Replies::trailers),
//! [`finish`](Replies::finish) and [`broke`](Replies::broke), and asked by [`read`](Replies::read)
//! after each. It knows a response that is none of the protocol's, a failed unary call of Connect,
//! and gRPC's response of headers only.
//!
//! How many messages there may be is left to whoever asks; the end comes last, and once.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode, response};
use tidewire_service::{Code, Codec, Error, Result, StreamKind};

use crate::chunk_buffer::ChunkBuffer;
use crate::client_call::Caller;
use crate::compression::{Coders, Encoding};
use crate::connect::{self, OwnHeaders};
use crate::dialect::{CONNECT_ENCODING, Dialect, Format, Framing, essence};
use crate::end::End;
use crate::envelope::{COMPRESSED, CONNECT_END, EnvelopeReader, WEB_TRAILERS};
use crate::headers::{self, TRAILERS_MAX};
use crate::sender::{Sender, unreadable};
use crate::{error_json, grpc, grpc_web, status};

/// Reads the messages of a reply.
#[derive(Debug)]
pub struct Replies {
    format: Format,
    encoding: Option<Encoding>,
    bytes_max: usize,
    coders: Arc<Coders>,
    host: Arc<str>,
    /// The service's own headers, until they are taken.
    headers: HeaderMap,
    body: Body,
    is_finished: bool,
    is_over: bool,
}

#[derive(Debug)]
enum Body {
    /// Connect's unary call: the message, or the error in JSON.
    Bare { status: StatusCode, data: ChunkBuffer, trailers: HeaderMap, is_read: bool },
    Enveloped {
        opener: EnvelopeReader,
        /// The end, once it is known; what follows it is not a part of the reply.
        end: Option<End>,
        /// It was said that the end is there.
        is_end_seen: bool,
        /// What the headers said of the end, for a response without a body and trailers.
        of_headers: Option<End>,
        goes_on: bool,
    },
}

/// What there is to be read.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// A message.
    Message {
        /// Its bytes, unfolded.
        data: Bytes,
        /// How many there were on the wire, with the envelope.
        wire_bytes: usize,
    },
    /// The end was among the bytes; [`Replies::end_trailers`] shows it. Once, before
    /// [`End`](Self::End).
    EndSeen,
    /// The call succeeded, with these trailers. Nothing comes after it.
    End(HeaderMap),
    /// Nothing until there is more of the response.
    More,
}

impl Caller {
    /// What reads a reply, given the head of its response.
    ///
    /// # Errors
    /// A response that is none of the protocol's, or a failure that the head tells.
    pub fn replies(
        &self,
        kind: StreamKind,
        codec: Codec,
        head: response::Parts,
        host: &Arc<str>,
    ) -> Result<Replies> {
        let format = Format::of_call(self.dialect, kind, codec);
        let is_bare = format.framing == Framing::Bare;
        let content_type = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let essence = essence(content_type.unwrap_or_default());
        if head.status != StatusCode::OK {
            let is_json = essence.eq_ignore_ascii_case(b"application/json");
            if !is_bare || !is_json {
                let error = error_json::of_status(head.status, host);
                return Err(with_metadata(error, head.headers, is_bare));
            }
        } else {
            check_type(essence, format, host)?;
        }
        let named = |name| Encoding::of_response(&head.headers, name, host);
        let encoding = match (self.dialect, is_bare) {
            (Dialect::Connect, true) => named(&CONTENT_ENCODING)?,
            (Dialect::Connect, false) => {
                // Stops a response that an HTTP intermediary compressed as a whole.
                named(&CONTENT_ENCODING)?;
                named(&CONNECT_ENCODING)?
            }
            _ => named(&self.dialect.encoding_header())?,
        };
        let (headers, body) = match is_bare {
            true => {
                let OwnHeaders { headers, trailers } = connect::split(head.headers);
                let status = head.status;
                let data = ChunkBuffer::default();
                (headers, Body::Bare { status, data, trailers, is_read: false })
            }
            false => {
                let body = Body::enveloped(self.dialect, self.message_bytes_max, &head.headers);
                (headers::own(head.headers), body)
            }
        };
        Ok(Replies {
            format,
            encoding,
            bytes_max: self.message_bytes_max,
            coders: Arc::clone(&self.coders),
            host: Arc::clone(host),
            headers,
            body,
            is_finished: false,
            is_over: false,
        })
    }
}

impl Body {
    fn enveloped(dialect: Dialect, bytes_max: usize, headers: &HeaderMap) -> Self {
        // A response of headers only: they are the trailers. Trailers that follow say more.
        let is_end = dialect.is_grpc() && headers.contains_key(status::GRPC_STATUS);
        Self::Enveloped {
            opener: EnvelopeReader::new(bytes_max),
            end: None,
            is_end_seen: false,
            of_headers: if is_end { grpc::end(headers.clone()) } else { None },
            goes_on: false,
        }
    }
}

impl Replies {
    /// The service's own headers; empty the second time.
    pub fn take_headers(&mut self) -> HeaderMap {
        std::mem::take(&mut self.headers)
    }

    /// Refuses a body of one message whose length is over the limit before it is read.
    ///
    /// # Errors
    /// `resource_exhausted`.
    pub fn expect(&self, declared_length: Option<u64>) -> Result<()> {
        let is_bare = matches!(self.body, Body::Bare { .. });
        if is_bare && declared_length.is_some_and(|length| length > self.bytes_max as u64) {
            return Err(self.server().too_large(self.bytes_max));
        }
        Ok(())
    }

    /// Whether the head says how the call ended; so it did if the response has no body.
    pub fn is_of_headers(&self) -> bool {
        matches!(&self.body, Body::Enveloped { of_headers: Some(_), .. })
    }

    /// Adds what arrived. Call [`read`](Self::read) before more is pushed.
    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        match &mut self.body {
            Body::Bare { data, .. } => data.push(piece),
            Body::Enveloped { opener, end, of_headers, goes_on, .. } => {
                *of_headers = None;
                *goes_on = end.is_some();
                opener.push(piece);
            }
        }
    }

    /// Adds the HTTP trailers.
    pub fn trailers(&mut self, trailers: HeaderMap) {
        if let Body::Enveloped { end, .. } = &mut self.body
            && self.format.dialect == Dialect::Grpc
            && end.is_none()
        {
            *end = grpc::end(trailers);
        }
    }

    /// No more will arrive.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// The connection broke. What the end said counts, even so.
    ///
    /// # Errors
    /// The error of the reply if it has one, else `error`.
    pub fn broke(&mut self, error: Error) -> Result<Event> {
        self.is_over = true;
        match &mut self.body {
            Body::Enveloped { end, .. } if end.is_some() => match end.take() {
                Some(end) => end.into_result().map(Event::End),
                None => Err(error),
            },
            _ => Err(error),
        }
    }

    /// What the last bytes of the body said of the end, raw.
    pub fn end_trailers(&self) -> Option<&HeaderMap> {
        match &self.body {
            Body::Bare { .. } => None,
            Body::Enveloped { end, .. } => end.as_ref().map(|end| &end.raw),
        }
    }

    /// What there is to be read.
    ///
    /// # Errors
    /// The error of the call; nothing can be read after it. Its headers are those of the response
    /// if nobody has taken them.
    pub fn read(&mut self) -> Result<Event> {
        if self.is_over {
            return Err(Error::internal("a reply was read on after its end"));
        }
        let event = match &self.body {
            Body::Bare { .. } => self.bare(),
            Body::Enveloped { .. } => self.enveloped(),
        };
        self.is_over = matches!(event, Err(_) | Ok(Event::End(_)));
        event
    }

    fn server(&self) -> Sender<'_> {
        Sender::Server(&self.host)
    }

    fn bare(&mut self) -> Result<Event> {
        let sender = Sender::Server(&self.host);
        let Body::Bare { status, data, trailers, is_read } = &mut self.body else {
            return Ok(Event::More);
        };
        if data.len() > self.bytes_max {
            return Err(sender.too_large(self.bytes_max));
        }
        if !self.is_finished {
            return Ok(Event::More);
        }
        if *is_read {
            return Ok(Event::End(std::mem::take(trailers)));
        }
        *is_read = true;
        let data = data.take();
        let wire_bytes = data.len();
        let data = match self.encoding {
            None => data,
            Some(encoding) => self.coders.unfold(encoding, &data, self.bytes_max, sender)?,
        };
        if *status == StatusCode::OK {
            return Ok(Event::Message { data, wire_bytes });
        }
        let mut error = error_json::of_body(&data, *status, &self.host);
        *error.trailers_mut() = std::mem::take(trailers).into();
        *error.headers_mut() = std::mem::take(&mut self.headers).into();
        Err(error)
    }

    fn enveloped(&mut self) -> Result<Event> {
        let host = &*self.host;
        let sender = Sender::Server(host);
        let Body::Enveloped { opener, end, is_end_seen, of_headers, goes_on } = &mut self.body
        else {
            return Ok(Event::More);
        };
        if end.is_none()
            && let Some(envelope) = opener.next(sender)?
        {
            let flags = envelope.flags;
            let wire_bytes = envelope.wire_bytes();
            let dialect = self.format.dialect;
            let data = envelope.unfolded(self.encoding, &self.coders, self.bytes_max, sender)?;
            *end = Some(match (dialect, flags & !COMPRESSED) {
                (_, 0) => return Ok(Event::Message { data, wire_bytes }),
                (Dialect::Connect, CONNECT_END) => connect::end(&data, host),
                (Dialect::GrpcWeb, WEB_TRAILERS) => web_end(&data, host),
                _ => {
                    let text = format!("sent an envelope with the flags {flags:#04x}");
                    return Err(sender.broke_protocol(&text));
                }
            });
            *goes_on = opener.is_partial();
        }
        let in_body = self.format.dialect != Dialect::Grpc;
        if in_body && end.is_some() && !*is_end_seen {
            *is_end_seen = true;
            return Ok(Event::EndSeen);
        }
        if in_body && end.is_some() && *goes_on {
            return Err(sender.broke_protocol("sent more after the end of its reply"));
        }
        if !self.is_finished {
            return Ok(Event::More);
        }
        let end = end.take().or_else(|| of_headers.take());
        let is_ok = end.as_ref().is_none_or(|end| end.outcome.is_ok());
        if is_ok && opener.is_partial() {
            return Err(sender.broke_protocol("ended its reply in the middle of a message"));
        }
        end.unwrap_or_else(|| End::missing(no_status(host))).into_result().map(Event::End)
    }
}

/// The end that gRPC-Web's last envelope holds.
fn web_end(block: &[u8], host: &str) -> End {
    let Some(trailers) = grpc_web::trailers(block) else {
        let text = format!("{host} sent over {TRAILERS_MAX} trailers");
        return End::missing(Error::internal(text));
    };
    grpc::end(trailers).unwrap_or_else(|| End::missing(no_status(host)))
}

fn no_status(host: &str) -> Error {
    unreadable(Error::internal(format!(
        "{host} ended its reply without saying whether the call succeeded"
    )))
}

fn with_metadata(mut error: Error, headers: HeaderMap, is_bare: bool) -> Error {
    let own = if is_bare {
        connect::split(headers)
    } else {
        OwnHeaders { headers: headers::own(headers), trailers: HeaderMap::new() }
    };
    *error.headers_mut() = own.headers.into();
    *error.trailers_mut() = own.trailers.into();
    error
}

fn check_type(essence: &[u8], wanted: Format, host: &str) -> Result<()> {
    let found = Format::of(essence);
    if found == Some(wanted) {
        return Ok(());
    }
    let text = format!(
        "{host} answered with content-type {:?} where {:?} is expected; it may not speak {}",
        String::from_utf8_lossy(essence),
        wanted.header(),
        wanted.dialect.as_str(),
    );
    let essence = essence.to_ascii_lowercase();
    let speaks = match (wanted.dialect, wanted.framing) {
        (Dialect::Connect, Framing::Bare) => {
            essence.starts_with(b"application/") && !essence.starts_with(b"application/grpc")
        }
        (Dialect::Connect, _) => essence.starts_with(b"application/connect+"),
        (Dialect::Grpc, _) => {
            essence == b"application/grpc" || essence.starts_with(b"application/grpc+")
        }
        (Dialect::GrpcWeb, _) => {
            essence == b"application/grpc-web" || essence.starts_with(b"application/grpc-web+")
        }
    };
    Err(unreadable(Error::new(if speaks { Code::Internal } else { Code::Unknown }, text)))
}

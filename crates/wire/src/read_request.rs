//! The messages of a request out of its bytes, in whatever pieces these arrive.
//!
//! [`Requests`] is fed with [`push`](Requests::push) and [`finish`](Requests::finish), and asked by
//! [`read`](Requests::read) after each. A request of one message gives it only at its end, when it
//! is certain that there is no second one. A message that came in one piece is not copied.
//!
//! | what is wrong | code |
//! |---|---|
//! | a message over the limit, declared or found | `resource_exhausted` |
//! | the end within a message; what does not unfold; no base64 | `invalid_argument` |
//! | flags that the protocol does not have; compressed, and nobody said how | `internal` |
//! | other than one message where one is expected | `unimplemented` |

use bytes::Bytes;
use tidewire_service::Result;

use crate::chunk_buffer::ChunkBuffer;
use crate::compression::{Coders, Encoding};
use crate::connect_get;
use crate::dialect::Framing;
use crate::envelope::{COMPRESSED, EnvelopeReader, HEAD};
use crate::grpc_web::Decoder;
use crate::negotiate::Exchange;
use crate::sender::Sender;

/// Reads the messages of a request.
#[derive(Debug)]
pub struct Requests {
    body: Body,
    encoding: Option<Encoding>,
    bytes_max: usize,
    /// Exactly one message is expected.
    is_single: bool,
    /// The single message, until it is certain that it is.
    single: Option<Bytes>,
    is_finished: bool,
    is_over: bool,
}

#[derive(Debug)]
enum Body {
    /// The message itself, as it comes.
    Bare(ChunkBuffer),
    Enveloped(EnvelopeReader),
    /// What came since the last look, in base64.
    Text {
        opener: EnvelopeReader,
        decoder: Decoder,
        text: Vec<Bytes>,
    },
}

/// What there is to be read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// A message.
    Message(Bytes),
    /// Nothing until more bytes are pushed.
    More,
    /// All messages were read.
    End,
}

const CALLER: Sender<'_> = Sender::Client;

impl Exchange {
    /// The message of a GET, from its query string.
    ///
    /// # Errors
    /// A message that is not valid, or over `bytes_max`.
    pub fn message_of_get(
        &self,
        query: Option<&str>,
        coders: &Coders,
        bytes_max: usize,
    ) -> Result<Bytes> {
        connect_get::message(query, self.requests, coders, bytes_max)
    }

    /// What reads the messages of the request, each of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `resource_exhausted` when the head declares more than a request of one message may have.
    pub fn requests(&self, bytes_max: usize) -> Result<Requests> {
        let is_single = !self.kind.client_streams();
        let framing = self.format.framing;
        let length_max = bytes_max as u64;
        let length_max = match framing {
            Framing::Bare => length_max,
            Framing::Enveloped => length_max.saturating_add(HEAD as u64),
            // Each byte may be a padded group of its own.
            Framing::Text => length_max.saturating_add(HEAD as u64).saturating_mul(4),
        };
        if is_single && self.declared_length.is_some_and(|length| length > length_max) {
            return Err(CALLER.too_large(bytes_max));
        }
        let opener = || EnvelopeReader::new(bytes_max);
        let body = match framing {
            Framing::Bare => Body::Bare(ChunkBuffer::default()),
            Framing::Enveloped => Body::Enveloped(opener()),
            Framing::Text => {
                Body::Text { opener: opener(), decoder: Decoder::default(), text: Vec::new() }
            }
        };
        Ok(Requests {
            body,
            encoding: self.requests,
            bytes_max,
            is_single,
            single: None,
            is_finished: false,
            is_over: false,
        })
    }
}

impl Requests {
    /// Adds what arrived. Call [`read`](Self::read) before more is pushed, so that no more than a
    /// message and a piece is kept.
    pub fn push(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        match &mut self.body {
            Body::Bare(body) => body.push(data),
            Body::Enveloped(opener) => opener.push(data),
            Body::Text { text, .. } => text.push(data),
        }
    }

    /// Whether part of a message is there, or the one message that is expected is not.
    pub fn is_within_message(&self) -> bool {
        self.is_single || self.is_partial()
    }

    /// No more will arrive.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// The next message, if it is there.
    ///
    /// # Errors
    /// What is wrong with the request, as the table above has it; nothing can be read after it.
    pub fn read(&mut self, coders: &Coders) -> Result<ReadStep> {
        if self.is_over {
            return Ok(ReadStep::End);
        }
        let next = self.find(coders);
        self.is_over = matches!(next, Err(_) | Ok(ReadStep::End));
        next
    }

    fn find(&mut self, coders: &Coders) -> Result<ReadStep> {
        while let Some(message) = self.message(coders)? {
            if !self.is_single {
                return Ok(ReadStep::Message(message));
            }
            if self.single.replace(message).is_some() {
                return Err(CALLER.miscounted("sent more than one message where one is expected"));
            }
        }
        if !self.is_finished {
            return Ok(ReadStep::More);
        }
        if self.is_partial() {
            return Err(CALLER.malformed("ended its request in the middle of a message"));
        }
        if !std::mem::take(&mut self.is_single) {
            return Ok(ReadStep::End);
        }
        let message = self.single.take();
        message
            .map(ReadStep::Message)
            .ok_or_else(|| CALLER.miscounted("sent no message where one is expected"))
    }

    /// The next message, whole and unfolded; `None` if it is not there yet.
    fn message(&mut self, coders: &Coders) -> Result<Option<Bytes>> {
        let opener = match &mut self.body {
            Body::Bare(body) => {
                if body.len() > self.bytes_max {
                    return Err(CALLER.too_large(self.bytes_max));
                }
                if !self.is_finished || !self.is_single || self.single.is_some() {
                    return Ok(None);
                }
                let message = body.take();
                return match self.encoding {
                    None => Ok(Some(message)),
                    Some(encoding) => {
                        coders.unfold(encoding, &message, self.bytes_max, CALLER).map(Some)
                    }
                };
            }
            Body::Enveloped(opener) => opener,
            Body::Text { opener, decoder, text } => {
                for text in text.drain(..) {
                    let data = decoder.decode(&text);
                    if !data.is_empty() {
                        opener.push(data);
                    }
                }
                opener
            }
        };
        let Some(envelope) = opener.next(CALLER)? else { return self.nothing() };
        if envelope.flags & !COMPRESSED != 0 {
            let text = format!("sent an envelope with the flags {:#04x}", envelope.flags);
            return Err(CALLER.broke_protocol(&text));
        }
        envelope.unfolded(self.encoding, coders, self.bytes_max, CALLER).map(Some)
    }

    /// Nothing is there yet, nor ever if the text was not a base64.
    fn nothing(&self) -> Result<Option<Bytes>> {
        match &self.body {
            Body::Text { decoder, .. } if decoder.is_broken() => {
                Err(CALLER.malformed("sent a body that is not valid base64"))
            }
            _ => Ok(None),
        }
    }

    fn is_partial(&self) -> bool {
        match &self.body {
            Body::Bare(_) => false,
            Body::Enveloped(opener) => opener.is_partial(),
            Body::Text { opener, decoder, .. } => opener.is_partial() || decoder.is_partial(),
        }
    }
}

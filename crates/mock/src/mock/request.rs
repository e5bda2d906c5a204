//! Requests as they are read: decoded, and checked by the rules of validation of their schema if
//! the mock is to refuse what breaks them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tidewire_schema::{Message, Schema};
use tidewire_service::{Body, Codec, Context, Error, Frame, Method, Protocol, Result};
use tidewire_validate::RuleSet;

use super::running::RunningCall;
use super::{Mock, Set};

/// What a request turned out to be.
pub(super) enum ReadRequest {
    Good(Message),
    /// A message that breaks rules of validation.
    Refused(Message, Error),
    /// Bytes that are not a message of the type.
    Unreadable(Error),
}

/// How the requests of a call are read.
#[derive(Clone)]
pub(super) struct RequestReader {
    schema: Schema,
    method: Method,
    codec: Codec,
    /// How errors name fields: as the caller does.
    names: Codec,
    /// The rules that requests have to keep; `None` where nothing is checked.
    rules: Option<Arc<RuleSet>>,
}

impl RequestReader {
    pub(super) fn new(
        mock: &Mock,
        set: &Set,
        method: &Method,
        context: &Context,
        codec: Codec,
    ) -> Self {
        let is_checked = mock.0.validates.load(Ordering::Acquire);
        let mocked = set.methods.get(&*method.path).filter(|_| is_checked);
        Self {
            schema: set.schema.clone(),
            method: method.clone(),
            codec,
            // A request over REST was JSON, whatever it is here.
            names: match context.protocol() {
                Some(Protocol::Rest) => Codec::Json,
                _ => codec,
            },
            rules: mocked.and_then(|mocked| mocked.request_rules(&set.schema)),
        }
    }

    pub(super) fn read(&self, bytes: &[u8]) -> ReadRequest {
        match self.schema.decode(&self.method.input, self.codec, bytes) {
            Err(error) => ReadRequest::Unreadable(error),
            Ok(message) => match self.check(bytes, &message) {
                Err(error) => ReadRequest::Refused(message, error),
                Ok(()) => ReadRequest::Good(message),
            },
        }
    }

    fn check(&self, bytes: &[u8], message: &Message) -> Result<()> {
        let rules = self.rules.as_ref().and_then(|rules| rules.rules(&self.method.input));
        let Some(rules) = rules else { return Ok(()) };
        let broken = match self.codec {
            Codec::Proto => rules.violations(bytes)?,
            Codec::Json => rules.violations(&message.encode(Codec::Proto)?)?,
        };
        broken.map_or(Ok(()), |broken| Err(broken.into_error(self.names)))
    }
}

/// The requests of a stream, as they come; the log is told each.
pub(super) struct Requests {
    body: Body,
    reader: RequestReader,
    running: Arc<RunningCall>,
    /// The message that came last.
    pub(super) last: Bytes,
}

impl Requests {
    pub(super) fn new(body: Body, reader: RequestReader, running: Arc<RunningCall>) -> Self {
        Self { body, reader, running, last: Bytes::new() }
    }

    /// The next message.
    ///
    /// # Errors
    /// That of the stream itself; and why a message is refused.
    pub(super) async fn next(&mut self) -> Result<Option<Message>> {
        let bytes: Bytes = match &mut self.body {
            Body::Empty => return Ok(None),
            Body::Full(_) => match std::mem::take(&mut self.body) {
                Body::Full(bytes) => bytes,
                _ => return Ok(None),
            },
            Body::Stream(frames) => loop {
                match frames.next().await {
                    None => return Ok(None),
                    Some(frame) => match frame? {
                        Frame::Data(bytes) => break bytes,
                        Frame::Trailers(_) => {}
                    },
                }
            },
        };
        self.last = bytes;
        self.read_last().map(Some)
    }

    fn read_last(&self) -> Result<Message> {
        let read = self.reader.read(&self.last);
        if let ReadRequest::Good(message) | ReadRequest::Refused(message, _) = &read {
            self.running.add_request(message, self.last.len());
        }
        match read {
            ReadRequest::Good(message) => Ok(message),
            ReadRequest::Refused(_, error) | ReadRequest::Unreadable(error) => Err(error),
        }
    }

    /// The same messages as bytes, for somebody else who answers them.
    pub(super) fn passed_on(self) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        futures_util::stream::unfold(Some(self), |requests| async move {
            let mut requests = requests?;
            match requests.next().await {
                Ok(Some(_)) => Some((Ok(requests.last.clone()), Some(requests))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

//! The body of a response of many messages in an RPC protocol: each is sealed as it comes.
//!
//! Those that are ready together leave together, up to [`BATCH_BYTES`], so that a stream of small
//! messages does not cost a frame a message, and a slow reader never makes more than that wait
//! here.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame as HttpFrame;
use tidewire_service::{Body, Error, Frame, Messages, Method, Result};
use tidewire_wire::{Coders, Exchange, ReplyEnd};

use crate::request::failure_log::log;
use crate::request::observe::Watch;

/// The body of a response of many messages.
pub(crate) struct Replies {
    exchange: Exchange,
    method: Method,
    source: Option<Body>,
    /// Those that were known before the messages, or that came after them.
    trailers: HeaderMap,
    coders: Arc<Coders>,
    /// Where the source puts small messages, if it can.
    messages: Option<Messages>,
    /// Small messages that were ready together.
    batch: Vec<u8>,
    /// A large piece that follows the batch.
    ready: Option<Bytes>,
    /// What follows everything.
    end: Option<ReplyEnd>,
    without_end: bool,
    watch: Option<Watch>,
}

impl Replies {
    /// The messages of `source`, each sealed as `exchange` says.
    pub(crate) fn new(
        exchange: Exchange,
        method: &Method,
        source: Body,
        trailers: HeaderMap,
        coders: &Arc<Coders>,
    ) -> Self {
        Self {
            messages: exchange.small_messages(),
            exchange,
            method: method.clone(),
            source: Some(source),
            trailers,
            coders: Arc::clone(coders),
            batch: Vec::new(),
            ready: None,
            end: None,
            without_end: false,
            watch: None,
        }
    }

    /// Leaves the end out, as a script may want it.
    pub(crate) fn without_end(mut self, without_end: bool) -> Self {
        self.without_end = without_end;
        self
    }

    /// Tells of an error that ends it.
    pub(crate) fn watched(mut self, watch: Option<Watch>) -> Self {
        self.watch = watch;
        self
    }

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
                    self.trailers = trailers.into();
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
            Some(Body::Stream(frames)) => match &mut self.messages {
                None => frames.as_mut().poll_next(cx),
                Some(messages) => {
                    messages.allow(u32::MAX);
                    let polled = frames.as_mut().poll_messages(cx, messages);
                    messages.move_to(&mut self.batch);
                    polled
                }
            },
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
            return Some(HttpFrame::data(std::mem::take(&mut self.batch).into()));
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

/// What is gathered before it leaves: two frames of HTTP/2.
const BATCH_BYTES: usize = 32 << 10;
/// The head of an envelope, which goes with the batch.
const HEAD_MAX: usize = tidewire_wire::ENVELOPE_HEAD;

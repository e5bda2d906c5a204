//! Streams of messages over REST, both ways: the bytes of the crate `rest`, polled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt;
use http_body::Body as _;
use tidewire_rest::{Binding, Lines, Request, Style, Writer};
use tidewire_service::{Body, Error, Frame, Frames, Result};

use crate::request::failure_log::log;

/// One message a line, or a chunk of a raw body; path and query are the same for each.
pub(crate) fn messages(request: Request, body: Body, line_bytes_max: usize) -> Body {
    if request.binding().takes_raw_bytes() {
        let chunks = http_body_util::BodyStream::new(body);
        return Body::stream(chunks.filter_map(move |frame| {
            let data = frame.map(|frame| frame.into_data().ok()).transpose();
            std::future::ready(data.map(|data| request.message(&data?)))
        }));
    }
    Body::stream(Messages { request, body: Some(body), lines: Lines::new(line_bytes_max) })
}

/// The messages of a body of lines.
struct Messages {
    request: Request,
    body: Option<Body>,
    lines: Lines,
}

impl Stream for Messages {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.lines.next_line() {
                Ok(Some((number, line))) => {
                    return Poll::Ready(Some(this.request.line(number, &line)));
                }
                Ok(None) => {}
                Err(error) => {
                    this.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            match std::task::ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        this.lines.push(&data);
                    }
                }
                Some(Err(error)) => {
                    // What came before it is not a whole line.
                    (this.body, this.lines) = (None, Lines::new(0));
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.body = None;
                    this.lines.end();
                }
            }
        }
    }
}

/// The chunks of a stream of replies.
pub(crate) struct Chunks {
    frames: Option<Pin<Box<dyn Frames>>>,
    binding: Arc<Binding>,
    writer: Writer,
    failed: Option<Error>,
}

impl Chunks {
    pub(crate) fn new(body: Body, binding: &Arc<Binding>, style: Style) -> Self {
        let writer = Writer::new(Arc::clone(binding), style);
        Self {
            frames: Some(body.into_frames()),
            binding: Arc::clone(binding),
            writer,
            failed: None,
        }
    }

    /// Whether the whole reply was given.
    pub(crate) fn is_done(&self) -> bool {
        self.frames.is_none() && self.failed.is_none()
    }

    fn fail(&mut self, error: Error) {
        self.frames = None;
        if self.writer.fail(&error) {
            log(&error, &self.binding.method().path);
        } else {
            self.failed = Some(error);
        }
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut waits = false;
        while let Some(frames) = &mut this.frames {
            match frames.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(Frame::Data(message)))) => {
                    if let Err(error) = this.writer.add(&message) {
                        this.fail(error);
                    }
                }
                Poll::Ready(Some(Ok(Frame::Trailers(_)))) => {}
                Poll::Ready(Some(Err(error))) => this.fail(error),
                Poll::Ready(None) => {
                    this.frames = None;
                    this.writer.end();
                }
                Poll::Pending => {
                    waits = true;
                    break;
                }
            }
            if this.writer.is_full() {
                break;
            }
        }
        match this.writer.take() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None if waits => Poll::Pending,
            None => Poll::Ready(this.failed.take().map(Err)),
        }
    }
}

//! The body of a request as the HTTP library sends it, and what ends it early.
//!
//! A request of one message is there at once; a stream is pulled as the connection takes it. When
//! the caller goes away while a stream is still being sent, [`Cancel`] stops it; when the caller's
//! own stream fails, its error is kept in [`Shared`] and becomes the error of the call.

use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use futures_util::task::AtomicWaker;
use http_body::{Body as _, Frame, SizeHint};
use tidewire_service::{Body, Error};

use crate::trace::{Step, Trace, tell};

/// The body of a request.
pub(crate) struct RequestBody {
    kind: Kind,
    trace: Option<Trace>,
    /// The envelope's first bytes were taken.
    started: bool,
}

enum Kind {
    Empty,
    /// A whole body in one or two pieces: an envelope's head, then its message.
    Whole(Bytes, Bytes),
    /// A body, and how many bytes are to come of one that said its length.
    Stream(Body, Option<u64>, Arc<Shared>),
}

/// What the sender of a streamed request shares with whoever waits for the response.
#[derive(Default)]
pub(crate) struct Shared {
    is_canceled: AtomicBool,
    /// It came to its end.
    is_done: AtomicBool,
    /// It came to the length that its head says, at which HTTP/1.1 asks for no more of it.
    has_all: AtomicBool,
    waker: AtomicWaker,
    error: Mutex<Option<Error>>,
}

/// Stops a request that is still being sent, when dropped.
pub(crate) struct Cancel(Arc<Shared>);

/// What is sent at once: an envelope's head and its message.
pub(crate) type Piece = Chain<Bytes, Bytes>;

/// The caller is gone, or its own stream failed.
#[derive(Debug)]
pub(crate) struct SendStopped;

impl std::error::Error for SendStopped {}

impl fmt::Display for SendStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was given up")
    }
}

impl RequestBody {
    /// A body that is there: `head` goes first, and may be empty.
    pub(crate) fn whole(head: Bytes, bytes: Bytes, trace: Option<Trace>) -> Self {
        let kind = match (head.is_empty(), bytes.is_empty()) {
            (true, true) => Kind::Empty,
            (true, false) => Kind::Whole(bytes, head),
            (false, _) => Kind::Whole(head, bytes),
        };
        Self { kind, trace, started: false }
    }

    /// A body as it comes, of this length if its head says one, and the means to end it early.
    pub(crate) fn stream(body: Body, length: Option<u64>, trace: Option<Trace>) -> (Self, Cancel) {
        let shared = Arc::new(Shared::default());
        let cancel = Cancel(Arc::clone(&shared));
        (Self { kind: Kind::Stream(body, length, shared), trace, started: false }, cancel)
    }

    /// The whole body, if it is there.
    pub(crate) fn take_whole(&mut self) -> Option<Piece> {
        let Kind::Whole(head, bytes) = &mut self.kind else { return None };
        let piece = std::mem::take(head).chain(std::mem::take(bytes));
        self.kind = Kind::Empty;
        if let Some(trace) = self.trace.take() {
            let wire_bytes = piece.remaining();
            tell(Some(&trace), || Step::MessageSent { wire_bytes });
            tell(Some(&trace), || Step::RequestSent);
        }
        Some(piece)
    }

    /// Ready once the caller is gone.
    pub(crate) fn poll_stopped(&self, cx: &Context<'_>) -> Poll<()> {
        let Kind::Stream(_, _, shared) = &self.kind else { return Poll::Pending };
        shared.waker.register(cx.waker());
        if shared.is_canceled.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_stream(
        body: &mut Body,
        shared: &Shared,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendStopped>>> {
        if shared.is_canceled.load(Ordering::Acquire) {
            return Poll::Ready(Some(Err(SendStopped)));
        }
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Err(error))) => {
                *shared.error.lock() = Some(error);
                shared.is_done.store(true, Ordering::Release);
                Poll::Ready(Some(Err(SendStopped)))
            }
            Poll::Ready(None) => {
                shared.is_done.store(true, Ordering::Release);
                Poll::Ready(None)
            }
            Poll::Pending => {
                shared.waker.register(cx.waker());
                if shared.is_canceled.load(Ordering::Acquire) {
                    return Poll::Ready(Some(Err(SendStopped)));
                }
                Poll::Pending
            }
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = SendStopped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendStopped>>> {
        let this = &mut *self;
        let frame = match &mut this.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(head, bytes) => {
                let next = std::mem::replace(head, std::mem::take(bytes));
                if !this.started {
                    let wire_bytes = next.len() + head.len();
                    tell(this.trace.as_ref(), || Step::MessageSent { wire_bytes });
                    this.started = true;
                }
                if head.is_empty() {
                    this.kind = Kind::Empty;
                }
                Poll::Ready(Some(Ok(Frame::data(next))))
            }
            Kind::Stream(body, left, shared) => {
                let frame = Self::poll_stream(body, shared, cx);
                if let Poll::Ready(Some(Ok(frame))) = &frame {
                    let wire_bytes = frame.data_ref().map_or(0, Bytes::len);
                    *left = left.map(|left| left.saturating_sub(wire_bytes as u64));
                    if *left == Some(0) {
                        shared.has_all.store(true, Ordering::Release);
                    }
                    tell(this.trace.as_ref(), || Step::MessageSent { wire_bytes });
                }
                frame
            }
        };
        let is_last = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => matches!(this.kind, Kind::Empty),
            _ => false,
        };
        if is_last && let Some(trace) = this.trace.take() {
            tell(Some(&trace), || Step::RequestSent);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Whole(..) => false,
            Kind::Stream(body, ..) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Whole(head, bytes) => SizeHint::with_exact((head.len() + bytes.len()) as u64),
            Kind::Stream(body, ..) => body.size_hint(),
        }
    }
}

impl Cancel {
    /// The error that the caller's own stream ended with.
    pub(crate) fn error(&self) -> Option<Error> {
        self.0.error.lock().clone()
    }

    /// Whether the whole request was sent.
    pub(crate) fn is_done(&self, is_http1: bool) -> bool {
        self.0.is_done.load(Ordering::Acquire) || is_http1 && self.0.has_all.load(Ordering::Acquire)
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.is_canceled.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

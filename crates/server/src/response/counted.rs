//! The body of a reply on its way out: in pieces, counted until they have left the server.
//!
//! The HTTP library takes a piece of any size as soon as a client would take one byte of it, and
//! then says no more of it. So pieces are small, what waits is counted where it is handed over, and
//! each piece keeps its slot until the library lets go of it (`socket/activity.rs`).
//!
//! Over HTTP/1.1, where one reply at a time is on its way, only large ones are counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
use tidewire_service::{Body, Error};

use crate::response::error::error_response;
use crate::socket::activity::{Activity, Piece, Slot};

/// A body that can be counted.
pub(crate) trait CountableBody:
    http_body::Body<Data = Bytes, Error = Error> + Unpin
{
    /// A body of one piece, or of none.
    fn plain(body: Body) -> Self;

    /// The body that is counted, as one that may not be.
    fn counted(body: CountedBody<Self>) -> Self
    where
        Self: Sized;

    /// How many bytes are there and wait to be sent.
    fn waiting_bytes(&self) -> usize;
}

/// The body of a reply that is counted.
pub(crate) struct CountedBody<B> {
    body: B,
    /// What is left of a large piece.
    rest: Bytes,
    slot: Arc<Slot>,
    /// It does not say that too much waits.
    is_counted: bool,
}

impl<B: CountableBody> CountedBody<B> {
    /// Counts what waits of a response; when that is too much, what is answered instead.
    pub(crate) fn counted(response: Response<B>, slot: Arc<Slot>) -> Response<Self> {
        let (response, is_counted) = match slot.hold(response.body().waiting_bytes()) {
            Ok(()) => (response, true),
            Err(error) => (too_busy(response.headers(), &error), false),
        };
        response.map(|body| Self { body, rest: Bytes::new(), slot, is_counted })
    }

    /// Whether a response has to be [`counted_alone`](Self::counted_alone).
    #[inline]
    pub(crate) fn is_large(response: &Response<B>) -> bool {
        response.body().waiting_bytes() >= LARGE_BYTES
    }

    /// [`counted`](Self::counted) over HTTP/1.1, where one reply at a time is on its way.
    pub(crate) fn counted_alone(response: Response<B>, activity: &Arc<Activity>) -> Response<B> {
        Self::counted(response, Slot::begin(activity)).map(B::counted)
    }

    /// The next piece of what is there.
    fn piece(&mut self) -> Result<Frame<Piece>, Error> {
        let data = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        if self.is_counted {
            self.slot.hold(data.len() + self.rest.len() + self.body.waiting_bytes())?;
        }
        Ok(Frame::data(self.slot.hand_over(data)))
    }
}

impl<B: CountableBody> http_body::Body for CountedBody<B> {
    type Data = Piece;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => this.rest = data,
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(Piece::uncounted(data))))),
                    Err(other) => return Poll::Ready(Some(Ok(other.map_data(Piece::uncounted)))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(this.piece()))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match (self.rest.len() as u64, self.body.size_hint()) {
            (0, hint) => hint,
            (rest, hint) => match hint.exact() {
                Some(exact) => SizeHint::with_exact(exact + rest),
                None => SizeHint::default(),
            },
        }
    }
}

/// The error in the protocol of the response that it takes the place of.
fn too_busy<B: CountableBody>(headers: &HeaderMap, error: &Error) -> Response<B> {
    tracing::debug!(%error, "a reply is not sent");
    let content_type = headers.get(CONTENT_TYPE).cloned();
    let mut response = error_response(error).map(B::plain);
    if let Some(content_type) = content_type
        && content_type.as_bytes().starts_with(b"application/grpc")
        && let Ok(message) = HeaderValue::from_str(error.message())
    {
        // Of a message without anything that would have to be escaped.
        let headers = response.headers_mut();
        headers.insert("grpc-status", HeaderValue::from(u16::from(error.code().number())));
        headers.insert("grpc-message", message);
        headers.insert(CONTENT_TYPE, content_type);
        *response.status_mut() = http::StatusCode::OK;
        *response.body_mut() = B::plain(Body::Empty);
    }
    response
}

/// What is handed over at once: the size of the largest frame that HTTP/2 has by default.
const PIECE_BYTES: usize = 16 << 10;
/// From here on a reply over HTTP/1.1 is counted.
const LARGE_BYTES: usize = 32 << 10;

//! The body of a response as its connection gives it, of whichever version of HTTP.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, response};
use http_body::{Body as _, Frame};

use crate::failure::ConnectionFailure;

/// The body of a response. Dropping it before its end cancels the call.
pub(crate) enum HttpBody {
    Http1(hyper::body::Incoming),
    Http2 { stream: h2::RecvStream, length: Option<u64>, received_bytes: u64 },
}

impl HttpBody {
    pub(crate) fn of_http1(response: Response<hyper::body::Incoming>) -> (response::Parts, Self) {
        let (head, body) = response.into_parts();
        (head, Self::Http1(body))
    }

    pub(crate) fn of_http2(response: Response<h2::RecvStream>) -> (response::Parts, Self) {
        let (head, stream) = response.into_parts();
        let length = match stream.is_end_stream() {
            true => Some(0),
            false => declared_length(&head.headers),
        };
        (head, Self::Http2 { stream, length, received_bytes: 0 })
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionFailure>>> {
        let (stream, length, received_bytes) = match self {
            Self::Http1(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                return frame
                    .map(|frame| frame.map(|frame| frame.map_err(ConnectionFailure::Http1)));
            }
            Self::Http2 { stream, length, received_bytes } => (stream, *length, received_bytes),
        };
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                // It fails for a stream that is over, which then needs no credit.
                drop(stream.flow_control().release_capacity(data.len()));
                *received_bytes += data.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            Some(Err(error)) if is_end(&error, length, *received_bytes) => {
                return Poll::Ready(None);
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(ConnectionFailure::Http2(error)))),
            None => {}
        }
        Poll::Ready(match ready!(stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) if is_end(&error, length, *received_bytes) => None,
            Err(error) => Some(Err(ConnectionFailure::Http2(error))),
        })
    }

    pub(crate) fn is_end(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// The length that the head declares, if it does.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        match self {
            Self::Http1(body) => body.size_hint().exact(),
            Self::Http2 { length, .. } => *length,
        }
    }
}

/// A server that wants no more of the request says so after its whole response (RFC 9113, section
/// 8.1). Whether a response is whole is only known of one that declared its length: the library
/// does not tell such a reset after the end from one before it.
fn is_end(error: &h2::Error, length: Option<u64>, received_bytes: u64) -> bool {
    let wants_no_more = error.is_reset() && error.reason() == Some(h2::Reason::NO_ERROR);
    wants_no_more && length.is_none_or(|length| received_bytes >= length)
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

//! The body of a response of an RPC protocol whose bytes are there, with the trailers behind it.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tidewire_wire::Pieces;

/// A body whose bytes are there.
pub(crate) struct FullBody {
    pub(crate) first: Option<Bytes>,
    pub(crate) pieces: Pieces,
    pub(crate) trailers: Option<HeaderMap>,
}

impl FullBody {
    pub(crate) fn next(&mut self) -> Option<Frame<Bytes>> {
        let data = self.first.take().or_else(|| self.pieces.next());
        data.map(Frame::data).or_else(|| self.trailers.take().map(Frame::trailers))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.first.is_none() && self.pieces.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.trailers {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.waiting_bytes() as u64),
        }
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.first.as_ref().map_or(0, Bytes::len) + self.pieces.len()
    }
}

//! The body of a response of an RPC protocol whose bytes are there, with the trailers behind it.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidewire_wire::{Pieces, Trailers};

/// A body whose bytes are there.
pub(crate) struct FullBody {
    pub(crate) pieces: Pieces,
    pub(crate) trailers: Trailers,
}

impl FullBody {
    pub(crate) fn next(&mut self) -> Option<Frame<Bytes>> {
        let data = self.pieces.next().map(Frame::data);
        data.or_else(|| self.trailers.take().map(Frame::trailers))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.trailers.is_none() {
            true => SizeHint::with_exact(self.waiting_bytes() as u64),
            false => SizeHint::default(),
        }
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.pieces.len()
    }
}

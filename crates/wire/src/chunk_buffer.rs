//! A body as a whole, out of its pieces: one piece stays as it is, several are joined.

use bytes::{Bytes, BytesMut};

/// The pieces that have arrived.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuffer {
    first: Bytes,
    joined: BytesMut,
}

impl ChunkBuffer {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&piece);
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    /// All of it.
    pub(crate) fn take(&mut self) -> Bytes {
        if self.joined.is_empty() {
            return std::mem::take(&mut self.first);
        }
        std::mem::take(&mut self.joined).freeze()
    }
}

//! Items that go to a stream together: put into the form of a frame by whoever makes them, without the
//! session, which is then asked once for all of them.
//!
//! Where a stream makes millions of small items, what the session costs for each is most of their cost.

use crate::stream::PIECE_BYTES;
use crate::varint;

/// Items on their way to a stream, as one frame has them.
#[derive(Debug, Default)]
pub struct Gathered {
    pub(crate) bytes: Vec<u8>,
}

impl Gathered {
    /// Adds an item, unless it would not share a frame with those that are here. Any that is not too large for
    /// an `items` frame fits where there is none.
    #[inline]
    pub fn add(&mut self, item: &[u8]) -> bool {
        if self.bytes.len() + item.len() + varint::BYTES_MAX > PIECE_BYTES {
            return false;
        }
        varint::put_string(&mut self.bytes, item);
        true
    }

    /// Whether there is no item.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_added_as_long_as_they_share_a_frame_and_an_empty_one_is_an_item() {
        let mut gathered = Gathered::default();
        assert!(gathered.is_empty());
        assert!(gathered.add(b"") && !gathered.is_empty());
        let most = PIECE_BYTES - varint::BYTES_MAX - 1;
        assert!(!gathered.add(&vec![0; most + 1]));
        assert!(gathered.add(&vec![0; most]));
        assert!(!gathered.add(b""), "the frame is full");
        assert!(gathered.bytes.len() <= PIECE_BYTES);
    }
}

//! The two directions of one stream call: items queued and kept, items received.
//!
//! Items are gathered into chunks of up to 16 KiB, each one `items` frame; a larger item is cut
//! into pieces of that size, which share its buffer. So a frame never keeps others waiting for long
//! on a slow link. A chunk that was sent is kept until credited, so that after a lost connection
//! the stream goes on from the byte that the receiver names. Kept bytes are bounded by the credit
//! window plus one frame.

use std::collections::VecDeque;

use bytes::Bytes;
use tidewire_service::Messages;

use crate::frame::Kind;
use crate::reason::{Reason, Violation};
use crate::{credit, varint};

/// Where a writer starts a new frame, and the size of a piece.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) send: Sender,
    pub(crate) receive: Receiver,
    /// The callee's reply head, kept to be sent again; the caller's mark that it came.
    pub(crate) head: Option<Vec<u8>>,
    /// The peer wants no more items, or this side asked for none.
    pub(crate) stopped: bool,
}

impl Stream {
    /// Whether the side that sends, the caller (`ours`) or the callee, may queue items.
    #[inline]
    pub(crate) fn takes_items(&self, ours: bool) -> bool {
        let is_over = if ours { self.stopped } else { self.head.is_none() };
        !is_over && self.send.finish.is_none()
    }
}

/// Items on their way out.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The chunk that takes items.
    open: Vec<u8>,
    /// The byte that the open chunk begins with.
    open_start: u64,
    /// Full chunks, and those that were sent.
    chunks: VecDeque<Chunk>,
    /// The first of them that is not sent.
    next: usize,
    /// Item bytes sent.
    sent: u64,
    /// Item bytes that the receiver consumed.
    credited: u64,
    /// What was sent before this byte is not kept, whether it was consumed or not.
    kept_from: u64,
    /// All of it was queued at once, the body of a call: it is kept however much that is.
    pub(crate) is_whole: bool,
    /// What ends this direction.
    pub(crate) finish: Option<Finish>,
    pub(crate) finish_sent: bool,
    /// Whether it stands in the line of streams with something to send.
    pub(crate) in_line: bool,
    /// Whether the application waits for room.
    pub(crate) wants_room: bool,
}

/// Buffers for chunks, and how much all chunks of a session hold.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    spare: Vec<Vec<u8>>,
    /// Bytes of chunks: all that is queued or kept, but for the one that takes items.
    pub(crate) held: usize,
}

#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: QueuedBytes,
    /// It is a piece of an item that goes on in the next chunk.
    more: bool,
}

#[derive(Debug)]
enum QueuedBytes {
    Items(Vec<u8>),
    Piece(Bytes),
}

impl QueuedBytes {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Items(bytes) => bytes,
            Self::Piece(bytes) => bytes,
        }
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.bytes().len() as u64
    }
}

/// The last frame of a direction.
#[derive(Debug, Clone)]
pub(crate) struct Finish {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) metadata: Vec<u8>,
    pub(crate) payload: Bytes,
}

impl Finish {
    /// The end of the items, with trailers.
    pub(crate) fn end(metadata: Vec<u8>) -> Self {
        Self { kind: Kind::End, flags: 0, metadata, payload: Bytes::new() }
    }
}

/// How much a stream may queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes that are not sent.
    pub(crate) window: u64,
    /// Whether it may be more than one frame: the streams together hold less than they may.
    pub(crate) is_wide: bool,
}

impl Sender {
    /// Queued and not yet sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.open_start + self.open.len() as u64 - self.sent
    }

    /// Whether another item may be queued.
    #[inline]
    pub(crate) fn has_room(&self, room: Room) -> bool {
        let unsent = self.unsent();
        unsent < room.window && (unsent < PIECE_BYTES as u64 || room.is_wide)
    }

    /// Bytes of its chunks.
    fn chunk_bytes(&self) -> usize {
        (self.open_start - self.chunks.front().map_or(self.open_start, |chunk| chunk.start))
            as usize
    }

    /// Queues an item.
    #[inline]
    pub(crate) fn push(&mut self, item: &[u8], pool: &mut Pool) {
        if self.open.len() + item.len() + varint::BYTES_MAX > PIECE_BYTES {
            self.close(pool);
        }
        varint::put_string(&mut self.open, item);
    }

    /// Queues items that somebody put together.
    pub(crate) fn push_messages(&mut self, messages: &mut Messages, pool: &mut Pool) {
        const { assert!(Messages::BYTES_MAX <= PIECE_BYTES) };
        if self.open.len() + messages.encoded_bytes() > PIECE_BYTES {
            self.close(pool);
        }
        messages.move_to(&mut self.open);
    }

    /// Queues an item that is too large to share a frame. One that would be a single piece goes as
    /// an item, since the last piece is told from items by those before it.
    pub(crate) fn push_pieces(&mut self, item: &Bytes, pool: &mut Pool) {
        if item.len() <= PIECE_BYTES {
            return self.push(item, pool);
        }
        self.close(pool);
        for at in (0..item.len()).step_by(PIECE_BYTES) {
            let end = item.len().min(at + PIECE_BYTES);
            let bytes = QueuedBytes::Piece(item.slice(at..end));
            let chunk = Chunk { start: self.open_start, bytes, more: end < item.len() };
            self.open_start = chunk.end();
            pool.held += chunk.bytes.bytes().len();
            self.chunks.push_back(chunk);
        }
    }

    /// Closes the open chunk: later items go into a new one.
    #[cold]
    fn close(&mut self, pool: &mut Pool) {
        if self.open.is_empty() {
            return;
        }
        let bytes = std::mem::replace(&mut self.open, pool.spare.pop().unwrap_or_default());
        let chunk = Chunk { start: self.open_start, bytes: QueuedBytes::Items(bytes), more: false };
        self.open_start = chunk.end();
        pool.held += chunk.bytes.bytes().len();
        self.chunks.push_back(chunk);
    }

    /// Whether the window lets another chunk go, and there is one.
    pub(crate) fn may_send(&self, window: u64) -> bool {
        self.sent - self.credited < window && !self.is_drained()
    }

    /// Whether all items are sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.next >= self.chunks.len() && self.open.is_empty()
    }

    /// The next chunk to be written, and whether it is a piece that goes on.
    pub(crate) fn next(&mut self, pool: &mut Pool) -> (&[u8], bool) {
        if self.next >= self.chunks.len() {
            self.close(pool);
        }
        self.chunks.get(self.next).map_or((&[], false), |chunk| (chunk.bytes.bytes(), chunk.more))
    }

    /// The chunk of [`next`](Self::next) was written; it is kept if the session can be resumed and
    /// has room, else nothing is that was sent.
    pub(crate) fn advance(&mut self, keep: bool, pool: &mut Pool) {
        let Some(chunk) = self.chunks.get(self.next) else { return };
        self.sent = chunk.end();
        self.next += 1;
        if keep {
            return;
        }
        for chunk in self.chunks.drain(..self.next) {
            recycle(pool, chunk.bytes);
        }
        self.next = 0;
        self.kept_from = self.sent;
    }

    /// Whether what comes from this byte on is there.
    pub(crate) fn keeps(&self, from: u64) -> bool {
        from >= self.kept_from
    }

    /// Whether all of it can be sent again from the first byte on.
    pub(crate) fn keeps_all(&self) -> bool {
        self.kept_from == 0 && self.credited == 0
    }

    /// The receiver consumed so many bytes.
    pub(crate) fn credit(&mut self, bytes: u64, pool: &mut Pool) -> Result<(), Violation> {
        if bytes > self.sent - self.credited {
            return Err(credit::too_much());
        }
        self.credited += bytes;
        self.drop_credited(pool);
        Ok(())
    }

    fn drop_credited(&mut self, pool: &mut Pool) {
        while self.next > 0
            && let Some(first) = self.chunks.front()
            && first.end() <= self.credited
        {
            let chunk = self.chunks.pop_front().expect("the front was just looked at");
            recycle(pool, chunk.bytes);
            self.next -= 1;
        }
    }

    /// Goes back to the byte that the receiver of a new connection expects.
    pub(crate) fn rewind(
        &mut self,
        received: u64,
        credited: u64,
        pool: &mut Pool,
    ) -> Result<(), Violation> {
        let gap = |sender: &Self| {
            let Self { sent, credited: known, .. } = sender;
            Violation::new(
                Reason::Malformed,
                format!(
                    "a resume names stream bytes that are not kept: received {received} of {sent}, credited {credited} of {known}"
                ),
            )
        };
        if credited < self.credited || received < credited || received > self.sent {
            return Err(gap(self));
        }
        self.credited = credited;
        self.next = self
            .chunks
            .iter()
            .position(|chunk| chunk.start >= received)
            .unwrap_or(self.chunks.len());
        let start = self.chunks.get(self.next).map_or(self.open_start, |chunk| chunk.start);
        if start != received {
            return Err(gap(self));
        }
        self.sent = received;
        self.finish_sent = false;
        self.drop_credited(pool);
        Ok(())
    }

    /// Drops what is queued, because nobody wants it.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.take_back(QueuedBytes::Items(std::mem::take(&mut self.open)));
        while self.chunks.len() > self.next {
            let chunk = self.chunks.pop_back().expect("the length was just looked at");
            self.open_start = chunk.start;
            recycle(pool, chunk.bytes);
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.open.len() + self.chunks.iter().map(|chunk| chunk.bytes.bytes().len()).sum::<usize>()
    }
}

/// Takes back the buffer of a chunk.
fn recycle(pool: &mut Pool, bytes: QueuedBytes) {
    pool.held -= bytes.bytes().len();
    pool.take_back(bytes);
}

impl Pool {
    fn take_back(&mut self, bytes: QueuedBytes) {
        const POOLED_MAX: usize = 64;
        let QueuedBytes::Items(mut bytes) = bytes else { return };
        let fits = bytes.capacity() > 0 && bytes.capacity() <= 2 * PIECE_BYTES;
        if fits && self.spare.len() < POOLED_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// A stream is dropped with what it has.
    pub(crate) fn dropped(&mut self, stream: Option<&Stream>) {
        self.held -= stream.map_or(0, |stream| stream.send.chunk_bytes());
    }
}

/// Items that came in.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) received: u64,
    consumed: u64,
    pub(crate) credited: u64,
    /// Returned on the level of the connection, and not consumed yet.
    early: u64,
    /// Bytes received of an item that is not complete.
    pub(crate) partial: u64,
    /// The peer's end was received.
    pub(crate) ended: bool,
}

impl Receiver {
    /// Whether the peer had credit for another frame.
    pub(crate) fn may_receive(&self, window: u64) -> bool {
        self.received - self.credited < window
    }

    /// Received, and neither consumed nor returned on the level of the connection.
    pub(crate) fn unconsumed_bytes(&self) -> u64 {
        self.received - self.consumed - self.early
    }

    /// So many of the bytes that are held are returned on the level of the connection alone.
    pub(crate) fn return_early(&mut self, bytes: u64) {
        self.early += bytes;
    }

    /// Notes consumption of what was returned early; as [`consume`](Self::consume).
    pub(crate) fn consume_early(&mut self, window: u64) -> Option<u64> {
        let bytes = std::mem::take(&mut self.early);
        self.consume(bytes, window)
    }

    /// Notes consumption; a quarter of the window is due as credit.
    pub(crate) fn consume(&mut self, bytes: u64, window: u64) -> Option<u64> {
        self.consumed += bytes.min(self.unconsumed_bytes());
        let owed = self.consumed - self.credited;
        (owed >= window.div_ceil(4)).then(|| {
            self.credited = self.consumed;
            owed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(sender: &mut Sender, window: u64, pool: &mut Pool) -> Vec<usize> {
        let mut sizes = Vec::new();
        while sender.may_send(window) {
            sizes.push(sender.next(pool).0.len());
            sender.advance(true, pool);
        }
        sizes
    }

    #[test]
    fn items_share_chunks_and_large_ones_go_in_pieces() {
        let (mut sender, mut pool) = (Sender::default(), Pool::default());
        for _ in 0..3 {
            sender.push(b"abc", &mut pool);
        }
        sender.push_pieces(&vec![0; 40_000].into(), &mut pool);
        sender.push(b"d", &mut pool);
        assert_eq!(send_all(&mut sender, 1 << 20, &mut pool), [12, 16_384, 16_384, 7_232, 2]);
    }

    #[test]
    fn a_rewound_stream_sends_again_from_the_named_byte() {
        let (mut sender, mut pool) = (Sender::default(), Pool::default());
        for _ in 0..3 {
            sender.push(b"abc", &mut pool);
            assert_eq!(send_all(&mut sender, 1 << 20, &mut pool), [4]);
        }
        sender.credit(4, &mut pool).unwrap();
        sender.rewind(8, 4, &mut pool).unwrap();
        assert_eq!(send_all(&mut sender, 1 << 20, &mut pool), [4]);
        assert!(sender.rewind(7, 4, &mut pool).is_err(), "not a frame's edge");
        assert!(sender.rewind(99, 4, &mut pool).is_err(), "never sent");
        assert!(sender.credit(99, &mut pool).is_err());
    }
}

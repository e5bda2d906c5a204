//! Where one connection is: whether the HTTP library has read everything that it was given, so that
//! what comes next begins a request; and which request it answers.
//!
//! The library asks for a timer when it begins to wait for a head (`socket/head_timer.rs`), which
//! it does once the response before is printed. If it was given one piece since the last such time,
//! and that piece is one request to its last byte, then it has nothing left of it. The same holds
//! where the last request had no body and the last piece ended with an empty line: what were left
//! of it would be a request.
//!
//! It answers the requests of a piece one after the other, each in one write, so that the write
//! after the third request of a piece began is the response to the third.

use std::ops::Range;
use std::sync::Arc;

use tidewire_service::Peer;

use super::progress::{RequestCounts, RequestProgress};
use super::{HEAD_END, PreparedReplies, head_end};

/// One connection, as far as requests may be answered beside the HTTP library.
pub(crate) struct PreparedConnection {
    replies: Arc<PreparedReplies>,
    peer: Arc<Peer>,
    /// The first request that it was given was answered from memory before.
    is_repeated: bool,
    given: GivenBytes,
    /// What the library was given, where that is one piece.
    piece: Vec<u8>,
    /// The number of the last request of it that began, and where it begins.
    last: PieceRequest,
    /// What had begun before it was given.
    before: RequestCounts,
    /// The edition of the services that may change, before it was given.
    source_edition: u64,
}

/// A request of a piece.
#[derive(Debug, Clone, Copy, Default)]
struct PieceRequest {
    index: usize,
    begin: usize,
}

/// What the library was given since it had nothing left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivenBytes {
    Nothing,
    /// One piece, which is kept.
    Piece,
    /// Several, or a large one; the last bytes of it ended a head, or did not.
    More {
        ended_head: bool,
    },
}

impl PreparedConnection {
    /// A connection of which nothing was read.
    pub(crate) fn new(replies: Arc<PreparedReplies>, peer: Arc<Peer>) -> Self {
        let before = RequestCounts::default();
        let given = GivenBytes::Nothing;
        Self {
            replies,
            peer,
            is_repeated: false,
            given,
            piece: Vec::new(),
            last: PieceRequest::default(),
            before,
            source_edition: 0,
        }
    }

    /// Whether anything may be found.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.replies.is_used()
    }

    /// Whether what comes next begins a request.
    pub(crate) fn is_between_requests(&mut self, progress: &RequestProgress) -> bool {
        let ended_head = match self.given {
            GivenBytes::Nothing => return true,
            GivenBytes::Piece => self.piece.ends_with(HEAD_END),
            GivenBytes::More { ended_head } => ended_head,
        };
        if !progress.awaits_head() {
            return false;
        }
        let begun = progress.counts();
        let is_over = ended_head && begun.is_bodiless_since(self.before)
            || self.given == GivenBytes::Piece
                && self.request(begun).is_some_and(|request| request.end == self.piece.len());
        if is_over {
            self.given = GivenBytes::Nothing;
        }
        is_over
    }

    /// Answers what `input` begins with, until more than `output_max` bytes are there; how many
    /// bytes of it that are. It begins a request.
    pub(crate) fn answer(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        output_max: usize,
    ) -> usize {
        let answered = self.replies.answer(input, &self.peer, output, output_max);
        self.is_repeated = answered.is_next_repeated;
        answered.bytes
    }

    /// Whether the first request that is not answered was answered from memory before.
    pub(crate) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The library was given this, which begins a request.
    pub(crate) fn give(&mut self, input: &[u8], progress: &RequestProgress) {
        self.before = progress.counts();
        if input.len() > PIECE_BYTES_MAX {
            self.given = GivenBytes::More { ended_head: input.ends_with(HEAD_END) };
            return;
        }
        self.given = GivenBytes::Piece;
        self.source_edition = self.replies.source_edition();
        self.last = PieceRequest::default();
        self.piece.clear();
        self.piece.extend_from_slice(input);
    }

    /// The library was given this, in the middle of a request or before anything is prepared.
    #[inline]
    pub(crate) fn give_more(&mut self, input: &[u8], progress: &RequestProgress) {
        self.before = progress.counts();
        self.given = GivenBytes::More { ended_head: input.ends_with(HEAD_END) };
    }

    /// The library writes this. If it had written everything before, and the cache gave the
    /// response to the last request, this is that response, which is prepared.
    #[inline]
    pub(crate) fn write(&mut self, response: &[u8], is_first: bool, progress: &RequestProgress) {
        if let Some(hit) = progress.take_hit()
            && is_first
            && self.given == GivenBytes::Piece
            && let Some(request) = self.request(progress.counts())
        {
            self.replies.prepare(&self.piece[request], response, hit, self.source_edition);
        }
    }

    /// Where the last request begins and ends that has begun, if it is sure to be one of the piece.
    fn request(&mut self, begun: RequestCounts) -> Option<Range<usize>> {
        let PieceRequest { mut index, mut begin } = self.last;
        let last = begun.count.checked_sub(self.before.count + 1)?;
        // With a body before it, it is not sure where it begins.
        if last < index || begun.bodies_before > self.before.bodies {
            return None;
        }
        while index < last {
            begin += whole_head(&self.piece[begin..])?;
            index += 1;
        }
        self.last = PieceRequest { index, begin };
        let rest = &self.piece[begin..];
        let head = whole_head(rest)? as u64;
        let end = usize::try_from(head.checked_add(begun.length?)?).ok()?;
        (end <= rest.len()).then_some(begin..begin + end)
    }
}

/// How long the first head is. Empty lines before it, which the library skips, and lines that end
/// otherwise, after which it may find an end elsewhere, are not known here.
fn whole_head(input: &[u8]) -> Option<usize> {
    let end = head_end(input).filter(|_| input[0].is_ascii_uppercase())?;
    let mut newlines = memchr::memchr_iter(b'\n', &input[..end]);
    newlines.all(|at| at > 0 && input[at - 1] == b'\r').then_some(end)
}

/// The largest piece that is kept.
const PIECE_BYTES_MAX: usize = 16 << 10;

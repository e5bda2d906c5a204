//! Which commands of the peer run, and the answers of those that finished.
//!
//! | a command comes with | then |
//! |---|---|
//! | a new id | it runs |
//! | the id of one that finished | the stored frame is sent again |
//! | the id of one that finished, whose answer is not kept | `ABORTED`, it ran |
//! | an id at or below the mark that is not kept | `ABORTED`, outcome unknown |
//! | the id of one that runs | that is a violation: its slot is held, so it is never sent again |
//!
//! Ids are nearly dense, so the window is a ring in which each id has its place. What is older than
//! the ring is either a straggler (still running) or forgotten. Bounded by entries and by bytes; a
//! small answer lies in the ring itself, so that a small command allocates nothing.

use std::collections::HashMap;

use crate::reason::{Reason, Violation};

#[derive(Debug, Default)]
pub(crate) struct CommandWindow {
    /// Ids `base..next` are in the ring; every id below is at or below the mark.
    base: u64,
    next: u64,
    /// As many places as a power of two, of which `id` has the one that its low bits name.
    ring: Vec<Entry>,
    /// What has finished and is too large for the ring.
    large: HashMap<u64, Box<[u8]>>,
    /// Commands older than the ring that run, or finished since.
    stragglers: Vec<(u64, Entry)>,
    finished: usize,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
    ahead_max: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    state: State,
    /// Of a finished one: the frame that answered it.
    kind: u8,
    flags: u8,
    /// How much of `small` is used, or [`LARGE`].
    len: u8,
    meta_len: u16,
    small: [u8; SMALL_BYTES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Never came, or is forgotten when below the mark.
    Absent,
    Running,
    Finished,
    /// Finished, and its answer was not kept.
    Forgotten,
}

const SMALL_BYTES: usize = 48;
/// The body is in [`CommandWindow::large`].
const LARGE: u8 = u8::MAX;
const EMPTY: Entry =
    Entry { state: State::Absent, kind: 0, flags: 0, len: 0, meta_len: 0, small: [0; SMALL_BYTES] };

/// An answer as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredAnswer<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) meta_len: u16,
    /// Metadata, then payload.
    pub(crate) body: &'a [u8],
}

/// What to do with a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admit<'a> {
    Run,
    Replay(StoredAnswer<'a>),
    Ran,
    Unknown,
}

impl CommandWindow {
    pub(crate) fn new(entries_max: u32, calls_max: u32, bytes_max: usize) -> Self {
        Self {
            base: 1,
            next: 1,
            entries_max: entries_max as usize,
            bytes_max,
            ahead_max: u64::from(entries_max) + u64::from(calls_max),
            ..Self::default()
        }
    }

    /// Decides about a command.
    ///
    /// # Errors
    /// `command_id` for id 0, one too far ahead, or one that runs.
    #[inline]
    pub(crate) fn admit(&mut self, id: u64, done: u64) -> Result<Admit<'_>, Violation> {
        if id == self.next && id > done && done <= self.base && self.has_place() {
            self.push(State::Running);
            return Ok(Admit::Run);
        }
        self.admit_slowly(id, done)
    }

    #[inline(never)]
    fn admit_slowly(&mut self, id: u64, done: u64) -> Result<Admit<'_>, Violation> {
        let known = self.next.max(done) - 1;
        if id == 0 || id > known.saturating_add(self.ahead_max) {
            return Err(Violation::new(
                Reason::CommandId,
                format!("command id {id} is not in 1..={}", known + self.ahead_max),
            ));
        }
        self.forget_below(done.min(id));
        if id < self.base {
            let straggler = self.stragglers.iter().find(|(known, _)| *known == id);
            return straggler.map_or(Ok(Admit::Unknown), |(_, entry)| self.admit_again(id, entry));
        }
        while self.next < id {
            self.push_with_place(State::Absent);
        }
        if self.next == id {
            self.push_with_place(State::Running);
            return Ok(Admit::Run);
        }
        let at = self.place(id);
        if self.ring[at].state == State::Absent {
            self.ring[at].state = State::Running;
            return Ok(Admit::Run);
        }
        self.admit_again(id, &self.ring[at])
    }

    /// What is known of an id that came again.
    fn admit_again<'a>(&'a self, id: u64, entry: &'a Entry) -> Result<Admit<'a>, Violation> {
        match entry.state {
            State::Running => {
                Err(Violation::new(Reason::CommandId, "a command that runs came again"))
            }
            State::Finished => {
                let small = &entry.small[..usize::from(entry.len).min(SMALL_BYTES)];
                let body = self.large.get(&id).map_or(small, |body| body);
                let Entry { kind, flags, meta_len, .. } = *entry;
                Ok(Admit::Replay(StoredAnswer { kind, flags, meta_len, body }))
            }
            State::Forgotten => Ok(Admit::Ran),
            State::Absent => Ok(Admit::Unknown),
        }
    }

    /// Where an id of the ring is.
    #[inline]
    fn place(&self, id: u64) -> usize {
        id as usize & self.ring.len().wrapping_sub(1)
    }

    /// Whether another id fits into the ring as it is.
    #[inline]
    fn has_place(&self) -> bool {
        self.next - self.base < (self.ring.len() as u64).min(self.ahead_max)
    }

    /// Makes room for another id: a longer ring, up to its bound; then the oldest is forgotten.
    #[cold]
    fn make_place(&mut self) {
        let held = self.next - self.base;
        if held >= self.ahead_max {
            return self.drop_front();
        }
        let longer = vec![EMPTY; (self.ring.len() * 2).max(RING_MIN)];
        let shorter = std::mem::replace(&mut self.ring, longer);
        for id in self.base..self.next {
            let at = self.place(id);
            self.ring[at] = shorter[id as usize & (shorter.len() - 1)];
        }
    }

    fn push_with_place(&mut self, state: State) {
        if !self.has_place() {
            self.make_place();
        }
        self.push(state);
    }

    #[inline]
    fn push(&mut self, state: State) {
        let at = self.place(self.next);
        if let Some(entry) = self.ring.get_mut(at) {
            entry.state = state;
        }
        self.next += 1;
    }

    /// The entry of a command that runs.
    #[inline]
    fn running(&mut self, id: u64) -> Option<&mut Entry> {
        let at = self.place(id);
        let entry = if (self.base..self.next).contains(&id) {
            self.ring.get_mut(at)
        } else {
            self.straggler(id)
        };
        entry.filter(|entry| entry.state == State::Running)
    }

    #[cold]
    fn straggler(&mut self, id: u64) -> Option<&mut Entry> {
        self.stragglers.iter_mut().find(|(known, _)| *known == id).map(|(_, entry)| entry)
    }

    /// Stores how a running command ended, and forgets the oldest that are too many.
    #[inline]
    pub(crate) fn finish(&mut self, id: u64, kind: u8, flags: u8, metadata: &[u8], payload: &[u8]) {
        let size = metadata.len() + payload.len();
        let bytes_max = self.bytes_max;
        if size > bytes_max {
            return self.finish_without_answer(id);
        }
        let Some(entry) = self.running(id) else { return };
        entry.state = State::Finished;
        (entry.kind, entry.flags, entry.meta_len) = (kind, flags, metadata.len() as u16);
        if let Some(small) = entry.small.get_mut(..size) {
            let (first, second) = small.split_at_mut(metadata.len());
            first.copy_from_slice(metadata);
            second.copy_from_slice(payload);
            entry.len = size as u8;
        } else {
            entry.len = LARGE;
            self.large.insert(id, [metadata, payload].concat().into());
        }
        self.finished += 1;
        self.bytes += size;
        if self.finished > self.entries_max || self.bytes > bytes_max {
            self.drop_finished();
        }
    }

    /// Forgets the oldest until what is kept is within its bounds.
    #[inline(never)]
    fn drop_finished(&mut self) {
        while self.finished > self.entries_max || self.bytes > self.bytes_max {
            let is_finished = |(_, entry): &(u64, Entry)| entry.state == State::Finished;
            match self.stragglers.iter().position(is_finished) {
                Some(at) => self.drop_straggler(at),
                None => self.drop_front(),
            }
        }
    }

    /// A running command ended in a way that is not stored, such as a stream.
    #[cold]
    pub(crate) fn finish_without_answer(&mut self, id: u64) {
        if let Some(entry) = self.running(id) {
            entry.state = State::Forgotten;
        }
        self.stragglers.retain(|(_, entry)| entry.state != State::Forgotten);
    }

    /// A command that was just admitted is not run after all: it may come again.
    pub(crate) fn release(&mut self, id: u64) {
        if let Some(entry) = self.running(id) {
            entry.state = State::Absent;
        }
    }

    #[inline]
    fn drop_front(&mut self) {
        let id = self.base;
        let at = self.place(self.base);
        if let Some(&Entry { state, len, .. }) = self.ring.get(at) {
            match state {
                State::Running => self.stragglers.push((id, self.ring[at])),
                State::Finished => self.uncount(id, len),
                State::Absent | State::Forgotten => {}
            }
        }
        self.base += 1;
    }

    #[cold]
    fn drop_straggler(&mut self, at: usize) {
        let (id, entry) = self.stragglers.swap_remove(at);
        if entry.state == State::Finished {
            self.uncount(id, entry.len);
        }
    }

    #[inline]
    fn uncount(&mut self, id: u64, len: u8) {
        self.finished -= 1;
        self.bytes -= if len == LARGE { self.drop_large(id) } else { len.into() };
    }

    #[cold]
    fn drop_large(&mut self, id: u64) -> usize {
        self.large.remove(&id).map_or(0, |body| body.len())
    }

    /// The caller has the answers of all ids below `done`.
    fn forget_below(&mut self, done: u64) {
        while self.base < done.min(self.next) {
            self.drop_front();
        }
        if self.base == self.next {
            self.base = self.base.max(done);
            self.next = self.base;
        }
        // What finished late and is acknowledged goes too; running ones stay.
        while let Some(at) = self
            .stragglers
            .iter()
            .position(|(id, entry)| *id < done && entry.state != State::Running)
        {
            self.drop_straggler(at);
        }
    }

    /// Bytes of stored answers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The first ring.
const RING_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> CommandWindow {
        CommandWindow::new(2, 10, 100)
    }

    #[test]
    fn a_repeated_command_is_refused_while_it_runs_then_replayed_then_unknown() {
        let mut window = window();
        assert_eq!(window.admit(1, 1), Ok(Admit::Run));
        assert!(window.admit(1, 1).is_err());
        window.finish(1, 4, 1, b"m", b"answer");
        let stored = StoredAnswer { kind: 4, flags: 1, meta_len: 1, body: b"manswer" };
        assert_eq!(window.admit(1, 1), Ok(Admit::Replay(stored)));
        assert_eq!(window.admit(2, 2), Ok(Admit::Run));
        assert_eq!(window.admit(1, 2), Ok(Admit::Unknown));
        assert_eq!(window.bytes(), 0);
    }

    #[test]
    fn the_oldest_answers_are_dropped_first_and_running_ones_stay() {
        let mut window = window();
        for id in 1..=5 {
            assert_eq!(window.admit(id, 1), Ok(Admit::Run));
        }
        for id in 2..=5 {
            window.finish(id, 4, 1, b"", b"x");
        }
        assert_eq!(window.admit(2, 1), Ok(Admit::Unknown));
        assert!(matches!(window.admit(5, 1), Ok(Admit::Replay(_))));
        assert!(window.admit(1, 1).is_err(), "it still runs");
        window.finish(1, 4, 1, b"", b"late");
        assert!(matches!(window.admit(4, 1), Ok(Admit::Unknown | Admit::Replay(_))));
    }

    #[test]
    fn the_answer_of_a_command_older_than_the_ring_is_kept_until_it_is_acknowledged() {
        let mut window = CommandWindow::new(1, 10, 100);
        for id in 1..=3 {
            assert_eq!(window.admit(id, 1), Ok(Admit::Run));
        }
        window.finish(2, 4, 1, b"", b"x");
        window.finish(3, 4, 1, b"", b"x");
        window.drop_front();
        assert_eq!(window.stragglers.len(), 1, "1 runs, and is older than the ring");
        window.finish(3, 4, 1, b"", b"again");
        window.entries_max = 2;
        window.finish(1, 4, 1, b"", &[7; 60]);
        let stored = StoredAnswer { kind: 4, flags: 1, meta_len: 0, body: &[7; 60] };
        assert_eq!(window.admit(1, 1), Ok(Admit::Replay(stored)));
        assert_eq!(window.admit(4, 4), Ok(Admit::Run));
        assert_eq!((window.bytes(), window.large.len(), window.stragglers.len()), (0, 0, 0));
    }

    #[test]
    fn answers_keep_their_places_while_the_ring_grows() {
        let mut window = CommandWindow::new(1000, 10, 100_000);
        for id in 1..=500_u64 {
            assert_eq!(window.admit(id, 1), Ok(Admit::Run));
            window.finish(id, 4, 1, b"", &id.to_le_bytes().repeat(if id % 7 == 0 { 8 } else { 1 }));
        }
        for id in 1..=500_u64 {
            let Ok(Admit::Replay(stored)) = window.admit(id, 1) else { panic!("{id} is kept") };
            assert_eq!(stored.body[..8], id.to_le_bytes());
        }
        assert_eq!(window.admit(501, 501), Ok(Admit::Run));
        assert_eq!((window.bytes(), window.large.len()), (0, 0));
    }

    #[test]
    fn bytes_are_bounded_and_a_large_answer_is_not_kept() {
        let mut window = window();
        assert_eq!(window.admit(1, 1), Ok(Admit::Run));
        window.finish(1, 4, 1, b"", &[0; 101]);
        assert_eq!(window.admit(1, 1), Ok(Admit::Ran));
        assert_eq!(window.bytes(), 0);
    }

    #[test]
    fn an_id_of_zero_or_far_ahead_is_a_violation() {
        let mut window = window();
        assert!(window.admit(0, 1).is_err());
        assert!(window.admit(13, 1).is_err());
        assert_eq!(window.admit(12, 1), Ok(Admit::Run));
        assert_eq!(window.admit(3, 1), Ok(Admit::Run), "a gap may be filled later");
    }

    #[test]
    fn ids_that_never_came_and_are_done_do_not_count_as_ahead() {
        let mut window = window();
        for id in (1..100).step_by(12) {
            assert_eq!(window.admit(id, id), Ok(Admit::Run), "all below {id} expired on the way");
            window.finish(id, 4, 1, b"", b"");
        }
        assert!(window.admit(200, 150).is_err());
    }

    #[test]
    fn the_ring_is_bounded_while_an_old_command_runs() {
        let mut window = window();
        for id in 1..1000 {
            assert_eq!(window.admit(id, 1), Ok(Admit::Run));
            if id > 1 {
                window.finish_without_answer(id);
            }
        }
        assert!(window.ring.len() <= 16 && window.stragglers.len() == 1);
        assert!(window.admit(1, 1).is_err(), "it still runs");
    }
}

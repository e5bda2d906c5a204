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
//! Ids are nearly dense, so the window is a ring indexed by id. What is older than the ring is
//! either a straggler (still running) or forgotten. Bounded by entries and by bytes; buffers of
//! forgotten answers are used again, so that a small command allocates nothing.

use std::collections::VecDeque;

use crate::reason::{Reason, Violation};

#[derive(Debug, Default)]
pub(crate) struct CommandWindow {
    /// The id of the first entry of the ring; every id below is at or below the mark.
    base: u64,
    ring: VecDeque<Entry>,
    stragglers: Vec<(u64, Entry)>,
    pool: Vec<Vec<u8>>,
    finished: usize,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
    ahead_max: u64,
}

#[derive(Debug)]
enum Entry {
    /// Never came, or is forgotten when below the mark.
    Absent,
    Running,
    /// The frame that answered it: kind, flags, then metadata and payload.
    Finished(Stored),
    /// Finished, and its answer was not kept.
    Forgotten,
}

/// An answer as it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) meta_len: u16,
    pub(crate) body: Vec<u8>,
}

/// What to do with a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admit<'a> {
    Run,
    Replay(&'a Stored),
    Ran,
    Unknown,
}

impl CommandWindow {
    pub(crate) fn new(entries_max: u32, calls_max: u32, bytes_max: usize) -> Self {
        Self {
            base: 1,
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
        let next = self.base + self.ring.len() as u64;
        if id == next && id > done && done <= self.base && self.stragglers.is_empty() {
            self.push(Entry::Running);
            return Ok(Admit::Run);
        }
        self.admit_slowly(id, done)
    }

    fn admit_slowly(&mut self, id: u64, done: u64) -> Result<Admit<'_>, Violation> {
        let next = self.base + self.ring.len() as u64;
        let known = next.max(done) - 1;
        if id == 0 || id > known.saturating_add(self.ahead_max) {
            return Err(Violation::new(
                Reason::CommandId,
                format!("command id {id} is not in 1..={}", known + self.ahead_max),
            ));
        }
        self.forget_below(done.min(id));
        if id < self.base {
            let straggler = self.stragglers.iter().find(|(known, _)| *known == id);
            return straggler.map_or(Ok(Admit::Unknown), |(_, entry)| found(entry));
        }
        while self.base + (self.ring.len() as u64) < id {
            self.push(Entry::Absent);
        }
        let index = (id - self.base) as usize;
        if index == self.ring.len() {
            self.push(Entry::Running);
            return Ok(Admit::Run);
        }
        if let absent @ Entry::Absent = &mut self.ring[index] {
            *absent = Entry::Running;
            return Ok(Admit::Run);
        }
        found(&self.ring[index])
    }

    /// Makes the ring longer; what does not fit is forgotten, the oldest first.
    #[inline]
    fn push(&mut self, entry: Entry) {
        if self.ring.len() as u64 >= self.ahead_max {
            self.drop_front();
        }
        self.ring.push_back(entry);
    }

    fn entry_mut(&mut self, id: u64) -> Option<&mut Entry> {
        match id.checked_sub(self.base) {
            Some(index) => self.ring.get_mut(index as usize),
            None => {
                self.stragglers.iter_mut().find(|(known, _)| *known == id).map(|(_, entry)| entry)
            }
        }
    }

    /// Stores how a running command ended, and forgets the oldest that are too many.
    pub(crate) fn finish(&mut self, id: u64, kind: u8, flags: u8, metadata: &[u8], payload: &[u8]) {
        let mut body = self.pool.pop().unwrap_or_default();
        let size = metadata.len() + payload.len();
        let bytes_max = self.bytes_max;
        let Some(entry @ Entry::Running) = self.entry_mut(id) else { return };
        if size > bytes_max {
            return self.finish_without_answer(id);
        }
        body.extend_from_slice(metadata);
        body.extend_from_slice(payload);
        let meta_len = metadata.len() as u16;
        *entry = Entry::Finished(Stored { kind, flags, meta_len, body });
        self.finished += 1;
        self.bytes += size;
        while self.finished > self.entries_max || self.bytes > self.bytes_max {
            self.drop_oldest();
        }
    }

    /// A running command ended in a way that is not stored, such as a stream.
    pub(crate) fn finish_without_answer(&mut self, id: u64) {
        if let Some(entry @ Entry::Running) = self.entry_mut(id) {
            *entry = Entry::Forgotten;
        }
        self.stragglers.retain(|(_, entry)| !matches!(entry, Entry::Forgotten));
    }

    /// A command that was just admitted is not run after all: it may come again.
    pub(crate) fn release(&mut self, id: u64) {
        if let Some(entry @ Entry::Running) = self.entry_mut(id) {
            *entry = Entry::Absent;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(at) =
            self.stragglers.iter().position(|(_, entry)| matches!(entry, Entry::Finished(_)))
        {
            let (_, entry) = self.stragglers.swap_remove(at);
            self.recycle(entry);
            return;
        }
        self.drop_front();
    }

    fn drop_front(&mut self) {
        let Some(entry) = self.ring.pop_front() else { return };
        if matches!(entry, Entry::Running) {
            self.stragglers.push((self.base, entry));
        } else {
            self.recycle(entry);
        }
        self.base += 1;
    }

    fn recycle(&mut self, entry: Entry) {
        const POOLED_MAX: usize = 1024;
        const POOLED_BYTES_MAX: usize = 1024;
        let Entry::Finished(stored) = entry else { return };
        self.finished -= 1;
        self.bytes -= stored.body.len();
        if self.pool.len() < POOLED_MAX && stored.body.capacity() <= POOLED_BYTES_MAX {
            let mut body = stored.body;
            body.clear();
            self.pool.push(body);
        }
    }

    /// The caller has the answers of all ids below `done`.
    fn forget_below(&mut self, done: u64) {
        while self.base < done && !self.ring.is_empty() {
            self.drop_front();
        }
        if self.ring.is_empty() {
            self.base = self.base.max(done);
        }
        // What finished late and is acknowledged goes too; running ones stay.
        let mut index = 0;
        while index < self.stragglers.len() {
            let (id, entry) = &self.stragglers[index];
            if *id < done && !matches!(entry, Entry::Running) {
                let (_, entry) = self.stragglers.swap_remove(index);
                self.recycle(entry);
            } else {
                index += 1;
            }
        }
    }

    /// Bytes of stored answers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn found(entry: &Entry) -> Result<Admit<'_>, Violation> {
    match entry {
        Entry::Running => Err(Violation::new(Reason::CommandId, "a command that runs came again")),
        Entry::Finished(stored) => Ok(Admit::Replay(stored)),
        Entry::Forgotten => Ok(Admit::Ran),
        Entry::Absent => Ok(Admit::Unknown),
    }
}

/// Ids of this side's own commands, and which of them are answered.
#[derive(Debug)]
pub(crate) struct CommandIds {
    /// The lowest id that is not answered.
    done: u64,
    answered: VecDeque<bool>,
    /// The highest that the callee answered: it has surely seen that one.
    seen: u64,
}

impl Default for CommandIds {
    fn default() -> Self {
        Self { done: 1, answered: VecDeque::new(), seen: 0 }
    }
}

impl CommandIds {
    pub(crate) fn next(&mut self) -> u64 {
        self.answered.push_back(false);
        self.done + self.answered.len() as u64 - 1
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Whether the callee takes the next id, which may be so far ahead of what it knows.
    pub(crate) fn has_room(&self, ahead_max: u64) -> bool {
        const ANSWERED_MAX: usize = 1 << 20;
        self.answered.len() as u64 + self.done <= self.seen.max(self.done - 1) + ahead_max
            && self.answered.len() < ANSWERED_MAX
    }

    /// The callee answered: it knows the id.
    #[inline]
    pub(crate) fn heard(&mut self, id: u64) {
        self.seen = self.seen.max(id);
    }

    pub(crate) fn answered(&mut self, id: u64) {
        if let Some(answered) =
            id.checked_sub(self.done).and_then(|index| self.answered.get_mut(index as usize))
        {
            *answered = true;
        }
        while self.answered.front() == Some(&true) {
            self.answered.pop_front();
            self.done += 1;
        }
    }
}

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
        let stored = Stored { kind: 4, flags: 1, meta_len: 1, body: b"manswer".to_vec() };
        assert_eq!(window.admit(1, 1), Ok(Admit::Replay(&stored)));
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
        assert!(window.ring.len() <= 12 && window.stragglers.len() == 1);
        assert!(window.admit(1, 1).is_err(), "it still runs");
    }

    #[test]
    fn done_is_the_lowest_id_without_an_answer() {
        let mut ids = CommandIds::default();
        assert_eq!([ids.next(), ids.next(), ids.next()], [1, 2, 3]);
        ids.answered(2);
        assert_eq!(ids.done(), 1);
        ids.answered(1);
        assert_eq!(ids.done(), 3);
    }
}

//! Which commands of the peer run, and the answers of those that finished.
//!
//! | a command comes with | then |
//! |---|---|
//! | a new id | it runs |
//! | the id of one that runs | the call joins it: the answer goes to the new stream |
//! | the id of one that finished | the stored frame is sent again |
//! | an id at or below the mark that is not kept | `ABORTED`, outcome unknown |
//!
//! Ids are nearly dense, so the window is a ring indexed by id. What is older than the ring is
//! either a straggler (still running) or forgotten. Bounded by entries and by bytes; buffers of
//! forgotten answers are used again, so that a small command allocates nothing.

use std::collections::VecDeque;

use crate::reason::{Reason, Violation};
use crate::slots::CallId;

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
    /// Runs for this call.
    Running(CallId),
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
    Join(CallId),
    Replay(&'a Stored),
    OutcomeUnknown,
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

    /// Decides about a command that `call` brings.
    ///
    /// # Errors
    /// `command_id` for id 0 or one too far ahead.
    pub(crate) fn admit(
        &mut self,
        id: u64,
        done: u64,
        call: CallId,
    ) -> Result<Admit<'_>, Violation> {
        let highest = self.base + self.ring.len() as u64 - 1;
        if id == 0 || id > highest.saturating_add(self.ahead_max) {
            return Err(Violation::new(
                Reason::CommandId,
                format!("command id {id} is not in 1..={}", highest + self.ahead_max),
            ));
        }
        self.forget_below(done.min(highest + 1));
        if id < self.base {
            let straggler = self.stragglers.iter_mut().find(|(known, _)| *known == id);
            return Ok(match straggler {
                Some((_, entry)) => known(entry, call),
                None => Admit::OutcomeUnknown,
            });
        }
        let index = (id - self.base) as usize;
        while self.ring.len() <= index {
            self.ring.push_back(Entry::Absent);
        }
        let entry = &mut self.ring[index];
        if matches!(entry, Entry::Absent) {
            *entry = Entry::Running(call);
            return Ok(Admit::Run);
        }
        Ok(known(entry, call))
    }

    /// The call that waits for a running command.
    pub(crate) fn waiting(&self, id: u64) -> Option<CallId> {
        match self.entry(id)? {
            Entry::Running(call) => Some(*call),
            _ => None,
        }
    }

    fn entry(&self, id: u64) -> Option<&Entry> {
        match id.checked_sub(self.base) {
            Some(index) => self.ring.get(index as usize),
            None => self.stragglers.iter().find(|(known, _)| *known == id).map(|(_, entry)| entry),
        }
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
        let Some(entry @ Entry::Running(_)) = self.entry_mut(id) else { return };
        if size > bytes_max {
            *entry = Entry::Forgotten;
            return;
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
        if let Some(entry @ Entry::Running(_)) = self.entry_mut(id) {
            *entry = Entry::Forgotten;
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
        if matches!(entry, Entry::Running(_)) {
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
        // What finished late and is acknowledged goes too; running ones stay.
        let mut index = 0;
        while index < self.stragglers.len() {
            let (id, entry) = &self.stragglers[index];
            if *id < done && !matches!(entry, Entry::Running(_)) {
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

fn known(entry: &mut Entry, call: CallId) -> Admit<'_> {
    match entry {
        Entry::Running(waiting) => Admit::Join(std::mem::replace(waiting, call)),
        Entry::Finished(stored) => Admit::Replay(stored),
        Entry::Absent | Entry::Forgotten => Admit::OutcomeUnknown,
    }
}

/// Ids of this side's own commands, and which of them are answered.
#[derive(Debug)]
pub(crate) struct CommandIds {
    /// The lowest id that is not answered.
    done: u64,
    answered: VecDeque<bool>,
}

impl Default for CommandIds {
    fn default() -> Self {
        Self { done: 1, answered: VecDeque::new() }
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

    fn call(stream: u32) -> CallId {
        CallId { stream, generation: 0 }
    }

    fn window() -> CommandWindow {
        CommandWindow::new(2, 10, 100)
    }

    #[test]
    fn a_repeated_command_joins_then_replays_then_is_unknown() {
        let mut window = window();
        assert_eq!(window.admit(1, 1, call(1)), Ok(Admit::Run));
        assert_eq!(window.admit(1, 1, call(3)), Ok(Admit::Join(call(1))));
        assert_eq!(window.waiting(1), Some(call(3)));
        window.finish(1, 4, 1, b"m", b"answer");
        let stored = Stored { kind: 4, flags: 1, meta_len: 1, body: b"manswer".to_vec() };
        assert_eq!(window.admit(1, 1, call(5)), Ok(Admit::Replay(&stored)));
        assert_eq!(window.admit(2, 2, call(5)), Ok(Admit::Run));
        assert_eq!(window.admit(1, 2, call(7)), Ok(Admit::OutcomeUnknown));
        assert_eq!(window.bytes(), 0);
    }

    #[test]
    fn the_oldest_answers_are_dropped_first_and_running_ones_stay() {
        let mut window = window();
        for id in 1..=5 {
            assert_eq!(window.admit(id, 1, call(id as u32)), Ok(Admit::Run));
        }
        for id in 2..=5 {
            window.finish(id, 4, 1, b"", b"x");
        }
        assert_eq!(window.admit(2, 1, call(9)), Ok(Admit::OutcomeUnknown));
        assert!(matches!(window.admit(5, 1, call(9)), Ok(Admit::Replay(_))));
        assert_eq!(window.waiting(1), Some(call(1)), "it still runs");
        window.finish(1, 4, 1, b"", b"late");
        assert!(matches!(window.admit(4, 1, call(9)), Ok(Admit::Replay(_))));
    }

    #[test]
    fn bytes_are_bounded_and_a_large_answer_is_not_kept() {
        let mut window = window();
        assert_eq!(window.admit(1, 1, call(1)), Ok(Admit::Run));
        window.finish(1, 4, 1, b"", &[0; 101]);
        assert_eq!(window.admit(1, 1, call(1)), Ok(Admit::OutcomeUnknown));
        assert_eq!(window.bytes(), 0);
    }

    #[test]
    fn an_id_of_zero_or_far_ahead_is_a_violation() {
        let mut window = window();
        assert!(window.admit(0, 0, call(1)).is_err());
        assert!(window.admit(13, 0, call(1)).is_err());
        assert_eq!(window.admit(12, u64::MAX, call(1)), Ok(Admit::Run));
        assert_eq!(window.admit(3, 0, call(1)), Ok(Admit::Run), "a gap may be filled later");
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

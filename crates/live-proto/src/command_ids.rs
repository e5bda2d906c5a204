//! Ids of this side's own commands: below which all of them are answered, and when they were sent.

use std::collections::VecDeque;

use crate::config::Micros;

#[derive(Debug)]
pub(crate) struct CommandIds {
    /// The lowest id that is not answered.
    done: u64,
    next: u64,
    /// Which ids from `done` on are answered, up to the last that is; answers mostly come in order.
    early: VecDeque<bool>,
    /// The highest that the callee answered: it has surely seen that one.
    seen: u64,
    /// Now and then, from which id on commands were sent at this time or later.
    times: VecDeque<(u64, Micros)>,
    /// When the next such mark is due.
    next_time: Micros,
}

/// As long as marks are kept, so many are made.
const TIMES_MAX: u64 = 32;

impl Default for CommandIds {
    fn default() -> Self {
        Self {
            done: 1,
            next: 1,
            early: VecDeque::new(),
            seen: 0,
            times: VecDeque::new(),
            next_time: 0,
        }
    }
}

impl CommandIds {
    /// The id of a command that is sent now, to a peer that keeps its key for so long.
    #[inline]
    pub(crate) fn next(&mut self, now: Micros, keys_ms: u64) -> u64 {
        if now >= self.next_time {
            self.mark_time(now, keys_ms);
        }
        self.next += 1;
        self.next - 1
    }

    #[cold]
    fn mark_time(&mut self, now: Micros, keys_ms: u64) {
        if self.times.len() as u64 >= TIMES_MAX {
            self.times.pop_front();
        }
        self.times.push_back((self.next, now));
        self.next_time = now.saturating_add(keys_ms.saturating_mul(1000) / TIMES_MAX).max(now + 1);
    }

    /// A time at or before that at which a command was sent; 0 when it was long ago.
    pub(crate) fn sent_after(&self, id: u64) -> Micros {
        let known = self.times.iter().rev().find(|(from, _)| *from <= id);
        known.map_or(0, |(_, time)| *time)
    }

    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Whether the callee takes the next id, which may be so far ahead of what it knows.
    #[inline]
    pub(crate) fn has_room(&self, ahead_max: u64) -> bool {
        /// So many answers at most are waited for by one that does not come.
        const OPEN_MAX: u64 = 1 << 20;
        self.next <= self.seen.max(self.done - 1) + ahead_max && self.next - self.done < OPEN_MAX
    }

    /// The callee answered: it knows the id.
    #[inline]
    pub(crate) fn acknowledge(&mut self, id: u64) {
        self.seen = self.seen.max(id);
    }

    /// The call with this id is over.
    #[inline]
    pub(crate) fn note_answer(&mut self, id: u64) {
        if id == self.done && self.early.is_empty() {
            self.done += 1;
        } else {
            self.answered_early(id);
        }
    }

    #[inline(never)]
    fn answered_early(&mut self, id: u64) {
        let Some(index) = id.checked_sub(self.done).map(|index| index as usize) else { return };
        if self.early.len() <= index {
            self.early.resize(index + 1, false);
        }
        self.early[index] = true;
        while self.early.front() == Some(&true) {
            self.early.pop_front();
            self.done += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_is_the_lowest_id_without_an_answer() {
        let mut ids = CommandIds::default();
        assert_eq!([(); 4].map(|()| ids.next(0, 1000)), [1, 2, 3, 4]);
        for (id, done) in [(2, 1), (1, 3), (4, 3), (1, 3), (3, 5)] {
            ids.note_answer(id);
            assert_eq!(ids.done(), done, "after {id}");
        }
        assert_eq!(ids.next(0, 1000), 5);
        ids.note_answer(5);
        assert_eq!((ids.done(), ids.early.len()), (6, 0));
    }

    #[test]
    fn when_a_command_was_sent_is_known_closely_for_as_long_as_its_key_is_kept() {
        let mut ids = CommandIds::default();
        let sent: Vec<_> = (0..400).map(|step| (step * 700, ids.next(step * 700, 100))).collect();
        for (at, id) in sent {
            let known = ids.sent_after(id);
            let is_young = at + 100_000 >= 399 * 700;
            assert!(known <= at, "{id}");
            assert!(known + 5_000 >= at || !is_young, "{id} at {at}, known as {known}");
        }
        assert!(ids.times.len() <= 32);
    }

    #[test]
    fn a_caller_that_is_too_far_ahead_of_what_was_answered_waits() {
        let mut ids = CommandIds::default();
        for _ in 0..3 {
            assert!(ids.has_room(3));
            ids.next(0, 1000);
        }
        assert!(!ids.has_room(3));
        ids.acknowledge(2);
        assert!(ids.has_room(3), "the callee knows 2");
    }
}

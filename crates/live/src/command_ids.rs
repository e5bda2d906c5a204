//! Ids of this side's own commands, and below which all of them are answered.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct CommandIds {
    /// The lowest id that is not answered.
    done: u64,
    next: u64,
    /// Which ids from `done` on are answered, up to the last that is; answers mostly come in order.
    early: VecDeque<bool>,
    /// The highest that the callee answered: it has surely seen that one.
    seen: u64,
}

impl Default for CommandIds {
    fn default() -> Self {
        Self { done: 1, next: 1, early: VecDeque::new(), seen: 0 }
    }
}

impl CommandIds {
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
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
    pub(crate) fn heard(&mut self, id: u64) {
        self.seen = self.seen.max(id);
    }

    /// The call with this id is over.
    #[inline]
    pub(crate) fn answered(&mut self, id: u64) {
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
        assert_eq!([ids.next(), ids.next(), ids.next(), ids.next()], [1, 2, 3, 4]);
        for (id, done) in [(2, 1), (1, 3), (4, 3), (1, 3), (3, 5)] {
            ids.answered(id);
            assert_eq!(ids.done(), done, "after {id}");
        }
        assert_eq!(ids.next(), 5);
        ids.answered(5);
        assert_eq!((ids.done(), ids.early.len()), (6, 0));
    }

    #[test]
    fn a_caller_that_is_too_far_ahead_of_what_was_answered_waits() {
        let mut ids = CommandIds::default();
        for _ in 0..3 {
            assert!(ids.has_room(3));
            ids.next();
        }
        assert!(!ids.has_room(3));
        ids.heard(2);
        assert!(ids.has_room(3), "the callee knows 2");
    }
}

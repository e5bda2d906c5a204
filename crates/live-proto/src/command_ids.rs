//! Ids of this side's own commands: below which all of them are answered, and when they were sent.

use std::collections::VecDeque;
use std::ops::Range;

use crate::config::Micros;

#[derive(Debug)]
pub(crate) struct CommandIds {
    /// The lowest id that is not answered.
    done: u64,
    next: u64,
    /// Those above `done` that are answered, as ranges in their order. Between two of them are
    /// calls that are open, so there are no more ranges than those; answers mostly come in order.
    early: Vec<Range<u64>>,
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
        Self { done: 1, next: 1, early: Vec::new(), seen: 0, times: VecDeque::new(), next_time: 0 }
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
        self.next <= self.seen.max(self.done - 1) + ahead_max
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
        let after = self.early.partition_point(|range| range.start <= id);
        let before = after.checked_sub(1);
        if id < self.done || before.is_some_and(|it| self.early[it].contains(&id)) {
            return;
        }
        let before = before.filter(|it| self.early[*it].end == id);
        let joins_next = self.early.get(after).is_some_and(|next| next.start == id + 1);
        match before {
            Some(before) if joins_next => self.early[before].end = self.early.remove(after).end,
            Some(before) => self.early[before].end += 1,
            None if joins_next => self.early[after].start = id,
            None => self.early.insert(after, id..id + 1),
        }
        if self.early.first().is_some_and(|first| first.start == self.done) {
            self.done = self.early.remove(0).end;
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

    #[test]
    fn one_open_command_holds_no_other_up() {
        let mut ids = CommandIds::default();
        assert_eq!(ids.next(0, 1000), 1);
        for id in 2..2_000_000 {
            assert!(ids.has_room(16), "{id}");
            assert_eq!(ids.next(0, 1000), id);
            ids.acknowledge(id);
            ids.note_answer(id);
        }
        assert_eq!((ids.done(), ids.early.len()), (1, 1));
        ids.note_answer(1);
        assert_eq!((ids.done(), ids.early.len()), (2_000_000, 0));
    }

    #[test]
    fn answers_in_any_order_end_at_the_same_id() {
        let mut order: Vec<u64> = (1..=200).collect();
        let mut random = 1_u64;
        for round in 0..200 {
            for place in (1..order.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                order.swap(place, (random >> 33) as usize % (place + 1));
            }
            let mut ids = CommandIds::default();
            let mut answered = vec![false; 202];
            order.iter().for_each(|_| _ = ids.next(0, 1000));
            for id in &order {
                ids.note_answer(*id);
                ids.note_answer(*id);
                answered[*id as usize] = true;
                let lowest = (1..).find(|id| !answered[*id as usize]).unwrap();
                assert_eq!(ids.done(), lowest, "round {round}, {id}");
            }
            assert!(ids.early.is_empty());
        }
    }
}

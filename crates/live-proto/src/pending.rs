//! Calls that wait to be sent: made before the connection was there, or to be made again.
//!
//! After a session was lost, its queries and watches are asked for again, each after a random delay
//! and at a bounded rate, so that the clients of a restarted server do not come as one herd.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::Micros;

#[derive(Debug)]
pub(crate) struct PendingCalls {
    now: VecDeque<(u32, u32)>,
    later: BinaryHeap<Reverse<(Micros, u32, u32)>>,
    random: u64,
    per_second: u64,
}

const JITTER: Micros = 500_000;

impl PendingCalls {
    pub(crate) fn new(seed: u64, per_second: u32) -> Self {
        Self {
            now: VecDeque::new(),
            later: BinaryHeap::new(),
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            per_second: u64::from(per_second.max(1)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.now.is_empty() && self.later.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.now.len() + self.later.len()
    }

    /// Sends this slot as soon as there is room.
    pub(crate) fn soon(&mut self, index: u32, generation: u32) {
        self.now.push_back((index, generation));
    }

    /// Sends these slots at random moments, at the bounded rate.
    pub(crate) fn spread(&mut self, now: Micros, slots: &[(u32, u32)]) {
        let span = (slots.len() as u64 * 1_000_000 / self.per_second).max(JITTER);
        for &(index, generation) in slots {
            let due = now.saturating_add(self.next_random() % span);
            self.later.push(Reverse((due, index, generation)));
        }
    }

    /// When the next of the spread ones is due; at once if some wait for room only.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        self.later.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next slot and generation to send.
    pub(crate) fn take(&mut self, now: Micros) -> Option<(u32, u32)> {
        if let Some(slot) = self.now.pop_front() {
            return Some(slot);
        }
        let Reverse((due, ..)) = self.later.peek()?;
        if *due > now {
            return None;
        }
        let Reverse((_, index, generation)) = self.later.pop()?;
        Some((index, generation))
    }

    /// xorshift64*: enough to spread moments, not for secrets.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.max(1);
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_watches_are_spread_over_time_and_in_no_order() {
        let mut again = PendingCalls::new(7, 1000);
        let slots: Vec<_> = (0..2000).map(|index| (index, 0)).collect();
        again.spread(0, &slots);
        let mut order = Vec::new();
        for second in 1..=2 {
            let before = order.len();
            while let Some((index, _)) = again.take(second * 1_000_000) {
                order.push(index);
            }
            assert!((800..1200).contains(&(order.len() - before)), "half of them each second");
        }
        assert!(again.is_empty());
        assert!(order.windows(2).any(|pair| pair[0] > pair[1]));
    }
}

//! Calls that wait to be sent: made before the connection was there, or to be made again.
//!
//! After a session was lost, its queries and watches are asked for again, each after a random delay
//! and at a bounded rate, so that the clients of a restarted server do not come as one herd.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::Micros;

#[derive(Debug)]
pub(crate) struct PendingCalls {
    now: VecDeque<PendingCall>,
    later: BinaryHeap<Reverse<DelayedCall>>,
    random: u64,
    per_second: u64,
}

/// The slot of a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PendingCall {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The earliest due is the least.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DelayedCall {
    due: Micros,
    call: PendingCall,
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
    pub(crate) fn soon(&mut self, call: PendingCall) {
        self.now.push_back(call);
    }

    /// Sends these slots at random moments, at the bounded rate.
    pub(crate) fn spread(&mut self, now: Micros, slots: &[PendingCall]) {
        let span = (slots.len() as u64 * 1_000_000 / self.per_second).max(JITTER);
        for &call in slots {
            let due = now.saturating_add(self.next_random() % span);
            self.later.push(Reverse(DelayedCall { due, call }));
        }
    }

    /// When the next of the spread ones is due; at once if some wait for room only.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        self.later.peek().map(|Reverse(call)| call.due)
    }

    /// The next to send.
    pub(crate) fn take(&mut self, now: Micros) -> Option<PendingCall> {
        if let Some(call) = self.now.pop_front() {
            return Some(call);
        }
        if self.later.peek()?.0.due > now {
            return None;
        }
        self.later.pop().map(|Reverse(delayed)| delayed.call)
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
        let slots: Vec<_> = (0..2000).map(|index| PendingCall { index, generation: 0 }).collect();
        again.spread(0, &slots);
        let mut order = Vec::new();
        for second in 1..=2 {
            let before = order.len();
            while let Some(PendingCall { index, .. }) = again.take(second * 1_000_000) {
                order.push(index);
            }
            assert!((800..1200).contains(&(order.len() - before)), "half of them each second");
        }
        assert!(again.is_empty());
        assert!(order.windows(2).any(|pair| pair[0] > pair[1]));
    }
}

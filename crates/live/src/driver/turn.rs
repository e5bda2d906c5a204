//! Which calls of a connection begin in place, and how many before what they answered is written.
//!
//! | a call | begins |
//! |---|---|
//! | while there is time in the turn | in place |
//! | of a method that took long in place | in a task: 64 times, then it is tried again; twice as often each time that it is slow still |
//! | of the first 64 of a turn for which there is no time | in a task |
//! | another | in the next turn |
//!
//! A machine that is busy makes any method look slow now and then, so that none is slow for ever.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

/// Calls that begin between two writes. One look at the time is the end of a call and the beginning
/// of the next.
pub(crate) struct Turn {
    calls: usize,
    began: Instant,
    now: Instant,
}

impl Turn {
    pub(crate) fn begin() -> Self {
        let began = Instant::now();
        Self { calls: 0, began, now: began }
    }

    /// Counts a call: whether there is time for it in place.
    pub(crate) fn call(&mut self) -> bool {
        self.calls += 1;
        !self.is_late()
    }

    fn is_late(&self) -> bool {
        self.now.duration_since(self.began) >= TIME_MAX
    }

    /// Whether there is another call in it: those that are quick go together, as long as there is
    /// time.
    pub(crate) fn takes_more(&self) -> bool {
        self.calls < if self.is_late() { CALLS_AT_LEAST } else { CALLS_MAX }
    }

    /// Looks at the time: what the last call took.
    pub(crate) fn look(&mut self) -> Duration {
        let began = std::mem::replace(&mut self.now, Instant::now());
        self.now.duration_since(began)
    }
}

/// Methods, by number, whose handlers took long in place.
#[derive(Default)]
pub(crate) struct SlowMethods(HashMap<u32, SlowMethod, RandomState>);

struct SlowMethod {
    /// How many more calls begin in a task.
    left: u32,
    /// How many did the last time.
    spell: u32,
}

impl SlowMethods {
    /// Counts a call of a method: whether it begins in a task.
    pub(crate) fn has(&mut self, number: Option<u32>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let slow = number.and_then(|number| self.0.get_mut(&number)).filter(|slow| slow.left > 0);
        slow.map(|slow| slow.left -= 1).is_some()
    }

    /// A call of a method took so long in place.
    pub(crate) fn took(&mut self, number: Option<u32>, time: Duration) {
        let is_slow = time > TIME_MAX;
        if !is_slow && self.0.is_empty() {
            return;
        }
        let (Some(number), has_room) = (number, self.0.len() < SLOW_MAX) else { return };
        match self.0.get_mut(&number) {
            Some(slow) if is_slow => {
                slow.spell = (slow.spell * 2).min(SPELL_MAX);
                slow.left = slow.spell;
            }
            Some(slow) if slow.spell > SPELL_MIN => slow.spell /= 2,
            Some(_) => drop(self.0.remove(&number)),
            None if is_slow && has_room => {
                self.0.insert(number, SlowMethod { left: SPELL_MIN, spell: SPELL_MIN });
            }
            None => {}
        }
    }
}

/// How many calls begin between two writes: when there is no time for more, and at most.
const CALLS_AT_LEAST: usize = 64;
const CALLS_MAX: usize = 256;
/// For how long calls are polled in place between two writes.
const TIME_MAX: Duration = Duration::from_micros(200);
/// How many calls of a slow method begin in a task before one is tried in place.
const SPELL_MIN: u32 = 64;
const SPELL_MAX: u32 = 1 << 16;
/// How many methods are remembered as slow: a peer numbers them.
const SLOW_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(2);
    const LONG: Duration = Duration::from_millis(5);

    /// How many calls begin in a task before the next in place.
    fn spell(methods: &mut SlowMethods, number: u32) -> u32 {
        (0..).find(|_| !methods.has(Some(number))).expect("one begins in place")
    }

    #[test]
    fn a_method_that_was_slow_once_begins_in_place_again() {
        let mut methods = SlowMethods::default();
        methods.took(Some(7), QUICK);
        assert_eq!(spell(&mut methods, 7), 0);
        methods.took(Some(7), LONG);
        assert_eq!((spell(&mut methods, 8), spell(&mut methods, 7)), (0, SPELL_MIN));
        methods.took(Some(7), QUICK);
        assert!(methods.0.is_empty());
    }

    #[test]
    fn a_method_that_stays_slow_is_tried_ever_more_seldom_and_becomes_quick_by_degrees() {
        let mut methods = SlowMethods::default();
        let spells = (0..20).map(|_| {
            methods.took(Some(7), LONG);
            spell(&mut methods, 7)
        });
        let spells: Vec<_> = spells.collect();
        assert_eq!((&spells[..3], spells[19]), (&[64, 128, 256][..], SPELL_MAX));
        (0..11).for_each(|_| methods.took(Some(7), QUICK));
        assert!(methods.0.is_empty());
        // One without a number cannot be known again.
        methods.took(None, LONG);
        assert!(!methods.has(None));
    }

    #[test]
    fn there_is_a_bound_on_methods_that_are_remembered() {
        let mut methods = SlowMethods::default();
        (0..5000).for_each(|number| methods.took(Some(number), LONG));
        assert_eq!(methods.0.len(), SLOW_MAX);
    }
}

//! A set of small numbers: which of a hundred thousand subscriptions were notified.
//!
//! A bit for each number up to the largest. What is in the set is found from the lowest on, so that taking it
//! costs what is in it, and at most a look at each word above that.

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    words: Vec<u64>,
    /// All words before this one are 0.
    from: usize,
    count: usize,
}

impl Numbers {
    /// Numbers up to this one need no memory from now on.
    pub(crate) fn make_room(&mut self, number: u32) {
        let words = number as usize / WORD + 1;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Adds a number that there is room for.
    pub(crate) fn insert(&mut self, number: u32) {
        let (at, bit) = place(number);
        let word = &mut self.words[at];
        self.count += usize::from(*word & bit == 0);
        *word |= bit;
        self.from = self.from.min(at);
    }

    /// Takes all out, in ascending order.
    pub(crate) fn take(&mut self, numbers: &mut Vec<u32>) {
        numbers.reserve(self.count);
        while self.count > 0 {
            let mut word = std::mem::take(&mut self.words[self.from]);
            while word != 0 {
                numbers.push((self.from * WORD) as u32 + word.trailing_zeros());
                word &= word - 1;
                self.count -= 1;
            }
            self.from += 1;
        }
        self.from = self.words.len();
    }

    /// Takes all out; whether there was any.
    pub(crate) fn clear(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        self.words[self.from..].fill(0);
        (self.count, self.from) = (0, self.words.len());
        true
    }
}

fn place(number: u32) -> (usize, u64) {
    (number as usize / WORD, 1 << (number as usize % WORD))
}

const WORD: usize = u64::BITS as usize;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Numbers that look random, the same in each run.
    fn random(seed: u64) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % below
        }
    }

    #[test]
    fn it_has_what_a_tree_of_numbers_has_whatever_is_done_in_whatever_order() {
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        for seed in 0..rounds {
            let mut random = random(seed);
            let (mut numbers, mut expected) = (Numbers::default(), BTreeSet::new());
            let below = [1, 64, 65, 1_000][random(4) as usize];
            for _ in 0..100 {
                let number = random(below);
                match random(6) {
                    0..=3 => {
                        numbers.make_room(number);
                        numbers.insert(number);
                        expected.insert(number);
                    }
                    4 => {
                        let mut taken = Vec::new();
                        numbers.take(&mut taken);
                        assert!(taken.iter().eq(&expected), "{seed}");
                        expected.clear();
                    }
                    _ => {
                        assert_eq!(numbers.clear(), !expected.is_empty(), "{seed}");
                        expected.clear();
                    }
                }
            }
        }
    }
}

//! Laws of `Freshness::and` and of the union of `Tokens`, over thousands of made-up values.

use std::sync::Arc;
use std::time::Duration;

use tidewire::service::{Freshness, Lifetime, Signal, Token, Tokens, Validator};

/// xorshift64*: the same values in each run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    fn duration(&mut self) -> Duration {
        match self.next(5) {
            0 => Duration::ZERO,
            1 => Duration::MAX,
            _ => Duration::from_millis(self.next(5)),
        }
    }

    fn tokens(&mut self) -> Tokens {
        let count = self.next(4);
        (0..count)
            .map(|_| Token::new(vec![self.next(3) as u8; 1 + self.next(2) as usize]))
            .map(Option::unwrap)
            .collect()
    }

    fn freshness(&mut self) -> Freshness {
        let mut made = Freshness::default();
        if self.next(4) == 0 {
            return made.with_tokens(&self.tokens());
        }
        if self.next(2) == 0 {
            let signal = Signal::new();
            if self.next(3) == 0 {
                signal.fire();
            }
            made = made.with_staleness(Arc::new(signal));
        }
        let lifetime = match self.next(4) {
            0 => Lifetime::Immutable,
            1 => Lifetime::Unknown,
            _ => Lifetime::For(self.duration()),
        };
        made = made.with_lifetime(lifetime);
        if self.next(3) == 0 {
            made = made.with_age(self.duration());
        }
        if self.next(2) == 0 {
            made = made.with_validator(Validator::new([self.next(2) as u8; 16]));
        }
        if self.next(2) == 0 {
            made = made.with_tokens(&self.tokens());
        }
        made
    }
}

/// What somebody who keeps the answer can know: whether, until when counted from now, and what it
/// includes. Without a validator, which `and` drops.
fn seen(freshness: &Freshness) -> (bool, bool, bool, Option<Lifetime>, Tokens) {
    let left = match freshness.lifetime() {
        Lifetime::For(whole) => Lifetime::For(whole.saturating_sub(freshness.age())),
        lifetime => lifetime,
    };
    let known = freshness.is_known();
    let tokens = freshness.tokens().clone();
    (known, known && freshness.is_stale(), freshness.staleness().is_some(), Some(left), tokens)
}

#[test]
fn freshness_of_two_is_the_same_in_either_order_grouping_and_repetition() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let (a, b, c) = (random.freshness(), random.freshness(), random.freshness());
        let what = format!("{a:?}\n{b:?}\n{c:?}");
        assert_eq!(seen(&a.clone().and(b.clone())), seen(&b.clone().and(a.clone())), "{what}");
        let left = a.clone().and(b.clone()).and(c.clone());
        let right = a.clone().and(b.clone().and(c.clone()));
        assert_eq!(seen(&left), seen(&right), "{what}");
        let twice = a.clone().and(a.clone());
        if a.is_known() {
            assert_eq!(seen(&twice), seen(&a), "{what}");
            // What never changes adds nothing to what ends.
            if a.lifetime() != Lifetime::Unknown {
                assert_eq!(seen(&a.clone().and(Freshness::immutable())), seen(&a), "{what}");
            }
        } else {
            assert!(!twice.is_known());
        }
        let both = a.clone().and(b.clone());
        assert!(both.validator().is_none(), "{what}");
        assert_eq!(both.is_known(), a.is_known() && b.is_known(), "{what}");
        if both.is_known() {
            assert_eq!(both.is_stale(), a.is_stale() || b.is_stale(), "{what}");
        }
        assert_eq!(*both.tokens(), a.tokens().clone().and(b.tokens()), "{what}");
    }
}

#[test]
fn tokens_are_a_set() {
    let mut random = Random(11);
    for _ in 0..20_000 {
        let (a, b, c) = (random.tokens(), random.tokens(), random.tokens());
        assert_eq!(a.clone().and(&b), b.clone().and(&a));
        assert_eq!(a.clone().and(&b).and(&c), a.clone().and(&b.clone().and(&c)));
        assert_eq!(a.clone().and(&a), a);
        assert_eq!(a.clone().and(&Tokens::default()), a);
        let bytes: Vec<_> = a.iter().map(|token| token.bytes().to_vec()).collect();
        let mut sorted = bytes.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(bytes, sorted, "distinct, in the order of their bytes");
        let mut merged = a.clone();
        merged.merge(&b);
        assert_eq!(merged, a.and(&b));
    }
    assert!(Token::new(vec![]).is_none() && Token::new(vec![0; 257]).is_none());
    assert!(Token::new(vec![0; 256]).is_some());
}

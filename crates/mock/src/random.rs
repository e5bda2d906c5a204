//! Chance that can be repeated: numbers that follow from a seed alone.
//!
//! The generator is SplitMix64: small, fast, and good enough to make up names and delays. Nothing
//! here is secret.

/// A sequence of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of a seed and of what it is to depend on besides.
    pub(crate) fn of(seed: u64, parts: &[&[u8]]) -> Self {
        // FNV-1a: the same on every machine and in every version.
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
        for part in parts {
            for byte in part.iter().chain(&[0xff]) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self(hash)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to 1, without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double has")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below a bound, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Puts items into another order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }

    /// A UUID of version 4.
    pub(crate) fn uuid(&mut self) -> String {
        let high = self.next();
        let low = self.next();
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_on_every_machine() {
        let mut random = Random::of(7, &[b"/shop.v1.Cart/Get", b"\x0a\x03tea"]);
        assert_eq!(random.uuid(), Random::of(7, &[b"/shop.v1.Cart/Get", b"\x0a\x03tea"]).uuid());
        assert_eq!(Random::new(1).next(), 0x910a_2dec_8902_5cc1);
        let uuid = random.uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        let mut items = [1, 2, 3, 4, 5];
        random.shuffle(&mut items);
        items.sort_unstable();
        assert_eq!(items, [1, 2, 3, 4, 5]);
        assert!((0..1000).all(|_| random.unit() < 1.0));
    }
}

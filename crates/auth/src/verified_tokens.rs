//! Tokens that were verified within the last minute, so that a caller's next call costs a look-up.
//!
//! A token is known by a keyed hash of 128 bits, with a key of this process: nothing here gives one
//! away, and nobody can make another with the same hash. An entry holds until its token expires,
//! for a minute at most, and only under the keys that it was verified by. Each shard has two
//! halves: when the young one is full it becomes the old one, and what nobody asked for since goes.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use siphasher::sip128::{Hasher128, SipHasher24};
use tidewire_service::Principal;

/// Verified tokens and whose they are.
pub(crate) struct VerifiedTokens {
    keys: [u64; 2],
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    young: HashMap<u128, Entry>,
    old: HashMap<u128, Entry>,
}

#[derive(Clone)]
struct Entry {
    principal: Principal,
    generation: u64,
    since: SystemTime,
    until: SystemTime,
    expires: SystemTime,
}

const SHARDS: usize = 16;
/// Over all shards and both halves some 16,000 tokens.
const HALF_MAX: usize = 512;
/// How long a token is not looked at again.
const LIFE: Duration = Duration::from_secs(60);

impl VerifiedTokens {
    pub(crate) fn new() -> Self {
        let random = || RandomState::new().hash_one(0);
        Self { keys: [random(), random()], shards: Default::default() }
    }

    /// Whose token this is, if that is known.
    pub(crate) fn find(&self, token: &[u8], generation: u64, now: SystemTime) -> Option<Principal> {
        let hash = self.hash(token);
        let mut shard = self.shard(hash);
        let entry = match shard.young.get(&hash) {
            Some(entry) => entry.clone(),
            None => {
                let entry = shard.old.remove(&hash)?;
                shard.add(hash, entry.clone());
                entry
            }
        };
        let is_good = entry.generation == generation && entry.since <= now && now < entry.until;
        is_good.then_some(entry.principal)
    }

    /// Takes note of a token that is good until `expires`.
    pub(crate) fn keep(
        &self,
        token: &[u8],
        principal: Principal,
        generation: u64,
        now: SystemTime,
        expires: SystemTime,
    ) {
        let until = expires.min(now + LIFE);
        let hash = self.hash(token);
        self.shard(hash).add(hash, Entry { principal, generation, since: now, until, expires });
    }

    /// Until when a token is good that was verified a moment ago.
    pub(crate) fn expires(&self, token: &[u8]) -> Option<SystemTime> {
        let hash = self.hash(token);
        let shard = self.shard(hash);
        let entry = shard.young.get(&hash).or_else(|| shard.old.get(&hash));
        entry.map(|entry| entry.expires)
    }

    fn hash(&self, token: &[u8]) -> u128 {
        let mut hasher = SipHasher24::new_with_keys(self.keys[0], self.keys[1]);
        hasher.write(token);
        hasher.finish128().as_u128()
    }

    fn shard(&self, hash: u128) -> parking_lot::MutexGuard<'_, Shard> {
        let shard = &self.shards[hash as usize % SHARDS];
        shard.lock()
    }
}

impl Shard {
    fn add(&mut self, hash: u128, entry: Entry) {
        if self.young.len() >= HALF_MAX && !self.young.contains_key(&hash) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, entry);
    }
}

impl fmt::Debug for VerifiedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verified")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_token_is_known_for_a_minute_or_until_it_expires_and_under_its_keys_only() {
        let verified = VerifiedTokens::new();
        let ada = Principal::new("id", "ada");
        verified.keep(b"long", ada.clone(), 1, at(100), at(10_000));
        verified.keep(b"short", ada, 1, at(100), at(110));
        for (token, generation, now, known) in [
            (&b"long"[..], 1, 100, true),
            (b"long", 1, 159, true),
            (b"long", 1, 160, false),
            (b"long", 2, 100, false),
            (b"long", 1, 99, false),
            (b"short", 1, 109, true),
            (b"short", 1, 110, false),
            (b"other", 1, 100, false),
        ] {
            let found = verified.find(token, generation, at(now)).is_some();
            assert_eq!(found, known, "{token:?} {generation} {now}");
        }
    }

    #[test]
    fn there_is_a_bound_on_tokens_and_those_that_are_asked_for_stay() {
        let verified = VerifiedTokens::new();
        let ada = Principal::new("id", "ada");
        verified.keep(b"asked", ada.clone(), 1, at(0), at(100));
        for number in 0..100_000_u32 {
            verified.keep(&number.to_le_bytes(), ada.clone(), 1, at(0), at(100));
            if number % 1_000 == 0 {
                assert!(verified.find(b"asked", 1, at(0)).is_some(), "after {number}");
            }
        }
        let shards = verified.shards.iter().map(|shard| shard.lock());
        let kept: usize = shards.map(|shard| shard.young.len() + shard.old.len()).sum();
        assert!(kept <= SHARDS * HALF_MAX * 2, "{kept} are kept");
    }
}

//! How many calls one caller has at once and how often it calls: `limits.caller_calls_max`,
//! `limits.caller_rate`; and how often an address does, before anybody knows who calls:
//! `limits.address_rate`.
//!
//! A caller is its principal, or, where nobody knows it, its address: of IPv6 the network of 64 bits that
//! a household has, and all of a Unix socket are one. A rate is a bucket of tokens, as many as the rate
//! has a second, which fills as it empties. What is known of a caller who would find its bucket full is
//! the same as nothing, and is dropped when there is no room.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use http::StatusCode;
use tidewire_listen::network;
use tidewire_service::{Admission, Gate, Head, Result};

use super::later;
use crate::limits::Limits;
use crate::usage::{Bound, Counters};

/// What is known of each caller, in shards, by a keyed hash of who it is.
struct Callers<T> {
    random: RandomState,
    shards: [Mutex<Shard<T>>; SHARDS],
}

type Shard<T> = HashMap<u64, T, BuildHasherDefault<Hashed>>;

/// A key that is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const SHARDS: usize = 16;
/// Over all shards some 65,000 callers.
const SHARD_MAX: usize = 4096;

impl<T> Callers<T> {
    fn new() -> Self {
        Self { random: RandomState::default(), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn caller(&self, head: &Head) -> u64 {
        let mut hasher = self.random.build_hasher();
        match head.context.principal() {
            Some(principal) => {
                hasher.write_u8(1);
                (principal.issuer(), principal.subject()).hash(&mut hasher);
            }
            None => {
                let peer = head.context.peer();
                network(peer.and_then(|peer| peer.address).map(|at| at.ip())).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn shard(&self, caller: u64) -> MutexGuard<'_, Shard<T>> {
        // By other bits than those by which the table puts it in a bucket.
        let shard = &self.shards[(caller >> 40) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many calls a caller has at once.
pub(super) struct CallerCalls {
    calls_max: usize,
    callers: Arc<Callers<usize>>,
    counters: Arc<Counters>,
}

impl CallerCalls {
    pub(super) fn new(limits: &Limits, counters: &Arc<Counters>) -> Option<Self> {
        let counters = Arc::clone(counters);
        let callers = Arc::new(Callers::new());
        limits.caller_calls_max.map(|calls_max| Self { calls_max, callers, counters })
    }

    fn decide(&self, head: &mut Head) -> Result<()> {
        let caller = self.callers.caller(head);
        {
            let mut shard = self.callers.shard(caller);
            let running = shard.entry(caller).or_default();
            if *running < self.calls_max {
                *running += 1;
                drop(shard);
                head.leave(OneOf { caller, callers: Arc::clone(&self.callers) });
                return Ok(());
            }
        }
        self.counters.reach(Bound::CallerCalls);
        let text = format!(
            "this caller has limits.caller_calls_max = {} calls at once already",
            self.calls_max
        );
        Err(later(StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1), text))
    }
}

impl Gate for CallerCalls {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }
}

/// One call of a caller, until it is over.
struct OneOf {
    caller: u64,
    callers: Arc<Callers<usize>>,
}

impl Drop for OneOf {
    fn drop(&mut self) {
        let mut shard = self.callers.shard(self.caller);
        if let Some(running) = shard.get_mut(&self.caller) {
            *running -= 1;
            if *running == 0 {
                shard.remove(&self.caller);
            }
        }
    }
}

/// How often a caller calls; or an address, where it is asked before there is a principal.
pub(super) struct Rate {
    rate: u32,
    /// How soon an empty bucket has one more, and is full.
    one: Duration,
    full: Duration,
    bound: Bound,
    /// When each caller's bucket will be full.
    full_at: Callers<Instant>,
    counters: Arc<Counters>,
}

impl Rate {
    pub(super) fn of_caller(limits: &Limits, counters: &Arc<Counters>) -> Option<Self> {
        limits.caller_rate.map(|rate| Self::new(rate, Bound::CallerRate, counters))
    }

    pub(super) fn of_address(limits: &Limits, counters: &Arc<Counters>) -> Option<Self> {
        limits.address_rate.map(|rate| Self::new(rate, Bound::AddressRate, counters))
    }

    fn new(rate: u32, bound: Bound, counters: &Arc<Counters>) -> Self {
        let one = Duration::from_secs(1) / rate;
        Self {
            rate,
            one,
            full: one * rate,
            bound,
            full_at: Callers::new(),
            counters: Arc::clone(counters),
        }
    }

    fn decide(&self, head: &Head, now: Instant) -> Result<()> {
        let caller = self.full_at.caller(head);
        let wait = {
            let mut shard = self.full_at.shard(caller);
            if shard.len() >= SHARD_MAX && !shard.contains_key(&caller) {
                make_room(&mut shard, now);
            }
            let full_at = shard.entry(caller).or_insert(now);
            let next = (*full_at).max(now) + self.one;
            // As many as the rate has a second may come at once.
            match (next - now).checked_sub(self.full) {
                None | Some(Duration::ZERO) => {
                    *full_at = next;
                    return Ok(());
                }
                Some(wait) => wait,
            }
        };
        self.counters.reach(self.bound);
        let text =
            format!("this caller is over {} = {} calls a second", self.bound.key(), self.rate);
        Err(later(StatusCode::TOO_MANY_REQUESTS, wait, text))
    }
}

/// Drops callers whose buckets are full, or, where none are, any one.
fn make_room(shard: &mut Shard<Instant>, now: Instant) {
    shard.retain(|_, full_at| *full_at > now);
    if shard.len() >= SHARD_MAX
        && let Some(any) = shard.keys().next().copied()
    {
        shard.remove(&any);
    }
}

impl Gate for Rate {
    fn admit(&self, head: &mut Head) -> Admission {
        let now = head.arrived().unwrap_or_else(|| tokio::time::Instant::now().into_std());
        Admission::Ready(self.decide(head, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Context, Peer, Principal, Target};

    fn from(address: &str) -> Head {
        let peer = Peer::new(Some(address.parse().unwrap()));
        let context = Context::default().with_peer(Arc::new(peer));
        Head::new(Target::Unknown("/".into()), context)
    }

    #[test]
    fn callers_are_told_apart_by_principal_or_by_network() {
        let callers = Callers::<()>::new();
        let of = |address: &str| callers.caller(&from(address));
        assert_eq!(of("10.0.0.1:1"), of("10.0.0.1:2"));
        assert_eq!(of("10.0.0.1:1"), of("[::ffff:10.0.0.1]:1"));
        assert_ne!(of("10.0.0.1:1"), of("10.0.0.2:1"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1]:1"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        let known = |subject: &str, address| {
            let mut head = from(address);
            head.context.set_principal(Principal::new("id", subject));
            callers.caller(&head)
        };
        assert_eq!(known("ada", "10.0.0.1:1"), known("ada", "10.0.0.2:1"));
        assert_ne!(known("ada", "10.0.0.1:1"), known("eve", "10.0.0.1:1"));
    }

    #[test]
    fn a_caller_may_call_as_often_as_the_rate_says_and_so_many_at_once() {
        let limits = Limits { caller_rate: Some(10), ..Limits::default() };
        let gate = Rate::of_caller(&limits, &Arc::default()).unwrap();
        let pass = |address: &str, now| gate.decide(&from(address), now).is_ok();
        let start = Instant::now();
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", start)).count(), 10);
        assert!(pass("10.0.0.2:1", start), "of another caller");
        let refused = gate.decide(&from("10.0.0.1:1"), start).unwrap_err();
        assert_eq!(refused.headers().get("retry-after").unwrap(), "1");
        let later = start + Duration::from_millis(300);
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", later)).count(), 3);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", much_later)).count(), 10);
    }

    #[test]
    fn there_is_a_bound_on_callers() {
        let limits = Limits { caller_rate: Some(1), ..Limits::default() };
        let gate = Rate::of_caller(&limits, &Arc::default()).unwrap();
        let now = Instant::now();
        for number in 0..200_000_u32 {
            let address = format!("{}:1", std::net::Ipv4Addr::from_bits(number));
            let at = now + Duration::from_millis(u64::from(number));
            assert!(gate.decide(&from(&address), at).is_ok());
        }
        let known: usize =
            gate.full_at.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(known <= SHARDS * SHARD_MAX, "{known} callers");
    }
}

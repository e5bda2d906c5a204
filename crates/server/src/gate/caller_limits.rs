//! How many calls one caller has at once and how often it calls: `limits.caller_calls_max`,
//! `limits.caller_rate`; and how often an address does, before anybody knows who calls:
//! `limits.address_rate`.
//!
//! A caller is its principal, or, where nobody knows it, its address: of IPv6 the network of 64
//! bits that a household has, and all of a Unix socket are one. A rate is a bucket of tokens, as
//! many as the rate has a second, which fills as it empties. A connection keeps what is known of
//! its caller, so that a call looks nobody up. What is known of a caller who has no connection and
//! would find its buckets full is the same as nothing, and is dropped when there is no room.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use tidewire_service::{Admission, Error, Gate, Head, PermitSource, Principal, Result};

use super::caller_table::CallerTable;
use super::refusal::later;
use crate::limits::Limits;
use crate::runtime::usage::{Bound, Counters};

/// The callers of a server.
pub(super) struct Callers {
    known: CallerTable<Caller>,
    begun: Instant,
    counters: Arc<Counters>,
}

/// What is known of one.
#[derive(Default)]
struct Caller {
    /// The calls that it has at once.
    running: AtomicUsize,
    /// When its bucket will be full, in nanoseconds since the server began, and that of its
    /// address.
    full_at: AtomicU64,
    address_full_at: AtomicU64,
}

/// Who calls by a connection: without a principal, and the principal that did last.
struct ConnectionCallers {
    callers: Arc<Callers>,
    nobody: Arc<Caller>,
    last: Mutex<Option<(Principal, Arc<Caller>)>>,
}

impl Callers {
    pub(super) fn new(counters: &Arc<Counters>) -> Arc<Self> {
        let known = CallerTable::new();
        let counters = Arc::clone(counters);
        Arc::new(Self { known, begun: Instant::now(), counters })
    }

    /// Does something with what is known of whoever calls, or of the address that calls.
    #[inline]
    fn with<T>(
        self: &Arc<Self>,
        head: &Head,
        who: RateKey,
        then: impl FnOnce(&Arc<Caller>) -> T,
    ) -> T {
        let peer = head.context.peer();
        let principal = if who == RateKey::Address { None } else { head.context.principal() };
        let kept = peer.and_then(|peer| peer.keep(|| ConnectionCallers::new(self, head)));
        let Some(of) = kept.filter(|kept| Arc::ptr_eq(&kept.callers, self)) else {
            return then(&self.find(principal, head));
        };
        let Some(principal) = principal else { return then(&of.nobody) };
        let mut last = of.last.lock();
        match &*last {
            Some((known, caller)) if known.is_same(principal) => then(caller),
            _ => {
                let caller = self.find(Some(principal), head);
                let (_, caller) = last.insert((principal.clone(), caller));
                then(caller)
            }
        }
    }

    #[cold]
    fn find(&self, principal: Option<&Principal>, head: &Head) -> Arc<Caller> {
        let now = self.arrived(head);
        let is_needed = |caller: &Caller| {
            let full_at = [&caller.full_at, &caller.address_full_at];
            full_at.iter().any(|full_at| full_at.load(Ordering::Relaxed) > now)
        };
        let caller = match principal {
            Some(_) => head.context.caller_key(),
            None => head.context.address_key(),
        };
        self.known.find(caller, is_needed)
    }

    /// When a request arrived, in nanoseconds since the server began.
    fn arrived(&self, head: &Head) -> u64 {
        let now = head.arrived().unwrap_or_else(|| tokio::time::Instant::now().into_std());
        nanoseconds(now.saturating_duration_since(self.begun))
    }
}

impl ConnectionCallers {
    fn new(callers: &Arc<Callers>, head: &Head) -> Self {
        let nobody = callers.find(None, head);
        Self { callers: Arc::clone(callers), nobody, last: Mutex::default() }
    }
}

/// A call of it is over.
impl PermitSource for Caller {
    fn take_back(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many calls a caller has at once.
pub(super) struct CallerCalls {
    calls_max: usize,
    callers: Arc<Callers>,
}

impl CallerCalls {
    pub(super) fn new(limits: &Limits, callers: &Arc<Callers>) -> Option<Self> {
        limits.caller_calls_max.map(|calls_max| Self { calls_max, callers: Arc::clone(callers) })
    }

    fn decide(&self, head: &mut Head) -> Result<()> {
        let lent = self.callers.with(head, RateKey::Caller, |caller| {
            let one_more = |running| (running < self.calls_max).then_some(running + 1);
            let order = Ordering::Relaxed;
            let counted = caller.running.fetch_update(order, order, one_more);
            counted.is_ok().then(|| Arc::clone(caller))
        });
        match lent {
            Some(caller) => {
                head.owe(caller);
                Ok(())
            }
            None => Err(self.refusal()),
        }
    }

    #[cold]
    fn refusal(&self) -> Error {
        self.callers.counters.reach(Bound::CallerCalls);
        let text = format!(
            "this caller has limits.caller_calls_max = {} calls at once already",
            self.calls_max
        );
        later(StatusCode::TOO_MANY_REQUESTS, Duration::from_secs(1), text)
    }
}

impl Gate for CallerCalls {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }

    /// An answer from memory is over at once.
    fn admits_again(&self, head: &Head) -> bool {
        self.callers.with(head, RateKey::Caller, |caller| {
            caller.running.load(Ordering::Relaxed) < self.calls_max
        })
    }
}

/// Of whom a rate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RateKey {
    Caller,
    Address,
}

/// How often a caller calls; or an address, where it is asked before there is a principal.
pub(super) struct Rate {
    rate: u32,
    /// How soon an empty bucket has one more, and is full, in nanoseconds.
    one: u64,
    full: u64,
    who: RateKey,
    callers: Arc<Callers>,
}

impl Rate {
    pub(super) fn of_caller(limits: &Limits, callers: &Arc<Callers>) -> Option<Self> {
        limits.caller_rate.map(|rate| Self::new(rate, RateKey::Caller, callers))
    }

    pub(super) fn of_address(limits: &Limits, callers: &Arc<Callers>) -> Option<Self> {
        limits.address_rate.map(|rate| Self::new(rate, RateKey::Address, callers))
    }

    fn new(rate: u32, who: RateKey, callers: &Arc<Callers>) -> Self {
        let one = nanoseconds(Duration::from_secs(1) / rate);
        Self { rate, one, full: one * u64::from(rate), who, callers: Arc::clone(callers) }
    }

    fn decide(&self, head: &Head) -> Result<()> {
        let now = self.callers.arrived(head);
        let counted = self.callers.with(head, self.who, |caller| {
            let full_at = match self.who {
                RateKey::Caller => &caller.full_at,
                RateKey::Address => &caller.address_full_at,
            };
            // As many as the rate has a second may come at once.
            full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let next = full_at.max(now) + self.one;
                (next - now <= self.full).then_some(next)
            })
        });
        match counted {
            Ok(_) => Ok(()),
            Err(full_at) => Err(self.refusal(full_at.max(now) + self.one - now - self.full)),
        }
    }

    #[cold]
    fn refusal(&self, wait: u64) -> Error {
        let bound = match self.who {
            RateKey::Caller => Bound::CallerRate,
            RateKey::Address => Bound::AddressRate,
        };
        self.callers.counters.reach(bound);
        let text = format!("this caller is over {} = {} calls a second", bound.key(), self.rate);
        later(StatusCode::TOO_MANY_REQUESTS, Duration::from_nanos(wait), text)
    }
}

impl Gate for Rate {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Context, Peer, Target};

    fn from(address: &str) -> Head {
        let peer = Peer::new(Some(address.parse().unwrap()));
        let context = Context::default().with_peer(Arc::new(peer));
        Head::new(Target::Unknown("/".into()), context)
    }

    fn from_at(address: &str, now: Instant) -> Head {
        let mut head = from(address);
        head.set_arrived(now);
        head
    }

    #[test]
    fn a_caller_may_call_as_often_as_the_rate_says_and_so_many_at_once() {
        let limits = Limits { caller_rate: Some(10), ..Limits::default() };
        let gate = Rate::of_caller(&limits, &Callers::new(&Arc::default())).unwrap();
        let pass = |address: &str, now| gate.decide(&from_at(address, now)).is_ok();
        let start = Instant::now();
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", start)).count(), 10);
        assert!(pass("10.0.0.2:1", start), "of another caller");
        let refused = gate.decide(&from_at("10.0.0.1:1", start)).unwrap_err();
        assert_eq!(refused.headers().get("retry-after").unwrap(), "1");
        let later = start + Duration::from_millis(300);
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", later)).count(), 3);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| pass("10.0.0.1:1", much_later)).count(), 10);
    }
}

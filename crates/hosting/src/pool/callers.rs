//! Calls that wait, and how the places are shared among their callers.
//!
//! A place that becomes free goes to a call of the caller that has the fewest, and a queue that is
//! full to the caller that has fewer calls in it than another: whoever has many calls, however
//! slowly they end, keeps nobody out by their number.

use std::collections::VecDeque;

use tidewire_service::{CallerKey, CallerMap};
use tokio::sync::oneshot;

use super::grant::{Grant, Refusal};

/// How many places each caller has.
#[derive(Debug, Default)]
pub(super) struct Holders(CallerMap<usize>);

/// The calls that wait for a place, by when they came.
#[derive(Debug)]
pub(super) struct WaitQueue<M>(VecDeque<QueuedCall<M>>);

#[derive(Debug)]
struct QueuedCall<M> {
    caller: CallerKey,
    told: oneshot::Sender<Result<Grant<M>, Refusal>>,
}

/// Whose turn it is, until others come or go.
#[derive(Debug)]
pub(super) struct NextCall {
    pub(super) caller: CallerKey,
    at: usize,
}

/// Of a caller of whom calls wait.
struct Share {
    places: usize,
    waiting: usize,
}

impl Holders {
    pub(super) fn take(&mut self, caller: CallerKey) {
        *self.0.entry(caller).or_default() += 1;
    }

    pub(super) fn give_back(&mut self, caller: CallerKey) {
        if let Some(places) = self.0.get_mut(&caller) {
            *places -= 1;
            if *places == 0 {
                self.0.remove(&caller);
            }
        }
    }

    pub(super) fn of(&self, caller: CallerKey) -> usize {
        self.0.get(&caller).copied().unwrap_or_default()
    }
}

impl<M> WaitQueue<M> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many still wait.
    pub(super) fn open(&self) -> usize {
        self.0.iter().filter(|call| !call.told.is_closed()).count()
    }

    pub(super) fn retain_open(&mut self) {
        self.0.retain(|call| !call.told.is_closed());
    }

    /// Whether a call of this caller may wait among so many; where it has fewer than another
    /// caller, the last one of that is refused for it.
    pub(super) fn has_room(&mut self, caller: CallerKey, most: usize) -> bool {
        self.retain_open();
        if self.0.len() < most {
            return true;
        }
        let mut calls: CallerMap<usize> = CallerMap::default();
        for waiting in &self.0 {
            *calls.entry(waiting.caller).or_default() += 1;
        }
        let own = calls.get(&caller).copied().unwrap_or_default();
        let Some((&greediest, &of_it)) = calls.iter().max_by_key(|(_, calls)| **calls) else {
            return false;
        };
        let last = self.0.iter().rposition(|waiting| waiting.caller == greediest);
        let Some(refused) = last.filter(|_| of_it > own + 1).and_then(|at| self.0.remove(at))
        else {
            return false;
        };
        let _ = refused.told.send(Err(Refusal::QueueFull));
        true
    }

    pub(super) fn add(
        &mut self,
        caller: CallerKey,
    ) -> oneshot::Receiver<Result<Grant<M>, Refusal>> {
        let (told, receiver) = oneshot::channel();
        self.0.push_back(QueuedCall { caller, told });
        receiver
    }

    /// The first call of the caller that has the fewest places.
    pub(super) fn next(&self, holders: &Holders) -> Option<NextCall> {
        let calls = self.0.iter().enumerate();
        let next = calls.min_by_key(|(at, call)| (holders.of(call.caller), *at));
        next.map(|(at, call)| NextCall { caller: call.caller, at })
    }

    /// How many places a caller has beyond its share: those that calls wait for of callers who have
    /// fewer, also once they got them.
    pub(super) fn beyond_share(&self, caller: CallerKey, holders: &Holders) -> usize {
        let mut places = holders.of(caller);
        let mut others: CallerMap<Share> = CallerMap::default();
        for call in self.0.iter().filter(|call| !call.told.is_closed()) {
            let places = holders.of(call.caller);
            others.entry(call.caller).or_insert(Share { places, waiting: 0 }).waiting += 1;
        }
        let mut given = 0;
        loop {
            let waiting = others.values_mut().filter(|share| share.waiting > 0);
            let next = waiting.min_by_key(|share| share.places);
            let Some(next) = next.filter(|share| share.places + 1 < places) else { return given };
            next.places += 1;
            next.waiting -= 1;
            places -= 1;
            given += 1;
        }
    }

    /// Gives a place to the call whose turn it is.
    ///
    /// # Errors
    /// The place, since it waits no more.
    pub(super) fn tell(&mut self, next: NextCall, grant: Grant<M>) -> Result<(), Grant<M>> {
        let Some(call) = self.0.remove(next.at) else { return Err(grant) };
        call.told.send(Ok(grant)).map_err(|unsent| unsent.expect("a place was sent"))
    }

    pub(super) fn refuse_all(&mut self, refusal: &Refusal) {
        for call in self.0.drain(..) {
            let _ = call.told.send(Err(refusal.clone()));
        }
    }
}

impl<M> Default for WaitQueue<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

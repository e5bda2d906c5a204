//! Requests for a page that is not there: one goes on, the others wait for what it brings.
//!
//! | what the first one brings | the others |
//! |---|---|
//! | a page | look again, and find it |
//! | what cannot be stored | go on by themselves, and so do those that come within a while |
//! | an error | get the same |
//! | nothing: its caller went away | look again; one of them goes on |

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tidewire_service::{Error, Wakers};

use super::fill::Fill;
use super::page::Failure;
use super::page_request::Key;

/// The requests that others wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<FlightKey, Arc<Flight>>>>);

/// What is waited for, and by whom.
type FlightKey = (Key, Option<u64>);

/// A request that others wait for.
#[derive(Debug, Default)]
pub(crate) struct Flight(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    end: Option<FlightEnd>,
    /// The body, once it comes.
    fill: Option<Weak<Fill>>,
    waiting: Wakers,
}

/// What others do next.
#[derive(Debug, Clone)]
pub(crate) enum FlightEnd {
    Look,
    Alone,
    Failed(Failure, Error),
}

/// Who goes on.
#[derive(Debug)]
pub(crate) enum FlightRole {
    Leader(FlightLeader),
    Follower(Arc<Flight>),
}

/// The request that goes on for others. Dropped, it brought nothing.
#[derive(Debug)]
pub(crate) struct FlightLeader {
    flights: Flights,
    key: FlightKey,
    flight: Arc<Flight>,
}

impl Flights {
    /// The turn of a request.
    pub(crate) fn join(&self, key: &Key, caller: Option<u64>) -> FlightRole {
        let key = (key.clone(), caller);
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(&key) {
            return FlightRole::Follower(Arc::clone(flight));
        }
        let flight = Arc::<Flight>::default();
        flights.insert(key.clone(), Arc::clone(&flight));
        FlightRole::Leader(FlightLeader { flights: self.clone(), key, flight })
    }
}

impl Flight {
    /// Waits for what the other request brings.
    pub(crate) async fn end(&self) -> FlightEnd {
        // Whoever waits keeps the body from being given up.
        let mut fill = None;
        poll_fn(|cx| self.poll_end(&mut fill, cx)).await
    }

    fn poll_end(&self, fill: &mut Option<Arc<Fill>>, cx: &Context<'_>) -> Poll<FlightEnd> {
        {
            let mut state = self.0.lock();
            if let Some(end) = &state.end {
                return Poll::Ready(end.clone());
            }
            state.waiting.add(cx.waker());
            if fill.is_none() {
                *fill = state.fill.as_ref().and_then(Weak::upgrade);
            }
        }
        let Some(fill) = fill else { return Poll::Pending };
        std::task::ready!(fill.poll_end(cx));
        // Its end was told before.
        let end = self.0.lock().end.clone();
        Poll::Ready(end.unwrap_or(FlightEnd::Look))
    }
}

impl FlightLeader {
    /// Others may move this body on.
    pub(crate) fn fills(flight: &Flight, fill: &Arc<Fill>) {
        let waiting = {
            let mut state = flight.0.lock();
            state.fill = Some(Arc::downgrade(fill));
            std::mem::take(&mut state.waiting)
        };
        waiting.wake();
    }

    /// What others wait for.
    pub(crate) fn flight(&self) -> Arc<Flight> {
        Arc::clone(&self.flight)
    }

    /// Others need not wait any more.
    pub(crate) fn end(self, end: FlightEnd) {
        self.tell(end);
    }

    fn tell(&self, end: FlightEnd) {
        let mut flights = self.flights.0.lock();
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        drop(flights);
        let waiting = {
            let mut state = self.flight.0.lock();
            state.end.get_or_insert(end);
            std::mem::take(&mut state.waiting)
        };
        waiting.wake();
    }
}

impl Drop for FlightLeader {
    fn drop(&mut self) {
        self.tell(FlightEnd::Look);
    }
}

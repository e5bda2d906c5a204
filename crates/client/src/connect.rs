//! A connection for one call: to the address whose turn it is, or to another that is faster.
//!
//! An address that swallows what is sent (IPv6 without a route, most often) would hold a call up
//! until `limits.connect_timeout`. So another one is tried beside it (RFC 8305, "happy eyeballs"):
//!
//! | what happens while connecting | consequence |
//! |---|---|
//! | nothing for `limits.connect_stagger` | the next address too, of the other family if there is one |
//! | an attempt fails, others go on | the next address at once |
//! | one connects | the call goes there; what was begun earlier is left out for a while |
//!
//! Connections are opened by their pools, so what comes second is there for later calls. Calls that
//! find a connection, and clients of one address, pay nothing for this.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tidewire_service::{Error, Result};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::RecvError;

use crate::balance::{Backend, Balancer};
use crate::connections::{Checkout, Lease, PendingDial};
use crate::deadline::{Deadline, Phase, deadline_error};
use crate::trace::{Step, Trace, tell};

/// Why there is no connection.
pub(crate) struct ConnectFailure {
    pub(crate) error: Error,
    pub(crate) backend: Arc<Backend>,
    /// Whether the address is to blame.
    pub(crate) is_address_bad: bool,
}

/// A connection to `first`, or to another address if that takes long.
pub(crate) async fn connect(
    balancer: &Balancer,
    first: Arc<Backend>,
    deadline: &mut Deadline,
    trace: Option<&Trace>,
) -> Result<(Lease, Arc<Backend>), ConnectFailure> {
    let (mut lease, backend) = match first.pool.checkout() {
        Err(error) => return Err(ConnectFailure { error, backend: first, is_address_bad: false }),
        Ok(Checkout::Ready(lease)) => (lease, first),
        Ok(Checkout::Waiting(take, dialing)) => {
            // A pool with connections that are all in use is busy, not slow.
            let has_more = balancer.count() > 1 && first.pool.open_connections() == 0;
            let attempt = Attempt { backend: Arc::clone(&first), take, dialing };
            let mut race = Race { balancer, attempts: vec![attempt], tried: vec![first], has_more };
            // Boxed, so that calls that find a connection are not the larger for it.
            match deadline.race(Box::pin(race.run())).await {
                Ok(outcome) => outcome?,
                Err(_) => return Err(race.passed(trace)),
            }
        }
    };
    let to = &backend.pool.target.to;
    match (trace, lease.log.take()) {
        (Some(trace), Some(log)) => log.tell(trace, to),
        (Some(trace), None) => tell(Some(trace), || Step::Reused { to }),
        _ => {}
    }
    Ok((lease, backend))
}

/// The wait for a connection to one address.
struct Attempt {
    backend: Arc<Backend>,
    take: Receiver<Result<Lease>>,
    dialing: Option<Arc<PendingDial>>,
}

/// Attempts at several addresses, the oldest first.
struct Race<'a> {
    balancer: &'a Balancer,
    attempts: Vec<Attempt>,
    tried: Vec<Arc<Backend>>,
    /// Whether there may be an address that was not tried.
    has_more: bool,
}

impl Race<'_> {
    async fn run(&mut self) -> Result<(Lease, Arc<Backend>), ConnectFailure> {
        loop {
            let FirstAttempt { index, lease } = tokio::select! {
                biased;
                first = first_of(&mut self.attempts) => first,
                () = tokio::time::sleep(self.balancer.connect_stagger()), if self.has_more => {
                    if let Some(ready) = self.try_next() {
                        return Ok(ready);
                    }
                    continue;
                }
            };
            let Attempt { backend, .. } = self.attempts.remove(index);
            let (error, is_address_bad) = match lease {
                Ok(Ok(lease)) => {
                    self.attempts[..index].iter().for_each(|slower| slower.backend.broke());
                    return Ok((lease, backend));
                }
                Ok(Err(error)) => (error, true),
                Err(_) => (Error::unavailable("the client was closed"), false),
            };
            if self.attempts.is_empty() {
                return Err(ConnectFailure { error, backend, is_address_bad });
            }
            backend.broke();
            self.balancer.suspect();
            if let Some(ready) = self.try_next() {
                return Ok(ready);
            }
        }
    }

    /// Begins an attempt at an address that was not tried; returns what is there at once.
    fn try_next(&mut self) -> Option<(Lease, Arc<Backend>)> {
        while let Some(backend) = self.balancer.other_than(&self.tried) {
            self.tried.push(Arc::clone(&backend));
            match backend.pool.checkout() {
                Ok(Checkout::Ready(lease)) => {
                    self.attempts.iter().for_each(|slower| slower.backend.broke());
                    return Some((lease, backend));
                }
                Ok(Checkout::Waiting(take, dialing)) => {
                    self.attempts.push(Attempt { backend, take, dialing });
                    return None;
                }
                // Too many wait there already.
                Err(_) => {}
            }
        }
        self.has_more = false;
        None
    }

    /// The deadline passed; the oldest attempt says in which phase.
    fn passed(mut self, trace: Option<&Trace>) -> ConnectFailure {
        let Attempt { backend, dialing, .. } = self.attempts.swap_remove(0);
        let target = &backend.pool.target;
        let phase = dialing.as_ref().map_or(Phase::Queue, |dialing| dialing.phase.phase());
        if let (Some(trace), Some(dialing)) = (trace, dialing) {
            let log = dialing.log.lock().clone();
            log.tell(trace, &target.to);
        }
        let error = deadline_error(phase, &target.host);
        ConnectFailure { error, is_address_bad: phase != Phase::Queue, backend }
    }
}

/// The attempt that is done first.
struct FirstAttempt {
    index: usize,
    /// What its channel gave: nothing if the client was closed.
    lease: Result<Result<Lease>, RecvError>,
}

async fn first_of(attempts: &mut [Attempt]) -> FirstAttempt {
    poll_fn(|cx| {
        for (index, attempt) in attempts.iter_mut().enumerate() {
            if let Poll::Ready(lease) = Pin::new(&mut attempt.take).poll(cx) {
                return Poll::Ready(FirstAttempt { index, lease });
            }
        }
        Poll::Pending
    })
    .await
}

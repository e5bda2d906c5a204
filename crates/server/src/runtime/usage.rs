//! What a server is doing, and how often each bound was reached: numbers for metrics.
//!
//! They are counted with one relaxed addition each and read as they are; two of them may be of
//! slightly different moments.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A bound that refuses or ends something.
///
/// ```
/// # mod tidewire {
/// #     pub use tidewire_server::*;
/// #     pub use tidewire_service::*;
/// #     pub mod server { pub use tidewire_server::*; }
/// # }
/// use tidewire::server::Bound;
///
/// assert_eq!(Bound::ALL[0].key(), "limits.calls_max");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// `limits.calls_max`
    Calls,
    /// `limits.caller_calls_max`
    CallerCalls,
    /// `limits.caller_rate`
    CallerRate,
    /// `limits.address_rate`
    AddressRate,
    /// `limits.deadline_min`
    DeadlineMin,
    /// `limits.address_connections_max`
    AddressConnections,
    /// `limits.connection_age_max`
    ConnectionAge,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Calls,
        Self::CallerCalls,
        Self::CallerRate,
        Self::AddressRate,
        Self::DeadlineMin,
        Self::AddressConnections,
        Self::ConnectionAge,
    ];

    /// The setting, `limits.calls_max`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Calls => "limits.calls_max",
            Self::CallerCalls => "limits.caller_calls_max",
            Self::CallerRate => "limits.caller_rate",
            Self::AddressRate => "limits.address_rate",
            Self::DeadlineMin => "limits.deadline_min",
            Self::AddressConnections => "limits.address_connections_max",
            Self::ConnectionAge => "limits.connection_age_max",
        }
    }
}

/// Counts, shared by all who count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    open: AtomicUsize,
    calls_waiting: AtomicUsize,
    reached: [AtomicU64; Bound::ALL.len()],
}

/// What a server is doing; see [`RunningServer::usage`](crate::RunningServer::usage).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Connections that were accepted since the start.
    pub connections_accepted: u64,
    /// Connections that are open.
    pub connections_open: usize,
    /// Calls that wait for a place among `limits.calls_max`.
    pub calls_waiting: usize,
    /// Commands that run in tasks of the server.
    pub commands_running: usize,
    /// Requests since the start that were answered by a response prepared for them.
    pub prepared_answers: u64,
    /// How often each bound was reached since the start.
    pub reached: Vec<(Bound, u64)>,
}

impl Counters {
    pub(crate) fn reach(&self, bound: Bound) {
        self.reached[bound as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection until the result is dropped.
    pub(crate) fn connection(&self) -> ConnectionCount<'_> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        ConnectionCount::new(&self.open)
    }

    /// Counts a call that waits until the result is dropped.
    pub(crate) fn waiting(&self) -> ConnectionCount<'_> {
        ConnectionCount::new(&self.calls_waiting)
    }

    pub(crate) fn usage(&self, commands_running: usize, prepared_answers: u64) -> Usage {
        let reached = |bound| (bound, self.reached[bound as usize].load(Ordering::Relaxed));
        Usage {
            connections_accepted: self.accepted.load(Ordering::Relaxed),
            connections_open: self.open.load(Ordering::Relaxed),
            calls_waiting: self.calls_waiting.load(Ordering::Relaxed),
            commands_running,
            prepared_answers,
            reached: Bound::ALL.map(reached).to_vec(),
        }
    }
}

/// One that is there.
pub(crate) struct ConnectionCount<'a>(&'a AtomicUsize);

impl<'a> ConnectionCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for ConnectionCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_has_its_own_count_in_the_order_of_all() {
        let counters = Counters::default();
        for (times, bound) in Bound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, times);
            (0..times).for_each(|_| counters.reach(bound));
        }
        let usage = counters.usage(0, 0);
        for (times, (bound, count)) in usage.reached.into_iter().enumerate() {
            assert_eq!(count, times as u64, "{}", bound.key());
        }
    }
}

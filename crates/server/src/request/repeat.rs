//! Requests that are answered by the bytes of a response before (`socket/prepared.rs`), as gates
//! and observers see them.
//!
//! Neither sees them come: nothing of them is read. So gates are asked whether such a request would
//! be let pass ([`Gate::admits_again`]), and observers whether they may be told of it when it was
//! answered ([`Observer::accepts_prepared`]), with the head of the one before. Where one of them
//! says no, the request goes the whole way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidewire_service::{
    Context, Gate, Head, Headers, Observer, Peer, Permits, Phases, Principal, Protocol, Target,
};
use tokio::time::Instant;

use crate::request::observe::Watch;
use crate::runtime::stop::Stop;
use crate::socket::prepared::{RepeatWatch, TellRepeat};

/// The head of a request that came before, and who sees its like.
pub(crate) struct RepeatedHead {
    observers: Arc<[Arc<dyn Observer>]>,
    gates: Box<[Arc<dyn Gate>]>,
    stop: Stop,
    target: Target,
    headers: Headers,
    protocol: Option<Protocol>,
    /// How long it may take.
    timeout: Option<Duration>,
}

/// A request that was watched, and answered from memory.
pub(crate) struct WatchedRequest {
    pub(crate) head: Arc<RepeatedHead>,
    pub(crate) phases: Phases,
    pub(crate) status: StatusCode,
    pub(crate) bytes_in: u64,
    pub(crate) caller: Option<Principal>,
}

impl RepeatedHead {
    /// That of a request which these observers and gates are to see.
    pub(crate) fn of(
        head: &Head,
        observers: &[Arc<dyn Observer>],
        gates: &[Arc<dyn Gate>],
        stop: &Stop,
    ) -> Self {
        let context = &head.context;
        let arrived = head.arrived().unwrap_or_else(|| Instant::now().into_std());
        Self {
            observers: observers.into(),
            gates: gates.into(),
            stop: stop.clone(),
            target: head.target.clone(),
            headers: context.headers().clone(),
            protocol: context.protocol(),
            timeout: context.deadline().map(|at| at.saturating_duration_since(arrived)),
        }
    }

    /// The same head, now and from this peer.
    fn again(&self, peer: &Arc<Peer>) -> Head {
        let now = Instant::now().into_std();
        let mut context = Context::new(self.headers.clone())
            .with_deadline(self.timeout.and_then(|timeout| now.checked_add(timeout)))
            .with_peer(Arc::clone(peer));
        if let Some(protocol) = self.protocol {
            context = context.with_protocol(protocol);
        }
        let mut head = Head::new(self.target.clone(), context);
        head.set_arrived(now);
        head
    }

    /// The head of a request that all let pass.
    fn admit(&self, peer: &Arc<Peer>) -> Option<Head> {
        if !self.observers.iter().all(|observer| observer.accepts_prepared()) {
            return None;
        }
        let head = self.again(peer);
        self.gates.iter().all(|gate| gate.admits_again(&head)).then_some(head)
    }
}

impl RepeatWatch for WatchedRequest {
    fn admit(self: Arc<Self>, peer: &Arc<Peer>) -> Option<TellRepeat> {
        // One that panics is asked the usual way.
        let mut head = catch_unwind(AssertUnwindSafe(|| self.head.admit(peer))).ok().flatten()?;
        if self.head.observers.is_empty() {
            return Some(Box::new(|_| {}));
        }
        Some(Box::new(move |bytes_out| {
            let RepeatedHead { observers, stop, .. } = &*self.head;
            let watch = Watch::begin(observers, stop, &mut head);
            watch.keep(Permits::default(), self.caller.as_ref()).repeat(&self, bytes_out);
        }))
    }

    fn bytes(&self) -> usize {
        let RepeatedHead { observers, gates, headers, .. } = &*self.head;
        let texts = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        let seen_by = (observers.len() + gates.len()) * size_of::<Arc<dyn Gate>>();
        let own = size_of::<Self>() + size_of::<RepeatedHead>();
        own + seen_by + texts.map(|text| text + HEADER_BYTES).sum::<usize>()
    }
}

/// What a map takes for each header beside its text.
const HEADER_BYTES: usize = 120;

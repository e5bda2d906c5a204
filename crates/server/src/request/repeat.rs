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

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use tidewire_service::{
    Context, Gate, Head, Headers, HttpTarget, Observer, Peer, Phases, Protocol, Target,
};
use tokio::time::Instant;

use crate::request::observe::Watch;
use crate::runtime::stop::Stop;
use crate::socket::prepared::{RepeatWatch, TellRepeat};

/// The head of a request that came before, as it was before gates, and who sees its like. Its texts
/// are its own: those of a request are parts of what was read of its connection, and keep all of
/// that.
pub(crate) struct RepeatedHead {
    observers: Arc<[Arc<dyn Observer>]>,
    gates: Box<[Arc<dyn Gate>]>,
    stop: Stop,
    target: Target,
    headers: Headers,
    protocol: Option<Protocol>,
    is_conditional: bool,
    /// How long it may take.
    timeout: Option<Duration>,
}

/// A request that was watched, and answered from memory.
pub(crate) struct WatchedRequest {
    pub(crate) head: Arc<RepeatedHead>,
    pub(crate) phases: Phases,
    pub(crate) status: StatusCode,
    pub(crate) bytes_in: u64,
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
            target: own_target(&head.target),
            headers: context.headers().iter().filter_map(own_header).collect(),
            protocol: context.protocol(),
            is_conditional: context.is_conditional(),
            timeout: context.deadline().map(|at| at.saturating_duration_since(arrived)),
        }
    }

    /// Whether gates left nothing in a head that the answer may depend on: what they leave in that
    /// of the next one is not known.
    pub(crate) fn is_as_admitted(&self, context: &Context) -> bool {
        context.principal().is_none() && *context.headers() == self.headers
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
        if self.is_conditional {
            context = context.with_conditions();
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
            Watch::begin(observers, stop, &mut head).repeat(&self, bytes_out);
        }))
    }

    fn bytes(&self) -> usize {
        let RepeatedHead { observers, gates, target, headers, .. } = &*self.head;
        let of_target = match target {
            Target::Http(http) => {
                let params = http.params.iter().map(|(_, value)| value.len() + TEXT_BYTES);
                http.uri.path().len() + params.sum::<usize>() + TEXT_BYTES
            }
            _ => 0,
        };
        let texts = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        let of_headers: usize = texts.map(|text| text + 2 * TEXT_BYTES).sum();
        let seen_by = (observers.len() + gates.len()) * size_of::<Arc<dyn Gate>>();
        size_of::<Self>() + size_of::<RepeatedHead>() + of_target + of_headers + seen_by
    }
}

fn own_target(target: &Target) -> Target {
    let Target::Http(http) = target else { return target.clone() };
    let text = Bytes::from(http.uri.to_string());
    let uri = Uri::from_maybe_shared(text).unwrap_or_else(|_| http.uri.clone());
    Target::Http(HttpTarget::new(http.method.clone(), uri).with_params(http.params.clone()))
}

fn own_header((name, value): (&HeaderName, &HeaderValue)) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
    let mut own = HeaderValue::from_bytes(value.as_bytes()).ok()?;
    own.set_sensitive(value.is_sensitive());
    Some((name, own))
}

/// What a text takes beside its letters, about.
const TEXT_BYTES: usize = 60;

//! Which address a call goes to: all addresses of all URLs in turn, but for those that fail.
//!
//! | what happened at an address | consequence |
//! |---|---|
//! | a connection failed or broke | it is left out for a while: 1 s, doubling up to 30 s |
//! | another connected while it did not ([`connect`](crate::connect)) | the same |
//! | three replies in a row were `unavailable` | the same |
//! | a call came through | it counts as new |
//!
//! When all are left out, the one whose time is up first is taken: a client never refuses a call
//! because of what happened before. Names are resolved again every `limits.resolve_interval`, and a
//! second after an address failed; meanwhile calls go on with the addresses that are known.

use parking_lot::{Mutex, MutexGuard};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidewire_service::{Code, Error, Result};
use tokio::task::JoinSet;

use crate::connections::{Pool, Target};
use crate::deadline::{Deadline, Phase, deadline_error};
use crate::dial::{Address, Dialer};
use crate::endpoint::{Endpoint, ServerPlace};
use crate::limits::ClientLimits;
use crate::resolve::Resolver;
use crate::trace::{Step, Trace, now, tell};

/// The addresses of a client's servers.
pub(crate) struct Balancer {
    sources: Vec<Source>,
    resolver: Resolver,
    limits: ClientLimits,
    known: Mutex<AddressHealth>,
    next: AtomicUsize,
    /// The task that resolves again.
    tasks: Mutex<JoinSet<()>>,
    me: Weak<Self>,
}

#[derive(Default)]
struct AddressHealth {
    backends: Option<Arc<[Arc<Backend>]>>,
    resolved: Option<Instant>,
    is_resolving: bool,
    is_suspect: bool,
}

/// One URL.
pub(crate) struct Source {
    pub(crate) endpoint: Endpoint,
    pub(crate) dialer: Dialer,
}

/// An address, its connections and how it fares.
pub(crate) struct Backend {
    pub(crate) pool: Arc<Pool>,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    /// Failures since the last success.
    failures: u32,
    /// How often it was left out since the last success.
    ejections: u32,
    out_until: Option<Instant>,
    /// Somebody who asked it knows that it is not well, until then.
    unwell_until: Option<Instant>,
}

impl Balancer {
    pub(crate) fn new(sources: Vec<Source>, resolver: Resolver, limits: ClientLimits) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            sources,
            resolver,
            limits,
            known: Mutex::default(),
            next: AtomicUsize::new(0),
            tasks: Mutex::default(),
            me: me.clone(),
        })
    }

    /// The address for the next call.
    pub(crate) async fn pick(
        &self,
        deadline: &mut Deadline,
        trace: Option<&Trace>,
    ) -> Result<Arc<Backend>> {
        let known = self.lock().backends.clone();
        let backends = match known {
            Some(backends) => {
                self.resolve_again_if_due();
                backends
            }
            // Boxed, so that later calls are not the larger for it.
            None => Box::pin(self.resolve_first(deadline, trace)).await?,
        };
        if let [only] = &*backends {
            return Ok(Arc::clone(only));
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let present = now();
        let in_turn = (0..backends.len()).map(|i| &backends[next.wrapping_add(i) % backends.len()]);
        let mut soonest: Option<(Instant, &Arc<Backend>)> = None;
        for backend in in_turn {
            match backend.out_until().filter(|until| *until > present) {
                None => return Ok(Arc::clone(backend)),
                Some(until) if soonest.is_none_or(|(other, _)| until < other) => {
                    soonest = Some((until, backend));
                }
                Some(_) => {}
            }
        }
        let (_, backend) = soonest.ok_or_else(|| Error::unavailable("there is no address"))?;
        Ok(Arc::clone(backend))
    }

    /// Leaves the addresses of a server out for a while, by its name.
    pub(crate) fn leave_out(&self, name: &str, time: Duration) {
        let until = now().checked_add(time).filter(|_| !time.is_zero());
        let known = self.lock().backends.clone();
        for backend in known.iter().flat_map(|backends| backends.iter()) {
            if &*backend.pool.target.host == name {
                backend.health().unwell_until = until;
            }
        }
    }

    /// How many addresses there are; at least 1.
    pub(crate) fn count(&self) -> usize {
        self.lock().backends.as_ref().map_or(1, |backends| backends.len())
    }

    /// An address that is not among `tried` and not left out; rather of another family than the
    /// last.
    pub(crate) fn other_than(&self, tried: &[Arc<Backend>]) -> Option<Arc<Backend>> {
        let backends = self.lock().backends.clone()?;
        let present = now();
        let last = tried.last().map(|backend| backend.is_ipv6());
        let fresh = backends.iter().filter(|backend| {
            !tried.iter().any(|other| Arc::ptr_eq(other, backend))
                && backend.out_until().is_none_or(|until| until <= present)
        });
        fresh.min_by_key(|backend| Some(backend.is_ipv6()) == last).map(Arc::clone)
    }

    pub(crate) fn connect_stagger(&self) -> Duration {
        self.limits.connect_stagger
    }

    pub(crate) fn open_connections(&self) -> usize {
        let backends = self.lock().backends.clone();
        let backends = backends.iter().flat_map(|backends| backends.iter());
        backends.map(|backend| backend.pool.open_connections()).sum()
    }

    /// An address failed: it may be gone from the name.
    pub(crate) fn suspect(&self) {
        self.lock().is_suspect = true;
    }

    fn lock(&self) -> MutexGuard<'_, AddressHealth> {
        self.known.lock()
    }

    async fn resolve_first(
        &self,
        deadline: &mut Deadline,
        trace: Option<&Trace>,
    ) -> Result<Arc<[Arc<Backend>]>> {
        let found = match deadline.race(pin!(self.resolve(&[], trace))).await {
            Ok(found) => found?,
            Err(_) => {
                let host = self.sources.first().map_or("", |source| &*source.dialer.host);
                return Err(deadline_error(Phase::Resolve, host));
            }
        };
        let mut known = self.lock();
        known.resolved = Some(now());
        // Another call may have been first; then its connections are used.
        Ok(Arc::clone(known.backends.get_or_insert(found)))
    }

    fn resolve_again_if_due(&self) {
        if !self.sources.iter().any(Source::is_named) {
            return;
        }
        let mut known = self.lock();
        let age = known.resolved.map(|at| now().saturating_duration_since(at));
        let patience = match known.is_suspect {
            true => self.limits.resolve_interval.min(SUSPECT_INTERVAL),
            false => self.limits.resolve_interval,
        };
        if known.is_resolving || age.is_none_or(|age| age < patience) {
            return;
        }
        known.is_resolving = true;
        drop(known);
        let me = self.me.clone();
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let Some(balancer) = me.upgrade() else { return };
            let old = balancer.lock().backends.clone();
            let found = balancer.resolve(old.as_deref().unwrap_or_default(), None).await;
            let mut known = balancer.lock();
            known.is_resolving = false;
            known.is_suspect = false;
            known.resolved = Some(now());
            match found {
                Ok(found) => known.backends = Some(found),
                Err(error) => tracing::warn!(%error, "the addresses that were known stay in use"),
            }
        });
    }

    /// The addresses of all URLs; those that are known keep their connections.
    async fn resolve(
        &self,
        old: &[Arc<Backend>],
        trace: Option<&Trace>,
    ) -> Result<Arc<[Arc<Backend>]>> {
        let mut backends = Vec::new();
        let mut failed = None;
        for source in &self.sources {
            let addresses = match source.addresses(&self.resolver, trace).await {
                Ok(addresses) => addresses,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            for address in addresses {
                let target = source.target(address);
                let known = old.iter().find(|backend| backend.is_at(&target));
                backends.push(known.map_or_else(
                    || Arc::new(Backend::new(Pool::new(target, self.limits.clone()))),
                    Arc::clone,
                ));
            }
        }
        match failed {
            Some(error) if backends.is_empty() => Err(error),
            _ if backends.is_empty() => Err(Error::unavailable(format!(
                "the name {} has no addresses",
                self.sources.first().map_or("", |source| &*source.dialer.host)
            ))),
            _ => Ok(backends.into()),
        }
    }
}

/// How soon after an address failed names are resolved again.
const SUSPECT_INTERVAL: Duration = Duration::from_secs(1);
/// How many replies in a row may be `unavailable`.
const FAILURES_MAX: u32 = 3;
/// For how long an address is left out at first.
const EJECTION_MIN: Duration = Duration::from_secs(1);
/// For how long at most, each time twice as long.
const EJECTION_MAX: Duration = Duration::from_secs(30);

impl Backend {
    fn new(pool: Arc<Pool>) -> Self {
        Self { pool, health: Mutex::default() }
    }

    fn is_at(&self, target: &Target) -> bool {
        let own = &self.pool.target;
        own.address == target.address && own.authority == target.authority
    }

    fn is_ipv6(&self) -> bool {
        matches!(self.pool.target.address, Address::Tcp(address) if address.is_ipv6())
    }

    fn out_until(&self) -> Option<Instant> {
        let health = self.health();
        health.out_until.max(health.unwell_until)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock()
    }

    /// A connection failed or broke.
    pub(crate) fn broke(&self) {
        self.health().eject();
    }

    /// A call was answered.
    pub(crate) fn record_outcome(&self, error: Option<&Error>) {
        let mut health = self.health();
        if error.is_none_or(|error| error.code() != Code::Unavailable) {
            if health.failures > 0 || health.ejections > 0 {
                *health = Health { unwell_until: health.unwell_until, ..Health::default() };
            }
            return;
        }
        health.failures += 1;
        if health.failures >= FAILURES_MAX {
            health.eject();
        }
    }
}

impl Health {
    fn eject(&mut self) {
        let doubled = EJECTION_MIN.saturating_mul(2_u32.saturating_pow(self.ejections.min(16)));
        self.failures = 0;
        self.ejections += 1;
        self.out_until = now().checked_add(doubled.min(EJECTION_MAX));
    }
}

impl Source {
    /// Whether there is a name to resolve.
    fn is_named(&self) -> bool {
        match &self.endpoint.place {
            ServerPlace::Unix(_) => false,
            ServerPlace::Host { host, .. } => host.parse::<IpAddr>().is_err(),
        }
    }

    async fn addresses(&self, resolver: &Resolver, trace: Option<&Trace>) -> Result<Vec<Address>> {
        let (host, port) = match &self.endpoint.place {
            ServerPlace::Unix(path) => return Ok(vec![Address::Unix(path.clone())]),
            ServerPlace::Host { host, port } => (host, *port),
        };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![Address::Tcp(SocketAddr::new(ip, port))]);
        }
        let found = resolver.resolve(host, port).await.map_err(|error| {
            Error::unavailable(format!("the name {host} cannot be resolved: {error}"))
                .with_cause(error)
        })?;
        tell(trace, || Step::Resolved { host, addresses: &found });
        Ok(found.into_iter().map(Address::Tcp).collect())
    }

    fn target(&self, address: Address) -> Target {
        Target {
            to: address.to_string().into(),
            address,
            host: Arc::clone(&self.dialer.host),
            authority: self.endpoint.authority.clone(),
            scheme: self.endpoint.scheme(),
            prefix: self.endpoint.prefix.as_str().into(),
            dialer: self.dialer.clone(),
        }
    }
}

//! Which address a call goes to: all addresses of all URLs, in turn.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidewire_service::{Error, Result};

use crate::deadline::{Deadline, Phase, passed};
use crate::dial::{Address, Dialer};
use crate::endpoint::{Endpoint, Place};
use crate::limits::Limits;
use crate::pool::{Pool, Target};
use crate::trace::{Step, Trace, tell};

/// The addresses of a client's servers.
pub(crate) struct Balancer {
    sources: Vec<Source>,
    limits: Limits,
    pools: Mutex<Option<Pools>>,
    next: AtomicUsize,
}

type Pools = Arc<[Arc<Pool>]>;

/// One URL.
pub(crate) struct Source {
    pub(crate) endpoint: Endpoint,
    pub(crate) dialer: Dialer,
}

impl Balancer {
    pub(crate) fn new(sources: Vec<Source>, limits: Limits) -> Self {
        Self { sources, limits, pools: Mutex::default(), next: AtomicUsize::new(0) }
    }

    /// The connections for the next call.
    pub(crate) async fn pick(
        &self,
        deadline: &mut Deadline,
        trace: Option<&Trace>,
    ) -> Result<Arc<Pool>> {
        let known = self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pools = match known {
            Some(pools) => pools,
            None => self.resolve(deadline, trace).await?,
        };
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&pools[next % pools.len()]))
    }

    /// How many addresses there are; at least 1.
    pub(crate) fn count(&self) -> usize {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.as_ref().map_or(1, |pools| pools.len())
    }

    pub(crate) fn open_connections(&self) -> usize {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pools.iter().flat_map(|pools| pools.iter()).map(|pool| pool.open_connections()).sum()
    }

    async fn resolve(&self, deadline: &mut Deadline, trace: Option<&Trace>) -> Result<Pools> {
        let mut pools = Vec::new();
        let mut failed = None;
        for source in &self.sources {
            match source.addresses(deadline, trace).await {
                Ok(addresses) => pools.extend(
                    addresses.into_iter().map(|a| Pool::new(source.target(a), self.limits.clone())),
                ),
                Err(error) => failed = Some(error),
            }
        }
        if pools.is_empty() {
            return Err(failed.unwrap_or_else(|| Error::unavailable("there is no address")));
        }
        let pools: Pools = pools.into();
        let mut known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        // Another call may have been first; then its connections are used.
        Ok(Arc::clone(known.get_or_insert(pools)))
    }
}

impl Source {
    async fn addresses(
        &self,
        deadline: &mut Deadline,
        trace: Option<&Trace>,
    ) -> Result<Vec<Address>> {
        let (host, port) = match &self.endpoint.place {
            Place::Unix(path) => return Ok(vec![Address::Unix(path.clone())]),
            Place::Host { host, port } => (host, *port),
        };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![Address::Tcp(SocketAddr::new(ip, port))]);
        }
        let found = deadline.race(tokio::net::lookup_host((host.as_str(), port))).await;
        let found = found.map_err(|_| passed(Phase::Resolve, &self.dialer.host))?;
        let found: Vec<SocketAddr> = found
            .map_err(|error| {
                Error::unavailable(format!("the name {host} cannot be resolved: {error}"))
                    .with_cause(error)
            })?
            .collect();
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

//! The settings of a server that may change while it runs, and the server by them.

use std::sync::Arc;

use tidewire_cache::ReplyCache;
use tidewire_service::{Access, Spec};

use crate::app::{App, Shared};
use crate::control::start_error::StartError;
use crate::gate::AllGates;
use crate::gate::access::{AccessGate, AccessRules};
use crate::gate::callers::CallerAddresses;
use crate::gate::cors::{Cors, Policy};
use crate::limits::Limits;
use crate::protocols::rest::Rest;

/// The settings of a server that may change while it runs; see
/// [`ReloadHandle::reload`](crate::ReloadHandle::reload).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// See [`Builder::limits`](crate::Builder::limits).
    pub limits: Limits,
    /// See [`Builder::access`](crate::Builder::access).
    pub access: AccessRules,
    /// See [`Builder::cors`](crate::Builder::cors).
    pub cors: Cors,
    /// See [`Builder::callers`](crate::Builder::callers).
    pub callers: CallerAddresses,
}

impl Settings {
    /// The server by these settings, which are the edition of that number.
    ///
    /// # Errors
    /// [`StartError`]: settings by which it would not start.
    pub(crate) fn edition(
        self,
        shared: Arc<Shared>,
        rest: &Rest,
        edition: u64,
    ) -> Result<App, StartError> {
        let (AllGates { gates, open, access }, cors) = gates(&shared, rest, &self, true)?;
        let Self { limits, callers, .. } = self;
        let callers = callers.if_any();
        Ok(App { edition, limits, cors, callers, gates, open, access, shared })
    }

    /// Whether there can be an edition by these settings.
    ///
    /// # Errors
    /// As those of [`edition`](Self::edition).
    pub(crate) fn check(&self, shared: &Shared, rest: &Rest) -> Result<(), StartError> {
        gates(shared, rest, self, false).map(|_| ())
    }
}

fn gates(
    shared: &Shared,
    rest: &Rest,
    settings: &Settings,
    is_used: bool,
) -> Result<(AllGates, Option<Arc<Policy>>), StartError> {
    let Settings { limits, access: rules, cors, .. } = settings;
    let fault = limits.faults().into_iter().next();
    fault.map_or(Ok(()), |fault| Err(StartError::Limits(fault)))?;
    let cors = Policy::new(cors).map_err(StartError::Cors)?.map(Arc::new);
    let parts = &shared.edition_parts;
    let is_open = rules.is_reflection_open();
    let served = parts.served.iter().map(|method| &**method);
    let rules = rules.clone().with_docs(shared.has_docs);
    let access = access_gate(rules, parts.cache.as_ref(), served)?;
    rest.check_access(access.as_ref()).map_err(StartError::Access)?;
    // A check does not change the number of slots.
    let of_limits = if is_used { parts.state.gates(limits) } else { Default::default() };
    let mut all = AllGates::new(of_limits, parts.of_program.clone(), access, is_open);
    all.open.document &= parts.has_document;
    all.open.docs &= shared.has_docs;
    Ok((all, cors))
}

/// The gate of the access rules; `None` where everybody may call everything.
fn access_gate<'a>(
    rules: AccessRules,
    cache: Option<&ReplyCache>,
    served: impl Iterator<Item = &'a Spec> + Clone,
) -> Result<Option<AccessGate>, StartError> {
    let access = rules.gate(served.clone()).map_err(StartError::Access)?;
    if let (Some(cache), Some(gate)) = (cache, &access) {
        public_for_everybody(cache, gate, served)?;
    }
    Ok(access)
}

/// Refuses replies that are cached for everybody where not everybody may call: caches between would
/// give them out.
fn public_for_everybody<'a>(
    cache: &ReplyCache,
    gate: &AccessGate,
    mut served: impl Iterator<Item = &'a Spec>,
) -> Result<(), StartError> {
    let is_open = |spec: &Spec| *gate.of_method(spec) == Access::Anonymous;
    let found = served.find(|spec| cache.is_public(spec) && !is_open(spec));
    found.map_or(Ok(()), |spec| {
        let method = spec.path.trim_start_matches('/').to_owned();
        Err(StartError::PublicCache { method, access: gate.of_method(spec).clone() })
    })
}

//! What of a server's settings may change while it runs: bounds, access rules, other origins and
//! the addresses that may call.
//!
//! A connection keeps the edition by which it answers. Each of its requests compares one number,
//! and the connection takes the latest edition where it is another. Calls in flight keep theirs.
//! All editions share the counters of callers and the slots of calls.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use tidewire_cache::ReplyCache;
use tidewire_service::{Gate, Method};

use crate::control::builder::access_gate;
use crate::control::start_error::StartError;
use crate::dispatch::dispatcher::{App, Shared};
use crate::gate::access::AccessRules;
use crate::gate::callers::CallerAddresses;
use crate::gate::cors::{Cors, Policy};
use crate::gate::{AllGates, GateState};
use crate::limits::Limits;

/// The settings of a server that may change while it runs; see [`ReloadHandle::reload`].
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

/// Gives a running server other settings; see [`Builder::reload_handle`]. It does not keep the
/// server alive.
///
/// [`Builder::reload_handle`]: crate::Builder::reload_handle
#[derive(Clone, Default)]
pub struct ReloadHandle(Arc<ReloadTarget>);

#[derive(Default)]
struct ReloadTarget {
    latest: OnceLock<Weak<Latest>>,
    /// Whether anybody outside of the server has the handle.
    is_taken: AtomicBool,
}

impl ReloadHandle {
    /// Answers requests by these settings from now on; calls that are under way go on by those that
    /// they began with. Of the limits, those of connections hold for new connections, and those of
    /// [`Limits::READ_AT_START`] stay as they are. Before the server started, and once it has
    /// ended, nothing happens.
    ///
    /// # Errors
    /// [`StartError`]: settings by which the server would not start. Nothing changes then.
    pub fn reload(&self, settings: Settings) -> Result<(), StartError> {
        match self.0.latest.get().and_then(Weak::upgrade) {
            Some(latest) => latest.reload(settings),
            None => Ok(()),
        }
    }

    /// Whether the server would run by these settings.
    ///
    /// # Errors
    /// As those of [`reload`](Self::reload).
    pub fn check(&self, settings: &Settings) -> Result<(), StartError> {
        self.now().map_or(Ok(()), |now| now.shared.check(settings))
    }

    /// The server by the settings that it has now, while there is one.
    pub(crate) fn now(&self) -> Option<Arc<App>> {
        Some(self.0.latest.get()?.upgrade()?.now())
    }

    /// The handle, for whoever is to reload.
    pub(crate) fn hand_out(&self) -> Self {
        self.0.is_taken.store(true, Ordering::Relaxed);
        self.clone()
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.is_taken.load(Ordering::Relaxed)
    }

    /// Begins with these settings.
    pub(crate) fn start(&self, app: App) -> Arc<Latest> {
        let edition = AtomicU64::new(app.edition);
        let latest = Arc::new(Latest { edition, app: RwLock::new(Arc::new(app)) });
        let _ = self.0.latest.set(Arc::downgrade(&latest));
        latest
    }
}

impl fmt::Debug for ReloadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReloadHandle")
    }
}

/// The edition of a server by which new requests are answered.
pub(crate) struct Latest {
    edition: AtomicU64,
    app: RwLock<Arc<App>>,
}

impl Latest {
    /// That edition.
    pub(crate) fn now(&self) -> Arc<App> {
        Arc::clone(&self.app.read())
    }

    /// Whether an edition is another than the latest.
    #[inline]
    pub(crate) fn is_after(&self, app: &App) -> bool {
        self.edition.load(Ordering::Acquire) != app.edition
    }

    fn reload(&self, settings: Settings) -> Result<(), StartError> {
        // One at a time, while requests go on by what there is.
        let app = self.app.upgradable_read();
        let edition = app.edition + 1;
        let next = App { edition, ..Arc::clone(&app.shared).edition_of(settings)? };
        let mut app = RwLockUpgradableReadGuard::upgrade(app);
        let before = std::mem::replace(&mut *app, Arc::new(next));
        self.edition.store(edition, Ordering::Release);
        drop(app);
        drop(before);
        Ok(())
    }
}

/// What an edition is made of beside its settings.
pub(crate) struct EditionParts {
    pub(crate) state: GateState,
    pub(crate) of_program: Vec<Arc<dyn Gate>>,
    /// The methods that rules may be for.
    pub(crate) served: Vec<Method>,
    pub(crate) cache: Option<ReplyCache>,
    pub(crate) has_document: bool,
}

impl Shared {
    /// The server by the settings that it starts with.
    pub(crate) fn edition(self, settings: Settings) -> Result<App, StartError> {
        Arc::new(self).edition_of(settings)
    }

    /// The server by these settings.
    fn edition_of(self: Arc<Self>, settings: Settings) -> Result<App, StartError> {
        let (AllGates { gates, open, access }, cors) = self.gates(&settings, true)?;
        let Settings { limits, callers, .. } = settings;
        let callers = callers.if_any();
        Ok(App { edition: 0, limits, cors, callers, gates, open, access, shared: self })
    }

    /// Whether there can be an edition by these settings.
    fn check(&self, settings: &Settings) -> Result<(), StartError> {
        self.gates(settings, false).map(|_| ())
    }

    fn gates(
        &self,
        settings: &Settings,
        is_used: bool,
    ) -> Result<(AllGates, Option<Arc<Policy>>), StartError> {
        let Settings { limits, access: rules, cors, .. } = settings;
        let fault = limits.faults().into_iter().next();
        fault.map_or(Ok(()), |fault| Err(StartError::Limits(fault)))?;
        let cors = Policy::new(cors).map_err(StartError::Cors)?.map(Arc::new);
        let parts = &self.edition_parts;
        let is_open = rules.is_reflection_open();
        let served = parts.served.iter().map(|method| &**method);
        let rules = rules.clone().with_docs(self.has_docs);
        let access = access_gate(rules, parts.cache.as_ref(), served)?;
        self.rest.check_access(access.as_ref()).map_err(StartError::Access)?;
        // A check does not change the number of slots.
        let of_limits = if is_used { parts.state.gates(limits) } else { Default::default() };
        let mut all = AllGates::new(of_limits, parts.of_program.clone(), access, is_open);
        all.open.document &= parts.has_document;
        all.open.docs &= self.has_docs;
        Ok((all, cors))
    }
}

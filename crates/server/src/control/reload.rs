//! What of a server's settings may change while it runs: bounds, access rules, other origins and
//! the addresses that may call.
//!
//! A connection keeps the edition by which it answers. Each of its requests compares one number,
//! and the connection takes the latest edition where it is another. Calls in flight keep theirs.
//! All editions share the counters of callers and the slots of calls.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::app::AppHandle;
use crate::control::edition::Settings;
use crate::control::start_error::StartError;
use crate::dispatch::server_state::ServerState;

/// Gives a running server other settings; see [`Builder::reload_handle`]. It does not keep the
/// server alive.
///
/// [`Builder::reload_handle`]: crate::Builder::reload_handle
#[derive(Clone, Default)]
pub struct ReloadHandle(Arc<ReloadTarget>);

#[derive(Default)]
struct ReloadTarget {
    /// Leads to the settings that the server has now.
    app: AppHandle,
    server: OnceLock<Weak<ServerState>>,
    /// Whether anybody outside of the server has the handle.
    is_taken: AtomicBool,
}

impl ReloadHandle {
    /// Answers requests by these settings from now on; calls that are under way go on by those that
    /// they began with. Of the limits, those of connections hold for new connections, and those of
    /// [`Limits::READ_AT_START`](crate::Limits::READ_AT_START) stay as they are. Before the server
    /// started, and once it has ended, nothing happens.
    ///
    /// # Errors
    /// [`StartError`]: settings by which the server would not start. Nothing changes then.
    pub fn reload(&self, settings: Settings) -> Result<(), StartError> {
        let Some(server) = self.server() else { return Ok(()) };
        server.latest.replace(|app, edition| {
            let next = settings.edition(Arc::clone(&app.shared), &server.rest, edition)?;
            app.prepared.set_edition(edition);
            Ok(next)
        })
    }

    /// Whether the server would run by these settings.
    ///
    /// # Errors
    /// As those of [`reload`](Self::reload).
    pub fn check(&self, settings: &Settings) -> Result<(), StartError> {
        self.server()
            .map_or(Ok(()), |server| settings.check(&server.latest.now().shared, &server.rest))
    }

    /// The server, while there is one.
    fn server(&self) -> Option<Arc<ServerState>> {
        self.0.server.get()?.upgrade()
    }

    /// What leads to the settings that the server has now.
    pub(crate) fn app(&self) -> AppHandle {
        self.0.app.clone()
    }

    /// The handle, for whoever is to reload.
    pub(crate) fn hand_out(&self) -> Self {
        self.0.is_taken.store(true, Ordering::Relaxed);
        self.clone()
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.is_taken.load(Ordering::Relaxed)
    }

    /// Is for this server from now on.
    pub(crate) fn start(&self, server: ServerState) -> Arc<ServerState> {
        let server = Arc::new(server);
        self.0.app.set(&server.latest);
        let _ = self.0.server.set(Arc::downgrade(&server));
        server
    }
}

impl fmt::Debug for ReloadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReloadHandle")
    }
}

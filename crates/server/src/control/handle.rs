//! What others may know of a running server, and let it do: for what watches over it.

use std::path::PathBuf;
use std::sync::Arc;

use tidewire_listen::Address;
use tidewire_service::{Interface, Method, Signal};

use crate::app::Shared;
use crate::builtin::health::Health;
use crate::request::command::Commands;
use crate::runtime::usage::{Counters, Usage};
use crate::services::reloadable::ReloadableServices;
use crate::socket::prepared::PreparedReplies;

/// A running server, seen from beside; cheap to clone. It does not keep the server alive.
#[derive(Clone)]
pub struct Handle {
    pub(crate) health: Health,
    pub(crate) counters: Arc<Counters>,
    pub(crate) prepared: Arc<PreparedReplies>,
    pub(crate) commands: Commands,
    pub(crate) methods: Arc<[Method]>,
    pub(crate) interfaces: Arc<[Interface]>,
    pub(crate) offered: Option<Arc<ReloadableServices>>,
    pub(crate) drains: Signal,
    /// Where it listens; nowhere before it does.
    pub(crate) addresses: Arc<[Address]>,
    pub(crate) tls: bool,
    pub(crate) identity: Option<ReadIdentity>,
}

/// Reads who a server is now: its certificates may change while it runs.
pub(crate) type ReadIdentity = Arc<dyn Fn() -> ServerIdentity + Send + Sync>;

/// Who a server is in a handshake, for callers in its own process: they can trust exactly this.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerIdentity {
    /// The certificate chain, PEM, that is shown to a client that asks for no name.
    pub certificate: Arc<[u8]>,
    /// The file with that chain, where it is in one.
    pub certificate_file: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub requires_client_certificate: bool,
}

#[cfg(feature = "tls")]
impl ServerIdentity {
    /// Reads that of a server with these settings.
    pub(crate) fn of(tls: tidewire_listen::Tls) -> ReadIdentity {
        Arc::new(move || Self {
            certificate: tls.certificate(),
            certificate_file: tls.certificate_file().map(std::path::Path::to_owned),
            requires_client_certificate: tls.requires_client_certificate(),
        })
    }
}

impl Shared {
    /// What others may know of it; it listens nowhere yet.
    pub(crate) fn handle(&self, health: Health) -> Handle {
        let methods: Vec<_> = self.methods.each().cloned().collect();
        Handle {
            health,
            offered: self.methods.reloadable().cloned(),
            counters: Arc::clone(&self.counters),
            prepared: Arc::clone(&self.prepared),
            commands: self.commands.clone(),
            methods: methods.into(),
            interfaces: Arc::clone(&self.interfaces),
            drains: Signal::new(),
            addresses: Arc::default(),
            tls: false,
            identity: None,
        }
    }
}

impl Handle {
    /// Whether it takes calls: not any more once a drain began.
    pub fn is_ready(&self) -> bool {
        self.health.is_serving()
    }

    /// What it is doing, and how often its bounds were reached.
    pub fn usage(&self) -> Usage {
        self.counters.usage(self.commands.running(), self.prepared.answer_count())
    }

    /// The methods that it serves, its own services among them, in the order of their paths.
    pub fn methods(&self) -> Vec<Method> {
        let mut methods = self.methods.to_vec();
        if let Some(offered) = &self.offered {
            methods.extend(offered.now().methods.values().map(|entry| entry.method.clone()));
        }
        methods.sort_by(|a, b| a.path.cmp(&b.path));
        methods
    }

    /// The services that it serves, with their schemas; those of the server itself are not among
    /// them.
    pub fn interfaces(&self) -> Vec<Interface> {
        let mut interfaces = self.interfaces.to_vec();
        if let Some(offered) = &self.offered {
            let now = offered.now();
            interfaces.extend(now.services.iter().map(|(interface, _)| interface.clone()));
        }
        interfaces
    }

    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Whether its TCP addresses speak TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Who its TCP addresses are in a handshake, as it is now; `None` where they do not speak TLS.
    pub fn identity(&self) -> Option<ServerIdentity> {
        self.identity.as_ref().map(|read| read())
    }

    /// Lets it drain as a signal would, where it waits for signals
    /// ([`RunningServer::until_stopped`](crate::RunningServer::until_stopped)).
    pub fn drain(&self) {
        self.drains.fire();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

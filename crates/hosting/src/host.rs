//! The host: all hosted services of a gateway, the supervisor below them, and how they end.
//!
//! A host ends its processes in one of two ways: [`Host::stop`] lets calls end and asks processes
//! to; dropping it, like any end of the gateway, kills them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_memo::Graph;
use tokio::task::JoinHandle;

use crate::limits::LifeLimits;
use crate::native::callbacks::{Callee, Shared};
use crate::native::sources::Sources;
use crate::process::program::Program;
use crate::service::HostedService;
use crate::supervisor;
use crate::supervisor::client::SupervisorClient;
use crate::supervisor::process_mark::{self, Owner};

/// Hosts processes.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidewire_hosting::{Host, LifeLimits, Program};
/// let host = Host::start()?;
/// let shop = host.add(Program::new("shop", ["node", "server.js"]), LifeLimits::default());
/// // `shop` is a service; the first call starts the process.
/// host.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Host {
    supervisor: Arc<SupervisorClient>,
    sockets: Folder,
    services: Mutex<Vec<(HostedService, JoinHandle<()>)>>,
    /// Services that were removed, until one of their name is added.
    removed: Mutex<HashMap<String, HostedService>>,
    shared: Arc<Shared>,
}

impl Host {
    /// Starts the supervisor, and ends what gateways of this user left that were killed together
    /// with theirs. It needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// `main` does not begin with [`supervisor()`](crate::supervisor()); the system has no more
    /// processes.
    pub fn start() -> Result<Self, HostError> {
        if !supervisor::was_called() {
            return Err(HostError(io::Error::other(
                "hosting processes needs a supervisor; write tidewire::hosting::supervisor() as the first line of \
                 main, before any runtime",
            )));
        }
        Self::start_by("/proc/self/exe")
    }

    /// Starts the supervisor by another program whose `main` begins with
    /// [`supervisor()`](crate::supervisor()), where this one's cannot: a test, a library in a
    /// foreign program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_by(program: impl AsRef<Path>) -> Result<Self, HostError> {
        process_mark::sweep(Owner::is_gone);
        let supervisor = SupervisorClient::new(program.as_ref()).map_err(HostError)?;
        let sockets = Folder::new().map_err(HostError)?;
        let supervisor = Arc::new(supervisor);
        let shared = Arc::new(Shared::new(&Graph::global()));
        let services = Mutex::default();
        let removed = Mutex::default();
        Ok(Self { supervisor, sockets, services, removed, shared })
    }

    /// Makes what processes name in another graph than the global one: that in which the server
    /// keeps answers. Call it before services are added.
    #[must_use]
    pub fn in_graph(mut self, graph: &Graph) -> Self {
        let transfer_rate_min = self.shared.transfer_rate_min.load(Ordering::Relaxed);
        self.shared = Arc::new(Shared::new(graph));
        self.transfer_rate_min(transfer_rate_min)
    }

    /// Sets how many bytes a second of a request's body have to come, and of a reply have to be
    /// read, while other calls wait for its place: 16 KiB unless set. A slower body loses its
    /// place, with 408; a slower reply breaks off.
    #[must_use]
    pub fn transfer_rate_min(self, bytes: u64) -> Self {
        self.shared.transfer_rate_min.store(bytes, Ordering::Relaxed);
        self
    }

    /// The sources that processes name, by which answers of theirs are kept and end.
    pub fn sources(&self) -> &Arc<Sources> {
        &self.shared.sources
    }

    /// Says who answers what processes call: the server, once it is started. The first one is.
    pub fn answered_by(&self, callee: impl tidewire_live::Host) {
        let _ = self.shared.callee.set(Callee(Box::new(callee)));
    }

    /// Adds a service; its process is started by its first call. Calls of the methods of one of
    /// this name that was removed are this one's from now on.
    pub fn add(&self, program: Program, life: LifeLimits) -> HostedService {
        let supervisor = Arc::clone(&self.supervisor);
        let shared = Arc::clone(&self.shared);
        let hosted = HostedService::new(program, life, supervisor, self.sockets.0.clone(), shared);
        let keeper = tokio::spawn(Arc::clone(&hosted.0).keep());
        self.services().push((hosted.clone(), keeper));
        if let Some(removed) = self.removed().remove(hosted.name()) {
            removed.is_followed_by(&hosted);
        }
        hosted
    }

    /// Ends a service: it takes no more calls, its processes end with those that they have, and
    /// what was kept of its answers ends.
    pub fn remove(&self, hosted: &HostedService) {
        hosted.drain();
        hosted.0.lost_its_memory();
        self.removed().insert(hosted.name().to_owned(), hosted.clone());
        self.services().retain(|(_, keeper)| !keeper.is_finished());
    }

    /// Ends all services: calls end, processes are asked to end and killed after their grace. When
    /// it returns, no process is left, nor the supervisor.
    pub async fn stop(self) {
        let services = std::mem::take(&mut *self.services());
        self.supervisor.ends();
        services.iter().for_each(|(hosted, _)| hosted.drain());
        for (hosted, keeper) in services {
            if let Err(error) = keeper.await {
                tracing::error!(service = hosted.name(), %error, "its keeper failed");
            }
        }
        self.supervisor.close().await;
    }

    fn removed(&self) -> MutexGuard<'_, HashMap<String, HostedService>> {
        self.removed.lock()
    }

    fn services(&self) -> MutexGuard<'_, Vec<(HostedService, JoinHandle<()>)>> {
        self.services.lock()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.services().iter().for_each(|(_, keeper)| keeper.abort());
        self.supervisor.hang_up();
    }
}

/// The folder of sockets, which only this user may enter.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let parent = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let parent = parent.filter(|parent| parent.is_dir()).unwrap_or_else(std::env::temp_dir);
        Self::sweep(&parent);
        loop {
            let random = RandomState::new().hash_one(std::process::id());
            let owner = Owner::this().text();
            let folder = parent.join(format!("{PREFIX}{owner}.{:08x}", random >> 32));
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => return outcome.map(|()| Self(folder)),
            }
        }
    }
}

impl Folder {
    /// Removes those of gateways that are gone: what is another user's stays, as the system sees
    /// to.
    fn sweep(parent: &Path) {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let is_left = owner.and_then(Owner::parse).is_some_and(|(owner, _)| owner.is_gone());
            if is_left && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the folder is called, before its owner and a random number.
const PREFIX: &str = "tidewire-";

/// Why processes cannot be hosted.
#[derive(Debug)]
pub struct HostError(io::Error);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "processes cannot be hosted: {}", self.0)
    }
}

impl std::error::Error for HostError {}

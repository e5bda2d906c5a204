//! A running server: its addresses, and what may be asked of it.

use std::time::Duration;

use tidewire_listen::Address;
use tidewire_memo::Driver;
use tokio_util::task::TaskTracker;

use crate::control::handle::Handle;
use crate::control::reload::ReloadHandle;
use crate::protocols::live::Callee;
use crate::runtime::stop::{Stage, Stop};
use crate::runtime::usage::Usage;

/// A running server. Dropping it cuts everything off; [`drain`](Self::drain) ends it gently.
///
/// A test starts a server at a port that the system chooses, and ends it:
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_server::*; pub use tidewire_service::*; }
/// use tidewire::http;
/// use tidewire::{Call, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder()
///     .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
///     .route(http::Method::GET, "/", async |_: Call| Ok("hello"))
///     .start()
///     .await?;
/// let url = server.url(); // for a client
/// # assert!(url.starts_with("http://127.0.0.1:"));
/// assert_eq!(server.usage().connections_open, 0);
/// assert!(server.drain().await, "every call ended by itself");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RunningServer {
    pub(crate) addresses: Vec<Address>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    pub(crate) commands: crate::request::command::Commands,
    pub(crate) handle: Handle,
    /// What watches over it, until it ended.
    pub(crate) beside: Option<Box<Self>>,
    pub(crate) drain_grace: Duration,
    pub(crate) drain_timeout: Duration,
    /// Tells the time in the graph of what is kept.
    pub(crate) _driver: Option<Driver>,
    pub(crate) tls: bool,
    pub(crate) has_docs: bool,
    pub(crate) callee: Callee,
    pub(crate) reload: ReloadHandle,
}

impl RunningServer {
    /// Where it listens, in the order of the configuration, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The first TCP address as the start of a URL, `http://127.0.0.1:8080` or `https://…`; empty
    /// when it listens on Unix sockets only.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let tcp = self.addresses.iter().find(|address| matches!(address, Address::Tcp(_)));
        tcp.map_or_else(String::new, |address| format!("{scheme}://{address}"))
    }

    /// Where the docs page is, `http://127.0.0.1:8080/docs`; `None` where it is off, or no browser
    /// reaches it.
    pub fn docs_url(&self) -> Option<String> {
        let url = self.url();
        (self.has_docs && !url.is_empty())
            .then(|| format!("{url}{}", crate::gate::own_targets::DOCS_PATH))
    }

    /// What processes call that this program hosts; it answers until the server has ended.
    pub fn callee(&self) -> Callee {
        self.callee.clone()
    }

    /// How many commands run in tasks of the server.
    pub fn commands_running(&self) -> usize {
        self.commands.running()
    }

    /// What it is doing, and how often its bounds were reached.
    pub fn usage(&self) -> Usage {
        self.handle.usage()
    }

    /// What others may know of it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// What was started beside it; see [`Builder::beside`](crate::Builder::beside).
    pub fn beside(&self) -> Option<&Self> {
        self.beside.as_deref()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.advance(Stage::CutOff);
        self.commands.cut_off();
    }
}

//! A running server: its addresses, and how it ends.
//!
//! A drain takes five steps: health says NOT_SERVING, `limits.drain_grace` passes, listeners close,
//! connections finish the calls they have and close, running commands are joined. What is left
//! after `limits.drain_timeout` is cut off. A connection without a call, be it in a TLS handshake
//! or half a head, is not waited for, but for a second after it was accepted: its first request may
//! be on its way.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tidewire_listen::{Address, notify};
use tidewire_memo::Driver;
use tokio::signal::unix::{self, SignalKind};
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

    /// Ends the server: running calls may end, within `limits.drain_timeout`.
    ///
    /// Returns whether every call and every command ended by itself.
    pub async fn drain(self) -> bool {
        self.handle.health.shut_down();
        let grace = self.drain_grace;
        let timeout = self.drain_timeout;
        if !grace.is_zero() {
            tracing::info!(
                "draining: calls are taken for limits.drain_grace = {grace:?} more, until load balancers know"
            );
            tokio::time::sleep(grace).await;
        }
        self.stop.advance(Stage::Draining);
        self.tasks.close();
        let Usage { connections_open: connections, commands_running: commands, .. } = self.usage();
        if connections + commands > 0 {
            tracing::info!(
                connections,
                commands,
                "draining: what runs may end within limits.drain_timeout = {timeout:?}"
            );
        }
        let ended = async {
            self.tasks.wait().await;
            self.commands.join().await;
        };
        if tokio::time::timeout(timeout, ended).await.is_ok() {
            tracing::info!("drained: every call and command ended by itself");
            return true;
        }
        let commands = self.commands.running();
        self.stop.advance(Stage::CutOff);
        self.commands.cut_off();
        self.tasks.wait().await;
        self.commands.join().await;
        let calls = self.stop.calls_cut_off();
        if calls + commands == 0 {
            tracing::info!("drained: the connections that were left had no calls, and were closed");
            return true;
        }
        tracing::warn!(
            calls,
            commands,
            "what still ran after limits.drain_timeout = {timeout:?} was cut off"
        );
        false
    }

    /// Waits for Ctrl-C or SIGTERM, then drains; a second signal cuts off at once. SIGHUP is
    /// left to whoever has the [`reload_handle`](crate::Builder::reload_handle); without one it is
    /// logged, and changes no setting.
    ///
    /// Signals are heard from the call on, before the future is awaited: a program that says that
    /// it listens in between is stopped gently by whoever reads that.
    ///
    /// # Errors
    /// When the signals cannot be listened to; `Interrupted` after a second one.
    pub fn until_stopped(self) -> impl Future<Output = io::Result<bool>> + Send {
        let signals = Signals::listen(self.reload.is_taken());
        async move {
            let mut signals = signals?;
            let drains = self.handle.drains.clone();
            notify::tell(notify::READY);
            tokio::select! {
                () = signals.next() => {}
                () = poll_fn(|cx| drains.poll_fired(cx)) => {}
            }
            notify::tell(notify::STOPPING);
            let stop = self.stop.clone();
            let commands = self.commands.clone();
            tokio::select! {
                in_time = self.drain() => Ok(in_time),
                () = signals.next() => {
                    stop.advance(Stage::CutOff);
                    commands.cut_off();
                    Err(io::Error::new(io::ErrorKind::Interrupted, TWICE))
                }
            }
        }
    }
}

const TWICE: &str = "a second signal came before the drain was over; what still ran was cut off";

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.advance(Stage::CutOff);
        self.commands.cut_off();
    }
}

/// The signals that end a program, listened to from one to the next, so that none is missed
/// between.
struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    /// Whether somebody else reads settings at SIGHUP.
    is_followed: bool,
}

impl Signals {
    fn listen(is_followed: bool) -> io::Result<Self> {
        Ok(Self {
            is_followed,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => if !self.is_followed {
                    tracing::info!("SIGHUP changes no setting of the server; they are read when it starts");
                }
            }
        }
    }
}

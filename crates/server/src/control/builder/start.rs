//! From a builder to a running server: whether it would start, its addresses, and its tasks.

use std::sync::Arc;

use tidewire_listen::{Address, Addresses, Listener};
use tokio::sync::Semaphore;

use crate::connection::acceptor::Acceptor;
use crate::control::builder::Builder;
use crate::control::running_server::RunningServer;
use crate::control::start_error::StartError;

impl Builder {
    /// Opens the addresses and serves until the result is drained or dropped. What fails meanwhile
    /// is logged by `tracing`, which prints nothing until the program starts a log.
    ///
    /// # Errors
    /// [`StartError`]: an address in use, routes, methods or settings that exclude each other.
    pub async fn start(mut self) -> Result<RunningServer, StartError> {
        self.check_settings()?;
        let addresses = if self.listen.is_empty() {
            vec![Address::Tcp(([127, 0, 0, 1], 8080).into())]
        } else {
            self.listen.clone()
        };
        let with_reflection = self.with_reflection();
        #[cfg(feature = "tls")]
        let tls = self.tls.clone();
        let connections = Arc::new(Semaphore::new(self.limits.connections_max));
        let addresses_open = Addresses::new(self.limits.address_connections_max);
        let drain_timeout = self.limits.drain_timeout;
        let driver = match &self.memo {
            Some(cache) => Some(cache.graph().drive().map_err(StartError::Memo)?),
            None => None,
        };
        // What is wrong with the settings is said first, whoever has the port.
        let beside = self.beside.take();
        let private_sockets = self.private_sockets;
        let reload = self.reload.clone();
        let (server, health) = self.assemble(with_reflection)?;
        let app = server.latest.now();
        let listeners = bind(addresses, private_sockets).await?;
        let mut running = RunningServer {
            addresses: listeners.iter().filter_map(|listener| listener.address().ok()).collect(),
            tasks: app.tasks.clone(),
            stop: app.stop.clone(),
            commands: app.commands.clone(),
            handle: app.handle(health),
            beside: None,
            drain_grace: app.limits.drain_grace,
            drain_timeout,
            _driver: driver,
            #[cfg(feature = "tls")]
            tls: tls.is_some(),
            #[cfg(not(feature = "tls"))]
            tls: false,
            has_docs: app.has_docs,
            reload,
            callee: server.live.callee(),
        };
        running.handle.addresses = running.addresses.clone().into();
        running.handle.tls = running.tls;
        #[cfg(feature = "tls")]
        {
            running.handle.identity = tls.clone().map(crate::control::handle::ServerIdentity::of);
        }
        if let Some(make) = beside {
            let started = Box::pin(make(running.handle()).start()).await;
            running.beside = Some(Box::new(started?));
        }
        let kept = Arc::clone(&server);
        let stop = running.stop.clone();
        running.tasks.spawn(async move { kept.live.keep(stop).await });
        for listener in listeners {
            let acceptor = Acceptor {
                server: Arc::clone(&server),
                listener,
                connections: Arc::clone(&connections),
                addresses: addresses_open.clone(),
                tasks: running.tasks.clone(),
                stop: running.stop.clone(),
                #[cfg(feature = "tls")]
                tls: tls.clone(),
            };
            running.tasks.spawn(acceptor.run());
        }
        Ok(running)
    }

    /// Whether it would start, apart from its addresses: nothing is listened on.
    ///
    /// # Errors
    /// [`StartError`], as [`start`](Self::start) finds it.
    pub fn check(self) -> Result<(), StartError> {
        self.check_settings()?;
        let with_reflection = self.with_reflection();
        self.assemble(with_reflection).map(|_| ())
    }

    fn check_settings(&self) -> Result<(), StartError> {
        let fault = self.limits.faults().into_iter().next();
        fault.map_or(Ok(()), |fault| Err(StartError::Limits(fault)))?;
        if self.docs == Some(true) && !self.with_reflection() {
            return Err(StartError::DocsWithoutReflection);
        }
        self.command_keys
            .check(&self.services, self.offer.as_ref().map(|offer| &*offer.source))
            .map_err(StartError::CommandKeys)
    }

    /// Whether reflection is on: as it was set, or where every address is local.
    pub(super) fn with_reflection(&self) -> bool {
        self.reflection.unwrap_or_else(|| self.is_local())
    }

    pub(super) fn is_local(&self) -> bool {
        self.listen.iter().all(Address::is_local)
    }

    /// Serves until Ctrl-C or SIGTERM, then drains.
    ///
    /// # Errors
    /// [`StartError`], and an I/O error when signals cannot be listened to.
    pub async fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let running = self.start().await?;
        let addresses = running.addresses().to_vec();
        let stopped = running.until_stopped();
        for address in addresses {
            tracing::info!(%address, "serving");
        }
        stopped.await?;
        Ok(())
    }
}

async fn bind(addresses: Vec<Address>, is_private: bool) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = Listener::bind(&address, is_private).await;
        listeners.push(listener.map_err(|cause| StartError::Listen { address, cause })?);
    }
    Ok(listeners)
}

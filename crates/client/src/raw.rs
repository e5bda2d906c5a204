//! Connections for whoever speaks on them themselves: a WebSocket that is passed on, above all.
//!
//! Each is new, and nobody else uses it. TLS, resolving and the addresses that are tried are those
//! of any other connection; of HTTP only version 1.1 is offered.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidewire_service::{Error, Outcome, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline::{Phase, SharedPhase};
use crate::dial::{Address, Dialer, Log, Socket};
use crate::endpoint::{Endpoint, ServerPlace};
use crate::resolve::Resolver;

/// Opens connections to one server; cheap to clone.
#[derive(Clone)]
pub struct RawDialer(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    dialer: Dialer,
    resolver: Resolver,
    timeout: Duration,
}

/// An open connection, before anything was said on it.
pub struct RawStream(Socket);

impl RawDialer {
    pub(crate) fn new(
        endpoint: Endpoint,
        dialer: Dialer,
        resolver: Resolver,
        timeout: Duration,
    ) -> Self {
        Self(Arc::new(Inner { endpoint, dialer, resolver, timeout }))
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Opens a connection to the first address that answers.
    ///
    /// # Errors
    /// `unavailable`, not run: none answers, or not within `limits.connect_timeout`.
    pub async fn dial(&self) -> Result<RawStream> {
        let timeout = self.0.timeout;
        let opened = tokio::time::timeout(timeout, self.socket()).await.unwrap_or_else(|_| {
            let text = format!("no connection within limits.connect_timeout = {timeout:?}");
            Err(Error::unavailable(text))
        });
        opened.map(RawStream).map_err(|error| error.with_outcome(Outcome::NotRun))
    }

    pub(crate) async fn socket(&self) -> Result<Socket> {
        let Inner { endpoint, dialer, resolver, .. } = &*self.0;
        let addresses = match &endpoint.place {
            ServerPlace::Unix(path) => vec![Address::Unix(path.clone())],
            ServerPlace::Host { host, port } => {
                let found = resolver.resolve(host, *port).await;
                let found = found.map_err(|cause| {
                    Error::unavailable(format!("{host} did not resolve to an address"))
                        .with_cause(cause)
                })?;
                found.into_iter().map(Address::Tcp).collect()
            }
        };
        let mut failed = Error::unavailable(format!("{} has no address", endpoint.name()));
        for address in addresses {
            let phase = SharedPhase::new(Phase::Connect);
            match dialer.dial(&address, &phase, &mut Log::default()).await {
                Ok(dialed) => return Ok(dialed.socket),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl AsyncRead for RawStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for RawStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl fmt::Debug for RawDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawDialer").field("server", &self.0.endpoint.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RawStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawStream").finish_non_exhaustive()
    }
}

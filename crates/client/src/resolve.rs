//! From the name of a server to its addresses.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Finds the addresses of a name; asked again from time to time, and when addresses fail.
///
/// Unless a client is given one, it asks the system.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(String, u16) -> ResolveFuture + Send + Sync>);

type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

impl Resolver {
    /// A resolver that asks `resolve` for a host and a port.
    ///
    /// ```
    /// use tidewire_client::Resolver;
    /// let fixed = Resolver::new(|_host, port| async move {
    ///     Ok(vec![([127, 0, 0, 1], port).into(), ([127, 0, 0, 2], port).into()])
    /// });
    /// ```
    pub fn new<F, Fut>(resolve: F) -> Self
    where
        F: Fn(String, u16) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |host, port| Box::pin(resolve(host, port))))
    }

    pub(crate) fn resolve(&self, host: &str, port: u16) -> ResolveFuture {
        (self.0)(host.to_owned(), port)
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(
            |host, port| async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) },
        )
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

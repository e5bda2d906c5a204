//! A reply of plain HTTP that takes the connection over: WebSocket, `CONNECT`.
//!
//! The server sends the head of the reply (101, or 200 for `CONNECT`), then hands the connection to
//! the function and runs it in its own task, which a drain waits for and cuts off.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that was taken over, as bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + 'static> Duplex for T {}

type Run = dyn FnOnce(Pin<Box<dyn Duplex>>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send;

/// What runs on a connection that a reply takes over; see
/// [`Reply::upgrade`](crate::Reply::upgrade).
pub struct Upgrade(Box<Run>);

impl Upgrade {
    /// Runs `f` on the connection.
    pub fn new<F, Fut>(f: F) -> Self
    where
        F: FnOnce(Pin<Box<dyn Duplex>>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(move |connection| Box::pin(f(connection))))
    }

    /// Runs on the connection until it is over.
    pub async fn run(self, connection: Pin<Box<dyn Duplex>>) {
        (self.0)(connection).await;
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}

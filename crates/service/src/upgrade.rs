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
///
/// Says back what it hears:
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_service::*;
/// #     pub mod service { pub use tidewire_service::*; }
/// # }
/// use tidewire::http;
/// use tidewire::service::Upgrade;
/// use tidewire::{Call, Reply, Result};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// async fn echo(_: Call) -> Result<Reply> {
///     let upgrade = Upgrade::new(|mut connection| async move {
///         let mut bytes = [0; 1024];
///         while let Ok(count @ 1..) = connection.read(&mut bytes).await {
///             if connection.write_all(&bytes[..count]).await.is_err() {
///                 break;
///             }
///         }
///     });
///     Reply::upgrade(http::StatusCode::SWITCHING_PROTOCOLS, upgrade).with_header("upgrade", "echo")
/// }
/// # let _: &dyn tidewire::Service = &echo;
/// ```
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

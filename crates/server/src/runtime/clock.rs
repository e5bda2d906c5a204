//! The clock of the runtime, for crates that are given the time.

use std::pin::Pin;
use std::time::Instant;

use tidewire_service::Clock;

/// Tells the time of tokio, which tests can pause.
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_server::*;
/// #     pub use tidewire_service::*;
/// #     pub mod server { pub use tidewire_server::*; }
/// #     pub mod service { pub use tidewire_service::*; }
/// # }
/// use tidewire::http;
/// use tidewire::server::TokioClock;
/// use tidewire::service::{Clock, FollowOptions, follow};
/// use tidewire::{Body, Call, Context};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let uri = http::Uri::from_static("/");
/// let query = Call::http(http::Method::GET, uri, Context::default(), Body::Empty).buffered().await?;
/// let hello = Arc::new(async |_: Call| Ok("hello"));
/// let mut answers = follow(hello, query, FollowOptions::default(), TokioClock);
/// assert!(answers.next().await?.is_some());
/// assert!(answers.next().await?.is_none(), "nothing says when the first one ends");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

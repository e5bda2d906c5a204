//! What happens on the wire during a call, step by step, for whoever wants to watch.
//!
//! A [`Trace`] is a callback. In the extensions of a call's `Context` it sees that call; given to
//! [`Builder::trace`](crate::Builder::trace) it sees every call of a client. Without one a call
//! pays one look into its extensions.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode, Uri, Version};
use tidewire_service::Headers;

/// Sees each step of a call; cheap to clone.
///
/// ```
/// use tidewire_client::{Step, Trace};
/// let trace = Trace::new(|event| {
///     if let Step::Response { status, .. } = event.step {
///         println!("{status}");
///     }
/// });
/// let mut context = tidewire_service::Context::default();
/// context.extensions_mut().insert(trace);
/// ```
#[derive(Clone)]
pub struct Trace(Arc<dyn Fn(&Event<'_>) + Send + Sync>);

/// A step and when it was done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// When.
    pub at: Instant,
    /// What.
    pub step: Step<'a>,
}

/// One step of a call, in the order in which they come.
///
/// A retried call goes through them again. A call that takes a connection from the pool has
/// [`Reused`](Self::Reused) in place of the steps before it.
///
/// Which address a call went to, and whether its connection was there already:
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// use tidewire::client::{Step, Trace};
///
/// let trace = Trace::new(|event| match event.step {
///     Step::Connecting { to } => println!("{:?}: connects to {to}", event.at),
///     Step::Reused { to } => println!("{:?}: goes on with {to}", event.at),
///     _ => {}
/// });
/// // Client::builder("http://10.0.0.7:8080").trace(trace)
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// A name was resolved; only when that was done for this call.
    Resolved {
        /// The name.
        host: &'a str,
        /// Its addresses.
        addresses: &'a [SocketAddr],
    },
    /// A connection is being opened.
    Connecting {
        /// Its address: `127.0.0.1:8080` or `unix:/run/shop.sock`.
        to: &'a str,
    },
    /// The connection is there.
    Connected {
        /// Its address.
        to: &'a str,
        /// Our own address; `None` for a Unix socket.
        local: Option<SocketAddr>,
    },
    /// The TLS handshake is done.
    Secured(&'a TlsSession),
    /// A connection was taken from the pool.
    Reused {
        /// Its address.
        to: &'a str,
    },
    /// The head of the request goes out.
    Request {
        /// The verb.
        method: &'a Method,
        /// What is requested.
        uri: &'a Uri,
        /// HTTP/1.1 or HTTP/2.
        version: Version,
        /// All headers.
        headers: Headers,
    },
    /// A message goes out, or a chunk of a plain HTTP body.
    MessageSent {
        /// Its length in bytes with envelope and compression.
        wire_bytes: usize,
    },
    /// The whole request was handed to the connection.
    RequestSent,
    /// The head of the response is there: the first byte.
    Response {
        /// The HTTP status.
        status: StatusCode,
        /// HTTP/1.1 or HTTP/2.
        version: Version,
        /// All headers, those of the protocol too.
        headers: Headers,
    },
    /// A message came in, or a chunk of a plain HTTP body.
    MessageReceived {
        /// Its length in bytes with envelope and compression.
        wire_bytes: usize,
    },
    /// Trailers came in: HTTP trailers, or the last message of gRPC-Web and Connect streams.
    Trailers {
        /// All of them, those of the protocol too.
        trailers: Headers,
    },
    /// An attempt failed and another one follows.
    Retrying {
        /// The error of the attempt.
        error: &'a tidewire_service::Error,
        /// How long the client waits before the next one.
        after: std::time::Duration,
    },
    /// The response was read to its end.
    Done,
}

/// What a TLS handshake agreed on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsSession {
    /// Such as `TLSv1_3`.
    pub version: String,
    /// Such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// The protocol that ALPN chose: `h2` or `http/1.1`.
    pub alpn: Option<String>,
    /// The server's certificate chain in DER, leaf first.
    pub certificates: Vec<Vec<u8>>,
}

impl Trace {
    /// A trace that calls `see` with each step, on the task that does it.
    pub fn new(see: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }

    pub(crate) fn at(&self, at: Instant, step: Step<'_>) {
        (self.0)(&Event { at, step });
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

/// Tells the trace of a call, if it has one, what is done now.
pub(crate) fn tell<'a>(trace: Option<&Trace>, step: impl FnOnce() -> Step<'a>) {
    if let Some(trace) = trace {
        trace.at(now(), step());
    }
}

/// The present, by tokio's clock, which tests can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

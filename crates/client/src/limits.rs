//! Every bound of a client, with its default.
//!
//! | field | default | what happens past it |
//! |---|---|---|
//! | `message_bytes_max` | 4 MiB | `resource_exhausted`; also bounds what compression may unfold to |
//! | `connect_timeout` | 10 s | `unavailable`, another address is tried |
//! | `connect_stagger` | 250 ms | another address is tried beside |
//! | `resolve_interval` | 30 s | names are resolved again |
//! | `idle_timeout` | 60 s | an unused connection is closed |
//! | `http1_connections_max` | 64 an address | calls wait for a free connection |
//! | `http2_connections_max` | 4 an address | calls wait for a free stream |
//! | `http2_streams_max` | 100 a connection | a further connection is opened |
//! | `waiting_max` | 10,000 an address | `resource_exhausted` |
//! | `keep_alive_interval` | 20 s; 310 s with gRPC, unless set | a silent HTTP/2 connection with calls is asked for a sign of life |
//! | `keep_alive_timeout` | 20 s | without one it is closed; its calls fail with `unavailable` |
//! | `stream_window_bytes` | 256 KiB | HTTP/2 senders wait |
//! | `connection_window_bytes` | 25 MiB | a further connection is opened |
//!
//! Every call on an HTTP/2 connection has its share of what may be on its way unread: a connection
//! takes no more calls than `connection_window_bytes` holds `stream_window_bytes`, so that replies
//! that nobody reads never hold others up.

use std::time::Duration;

/// The bounds of a client.
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// use std::time::Duration;
/// use tidewire::Client;
/// use tidewire::client::ClientLimits;
///
/// let mut limits = ClientLimits::default();
/// limits.connect_timeout = Duration::from_secs(1);
/// limits.message_bytes_max = 64 * 1024 * 1024;
/// let client = Client::builder("http://10.0.0.7:8080").limits(limits).build()?;
/// # Ok::<(), tidewire::client::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The largest reply message in bytes, as it arrives and after decompression.
    pub message_bytes_max: usize,
    /// How long a connection may take to be ready: TCP, TLS and HTTP/2 together.
    pub connect_timeout: Duration,
    /// How long a connection may take before another address is tried beside it.
    pub connect_stagger: Duration,
    /// How long the addresses of a name are used before it is resolved again.
    pub resolve_interval: Duration,
    /// How long an unused connection is kept.
    pub idle_timeout: Duration,
    /// How many HTTP/1.1 connections are open at once to one address.
    pub http1_connections_max: usize,
    /// How many HTTP/2 connections are open at once to one address.
    pub http2_connections_max: usize,
    /// How many calls run at once on one HTTP/2 connection; the server may allow fewer.
    pub http2_streams_max: usize,
    /// How many calls wait at once for a connection to one address.
    pub waiting_max: usize,
    /// How long an HTTP/2 connection with calls may be silent before it is asked for a sign of
    /// life; unless set, 20 s, and [`KEEP_ALIVE_GRPC`](Self::KEEP_ALIVE_GRPC) with
    /// `Protocol::Grpc`.
    pub keep_alive_interval: Option<Duration>,
    /// How long that sign of life may take.
    pub keep_alive_timeout: Duration,
    /// How many bytes of one HTTP/2 stream may be on their way without having been read.
    pub stream_window_bytes: u32,
    /// How many bytes of one HTTP/2 connection may be on their way without having been read. It
    /// takes as many calls at once as their windows have room in it.
    pub connection_window_bytes: u32,
}

impl ClientLimits {
    /// How long a connection to a server of gRPC may be silent: their libraries end one on which
    /// they are asked for a sign of life more often than each 5 minutes.
    pub const KEEP_ALIVE_GRPC: Duration = Duration::from_secs(310);

    /// The same of any other server.
    pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(20);

    /// How many calls run at once on one HTTP/2 connection, if the server allows as many.
    pub(crate) fn streams_of_a_connection(&self) -> usize {
        let shares = self.connection_window_bytes / self.stream_window_bytes.max(1);
        let shares = usize::try_from(shares).unwrap_or(usize::MAX);
        self.http2_streams_max.min(shares).max(1)
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 4 << 20,
            connect_timeout: Duration::from_secs(10),
            connect_stagger: Duration::from_millis(250),
            resolve_interval: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            http1_connections_max: 64,
            http2_connections_max: 4,
            http2_streams_max: 100,
            waiting_max: 10_000,
            keep_alive_interval: None,
            keep_alive_timeout: Duration::from_secs(20),
            stream_window_bytes: 256 << 10,
            connection_window_bytes: 25 << 20,
        }
    }
}

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
//! | `keep_alive_interval` | 20 s | a silent HTTP/2 connection with calls is asked for a sign of life |
//! | `keep_alive_timeout` | 20 s | without one it is closed; its calls fail with `unavailable` |
//! | `stream_window_bytes` | 1 MiB | HTTP/2 senders wait |
//! | `connection_window_bytes` | 8 MiB | HTTP/2 senders wait |

use std::time::Duration;

/// The bounds of a client.
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
    /// How long an HTTP/2 connection with calls may be silent before it is asked for a sign of life.
    pub keep_alive_interval: Duration,
    /// How long that sign of life may take.
    pub keep_alive_timeout: Duration,
    /// How many bytes of one HTTP/2 stream may be on their way without having been read.
    pub stream_window_bytes: u32,
    /// How many bytes of one HTTP/2 connection may be on their way without having been read.
    pub connection_window_bytes: u32,
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
            keep_alive_interval: Duration::from_secs(20),
            keep_alive_timeout: Duration::from_secs(20),
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 8 << 20,
        }
    }
}

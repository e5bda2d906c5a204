//! Every bound of a server, with its default.
//!
//! | field | default | what happens past it |
//! |---|---|---|
//! | `body_bytes_max` | 4 MiB | `resource_exhausted`, 413 over plain HTTP |
//! | `message_bytes_max` | 4 MiB | `resource_exhausted` |
//! | `header_read_timeout` | 30 s | the connection is closed |
//! | `commands_max` | 10,000 | `resource_exhausted`; the command does not run |
//! | `connections_max` | 10,000 | new connections wait in the listen queue |
//! | `streams_max` | 256 a connection | HTTP/2 refuses the stream |
//! | `stream_window_bytes` | 128 KiB | HTTP/2 senders wait |
//! | `connection_window_bytes` | 8 MiB | HTTP/2 senders wait |
//! | `drain_timeout` | 10 s | what still runs is cut off |
//!
//! The windows are fixed, not adaptive: the HTTP/2 library closes a connection whose unread small
//! data frames cost more than half the connection window, so that window has to be large enough for
//! a stream window full of ten-byte messages (13,000 of them at about 250 bytes each).

mod range;

use std::time::Duration;

pub use self::range::LimitsError;

/// The bounds of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest request body in bytes, as it arrives.
    pub body_bytes_max: usize,
    /// The largest request message in bytes, after decompression.
    pub message_bytes_max: usize,
    /// How long the head of a request may take.
    pub header_read_timeout: Duration,
    /// How many commands run at once, over all connections and protocols.
    pub commands_max: usize,
    /// How many connections are open at once, over all listeners.
    pub connections_max: usize,
    /// How many calls run at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// How many bytes of one HTTP/2 stream may be on their way without having been read.
    pub stream_window_bytes: u32,
    /// How many bytes of one HTTP/2 connection may be on their way without having been read.
    pub connection_window_bytes: u32,
    /// How long a drain waits for running calls.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 4 << 20,
            message_bytes_max: 4 << 20,
            header_read_timeout: Duration::from_secs(30),
            commands_max: 10_000,
            connections_max: 10_000,
            streams_max: 256,
            stream_window_bytes: 128 << 10,
            connection_window_bytes: 8 << 20,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

//! Every bound of a server, with its default.
//!
//! | field | default | what happens past it |
//! |---|---|---|
//! | `body_bytes_max` | 4 MiB | REST and plain HTTP: `resource_exhausted`, 413 |
//! | `message_bytes_max` | 4 MiB | Connect, gRPC, gRPC-Web, those that pass unread too: `resource_exhausted` |
//! | `handshake_timeout` | 10 s | a connection whose TLS handshake is not over is closed |
//! | `first_byte_timeout` | 10 s | a connection on which nothing came is closed |
//! | `header_read_timeout` | 30 s | a connection with part of a head is closed |
//! | `idle_timeout` | 2 min | a connection without calls is closed; HTTP/2 within twice that |
//! | `keep_alive_interval` | 30 s | HTTP/2: the peer is asked whether it is there |
//! | `keep_alive_timeout` | 20 s | HTTP/2: a connection whose peer does not say so is closed |
//! | `body_progress_timeout` | 30 s | a body that stands still: `deadline_exceeded`, 408 |
//! | `body_progress_bytes_min` | 4 KiB | what has to come in that time, or the end |
//! | `transfer_rate_min` | 16 KiB a second | hosted programs: a slower body whose place other calls wait for is `deadline_exceeded`, 408; a reply that is read slower breaks off |
//! | `unread_body_bytes_max` | 1 MiB | HTTP/2: what a client sends after its reply; the stream is reset |
//! | `unread_body_timeout` | 5 s | how long that is taken in, and over HTTP/1.1 how long the sender may pause: the stream is reset, the connection closed |
//! | `reply_progress_timeout` | 60 s | nobody reads the reply: the stream is reset, or the connection closed |
//! | `reply_bytes_waiting_max` | 64 MiB a connection | further replies are `resource_exhausted` |
//! | `reply_bytes_waiting_all_max` | 1 GiB | the same, over all connections of HTTP; and as much again over all live sessions |
//! | `prepared_bytes_max` | 16 MiB | cached replies over HTTP/1.1 are printed for each request; 0: always |
//! | `commands_max` | 10,000 | `resource_exhausted`; the command does not run |
//! | `connections_max` | 10,000 | new connections wait in the listen queue |
//! | `streams_max` | 256 a connection | HTTP/2 refuses the stream; a live client waits |
//! | `watches_max` | 131,072 a connection | live answers that the peer is told about: others come without that |
//! | `followers_max` | 10,000 | queries followed for clients of HTTP: `resource_exhausted` |
//! | `sessions_parked_max` | 1,000 | live sessions without a connection: the oldest are given up |
//! | `sessions_parked_bytes_max` | 64 MiB | what these hold together: the same |
//! | `stream_window_bytes` | 128 KiB | HTTP/2 senders wait |
//! | `connection_window_bytes` | 8 MiB | HTTP/2 senders wait |
//! | `drain_timeout` | 10 s | what still runs is cut off |
//! | `drain_grace` | none | how long connections are still accepted after readiness says no |
//! | `calls_max` | none | a call waits for a place, then `resource_exhausted`, 503 |
//! | `queue_timeout` | 100 ms | how long it waits |
//! | `caller_calls_max` | none | `resource_exhausted`, 429 |
//! | `caller_rate` | none | `resource_exhausted`, 429 |
//! | `address_rate` | none | `resource_exhausted`, 429, before anybody asks who calls |
//! | `deadline_min` | none | a call with less left: `deadline_exceeded`; it does not run |
//! | `deadline_max` | none | what callers ask for is bounded by it |
//! | `deadline_default` | none | of a unary call that has none |
//! | `address_connections_max` | none | a connection beyond it is closed |
//! | `connection_age_max` | none | a connection that is older says that it goes away |
//!
//! A bound on what waits lets one reply pass whatever its size, so it refuses only what comes on
//! top of others. Between the messages of a stream over HTTP/2 a peer may be silent for as long as
//! it likes: `keep_alive_interval` finds out whether it is there.
//!
//! The windows are fixed, not adaptive: the HTTP/2 library closes a connection whose unread small
//! data frames cost more than half the connection window, so that window has to be large enough for
//! a stream window full of ten-byte messages (13,000 of them at about 250 bytes each).

mod range;

use std::time::Duration;

pub use self::range::{LimitRange, LimitsError};

/// The bounds of a server.
///
/// ```
/// # mod tidewire { pub use tidewire_server::*; pub use tidewire_service::*; }
/// use tidewire::{Limits, Server};
///
/// let mut limits = Limits::default();
/// limits.calls_max = Some(100);
/// limits.body_bytes_max = 64 * 1024;
/// assert!(limits.faults().is_empty(), "each is within what it may be");
/// let server = Server::builder().limits(limits);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest body of a REST or plain HTTP request in bytes, as it arrives; a body that is a
    /// stream of messages is bounded by [`message_bytes_max`](Self::message_bytes_max) for each.
    pub body_bytes_max: usize,
    /// The largest message of a request in bytes, after decompression.
    pub message_bytes_max: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection may take to send its first byte.
    pub first_byte_timeout: Duration,
    /// How long the head of a request may take, from its first byte.
    pub header_read_timeout: Duration,
    /// How long a connection stays open without a call.
    pub idle_timeout: Duration,
    /// How often an HTTP/2 peer that is silent is asked whether it is there.
    pub keep_alive_interval: Duration,
    /// How long it may take to answer that.
    pub keep_alive_timeout: Duration,
    /// In which time [`body_progress_bytes_min`](Self::body_progress_bytes_min) of a request's
    /// body, or its end, have to come while the server waits for them.
    pub body_progress_timeout: Duration,
    /// What has to come of a request's body in that time.
    pub body_progress_bytes_min: usize,
    /// How many bytes a second of a request's body for a hosted program have to come, and of its
    /// reply have to be read, while other calls wait for its place.
    pub transfer_rate_min: usize,
    /// How many bytes of a request are still taken in over HTTP/2 once its reply is over. Over
    /// HTTP/1.1 up to [`body_bytes_max`](Self::body_bytes_max) are: beside a refusal within
    /// [`body_progress_timeout`](Self::body_progress_timeout), so that the connection goes on, and
    /// where it ends before all of the request came.
    pub unread_body_bytes_max: usize,
    /// For how long they are; over HTTP/1.1 a sender that goes on may pause as long.
    pub unread_body_timeout: Duration,
    /// How long a client may leave the next piece of a reply, of up to 16 KiB, unread.
    pub reply_progress_timeout: Duration,
    /// How many bytes of replies may wait for the client of one connection.
    pub reply_bytes_waiting_max: usize,
    /// How many bytes of replies may wait for the clients of all connections: of HTTP, and as many
    /// again of the live protocol, since the two are counted apart.
    pub reply_bytes_waiting_all_max: usize,
    /// How many bytes responses take that are prepared for requests that come again: cached replies
    /// over HTTP/1.1, each with its request. Those that were not asked for go first. 0 prepares
    /// none.
    pub prepared_bytes_max: usize,
    /// How many commands run at once, over all connections and protocols.
    pub commands_max: usize,
    /// How many connections are open at once, over all listeners.
    pub connections_max: usize,
    /// How many calls run at once on one connection of HTTP/2, or of the live protocol.
    pub streams_max: u32,
    /// How many answers the peer of one live connection is told about when they become stale.
    pub watches_max: u32,
    /// How many queries are followed at once for clients of HTTP, over all connections.
    pub followers_max: usize,
    /// How many live sessions wait without a connection to be resumed.
    pub sessions_parked_max: usize,
    /// How many bytes of requests and replies these hold together.
    pub sessions_parked_bytes_max: usize,
    /// How many bytes of one HTTP/2 stream may be on their way without having been read.
    pub stream_window_bytes: u32,
    /// How many bytes of one HTTP/2 connection may be on their way without having been read.
    pub connection_window_bytes: u32,
    /// How long a drain waits for running calls.
    pub drain_timeout: Duration,
    /// How long a drain goes on accepting connections once health says that the server is not
    /// ready: load balancers look from time to time only.
    pub drain_grace: Duration,
    /// How many calls run at once, over all connections and protocols.
    pub calls_max: Option<usize>,
    /// How long a call waits for a place among these.
    pub queue_timeout: Duration,
    /// How many calls of one caller run at once: of a principal, or of an address where nobody is
    /// known.
    pub caller_calls_max: Option<usize>,
    /// How many calls of one caller begin in a second; as many may come at once.
    pub caller_rate: Option<u32>,
    /// How many requests of one address begin in a second, whoever calls; as many may come at once.
    /// It is counted before anybody asks who calls, so that guessing a credential is bounded.
    pub address_rate: Option<u32>,
    /// The least that a call with a deadline must have left.
    pub deadline_min: Duration,
    /// The most that a call may have left, whatever its caller says.
    pub deadline_max: Option<Duration>,
    /// What a unary call has that comes without a deadline.
    pub deadline_default: Option<Duration>,
    /// How many connections of one address are open at once.
    pub address_connections_max: Option<usize>,
    /// How old a connection of HTTP may become; it ends with the calls that it has then.
    pub connection_age_max: Option<Duration>,
}

impl Limits {
    /// Names of the limits that a server reads at start only; a reload does not change them.
    pub const READ_AT_START: [&'static str; 12] = [
        "transfer_rate_min",
        "reply_bytes_waiting_all_max",
        "prepared_bytes_max",
        "commands_max",
        "connections_max",
        "watches_max",
        "followers_max",
        "sessions_parked_max",
        "sessions_parked_bytes_max",
        "drain_timeout",
        "drain_grace",
        "address_connections_max",
    ];
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 4 << 20,
            message_bytes_max: 4 << 20,
            handshake_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            keep_alive_interval: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(20),
            body_progress_timeout: Duration::from_secs(30),
            body_progress_bytes_min: 4 << 10,
            transfer_rate_min: 16 << 10,
            unread_body_bytes_max: 1 << 20,
            unread_body_timeout: Duration::from_secs(5),
            reply_progress_timeout: Duration::from_secs(60),
            reply_bytes_waiting_max: 64 << 20,
            reply_bytes_waiting_all_max: 1 << 30,
            prepared_bytes_max: 16 << 20,
            commands_max: 10_000,
            connections_max: 10_000,
            streams_max: 256,
            watches_max: 131_072,
            followers_max: 10_000,
            sessions_parked_max: 1_000,
            sessions_parked_bytes_max: 64 << 20,
            stream_window_bytes: 128 << 10,
            connection_window_bytes: 8 << 20,
            drain_timeout: Duration::from_secs(10),
            drain_grace: Duration::ZERO,
            calls_max: None,
            queue_timeout: Duration::from_millis(100),
            caller_calls_max: None,
            caller_rate: None,
            address_rate: None,
            deadline_min: Duration::ZERO,
            deadline_max: None,
            deadline_default: None,
            address_connections_max: None,
            connection_age_max: None,
        }
    }
}

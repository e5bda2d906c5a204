//! `[limits]`: bounds of the server.

use std::time::Duration;

use serde::Deserialize;
use tidewire_server::Limits;

use super::Config;

/// `[limits]`.
///
/// ```
/// use std::time::Duration;
/// use tidewire::config::Config;
///
/// let config = Config::parse("[limits]\nidle_timeout = \"1m 30s\"\n", "tidewire.toml")?;
/// assert_eq!(config.limits().idle_timeout, Duration::from_secs(90));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// See [`Limits::body_bytes_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub body_bytes_max: Option<usize>,
    /// See [`Limits::message_bytes_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub message_bytes_max: Option<usize>,
    /// See [`Limits::handshake_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub handshake_timeout: Option<Duration>,
    /// See [`Limits::first_byte_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub first_byte_timeout: Option<Duration>,
    /// See [`Limits::header_read_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub header_read_timeout: Option<Duration>,
    /// See [`Limits::idle_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub idle_timeout: Option<Duration>,
    /// See [`Limits::keep_alive_interval`].
    #[serde(deserialize_with = "super::value::duration")]
    pub keep_alive_interval: Option<Duration>,
    /// See [`Limits::keep_alive_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub keep_alive_timeout: Option<Duration>,
    /// See [`Limits::body_progress_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub body_progress_timeout: Option<Duration>,
    /// See [`Limits::body_progress_bytes_min`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub body_progress_bytes_min: Option<usize>,
    /// See [`Limits::transfer_rate_min`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub transfer_rate_min: Option<usize>,
    /// See [`Limits::unread_body_bytes_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub unread_body_bytes_max: Option<usize>,
    /// See [`Limits::unread_body_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub unread_body_timeout: Option<Duration>,
    /// See [`Limits::reply_progress_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub reply_progress_timeout: Option<Duration>,
    /// See [`Limits::reply_bytes_waiting_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub reply_bytes_waiting_max: Option<usize>,
    /// See [`Limits::reply_bytes_waiting_all_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub reply_bytes_waiting_all_max: Option<usize>,
    /// See [`Limits::prepared_bytes_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub prepared_bytes_max: Option<usize>,
    /// See [`Limits::commands_max`].
    pub commands_max: Option<usize>,
    /// See [`Limits::connections_max`].
    pub connections_max: Option<usize>,
    /// See [`Limits::streams_max`].
    pub streams_max: Option<u32>,
    /// See [`Limits::watches_max`].
    pub watches_max: Option<u32>,
    /// See [`Limits::followers_max`].
    pub followers_max: Option<usize>,
    /// See [`Limits::sessions_parked_max`].
    pub sessions_parked_max: Option<usize>,
    /// See [`Limits::sessions_parked_bytes_max`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub sessions_parked_bytes_max: Option<usize>,
    /// See [`Limits::stream_window_bytes`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub stream_window_bytes: Option<usize>,
    /// See [`Limits::connection_window_bytes`].
    #[serde(deserialize_with = "super::value::bytes")]
    pub connection_window_bytes: Option<usize>,
    /// See [`Limits::drain_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub drain_timeout: Option<Duration>,
    /// See [`Limits::drain_grace`].
    #[serde(deserialize_with = "super::value::duration")]
    pub drain_grace: Option<Duration>,
    /// See [`Limits::calls_max`].
    pub calls_max: Option<usize>,
    /// See [`Limits::queue_timeout`].
    #[serde(deserialize_with = "super::value::duration")]
    pub queue_timeout: Option<Duration>,
    /// See [`Limits::caller_calls_max`].
    pub caller_calls_max: Option<usize>,
    /// See [`Limits::caller_rate`].
    pub caller_rate: Option<u32>,
    /// See [`Limits::address_rate`].
    pub address_rate: Option<u32>,
    /// See [`Limits::deadline_min`].
    #[serde(deserialize_with = "super::value::duration")]
    pub deadline_min: Option<Duration>,
    /// See [`Limits::deadline_max`].
    #[serde(deserialize_with = "super::value::duration")]
    pub deadline_max: Option<Duration>,
    /// See [`Limits::deadline_default`].
    #[serde(deserialize_with = "super::value::duration")]
    pub deadline_default: Option<Duration>,
    /// See [`Limits::address_connections_max`].
    pub address_connections_max: Option<usize>,
    /// See [`Limits::connection_age_max`].
    #[serde(deserialize_with = "super::value::duration")]
    pub connection_age_max: Option<Duration>,
}

impl Config {
    /// The bounds: defaults where nothing is set.
    pub fn limits(&self) -> Limits {
        let set = &self.limits;
        let mut limits = Limits::default();
        macro_rules! take {
            ($($name:ident)*) => { $(limits.$name = set.$name.unwrap_or(limits.$name);)* };
        }
        take! {
            body_bytes_max message_bytes_max handshake_timeout first_byte_timeout
            header_read_timeout idle_timeout keep_alive_interval keep_alive_timeout
            body_progress_timeout body_progress_bytes_min transfer_rate_min
            unread_body_bytes_max unread_body_timeout reply_progress_timeout
            reply_bytes_waiting_max reply_bytes_waiting_all_max prepared_bytes_max commands_max
            connections_max
            streams_max watches_max followers_max sessions_parked_max sessions_parked_bytes_max
            drain_timeout drain_grace queue_timeout deadline_min
        }
        limits.calls_max = set.calls_max;
        limits.caller_calls_max = set.caller_calls_max;
        limits.caller_rate = set.caller_rate;
        limits.address_rate = set.address_rate;
        limits.deadline_max = set.deadline_max;
        limits.deadline_default = set.deadline_default;
        limits.address_connections_max = set.address_connections_max;
        limits.connection_age_max = set.connection_age_max;
        let window = |set: Option<usize>| set.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        limits.stream_window_bytes =
            window(set.stream_window_bytes).unwrap_or(limits.stream_window_bytes);
        limits.connection_window_bytes =
            window(set.connection_window_bytes).unwrap_or(limits.connection_window_bytes);
        limits
    }
}

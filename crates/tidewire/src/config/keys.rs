//! The table of all settings that are one value: for the environment, for flags, for the guide.

use toml::Value;

use super::{ConfigError, ENV_PREFIX};

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its path in the file, `server.listen`.
    pub path: &'static str,
    /// A value that it takes.
    pub example: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// All settings that are one value. `[[service]]` tables come from the file only.
pub const KEYS: &[Key] = &[
    key(
        "server.listen",
        "127.0.0.1:8080",
        "127.0.0.1:8080",
        "addresses to listen on, with commas between them in a variable",
    ),
    key("server.reflection", "true", "on where every address is local", "server reflection"),
    key("server.tls.certificate", "cert.pem", "no TLS", "PEM file of the certificate chain"),
    key("server.tls.key", "key.pem", "no TLS", "PEM file of the private key"),
    key(
        "server.tls.client_authorities",
        "ca.pem",
        "no client certificates",
        "PEM file of the authorities of client certificates",
    ),
    key("limits.body_bytes_max", "4MiB", "4MiB", "largest request body"),
    key("limits.message_bytes_max", "4MiB", "4MiB", "largest request message after decompression"),
    key("limits.header_read_timeout", "30s", "30s", "how long the head of a request may take"),
    key("limits.connections_max", "10000", "10000", "connections open at once"),
    key("limits.streams_max", "256", "256", "calls at once on one HTTP/2 connection"),
    key("limits.stream_window_bytes", "128KiB", "128KiB", "unread bytes of one HTTP/2 stream"),
    key("limits.connection_window_bytes", "8MiB", "8MiB", "unread bytes of one HTTP/2 connection"),
    key("limits.drain_timeout", "10s", "10s", "how long a drain waits for running calls"),
    key("log.level", "info", "info", "error, warn, info, debug, trace, or directives a module"),
];

const fn key(
    path: &'static str,
    example: &'static str,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { path, example, default, about }
}

impl Key {
    /// The environment variable for it, `TIDEWIRE_SERVER_LISTEN`.
    pub fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.path.replace('.', "_").to_uppercase())
    }
}

pub(super) fn of_variable(name: &str) -> Result<&'static Key, ConfigError> {
    KEYS.iter().find(|key| key.variable() == name).ok_or_else(|| {
        let known: Vec<_> = KEYS.iter().map(Key::variable).collect();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        ConfigError::unknown("variable", name, &known)
    })
}

pub(super) fn of_name(name: &str) -> Result<&'static Key, ConfigError> {
    KEYS.iter().find(|key| key.path == name).ok_or_else(|| {
        let known: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        ConfigError::unknown("key", name, &known)
    })
}

/// The value of a variable or flag: a boolean or number where it reads as one, else text.
pub(super) fn value(key: &Key, text: &str) -> Value {
    if key.path == "log.level" {
        return Value::String(text.to_owned());
    }
    if let Ok(boolean) = text.parse() {
        return Value::Boolean(boolean);
    }
    text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Integer)
}

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

/// All settings that are one value. `[[service]]`, `[rest.services]`, `[[auth.api_key]]`, `[auth.methods]`, `[auth.paths]` and `[memo.methods]` come from the
/// file only.
pub const KEYS: &[Key] = &[
    key(
        "server.listen",
        "127.0.0.1:8080",
        "127.0.0.1:8080",
        "addresses to listen on, with commas between them in a variable",
    ),
    key(
        "server.hosts",
        "shop.example",
        "any; names of this machine where every address is local",
        "hosts that the server answers for, `*.shop.example` for all below one; others are 421",
    ),
    key("server.reflection", "true", "on where every address is local", "server reflection"),
    key(
        "server.threads",
        "2",
        "one a core; half of the cores where programs are hosted",
        "threads of `tidewire serve` and `tidewire mock`, 1 to 1024",
    ),
    key("server.tls.certificate", "cert.pem", "no TLS", "PEM file of the certificate chain"),
    key("server.tls.key", "key.pem", "no TLS", "PEM file of the private key"),
    key(
        "server.tls.client_authorities",
        "ca.pem",
        "no client certificates",
        "PEM file of the authorities of client certificates",
    ),
    key(
        "server.tls.clients_optional",
        "true",
        "false",
        "whether a client may come without a certificate where client_authorities are set",
    ),
    key("limits.body_bytes_max", "4MiB", "4MiB", "largest body of a REST or plain HTTP request"),
    key(
        "limits.message_bytes_max",
        "4MiB",
        "4MiB",
        "largest message of an RPC, after decompression",
    ),
    key("limits.handshake_timeout", "10s", "10s", "how long a TLS handshake may take"),
    key(
        "limits.first_byte_timeout",
        "10s",
        "10s",
        "how long a connection may take to send its first byte",
    ),
    key(
        "limits.header_read_timeout",
        "30s",
        "30s",
        "how long the head of a request may take, from its first byte",
    ),
    key("limits.idle_timeout", "2m", "2m", "how long a connection stays open without a call"),
    key(
        "limits.keep_alive_interval",
        "30s",
        "30s",
        "how often a silent HTTP/2 peer is asked whether it is there",
    ),
    key("limits.keep_alive_timeout", "20s", "20s", "how long it may take to answer that"),
    key(
        "limits.body_progress_timeout",
        "30s",
        "30s",
        "in which time part of a request's body has to come",
    ),
    key(
        "limits.body_progress_bytes_min",
        "4KiB",
        "4KiB",
        "how much of it has to come in that time, unless it ends",
    ),
    key(
        "limits.reply_progress_timeout",
        "60s",
        "60s",
        "how long a client may leave the next 16 KiB of a reply unread",
    ),
    key(
        "limits.reply_bytes_waiting_max",
        "64MiB",
        "64MiB",
        "bytes of replies that wait for the client of one connection",
    ),
    key("limits.reply_bytes_waiting_all_max", "1GiB", "1GiB", "the same, over all connections"),
    key("limits.commands_max", "10000", "10000", "commands that run at once"),
    key("limits.connections_max", "10000", "10000", "connections open at once"),
    key("limits.streams_max", "256", "256", "calls at once on one HTTP/2 or live connection"),
    key(
        "limits.watches_max",
        "131072",
        "131072",
        "answers that the peer of a live connection is told about",
    ),
    key("limits.followers_max", "10000", "10000", "queries followed at once for clients of HTTP"),
    key(
        "limits.sessions_parked_max",
        "1000",
        "1000",
        "live sessions that wait without a connection",
    ),
    key("limits.stream_window_bytes", "128KiB", "128KiB", "unread bytes of one HTTP/2 stream"),
    key("limits.connection_window_bytes", "8MiB", "8MiB", "unread bytes of one HTTP/2 connection"),
    key("limits.drain_timeout", "10s", "10s", "how long a drain waits for running calls"),
    key(
        "limits.drain_grace",
        "5s",
        "0s",
        "how long a drain still accepts connections once the server says that it is not ready",
    ),
    key("limits.calls_max", "1000", "not bounded", "calls that run at once"),
    key("limits.queue_timeout", "100ms", "100ms", "how long a call waits for a place among them"),
    key(
        "limits.caller_calls_max",
        "100",
        "not bounded",
        "calls at once of one caller: a principal, or an address where nobody is known",
    ),
    key(
        "limits.caller_rate",
        "100",
        "not bounded",
        "calls of one caller that begin in a second; as many may come at once",
    ),
    key(
        "limits.address_rate",
        "100",
        "not bounded",
        "requests of one address that begin in a second, whoever calls: what a wrong credential costs too",
    ),
    key(
        "limits.deadline_min",
        "5ms",
        "0s",
        "a call with less left is refused at once: nobody waits for its answer any more",
    ),
    key(
        "limits.deadline_max",
        "60s",
        "not bounded",
        "the most that a call may have left, whatever its caller says",
    ),
    key(
        "limits.deadline_default",
        "30s",
        "none",
        "the deadline of a unary call, or of plain HTTP, that comes without one",
    ),
    key(
        "limits.address_connections_max",
        "100",
        "not bounded",
        "connections of one address at once; others are closed",
    ),
    key(
        "limits.connection_age_max",
        "1h",
        "not bounded",
        "how old a connection of HTTP may become; it ends with the calls that it has then",
    ),
    key("rest.errors", "connect", "connect", "errors over REST: connect, or problem (RFC 9457)"),
    key("rest.defaults", "printed", "printed", "fields with default values: printed or omitted"),
    key("rest.int64", "number", "number", "64-bit integers: number or text"),
    key("rest.names", "json", "json", "field names: json (firstName) or original (first_name)"),
    key(
        "rest.unknown_parameters",
        "refused",
        "refused",
        "query parameters that name no field: refused or ignored",
    ),
    key(
        "rest.unknown_members",
        "ignored",
        "ignored",
        "members of a JSON body that name no field: refused or ignored",
    ),
    key("rest.query_parameters_max", "256", "256", "parameters of one query"),
    key("rest.compression", "true", "true", "gzip for replies over 1 KiB, where a client takes it"),
    key("rest.openapi", "true", "where reflection is on", "`/openapi.json`"),
    key("rest.title", "Contacts", "the names of the services", "title of that document"),
    key("rest.version", "1", "1", "version of the interface that the document gives"),
    key(
        "cors.origins",
        "https://app.example",
        "none",
        "origins whose pages may call from a browser, `*` for all",
    ),
    key("cors.credentials", "true", "false", "cookies and client certificates of those pages"),
    key("cors.max_age", "2h", "2h", "how long a browser remembers what is allowed"),
    key("cors.headers", "x-tenant", "none", "request headers that pages may send besides"),
    key("cors.exposed_headers", "x-total", "none", "reply headers that pages may read besides"),
    key(
        "auth.otherwise",
        "authenticated",
        "authenticated where anybody is known, else anonymous",
        "who may call what no rule is for",
    ),
    key("auth.certificates", "true", "false", "whether client certificates say who calls"),
    key("auth.api_key_header", "x-api-key", "x-api-key", "the header of API keys"),
    key("auth.jwt.issuer", "https://id.example", "no tokens", "what bearer tokens have as iss"),
    key("auth.jwt.audience", "shop", "no tokens", "what they have among aud"),
    key(
        "auth.jwt.keys",
        "jwks.json",
        "no tokens",
        "the issuer's keys (JWKS): a file, or an https address to get them from",
    ),
    key(
        "auth.jwt.authorities",
        "ca.pem",
        "the system's",
        "PEM file of the authorities to trust at that address",
    ),
    key(
        "auth.jwt.refresh",
        "5m",
        "5m, of a file 1s",
        "how old keys may become, an unknown one is looked for at once; where they cannot be had, ten times that and at least a minute",
    ),
    key("auth.jwt.leeway", "30s", "30s", "how far the issuer's clock may be off"),
    key("memo.enabled", "true", "true", "whether answers of queries are kept"),
    key("memo.budget_bytes", "64MiB", "256MiB", "how much memory answers and memos may take"),
    key("memo.caller_ttl", "60s", "60s", "how long an answer for one caller is kept"),
    key(
        "memo.compute_timeout",
        "30s",
        "30s",
        "how long one run for all who ask may take: the deadline that handlers see",
    ),
    key(
        "memo.single_writer",
        "true",
        "false",
        "nobody else writes to external sources; otherwise what is made of them lives 5 s at most",
    ),
    key(
        "memo.key_bytes_max",
        "16KiB",
        "16KiB",
        "largest message or path of a call that is looked up",
    ),
    key("memo.reply_bytes_max", "1MiB", "1MiB", "largest reply that is kept"),
    key(
        "memo.forms_bytes_max",
        "64MiB",
        "64MiB",
        "what compressed and JSON forms of kept replies may take",
    ),
    key(
        "memo.max_age",
        "10s",
        "they ask each time",
        "how long caches of HTTP may answer without asking; nobody tells them of changes",
    ),
    key("memo.stale_while_revalidate", "10s", "none", "how much longer they may while they ask"),
    key("memo.stale_if_error", "1h", "none", "how much longer they may while asking fails"),
    key(
        "validation.enabled",
        "false",
        "true",
        "whether requests are checked against the rules that their schema has for them",
    ),
    key(
        "admin.listen",
        "127.0.0.1:8081",
        "nowhere",
        "where the program tells of itself: an address of this machine, or a Unix socket",
    ),
    key(
        "admin.token_file",
        "admin.token",
        "none",
        "file with the token for it, made where it is not there; a Unix socket needs none",
    ),
    key(
        "admin.read_token_file",
        "admin.read.token",
        "none",
        "file with a token for who may read there and change nothing, made where it is not there",
    ),
    key(
        "traces.endpoint",
        "http://127.0.0.1:4318/v1/traces",
        "nowhere",
        "where spans of requests are sent, by OTLP over HTTP; the feature otlp has to be built in",
    ),
    key("traces.sample", "0.01", "1", "of how many traces that begin here there are spans"),
    key("traces.service", "shop", "tidewire", "what this program is called in traces"),
    key(
        "log.access",
        "json",
        "off",
        "a line for each request: off, text or json, with the target tidewire::access",
    ),
    key(
        "log.access_sample",
        "0.01",
        "1",
        "of how many requests that went well there is one; those that fail here always have one",
    ),
    key(
        "log.level",
        "info",
        "info",
        "off, error, warn, info, debug, trace, or directives a module",
    ),
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
    const TEXTS: [&str; 17] = [
        "admin.listen",
        "admin.read_token_file",
        "admin.token_file",
        "auth.api_key_header",
        "auth.jwt.audience",
        "auth.jwt.issuer",
        "auth.jwt.keys",
        "cors.exposed_headers",
        "cors.headers",
        "cors.origins",
        "log.level",
        "rest.title",
        "rest.version",
        "server.hosts",
        "server.listen",
        "traces.endpoint",
        "traces.service",
    ];
    let string = || Value::String(text.to_owned());
    if TEXTS.contains(&key.path) {
        return string();
    }
    if let Ok(boolean) = text.parse() {
        return Value::Boolean(boolean);
    }
    if let Ok(number) = text.parse() {
        return Value::Integer(number);
    }
    match key.path {
        "log.access_sample" | "traces.sample" => {
            text.parse().map_or_else(|_| string(), Value::Float)
        }
        _ => string(),
    }
}

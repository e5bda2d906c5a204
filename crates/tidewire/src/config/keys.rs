//! The table of all settings that are one value: for the environment, for flags, for the guide.

use toml::{Table, Value};

use super::ConfigError;

/// What the names of variables begin with.
pub(super) const ENV_PREFIX: &str = "TIDEWIRE_";

/// One setting.
///
/// ```
/// use tidewire::config::KEYS;
///
/// let listen = KEYS.iter().find(|key| key.path == "server.listen").expect("there is one");
/// assert_eq!(listen.default, "127.0.0.1:8080");
/// ```
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

/// All settings that are one value. `[[service]]`, `[rest.services]`, `[[auth.api_key]]`,
/// `[auth.methods]`, `[auth.paths]`, `[memo.methods]` and `[[oplog.capture]]` come from the file
/// only.
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
        "hosts that the server answers for, `*.shop.example` for all below one, `*` for any; names of \
         this machine always pass; others are 421",
    ),
    key(
        "server.allow",
        "10.0.0.0/8",
        "all",
        "addresses and networks from which calls are taken; others are 403",
    ),
    key(
        "server.deny",
        "10.6.6.6",
        "none",
        "addresses and networks from which no calls are taken, whatever is allowed",
    ),
    key(
        "server.trusted_proxies",
        "10.0.0.7",
        "none",
        "addresses and networks of proxies whose `Forwarded` and `X-Forwarded-*` are believed; `unix` for Unix sockets",
    ),
    key("server.reflection", "true", "on if every address is local", "server reflection"),
    key(
        "server.docs",
        "true",
        "on if reflection is on and every address is local",
        "`/docs`, a page that describes the services and calls them; needs reflection",
    ),
    key(
        "server.threads",
        "2",
        "one per core; half of the cores if programs are hosted",
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
        "whether client certificates are optional if client_authorities is set",
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
    key("limits.keep_alive_interval", "30s", "30s", "how often a silent HTTP/2 peer is pinged"),
    key("limits.keep_alive_timeout", "20s", "20s", "how long it may take to answer the ping"),
    key(
        "limits.body_progress_timeout",
        "30s",
        "30s",
        "time within which more of a request body must arrive",
    ),
    key(
        "limits.body_progress_bytes_min",
        "4KiB",
        "4KiB",
        "how many bytes must arrive within that time, unless the body ends",
    ),
    key(
        "limits.transfer_rate_min",
        "16KiB",
        "16KiB",
        "bytes per second that a body for a hosted program must bring, and that the caller must read of a reply, while \
         other calls wait for its place; a slower body is 408, a slower reply breaks off",
    ),
    key(
        "limits.unread_body_bytes_max",
        "1MiB",
        "1MiB",
        "bytes of a request that are still read after its reply; over HTTP/1.1 the larger of this and \
         limits.body_bytes_max",
    ),
    key(
        "limits.unread_body_timeout",
        "5s",
        "5s",
        "how long they are still read; over HTTP/1.1 how long the sender may pause",
    ),
    key(
        "limits.reply_progress_timeout",
        "60s",
        "60s",
        "how long a client may take to read the next 16 KiB of a reply",
    ),
    key("limits.reply_bytes_waiting_max", "64MiB", "64MiB", "unread reply bytes of one connection"),
    key("limits.reply_bytes_waiting_all_max", "1GiB", "1GiB", "the same, over all connections"),
    key(
        "limits.prepared_bytes_max",
        "16MiB",
        "16MiB",
        "cached replies over HTTP/1.1 that are ready for a request that comes again; 0 for none",
    ),
    key("limits.commands_max", "10000", "10000", "concurrent commands"),
    key("limits.connections_max", "10000", "10000", "open connections"),
    key("limits.streams_max", "256", "256", "concurrent calls on one HTTP/2 or live connection"),
    key("limits.watches_max", "131072", "131072", "watched replies per live connection"),
    key("limits.followers_max", "10000", "10000", "queries followed at once by HTTP clients"),
    key(
        "limits.sessions_parked_max",
        "1000",
        "1000",
        "live sessions that wait for their client to reconnect",
    ),
    key(
        "limits.sessions_parked_bytes_max",
        "64MiB",
        "64MiB",
        "bytes that these sessions hold together; the oldest are given up above it",
    ),
    key("limits.stream_window_bytes", "128KiB", "128KiB", "unread bytes of one HTTP/2 stream"),
    key("limits.connection_window_bytes", "8MiB", "8MiB", "unread bytes of one HTTP/2 connection"),
    key("limits.drain_timeout", "10s", "10s", "how long a drain waits for running calls"),
    key(
        "limits.drain_grace",
        "5s",
        "0s",
        "how long a draining server accepts connections after it reports not ready",
    ),
    key("limits.calls_max", "1000", "unlimited", "concurrent calls"),
    key(
        "limits.queue_timeout",
        "100ms",
        "100ms",
        "how long a call waits in the queue for limits.calls_max",
    ),
    key(
        "limits.caller_calls_max",
        "100",
        "unlimited",
        "concurrent calls of one caller: a principal, or an address if there is no principal",
    ),
    key(
        "limits.caller_rate",
        "100",
        "unlimited",
        "calls per second of one caller; the same number may start at once",
    ),
    key(
        "limits.address_rate",
        "100",
        "unlimited",
        "requests per second of one address, before authentication",
    ),
    key("limits.deadline_min", "5ms", "0s", "a call with less time left is refused at once"),
    key("limits.deadline_max", "60s", "unlimited", "upper limit for the deadline of a call"),
    key(
        "limits.deadline_default",
        "30s",
        "none",
        "deadline of unary calls and plain HTTP requests without one",
    ),
    key(
        "limits.address_connections_max",
        "100",
        "unlimited",
        "open connections per address; further ones are closed",
    ),
    key(
        "limits.connection_age_max",
        "1h",
        "unlimited",
        "maximum age of an HTTP connection; it closes after its running calls",
    ),
    key("rest.errors", "connect", "connect", "errors over REST: connect, or problem (RFC 9457)"),
    key("rest.defaults", "printed", "printed", "fields with default values: printed or omitted"),
    key("rest.int64", "number", "number", "64-bit integers: number or text"),
    key("rest.names", "json", "json", "field names: json (firstName) or original (first_name)"),
    key(
        "rest.unknown_parameters",
        "refused",
        "refused",
        "unknown query parameters: refused or ignored",
    ),
    key(
        "rest.unknown_members",
        "ignored",
        "ignored",
        "unknown members of a JSON body: refused or ignored",
    ),
    key("rest.query_parameters_max", "256", "256", "parameters of one query"),
    key("rest.compression", "true", "true", "gzip replies over 1 KiB if the client accepts it"),
    key("rest.openapi", "true", "on if reflection is on", "`/openapi.json`"),
    key("rest.title", "Contacts", "the names of the services", "title of the OpenAPI document"),
    key("rest.version", "1", "1", "version in the OpenAPI document"),
    key(
        "cors.origins",
        "https://app.example",
        "none; `loopback` in `tidewire mock` and `serve --dev`",
        "origins whose pages may call: `loopback` for those of this machine, `*` for all",
    ),
    key(
        "cors.credentials",
        "true",
        "false",
        "allow cookies and client certificates from those pages",
    ),
    key("cors.max_age", "2h", "2h", "how long browsers cache the preflight response"),
    key(
        "cors.headers",
        "x-tenant",
        "none; `*` in `tidewire mock`",
        "additional request headers that pages may send, `*` for any",
    ),
    key(
        "cors.exposed_headers",
        "x-total",
        "none; `*` in `tidewire mock`",
        "additional response headers that pages may read, `*` for all",
    ),
    key(
        "auth.otherwise",
        "authenticated",
        "`authenticated` if any credential type is configured, otherwise `anonymous`",
        "default access for methods without a rule",
    ),
    key(
        "auth.reflection",
        "anonymous",
        "as auth.otherwise",
        "access for reflection, `/openapi.json` and `/docs`, where they are on",
    ),
    key("auth.certificates", "true", "false", "authenticate callers by client certificates"),
    key("auth.api_key_header", "x-api-key", "x-api-key", "header that carries the API key"),
    key("auth.jwt.issuer", "https://id.example", "no tokens", "required `iss` of bearer tokens"),
    key("auth.jwt.audience", "shop", "no tokens", "required `aud` of bearer tokens"),
    key(
        "auth.jwt.keys",
        "jwks.json",
        "no tokens",
        "the issuer's keys (JWKS): a file or an https URL",
    ),
    key(
        "auth.jwt.authorities",
        "ca.pem",
        "the system's",
        "PEM file of the authorities trusted for that URL",
    ),
    key(
        "auth.jwt.refresh",
        "5m",
        "5m; 1s for a file",
        "how often keys are fetched again, which calls do not wait for, also while that fails; only after a pause of 5s more (1s more for a file) without a call with a token do calls wait for them, until 1s after the first. A token with an unknown key has them fetched at once, but not within 10s of the last such fetch (1s for a file); if fetching fails, old keys are used ten times as long, at least a minute",
    ),
    key("auth.jwt.leeway", "30s", "30s", "tolerated clock skew of the issuer"),
    key("memo.enabled", "true", "true", "whether replies of queries are cached"),
    key("memo.budget_bytes", "64MiB", "256MiB", "memory for cached replies and memos"),
    key("memo.caller_ttl", "60s", "60s", "how long a reply for one caller is cached"),
    key("memo.compute_timeout", "30s", "30s", "deadline of a shared computation"),
    key(
        "memo.single_writer",
        "true",
        "false",
        "set this if no other process writes to this database; otherwise cached values expire after 5 s. Beside `[oplog]` it is a warning: replies that depend on what no table captures never expire, so what another process writes there, or what a host that was killed did not say, stays old",
    ),
    key("memo.key_bytes_max", "16KiB", "16KiB", "largest message or path used as a cache key"),
    key("memo.reply_bytes_max", "1MiB", "1MiB", "largest reply that is cached"),
    key(
        "memo.forms_bytes_max",
        "64MiB",
        "64MiB",
        "memory for compressed and JSON forms of cached replies",
    ),
    key("memo.pages_bytes_max", "64MiB", "64MiB", "memory for pages of services with `cache`"),
    key(
        "memo.verify",
        "1",
        "0; 0.0625 in debug builds",
        "share of the hits that is computed again and compared; a difference is logged as an error",
    ),
    key(
        "memo.max_age",
        "10s",
        "revalidate each time",
        "how long HTTP caches may answer without revalidation; they learn of changes only then",
    ),
    key(
        "memo.stale_while_revalidate",
        "10s",
        "none",
        "how much longer they may answer while they revalidate",
    ),
    key(
        "memo.stale_if_error",
        "1h",
        "none",
        "how much longer they may answer if revalidation fails",
    ),
    key(
        "oplog.enabled",
        "true",
        "true",
        "whether the change log of the database is followed, where a program has one",
    ),
    key(
        "oplog.url",
        "postgres://user@localhost/shop",
        "none",
        "database whose tables `[[oplog.capture]]` names, for hosted programs: `postgres://…` or `sqlite:path`; connect directly, not through a pooler",
    ),
    key(
        "oplog.schema",
        "tidewire",
        "tidewire",
        "schema of the log's tables in PostgreSQL; hosts with the same one tell each other",
    ),
    key(
        "oplog.install",
        "true",
        "true",
        "whether missing tables and triggers are made; if not, run what `tidewire oplog sql` prints",
    ),
    key("oplog.poll", "25ms", "25ms", "pause between looks at the log"),
    key("oplog.wake", "true", "true", "whether hosts wake each other after a commit"),
    key(
        "oplog.lease",
        "5s",
        "5s",
        "how long a host that cannot read the log answers from memory; no reply is older",
    ),
    key(
        "oplog.token_wait",
        "1s",
        "1s",
        "how long a request with a `tidewire-token` waits before it is refused",
    ),
    key("oplog.keep", "10m", "10m", "how long rows of the log are kept in PostgreSQL"),
    key("oplog.check", "10s", "10s", "pause between checks that every trigger is in place"),
    key(
        "oplog.keys_max",
        "1000",
        "1000",
        "a statement that changes more rows makes whole sources stale",
    ),
    key("oplog.key_bytes_max", "1KiB", "1KiB", "a longer key makes its whole source stale"),
    key("oplog.rows_max", "100000", "100000", "rows of the log that a SQLite file keeps"),
    key("validation.enabled", "false", "true", "validate requests by the rules of their schema"),
    key(
        "admin.listen",
        "127.0.0.1:8081",
        "nowhere",
        "address of the admin listener: a local address or a Unix socket",
    ),
    key(
        "admin.token_file",
        "admin.token",
        "none",
        "file with its token, created if it does not exist; not needed on a Unix socket",
    ),
    key(
        "admin.read_token_file",
        "admin.read.token",
        "none",
        "file with a read-only token, created if it does not exist",
    ),
    key(
        "traces.endpoint",
        "http://127.0.0.1:4318/v1/traces",
        "nowhere",
        "OTLP/HTTP endpoint for spans; needs the feature otlp",
    ),
    key("traces.sample", "0.01", "1", "share of the traces started here that is recorded"),
    key("traces.service", "shop", "tidewire", "service name in traces"),
    key("log.access", "json", "off", "access log: off, text or json; log target tidewire::access"),
    key(
        "log.access_sample",
        "0.01",
        "1",
        "share of successful requests that is logged; server errors always are",
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

/// Sets a key, `a.b.c`, in a table, making the tables on the way.
pub(super) fn set(table: &mut Table, key: &Key, value: Value) {
    let mut parts = key.path.split('.').peekable();
    let mut table = table;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            table.insert(part.to_owned(), value);
            return;
        }
        let next = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = next else { return };
        table = inner;
    }
}

/// The value of a variable or flag: a boolean or number where it reads as one, else text.
pub(super) fn value(key: &Key, text: &str) -> Value {
    const TEXTS: [&str; 20] = [
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
        "server.allow",
        "server.deny",
        "server.hosts",
        "server.listen",
        "server.trusted_proxies",
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
        "log.access_sample" | "memo.verify" | "traces.sample" => {
            text.parse().map_or_else(|_| string(), Value::Float)
        }
        _ => string(),
    }
}

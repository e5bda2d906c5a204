//! An upstream: somebody else's HTTP server, as a service. Any verb, bodies as streams both ways.
//!
//! | what happens | the caller gets |
//! |---|---|
//! | a response, whatever its status | that, headers and trailers as they are |
//! | a server refuses the connection | the response of the next one; it gets no calls for a while |
//! | a server breaks off before its response began | the response of another one where the verb is safe and nothing of a body was lost; else 502 |
//! | no head of a response within `request_timeout` | 504 |
//! | a response that breaks off | the same |
//!
//! Which server has the next turn, and when one is left out, is decided by the client
//! (`client/src/balance.rs`); how a failure is told by `proxy_status.rs`.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{CONNECTION, VIA};
use http::{HeaderValue, Uri, Version};
use tidewire_client::{BuildError, Builder, Client, ClientLimits, HttpVersion, RawDialer};
use tidewire_service::{Answer, Body, Call, Error, Outcome, Protocol, Reply, Result, Service};
use tokio::task::JoinSet;

use crate::caller::tell_plain;
use crate::health;
use crate::late::in_time;
use crate::proxy_status::ProxyError;
use crate::response_timer::ResponseTimer;
use crate::upgrade::{UpgradeAddress, pass_upgrade, refused_upgrade, upgrade_header};

/// An upstream of plain HTTP; cheap to clone.
///
/// ```no_run
/// # fn example() -> Result<(), tidewire_proxy::UpstreamError> {
/// use tidewire_proxy::{Upstream, UpstreamSettings};
/// let settings = UpstreamSettings::new("shop", ["http://127.0.0.1:9000"]);
/// let shop = Upstream::new(settings, |client| client)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Upstream(Arc<Inner>);

/// How an upstream is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamSettings {
    /// What it is called in errors and in the log.
    pub name: String,
    /// Where its servers are: `http://`, `https://`, `h2c://` or `unix:/path`.
    pub urls: Vec<String>,
    /// How long the head of a response may take; 30 s unless set.
    pub request_timeout: Duration,
    /// A path that a server answers with a status below 400 while it is well.
    pub health: Option<String>,
    /// How often it is asked for; 10 s unless set.
    pub health_interval: Duration,
    /// Whether a connection of HTTP/1.1 is used again on which a request with a body or a `HEAD`
    /// was sent; not unless set. A server that answers without reading a body takes what is left
    /// of it for the next request, which may be another caller's.
    pub reuse_after_body: bool,
}

struct Inner {
    name: String,
    client: Client,
    /// Where connections that are taken over go to.
    servers: Vec<UpgradeServer>,
    speaks_h2c: bool,
    next: AtomicUsize,
    request_timeout: Duration,
    /// What asks servers whether they are well: it ends with this.
    _watches: JoinSet<()>,
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    Tcp(String),
    Unix(PathBuf),
    Tls,
}

/// Where connections that are taken over go to, for one server.
enum UpgradeServer {
    Tcp(String),
    Unix(PathBuf),
    Tls(RawDialer),
}

impl UpstreamSettings {
    /// An upstream by its name and the URLs of its servers.
    pub fn new(name: impl Into<String>, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name: name.into(),
            urls: urls.into_iter().map(Into::into).collect(),
            request_timeout: Duration::from_secs(30),
            health: None,
            health_interval: Duration::from_secs(10),
            reuse_after_body: false,
        }
    }
}

impl UpstreamSettings {
    /// Whether the URLs can be those of one upstream.
    ///
    /// # Errors
    /// Those of [`Upstream::new`] that are of URLs.
    pub fn check(&self) -> Result<(), UpstreamError> {
        let is_h2c = |url: &String| url.starts_with(H2C);
        if self.urls.iter().any(is_h2c) && !self.urls.iter().all(is_h2c) {
            return Err(UpstreamError("url mixes h2c with other schemes; use one of them".into()));
        }
        if self.urls.is_empty() {
            return Err(UpstreamError("url names no server".into()));
        }
        self.urls.iter().try_for_each(|url| Server::of(&plain(url)).map(drop))
    }
}

impl Upstream {
    /// An upstream; `trust` may say whom its `https` URLs trust. With `health` it needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// No URL, or one that is invalid; `h2c` beside other schemes; a path that is not one.
    pub fn new(
        settings: UpstreamSettings,
        trust: impl Fn(Builder) -> Builder,
    ) -> Result<Self, UpstreamError> {
        settings.check()?;
        let UpstreamSettings {
            name,
            urls,
            request_timeout,
            health,
            health_interval,
            reuse_after_body,
        } = settings;
        let speaks_h2c = urls.iter().any(|url| url.starts_with(H2C));
        let version = match speaks_h2c {
            true => HttpVersion::Http2,
            false => HttpVersion::Auto,
        };
        let client = |urls: &[String]| -> Result<Client, UpstreamError> {
            let Some((first, others)) = urls.split_first() else {
                return Err(UpstreamError("url names no server".into()));
            };
            let mut builder = trust(Client::builder(plain(first)).http(version));
            for url in others {
                builder = builder.url(plain(url));
            }
            if !reuse_after_body {
                builder = builder.close_after_bodies();
            }
            builder.pass_host().limits(limits()).build().map_err(UpstreamError::from)
        };
        let server = |url: &String| -> Result<UpgradeServer, UpstreamError> {
            Ok(match Server::of(&plain(url))? {
                Server::Tls => UpgradeServer::Tls(trust(Client::builder(plain(url))).build_raw()?),
                Server::Tcp(address) => UpgradeServer::Tcp(address),
                Server::Unix(path) => UpgradeServer::Unix(path),
            })
        };
        let servers = urls.iter().map(server).collect::<Result<Vec<_>, _>>()?;
        let calling = client(&urls)?;
        let mut watches = JoinSet::new();
        if let Some(path) = health {
            let path: Uri = path
                .parse()
                .map_err(|_| UpstreamError(format!("health = {path:?} is not a path")))?;
            for url in &urls {
                let asking = client(std::slice::from_ref(url))?;
                let name = name.clone();
                let url = plain(url);
                let calling = calling.clone();
                let path = path.clone();
                watches.spawn(health::watch(name, url, asking, calling, path, health_interval));
            }
        }
        Ok(Self(Arc::new(Inner {
            name,
            client: calling,
            servers,
            speaks_h2c,
            next: AtomicUsize::new(0),
            request_timeout,
            _watches: watches,
        })))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How many connections are open now, but for those that were taken over.
    pub fn open_connections(&self) -> usize {
        self.0.client.open_connections()
    }
}

impl Service for Upstream {
    fn call(&self, mut call: Call) -> Answer {
        if call.http_target().is_none() {
            let text = format!("{} answers plain HTTP only", self.name());
            return Answer::ready(Err(Error::unimplemented(text)));
        }
        tell_plain(&mut call.context);
        tell_way(&mut call);
        let inner = Arc::clone(&self.0);
        Answer::pending(async move { inner.pass(call).await })
    }
}

impl Inner {
    async fn pass(&self, mut call: Call) -> Result<Reply> {
        if let Some(wanted) = upgrade_header(&call) {
            if self.speaks_h2c {
                return Err(refused_upgrade("h2c"));
            }
            return Box::pin(self.pass_upgrade(call, wanted)).await;
        }
        let comes = matches!(call.body, Body::Stream(_));
        let is_http = comes && call.context.protocol() == Some(Protocol::Http);
        let timer = ResponseTimer::of(&mut call);
        let client = self.client.clone();
        let passed =
            in_time(
                call,
                &timer,
                self.request_timeout,
                |call| async move { client.call(call).await },
            );
        let outcome = passed.await.unwrap_or_else(|| {
            let text = format!("no response within {:?}", self.request_timeout);
            Err(Error::deadline_exceeded(text).with_outcome(Outcome::Unknown))
        });
        let mut reply = outcome.map_err(|error| self.caller_error(error))?;
        if is_http && !timer.has_all() {
            // The rest of the request is not waited for.
            reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(reply)
    }

    /// Passes a request that takes its connection over, to the first server that is there.
    async fn pass_upgrade(&self, mut call: Call, wanted: HeaderValue) -> Result<Reply> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.servers.len();
        let mut failed = None;
        for turn in 0..count {
            let address = match &self.servers[first.wrapping_add(turn) % count] {
                UpgradeServer::Tcp(address) => UpgradeAddress::Tcp(Cow::Borrowed(address)),
                UpgradeServer::Unix(path) => UpgradeAddress::Unix(Cow::Borrowed(path)),
                UpgradeServer::Tls(dialer) => UpgradeAddress::Tls(dialer),
            };
            let again = Call::of_target(call.target.clone(), call.context.clone(), Body::Empty);
            let attempt = pass_upgrade(&address, call, wanted.clone());
            match tokio::time::timeout(self.request_timeout, attempt).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if error.outcome() == Outcome::NotRun => failed = Some(error),
                Ok(Err(error)) => return Err(self.caller_error(error)),
                Err(_) => {
                    let error = Error::deadline_exceeded("no response to an upgrade");
                    return Err(self.caller_error(error.with_outcome(Outcome::Unknown)));
                }
            }
            call = again;
        }
        let failed = failed.unwrap_or_else(|| Error::unavailable("there is no server"));
        Err(self.caller_error(failed))
    }

    /// The error of a client as a caller is told it.
    fn caller_error(&self, error: Error) -> Error {
        match ProxyError::of(&error) {
            Some(what) => what.tell(&self.name, error),
            None => error,
        }
    }
}

impl Server {
    fn of(url: &str) -> Result<Self, UpstreamError> {
        if let Some(path) = url.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let with_scheme =
            if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let wrong = || {
            UpstreamError(format!(
                "url {url:?} is not the URL of a server; write \"http://127.0.0.1:9000\", \
                 \"https://shop.example\", \"h2c://127.0.0.1:9000\" or \"unix:/run/shop.sock\""
            ))
        };
        let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        match uri.scheme_str() {
            Some("http") => {
                let port = authority.port_u16().unwrap_or(80);
                Ok(Self::Tcp(format!("{}:{port}", authority.host())))
            }
            Some("https") => Ok(Self::Tls),
            _ => Err(wrong()),
        }
    }
}

/// The version of HTTP that a request came by.
pub(crate) fn version_of(call: &Call) -> Version {
    let has_host = call.http_target().is_some_and(|target| target.uri.authority().is_some());
    let by_target = if has_host { Version::HTTP_2 } else { Version::HTTP_11 };
    call.context.extensions().get::<Version>().copied().unwrap_or(by_target)
}

/// Says that the request came this way (RFC 9110, section 7.6.3), and in which version. The server
/// says it in the extensions where the target does not: HTTP/2 has its host there, HTTP/1.1 not.
fn tell_way(call: &mut Call) {
    let way = match version_of(call) {
        Version::HTTP_10 => "1.0 tidewire",
        Version::HTTP_2 => "2.0 tidewire",
        _ => "1.1 tidewire",
    };
    call.context.headers_mut().append(VIA, HeaderValue::from_static(way));
}

/// Servers close connections that are not used, many after 2 s: those that are older are not used
/// for a command, which could not be sent again.
fn limits() -> ClientLimits {
    let mut limits = ClientLimits::default();
    limits.http1_connections_max = 1024;
    limits.idle_timeout = Duration::from_secs(1);
    limits.keep_alive_interval = Some(ClientLimits::KEEP_ALIVE_GRPC);
    limits
}

/// The URL as the client has it, which is told the version of HTTP apart.
fn plain(url: &str) -> String {
    match url.strip_prefix(H2C) {
        Some(rest) => format!("http://{rest}"),
        None => url.to_owned(),
    }
}

const H2C: &str = "h2c://";

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An upstream that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError(String);

impl From<BuildError> for UpstreamError {
    fn from(error: BuildError) -> Self {
        Self(format!("url: {error}"))
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UpstreamError {}

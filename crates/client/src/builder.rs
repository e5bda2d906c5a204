//! How a client is made: where its servers are, and how it speaks with them.

use std::sync::Arc;
use std::time::Duration;

use tidewire_service::{Codec, Protocol};
use tidewire_wire::{Caller, Coders, Compression, Dialect};

use crate::balance::{Balancer, Source};
use crate::client::{Client, Inner};
use crate::dial::Dialer;
use crate::endpoint::{BuildError, Endpoint};
use crate::http_version::HttpVersion;
use crate::limits::ClientLimits;
use crate::live::{Live, Server};
use crate::raw::RawDialer;
use crate::replica::{ReplicaSet, Replicas};
use crate::resolve::Resolver;
use crate::retry::{Retries, Retry};
use crate::trace::Trace;

/// Builds a [`Client`].
///
/// ```
/// # mod tidewire {
/// #     pub mod client { pub use tidewire_client::*; }
/// #     pub use tidewire_client::Client;
/// #     pub use tidewire_service::*;
/// # }
/// use std::time::Duration;
/// use tidewire::Client;
/// use tidewire::client::{Protocol, Retry};
///
/// let client = Client::builder("http://10.0.0.7:50051")
///     .url("http://10.0.0.8:50051")
///     .protocol(Protocol::Grpc)
///     .timeout(Duration::from_secs(2))
///     .retry(Retry::none())
///     .build()?;
/// assert_eq!(client.open_connections(), 0, "it connects when it is called");
/// # Ok::<(), tidewire::client::BuildError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until build"]
pub struct Builder {
    urls: Vec<String>,
    protocol: Protocol,
    http: HttpVersion,
    codec: Codec,
    compression: Option<Compression>,
    queries_by_get: bool,
    passes_host: bool,
    closes_after_bodies: bool,
    limits: ClientLimits,
    timeout: Option<Duration>,
    trace: Option<Trace>,
    retry: Retry,
    watches: bool,
    replicas: Option<Replicas>,
    resolver: Resolver,
    #[cfg(feature = "tls")]
    tls: Option<crate::Tls>,
}

impl Client {
    /// A client of the server at `url`: `http://host:port`, `https://host`, `unix:/path`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            urls: vec![url],
            protocol: Protocol::Connect,
            http: HttpVersion::default(),
            codec: Codec::Proto,
            compression: None,
            queries_by_get: false,
            passes_host: false,
            closes_after_bodies: false,
            limits: ClientLimits::default(),
            timeout: None,
            trace: None,
            retry: Retry::default(),
            watches: false,
            replicas: None,
            resolver: Resolver::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Adds the URL of another server of the same service; calls go to all in turn.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Sets the RPC protocol: [`Protocol::Connect`] (the default), [`Protocol::Grpc`] (over HTTP/2
    /// only), [`Protocol::GrpcWeb`] or [`Protocol::Live`], which `ws`, `wss` and `tcp` URLs are
    /// anyway; [`build`](Self::build) refuses the others.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the version of HTTP; chosen by protocol and ALPN unless set.
    pub fn http(mut self, http: HttpVersion) -> Self {
        self.http = http;
        self
    }

    /// Sets how generated clients encode messages; protobuf unless set.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets what is compressed. Unless set, replies may be; but not those of servers on this
    /// machine, which are sent in less time than they are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Sends queries over Connect by GET, so that HTTP caches on the way can answer them.
    pub fn queries_by_get(mut self) -> Self {
        self.queries_by_get = true;
        self
    }

    /// Keeps the header `Host` of calls of plain HTTP over HTTP/1.1, as a server has it that passes
    /// them on; without it, and where they have none, it is the server's own.
    pub fn pass_host(mut self) -> Self {
        self.passes_host = true;
        self
    }

    /// Uses no connection of HTTP/1.1 again on which a request with a body or a `HEAD` was sent. A
    /// server that answers without reading a body takes what is left for the next request, which
    /// may be another caller's; one that sends a body in answer to `HEAD` begins the next reply
    /// with it.
    pub fn close_after_bodies(mut self) -> Self {
        self.closes_after_bodies = true;
        self
    }

    /// Sets the bounds.
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Bounds every call that has no earlier deadline; without it such a call has none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how failed calls are made again; queries and idempotent methods are, unless set.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Asks, over live, to be told when the answers to unary queries become stale: their freshness
    /// says so for as long as they are held, and they can be followed. Each costs the server some
    /// memory meanwhile.
    pub fn watch_queries(mut self) -> Self {
        self.watches = true;
        self
    }

    /// Keeps answers to unary queries as replicas, over live: what was asked for once is answered
    /// here until the server says that it changed, and memos that read it depend on it. With
    /// generated clients:
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidewire_client::{Client, Replicas, WhenLost};
    /// use tidewire_memo::Graph;
    /// let replicas = Replicas::new(&Graph::global()).when_lost(WhenLost::Serve);
    /// let client = Client::builder("ws://10.0.0.7:8080").replicas(replicas).build()?;
    /// // let contacts = ContactsClient::new(client.channel());
    /// // let name = Memo::new("name", move |id| async move { Ok(contacts.get(id).await?.body.name) });
    /// # Ok(())
    /// # }
    /// ```
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets who knows the addresses of names; the system unless set.
    pub fn resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// Watches every call that has no other trace.
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets whom `https` URLs trust; the system's authorities unless set.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The client. Nothing is connected yet.
    ///
    /// # Errors
    /// An invalid URL; certificates that cannot be used; gRPC over HTTP/1.1; replicas over
    /// anything but live; a protocol whose bytes a client does not speak.
    pub fn build(self) -> Result<Client, BuildError> {
        if self.protocol == Protocol::Grpc && self.http == HttpVersion::Http1 {
            return Err(BuildError::new(
                "gRPC needs HTTP/2; leave the HTTP version out, or use Connect or gRPC-Web",
            ));
        }
        let endpoints = self.endpoints()?;
        if self.protocol == Protocol::Live || endpoints.iter().any(|it| it.is_live) {
            return self.build_live();
        }
        if self.replicas.is_some() {
            return Err(BuildError::new(
                "replicas need word of changes; use a ws or tcp URL, or Protocol::Live",
            ));
        }
        let dialect = match self.protocol {
            Protocol::Connect => Dialect::Connect,
            Protocol::Grpc => Dialect::Grpc,
            Protocol::GrpcWeb => Dialect::GrpcWeb,
            other => {
                return Err(BuildError::new(format!(
                    "a client does not speak {}; use connect, grpc, grpc-web or live",
                    other.as_str()
                )));
            }
        };
        let mut limits = self.limits.clone();
        if dialect == Dialect::Grpc {
            limits.keep_alive_interval.get_or_insert(ClientLimits::KEEP_ALIVE_GRPC);
        }
        let sources: Result<Vec<_>, _> = self.urls.iter().map(|url| self.source(url)).collect();
        let is_near = endpoints.iter().all(Endpoint::is_on_this_machine);
        let usual = if is_near { Compression::none() } else { Compression::default() };
        let caller = Caller {
            dialect,
            compression: self.compression.unwrap_or(usual),
            queries_by_get: self.queries_by_get,
            message_bytes_max: self.limits.message_bytes_max,
            coders: Arc::new(Coders::default()),
        };
        Ok(Client::new(Inner {
            caller,
            codec: self.codec,
            balancer: Balancer::new(sources?, self.resolver, limits),
            timeout: self.timeout,
            trace: self.trace,
            retries: Retries::new(self.retry),
        }))
    }

    /// What opens connections of HTTP/1.1 to the server, for whoever speaks on them themselves.
    ///
    /// # Errors
    /// An invalid URL, or several; certificates that cannot be used.
    pub fn build_raw(mut self) -> Result<RawDialer, BuildError> {
        let [url] = &self.urls[..] else {
            return Err(BuildError::new("connections are opened to one URL"));
        };
        let url = url.clone();
        self.http = HttpVersion::Http1;
        let Source { endpoint, dialer } = self.source(&url)?;
        Ok(RawDialer::new(endpoint, dialer, self.resolver, self.limits.connect_timeout))
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, BuildError> {
        self.urls.iter().map(|url| Endpoint::parse(url)).collect()
    }

    /// A client of the live protocol: one session, to one server.
    fn build_live(mut self) -> Result<Client, BuildError> {
        let [url] = &self.urls[..] else {
            let text =
                "a client of the live protocol has one URL, since its session is one server's";
            return Err(BuildError::new(text));
        };
        let url = url.clone();
        self.http = HttpVersion::Http1;
        let Source { endpoint, dialer } = self.source(&url)?;
        let endpoint_name = endpoint.name();
        let timeout = self.limits.connect_timeout;
        let server = Server::new(RawDialer::new(endpoint, dialer, self.resolver, timeout));
        let name = format!("replicas of {endpoint_name}");
        Ok(Client::live(Arc::new_cyclic(|live| Live {
            remote: Live::remote(server, &self.limits),
            codec: self.codec,
            timeout: self.timeout,
            watches: self.watches,
            shelf: self.replicas.map(|replicas| ReplicaSet::new(&replicas, &name, live.clone())),
        })))
    }

    fn source(&self, url: &str) -> Result<Source, BuildError> {
        let endpoint = Endpoint::parse(url)?;
        let prefers_http2 = self.protocol == Protocol::Grpc;
        let dialer = Dialer {
            host: Arc::from(endpoint.name()),
            http: self.http,
            prefers_http2,
            passes_host: self.passes_host,
            closes_after_bodies: self.closes_after_bodies,
            #[cfg(feature = "tls")]
            tls: match &endpoint.place {
                crate::endpoint::ServerPlace::Host { host, .. } if endpoint.is_tls => {
                    let tls = self.tls.clone().unwrap_or_default();
                    Some(tls.connector(host, self.http, prefers_http2)?)
                }
                _ => None,
            },
        };
        #[cfg(not(feature = "tls"))]
        if endpoint.is_tls {
            return Err(BuildError::new(format!("{url} needs TLS; build with the feature tls")));
        }
        Ok(Source { endpoint, dialer })
    }
}

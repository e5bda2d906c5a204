//! Opening a connection: TCP or a Unix socket, TLS, and which HTTP is spoken on it.
//!
//! Each step sets the phase, so that whoever waits can say which one took too long, and leaves its
//! time in a [`Log`], from which the trace of the call that waited is told.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tidewire_service::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::deadline::{Phase, SharedPhase};
use crate::http_version::HttpVersion;
use crate::trace::{Step, TlsSession, Trace, now};

/// An address that can be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// How connections are opened.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// What the server is called: in TLS and in errors.
    pub(crate) host: Arc<str>,
    pub(crate) http: HttpVersion,
    /// Whether HTTP/2 is spoken where nothing is negotiated.
    pub(crate) prefers_http2: bool,
    /// Whether calls of plain HTTP keep the `Host` of their caller.
    pub(crate) passes_host: bool,
    /// Whether no connection of HTTP/1.1 is used again on which a body was sent.
    pub(crate) closes_after_bodies: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::Connector>,
}

/// An open socket, and whether HTTP/2 is spoken on it.
pub(crate) struct OpenSocket {
    pub(crate) socket: Socket,
    pub(crate) is_http2: bool,
}

/// When what was done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    started: Option<Instant>,
    connected: Option<(Instant, Option<SocketAddr>)>,
    secured: Option<(Instant, TlsSession)>,
}

impl Log {
    /// Tells a trace what was done.
    pub(crate) fn tell(&self, trace: &Trace, to: &str) {
        if let Some(at) = self.started {
            trace.at(at, Step::Connecting { to });
        }
        if let Some((at, local)) = self.connected {
            trace.at(at, Step::Connected { to, local });
        }
        if let Some((at, secured)) = &self.secured {
            trace.at(*at, Step::Secured(secured));
        }
    }
}

impl Dialer {
    /// Opens a connection to `address`.
    pub(crate) async fn dial(
        &self,
        address: &Address,
        phase: &SharedPhase,
        log: &mut Log,
    ) -> Result<OpenSocket, Error> {
        phase.set(Phase::Connect);
        log.started = Some(now());
        let stream = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                let stream = stream.map_err(|error| connect_error(&self.host, &error))?;
                log.connected = Some((now(), None));
                let is_http2 = self.is_http2_by_choice();
                return Ok(OpenSocket { socket: Socket::Unix(stream), is_http2 });
            }
            Address::Tcp(address) => TcpStream::connect(address).await,
        };
        let stream = stream.map_err(|error| {
            let place = address.to_string();
            match *place == *self.host {
                true => connect_error(&self.host, &error),
                false => connect_error(&format!("{} ({place})", self.host), &error),
            }
        })?;
        // Without it, small requests wait for acknowledgements; it works without too.
        drop(stream.set_nodelay(true));
        log.connected = Some((now(), stream.local_addr().ok()));
        self.secure(stream, phase, log).await
    }

    fn is_http2_by_choice(&self) -> bool {
        match self.http {
            HttpVersion::Auto => self.prefers_http2,
            HttpVersion::Http1 => false,
            HttpVersion::Http2 => true,
        }
    }

    #[cfg(feature = "tls")]
    async fn secure(
        &self,
        stream: TcpStream,
        phase: &SharedPhase,
        log: &mut Log,
    ) -> Result<OpenSocket, Error> {
        let Some(tls) = &self.tls else {
            return Ok(OpenSocket {
                socket: Socket::Tcp(stream),
                is_http2: self.is_http2_by_choice(),
            });
        };
        phase.set(Phase::Tls);
        let (stream, secured) = tls.connect(stream, &self.host).await?;
        let alpn = secured.alpn.as_deref();
        let is_http2 = alpn == Some("h2") || (alpn.is_none() && self.http == HttpVersion::Http2);
        if self.http == HttpVersion::Auto && self.prefers_http2 && !is_http2 {
            return Err(Error::unavailable(format!(
                "{} speaks no HTTP/2 over TLS (ALPN chose {}), which gRPC needs; use connect or \
                 grpc-web",
                self.host,
                alpn.unwrap_or("nothing"),
            )));
        }
        log.secured = Some((now(), secured));
        Ok(OpenSocket { socket: Socket::Tls(Box::new(stream)), is_http2 })
    }

    #[cfg(not(feature = "tls"))]
    async fn secure(
        &self,
        stream: TcpStream,
        _: &SharedPhase,
        _: &mut Log,
    ) -> Result<OpenSocket, Error> {
        Ok(OpenSocket { socket: Socket::Tcp(stream), is_http2: self.is_http2_by_choice() })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn connect_error(host: &str, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused; nothing listens there".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        _ => error.to_string(),
    };
    let again = |number| io::Error::from_raw_os_error(number);
    let cause = error.raw_os_error().map_or_else(|| error.kind().into(), again);
    Error::unavailable(format!("cannot connect to {host}: {why}")).with_cause(cause)
}

/// An open connection, before HTTP.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

macro_rules! each {
    ($socket:expr, $io:ident => $work:expr) => {
        match $socket {
            Socket::Tcp($io) => $work,
            Socket::Unix($io) => $work,
            #[cfg(feature = "tls")]
            Socket::Tls($io) => $work,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(&mut *self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(&mut *self, io => Pin::new(io).poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(&mut *self, io => Pin::new(io).poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, io => io.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, io => Pin::new(io).poll_shutdown(cx))
    }
}

//! How a server is reached: the flags that `call`, `list` and `describe` share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tidewire::Headers;
use tidewire::http::{HeaderName, HeaderValue};
use tidewire_client::{Builder, Client, ClientLimits, HttpVersion, Protocol, Tls, Trace};

/// Flags about the way to a server.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The way to the server")]
pub(crate) struct Reach {
    /// Header of every request, such as `authorization: Bearer xyz`; may be repeated.
    #[arg(short = 'H', long = "header", visible_alias = "rpc-header", value_name = "NAME: VALUE",
          value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Deadline of each call, such as 500ms or 10s; a bare number is seconds. It is sent to the
    /// server [default: none].
    #[arg(long, short = 'm', visible_aliases = ["timeout", "max-time"], value_name = "DURATION",
          value_parser = duration)]
    pub(crate) deadline: Option<Duration>,
    /// Authorities to trust in place of the system's (PEM file).
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Certificate to present to the server (PEM file); needs --key.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM file).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Accept any certificate: anyone on the way can read and change what is sent.
    #[arg(long, short = 'k')]
    insecure: bool,
    /// Do not try TLS if the URL has no scheme.
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Name that the server's certificate has to be for, in place of the host's.
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// The one certificate to accept (PEM file).
    #[arg(skip)]
    server_cert: Option<PathBuf>,
}

impl Reach {
    /// No flags but a deadline.
    pub(crate) fn within(deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }

    /// No flags but whom to trust.
    pub(crate) fn trusting(authorities: Option<&Path>, insecure: bool) -> Self {
        Self { cacert: authorities.map(Path::to_owned), insecure, ..Self::default() }
    }

    /// The same with the one certificate that is accepted, if one is named.
    pub(crate) fn with_server_certificate(mut self, file: Option<&Path>) -> Self {
        self.server_cert = file.map(Path::to_owned);
        self
    }

    /// The same with these headers, each `name: value`.
    pub(crate) fn with_headers<'h>(
        mut self,
        headers: impl Iterator<Item = &'h String>,
    ) -> anyhow::Result<Self> {
        for text in headers {
            self.headers.push(header(text).with_context(|| format!("--header {text:?}"))?);
        }
        Ok(self)
    }

    /// A client of the server at a URL.
    pub(crate) fn client(
        &self,
        url: &str,
        protocol: Protocol,
        http: HttpVersion,
        trace: &Trace,
    ) -> anyhow::Result<Client> {
        let mut limits = ClientLimits::default();
        limits.message_bytes_max = REPLY_BYTES_MAX;
        let builder = Client::builder(url).protocol(protocol).http(http).trace(trace.clone());
        let builder = builder.limits(limits);
        Ok(self.secured(builder)?.build()?)
    }

    /// A client that is told when answers to queries become stale.
    pub(crate) fn watching(
        &self,
        url: &str,
        protocol: Protocol,
        trace: &Trace,
    ) -> anyhow::Result<Client> {
        let builder = Client::builder(url).protocol(protocol).trace(trace.clone());
        Ok(self.secured(builder.watch_queries())?.build()?)
    }

    /// A client that finds out whether a server speaks TLS, whatever its certificate.
    pub(crate) fn unverified(&self, url: &str, trace: &Trace) -> anyhow::Result<Client> {
        let builder = Client::builder(url).protocol(Protocol::Connect).trace(trace.clone());
        Ok(builder.tls(Tls::new().danger_without_verification()).build()?)
    }

    /// The headers of a request.
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        headers
    }

    fn secured(&self, builder: Builder) -> anyhow::Result<Builder> {
        let mut tls = Tls::new();
        if let Some(path) = &self.cacert {
            tls = tls.authorities(read(path)?);
        }
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
            tls = tls.identity(read(certificate)?, read(key)?);
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        if let Some(path) = &self.server_cert {
            tls = tls.only_certificate(read(path)?);
        }
        if self.insecure {
            tls = tls.danger_without_verification();
        }
        Ok(builder.tls(tls))
    }
}

fn read(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(crate) fn duration(text: &str) -> anyhow::Result<Duration> {
    let forms = tidewire::service::DURATION_FORMAT;
    tidewire::service::parse_duration(text).with_context(|| format!("write {forms}"))
}

fn header(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let Some((name, value)) = text.split_once(':') else {
        bail!("write a header as \"name: value\"");
    };
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .with_context(|| format!("{name:?} is not a name of a header"))?;
    let value = HeaderValue::from_str(value.trim())
        .with_context(|| format!("the value of {name} cannot be sent"))?;
    Ok((name, value))
}

/// The largest message of a reply: somebody asked for it.
const REPLY_BYTES_MAX: usize = 256 << 20;

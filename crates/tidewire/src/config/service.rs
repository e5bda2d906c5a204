//! `[[service]]` with `proto`: services without code, from `.proto` files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_client::{Client, Protocol, Upstream};
use tidewire_schema::{Schema, Sources};

use super::ConfigError;

/// `[[service]]` with `proto`.
///
/// ```
/// use tidewire::config::{Backend, Config, ServiceEntry};
///
/// let text = r#"
/// [[service]]
/// proto = "protos"
/// backend = "upstream"
/// url = ["http://10.0.0.7:50051", "http://10.0.0.8:50051"]
/// protocol = "grpc"
/// "#;
/// let config = Config::parse(text, "tidewire.toml")?;
/// let ServiceEntry::Schema(service) = &config.services[0] else { panic!("it has proto") };
/// assert_eq!((service.backend, service.url.len()), (Backend::Upstream, 2));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// A folder of `.proto` files, or a file with a descriptor set.
    pub proto: PathBuf,
    /// The services to serve; all of them when left out.
    pub names: Vec<String>,
    /// What answers.
    pub backend: Backend,
    /// The URL of the upstream, or those of several servers of it.
    pub url: Vec<String>,
    /// The protocol of the upstream; Connect when left out.
    pub protocol: UpstreamProtocol,
    /// A PEM file of the authorities that an upstream over TLS is trusted by, in place of the
    /// system's.
    pub authorities: Option<PathBuf>,
    /// How long the upstream may take for a call; without it as long as the caller allows.
    pub timeout: Option<Duration>,
}

/// What answers the calls of a configured service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Backend {
    /// The fields of the request; see [`Echo`](crate::Echo).
    #[default]
    Echo,
    /// A remote service, over the protocol that it speaks; see [`Upstream`].
    Upstream,
    /// The program that the same `[[service]]` runs; see [`Config::host`](super::Config::host).
    #[serde(skip)]
    Program,
}

/// The protocol that an upstream speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UpstreamProtocol {
    /// Connect.
    #[default]
    Connect,
    /// gRPC.
    Grpc,
    /// gRPC-Web.
    GrpcWeb,
    /// Plain HTTP: that of programs, not of upstreams with methods.
    Http,
    /// HTTP/2 without TLS: that of programs that are gRPC servers.
    H2c,
    /// The live protocol on an inherited socket: that of programs with methods.
    Native,
    /// One JSON object per request and response on a Unix socket: that of programs written for
    /// `PIPE_ADDRESS`; see [`Listen::PipeJson`](tidewire_hosting::Listen::PipeJson).
    PipeJson,
}

impl ServiceConfig {
    /// All services of a folder of `.proto` files, answered by an echo.
    pub fn echo(proto: impl Into<PathBuf>) -> Self {
        Self {
            proto: proto.into(),
            names: Vec::new(),
            backend: Backend::Echo,
            url: Vec::new(),
            protocol: UpstreamProtocol::default(),
            authorities: None,
            timeout: None,
        }
    }

    /// The upstream that is configured, for the messages of `schema`.
    ///
    /// # Errors
    /// No URL, or an invalid one; a file of authorities that cannot be used.
    pub fn upstream(&self, schema: &Schema) -> Result<Upstream, ConfigError> {
        let Some((first, others)) = self.url.split_first() else {
            return Err(ConfigError::new(
                "service.url is missing; backend = \"upstream\" needs one, such as \
                 \"http://127.0.0.1:9000\""
                    .into(),
            ));
        };
        let protocol = match self.protocol {
            UpstreamProtocol::Connect => Protocol::Connect,
            UpstreamProtocol::Grpc => Protocol::Grpc,
            UpstreamProtocol::GrpcWeb => Protocol::GrpcWeb,
            UpstreamProtocol::Http
            | UpstreamProtocol::H2c
            | UpstreamProtocol::Native
            | UpstreamProtocol::PipeJson => {
                let text = "service.protocol = \"http\", \"h2c\", \"native\" and \"pipe-json\" are for programs; an upstream \
                            with methods speaks connect, grpc or grpc-web";
                return Err(ConfigError::new(text.into()));
            }
        };
        let mut builder = Client::builder(first).protocol(protocol);
        for url in others {
            builder = builder.url(url);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(path) = &self.authorities {
            builder = trusting(path)?(builder);
        }
        let client =
            builder.build().map_err(|error| ConfigError::new(format!("service.url: {error}")))?;
        let upstream = Upstream::new(client);
        Ok(match protocol {
            Protocol::Connect => upstream,
            _ => upstream.protobuf_only(schema),
        })
    }
}

/// What to compile for a path: a folder of `.proto` files, a `.proto` file, or a descriptor set. A
/// file looks its imports up in its own folder.
pub fn sources(path: &Path) -> Sources {
    match path.extension().is_some_and(|end| end == "proto") {
        _ if path.is_dir() => Sources::new().folder(path),
        true => Sources::new().file(path),
        false => Sources::new().descriptor_set(path),
    }
}

/// What makes a client trust the authorities of a PEM file.
type Trust = Box<dyn Fn(tidewire_client::Builder) -> tidewire_client::Builder>;

#[cfg(feature = "tls")]
pub(super) fn trusting(path: &Path) -> Result<Trust, ConfigError> {
    let pem = std::fs::read(path).map_err(|error| ConfigError::file(path, &error))?;
    let tls = tidewire_client::Tls::new().authorities(pem);
    Ok(Box::new(move |builder| builder.tls(tls.clone())))
}

#[cfg(not(feature = "tls"))]
pub(super) fn trusting(_: &Path) -> Result<Trust, ConfigError> {
    Err(ConfigError::new(
        "service.authorities: this program was built without the feature tls".into(),
    ))
}

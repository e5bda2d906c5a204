//! `[[service]]`: services without code, from `.proto` files, and programs.
//!
//! A table has `proto`, `run`, or both for a program that serves methods, and keys that go with it;
//! what does not go together is said when it is read, with its place. Programs are in `program.rs`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_client::{Client, Protocol, Upstream};
use tidewire_schema::{Schema, Sources};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::{Config, ConfigError, ProgramConfig, UpstreamConfig, value};

/// One `[[service]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
#[non_exhaustive]
pub enum ServiceEntry {
    /// With `proto`: services that are known by their schema.
    Schema(ServiceConfig),
    /// With `run`: a program in any language.
    Program(Box<ProgramConfig>),
    /// With `url` and without `proto`: an upstream of plain HTTP.
    Upstream(Box<UpstreamConfig>),
}

/// `[[service]]` with `proto`.
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
    /// The program that the same `[[service]]` runs; see [`Config::host`].
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
            UpstreamProtocol::Http | UpstreamProtocol::Native | UpstreamProtocol::PipeJson => {
                let text = "service.protocol = \"http\", \"native\" and \"pipe-json\" are for programs; an upstream \
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

impl Config {
    /// The services that are known by their schema, those of programs among them.
    pub fn schemas(&self) -> impl Iterator<Item = &ServiceConfig> {
        self.services.iter().filter_map(|entry| match entry {
            ServiceEntry::Schema(service) => Some(service),
            ServiceEntry::Program(program) => program.methods.as_ref(),
            ServiceEntry::Upstream(_) => None,
        })
    }

    /// The programs.
    pub fn programs(&self) -> impl Iterator<Item = &ProgramConfig> {
        self.services.iter().filter_map(|entry| match entry {
            ServiceEntry::Program(program) => Some(&**program),
            ServiceEntry::Schema(_) | ServiceEntry::Upstream(_) => None,
        })
    }

    /// The upstreams of plain HTTP.
    pub fn upstreams(&self) -> impl Iterator<Item = &UpstreamConfig> {
        self.services.iter().filter_map(|entry| match entry {
            ServiceEntry::Upstream(upstream) => Some(&**upstream),
            ServiceEntry::Schema(_) | ServiceEntry::Program(_) => None,
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

/// Where the first `[[service]]` is wrong in which keys do not go together: that is known once it
/// was read whole, when places are forgotten. It is the key that the message begins with, if there
/// is one.
pub(super) fn first_wrong(table: &DeTable<'_>) -> Option<Range<usize>> {
    let DeValue::Array(services) = table.get("service")?.get_ref() else { return None };
    services.iter().find_map(|service| {
        let DeValue::Table(keys) = service.get_ref() else { return None };
        let whole = Deserializer::from(Spanned::new(service.span(), keys.clone()));
        let error = ServiceEntry::deserialize(whole).err()?;
        let key = error.message().split(' ').next().and_then(|key| keys.get(key));
        Some(key.map_or_else(|| service.span(), Spanned::span))
    })
}

/// Where the `[[service]]` begins that has a key or a value at `offset`.
pub(super) fn around(table: &DeTable<'_>, offset: usize) -> Option<usize> {
    let DeValue::Array(services) = table.get("service")?.get_ref() else { return None };
    let service = services.iter().find(|service| match service.get_ref() {
        DeValue::Table(keys) => keys
            .iter()
            .any(|(key, value)| key.span().contains(&offset) || value.span().contains(&offset)),
        _ => false,
    });
    Some(service?.span().start)
}

/// All keys that a `[[service]]` may have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    pub(super) proto: Option<PathBuf>,
    pub(super) names: Option<Vec<String>>,
    backend: Option<Backend>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) url: Vec<String>,
    pub(super) protocol: Option<UpstreamProtocol>,
    pub(super) authorities: Option<PathBuf>,
    #[serde(deserialize_with = "value::duration")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "value::command")]
    pub(super) run: Option<Vec<String>>,
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) route: Vec<String>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) host: Vec<String>,
    pub(super) strip_prefix: Option<bool>,
    pub(super) listen: Option<super::program::ListenSetting>,
    pub(super) codec: Option<super::program::CodecSetting>,
    pub(super) folder: Option<PathBuf>,
    pub(super) environment: Option<BTreeMap<String, String>>,
    pub(super) user: Option<String>,
    pub(super) watch: Option<Vec<PathBuf>>,
    pub(super) instances_max: Option<usize>,
    pub(super) spares: Option<usize>,
    pub(super) concurrency: Option<usize>,
    pub(super) queue_max: Option<usize>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) queue_timeout: Option<Duration>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) start_timeout: Option<Duration>,
    pub(super) ready: Option<String>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) request_timeout: Option<Duration>,
    pub(super) idle_freeze: Option<super::program::Idle>,
    pub(super) idle_stop: Option<super::program::Idle>,
    #[serde(deserialize_with = "value::duration")]
    pub(super) stop_grace: Option<Duration>,
    pub(super) health: Option<String>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) health_interval: Option<Duration>,
    pub(super) max_requests: Option<u64>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) max_age: Option<Duration>,
    #[serde(deserialize_with = "value::bytes")]
    pub(super) memory_max: Option<usize>,
    pub(super) processes_max: Option<u32>,
    pub(super) cpu_percent_max: Option<u32>,
    pub(super) cgroups: Option<bool>,
    #[serde(deserialize_with = "value::bytes")]
    pub(super) response_bytes_max: Option<usize>,
    pub(super) cache: Option<super::pages::PagesSetting>,
    pub(super) request_headers: Option<super::header_rules::ChangesSetting>,
    pub(super) response_headers: Option<super::header_rules::ChangesSetting>,
}

impl TryFrom<Table> for ServiceEntry {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        match (&table.proto, &table.run) {
            (Some(_), None) => Ok(Self::Schema(table.schema()?)),
            (_, Some(_)) => {
                if let Some(key) = table.first_of_schema() {
                    return Err(format!("{key} goes with proto, not with run; remove it"));
                }
                Ok(Self::Program(Box::new(ProgramConfig::try_from(table)?)))
            }
            (None, None) if !table.url.is_empty() => {
                if let Some(key) = table.first_of_methods() {
                    return Err(format!("{key} goes with proto; remove it, or add proto"));
                }
                if let Some(key) = table.first_of_processes() {
                    return Err(format!("{key} goes with run, not with url; remove it"));
                }
                Ok(Self::Upstream(Box::new(UpstreamConfig::try_from(table)?)))
            }
            (None, None) => {
                Err("this service has neither proto nor run nor url; add the .proto files that \
                     it serves, the program that it runs, or the server that it passes to"
                    .to_owned())
            }
        }
    }
}

impl Table {
    fn schema(self) -> Result<ServiceConfig, String> {
        if let Some(key) = self.first_of_program() {
            return Err(format!("{key} goes with run, not with proto; remove it"));
        }
        Ok(ServiceConfig {
            proto: self.proto.unwrap_or_default(),
            names: self.names.unwrap_or_default(),
            backend: self.backend.unwrap_or_default(),
            url: self.url,
            protocol: self.protocol.unwrap_or_default(),
            authorities: self.authorities,
            timeout: self.timeout,
        })
    }

    /// A key that only services with `proto` have.
    fn first_of_schema(&self) -> Option<&'static str> {
        let is_of_programs = |protocol: UpstreamProtocol| {
            use UpstreamProtocol::{Http, Native, PipeJson};
            matches!(protocol, Http | Native | PipeJson)
        };
        let set = [
            (self.names.is_some() && self.proto.is_none(), "names"),
            (self.backend.is_some(), "backend"),
            (!self.url.is_empty(), "url"),
            (
                !self.protocol.is_none_or(is_of_programs),
                "a protocol other than http, native and pipe-json",
            ),
            (self.authorities.is_some(), "authorities"),
            (self.timeout.is_some(), "timeout"),
        ];
        set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key)
    }

    /// A key that only services with methods have.
    fn first_of_methods(&self) -> Option<&'static str> {
        let set = [
            (self.names.is_some(), "names"),
            (self.backend.is_some_and(|backend| backend != Backend::Upstream), "backend"),
            (self.timeout.is_some(), "timeout"),
        ];
        set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key)
    }

    /// A key that only programs and upstreams of plain HTTP have.
    fn first_of_program(&self) -> Option<&'static str> {
        let set = [
            (self.name.is_some(), "name"),
            (!self.route.is_empty(), "route"),
            (!self.host.is_empty(), "host"),
            (self.strip_prefix.is_some(), "strip_prefix"),
            (self.request_timeout.is_some(), "request_timeout"),
            (self.health.is_some(), "health"),
            (self.health_interval.is_some(), "health_interval"),
            (self.cache.is_some(), "cache"),
            (self.request_headers.is_some(), "request_headers"),
            (self.response_headers.is_some(), "response_headers"),
        ];
        let first = set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key);
        first.or_else(|| self.first_of_processes())
    }

    /// A key that only services with processes have.
    fn first_of_processes(&self) -> Option<&'static str> {
        let set = [
            (self.listen.is_some(), "listen"),
            (self.codec.is_some(), "codec"),
            (self.folder.is_some(), "folder"),
            (self.environment.is_some(), "environment"),
            (self.user.is_some(), "user"),
            (self.watch.is_some(), "watch"),
            (self.instances_max.is_some(), "instances_max"),
            (self.spares.is_some(), "spares"),
            (self.concurrency.is_some(), "concurrency"),
            (self.queue_max.is_some(), "queue_max"),
            (self.queue_timeout.is_some(), "queue_timeout"),
            (self.start_timeout.is_some(), "start_timeout"),
            (self.ready.is_some(), "ready"),
            (self.idle_freeze.is_some(), "idle_freeze"),
            (self.idle_stop.is_some(), "idle_stop"),
            (self.stop_grace.is_some(), "stop_grace"),
            (self.max_requests.is_some(), "max_requests"),
            (self.max_age.is_some(), "max_age"),
            (self.memory_max.is_some(), "memory_max"),
            (self.processes_max.is_some(), "processes_max"),
            (self.cpu_percent_max.is_some(), "cpu_percent_max"),
            (self.cgroups.is_some(), "cgroups"),
            (self.response_bytes_max.is_some(), "response_bytes_max"),
        ];
        set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key)
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

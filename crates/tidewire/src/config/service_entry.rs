//! One `[[service]]`: services without code, programs, upstreams.
//!
//! A table has `proto`, `run`, or both for a program that serves methods, and keys that go with it;
//! what does not go together is said when it is read, with its place.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::service_table::Table;
use super::{Config, ProgramConfig, ServiceConfig, UpstreamConfig, UpstreamProtocol};

/// One `[[service]]`.
///
/// ```
/// use tidewire::config::{Config, ServiceEntry};
///
/// let text = r#"
/// [[service]]
/// run = ["node", "server.js"]
/// name = "pages"
/// route = "/*"
///
/// [[service]]
/// url = "http://10.0.0.7:9000"
/// route = "/old/*"
/// "#;
/// let config = Config::parse(text, "tidewire.toml")?;
/// assert!(matches!(config.services[0], ServiceEntry::Program(_)));
/// assert!(matches!(config.services[1], ServiceEntry::Upstream(_)));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
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

impl TryFrom<Table> for ServiceEntry {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        match (&table.proto, &table.run) {
            (Some(_), None) => Ok(Self::Schema(schema(table)?)),
            (_, Some(_)) => {
                if table.protocol == Some(UpstreamProtocol::Grpc) {
                    let text = "protocol = \"grpc\" goes with url, not with run; write \"h2c\" for a \
                                program that is a gRPC server";
                    return Err(text.to_owned());
                }
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

fn schema(table: Table) -> Result<ServiceConfig, String> {
    if let Some(key) = table.first_of_program() {
        return Err(format!("{key} goes with run, not with proto; remove it"));
    }
    Ok(ServiceConfig {
        proto: table.proto.unwrap_or_default(),
        names: table.names.unwrap_or_default(),
        backend: table.backend.unwrap_or_default(),
        url: table.url,
        protocol: table.protocol.unwrap_or_default(),
        authorities: table.authorities,
        timeout: table.timeout,
    })
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

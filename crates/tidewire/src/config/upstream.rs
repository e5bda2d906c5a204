//! `[[service]]` with `url` and without `proto`: an upstream of plain HTTP, found by its routes.

use std::path::PathBuf;

use tidewire_cache::PageSettings;
use tidewire_proxy::{HeaderRules, Route, Upstream, UpstreamSettings};

use super::header_rules::header_rules;
use super::pages::PagesSetting;
use super::program::{is_path_to_ask, routes};
use super::service::trusting;
use super::service_table::Table;
use super::{ConfigError, UpstreamProtocol};

/// `[[service]]` with `url` and without `proto`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamConfig {
    /// Where its servers are, and how they are asked.
    pub settings: UpstreamSettings,
    /// Where it is found.
    pub routes: Vec<Route>,
    /// How its pages are kept, if they are.
    pub pages: Option<PageSettings>,
    /// What is changed in headers on the way.
    pub headers: HeaderRules,
    /// A PEM file of the authorities that its `https` URLs trust, in place of the system's.
    pub authorities: Option<PathBuf>,
}

impl TryFrom<Table> for UpstreamConfig {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        if table.protocol.is_some_and(|protocol| protocol != UpstreamProtocol::Http) {
            return Err("protocol of an upstream without proto is \"http\"; write the version of \
                        HTTP into url (h2c://127.0.0.1:9000), or add proto"
                .to_owned());
        }
        let routes = routes(&table)?;
        if routes.is_empty() {
            return Err(
                "route is missing; a service with url and without proto needs one, such as \
                        route = \"/shop/*\", or proto = \"protos\" for methods"
                    .to_owned(),
            );
        }
        is_path_to_ask("health", table.health.as_deref())?;
        if table.health_interval.is_some() && table.health.is_none() {
            return Err(
                "health_interval goes with health; add health = \"/healthz\", or remove it"
                    .to_owned(),
            );
        }
        let headers =
            header_rules(table.request_headers.as_ref(), table.response_headers.as_ref())?;
        let pages = table.cache.and_then(PagesSetting::settings);
        let name = table.name.filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or_else(|| table.url.first().cloned().unwrap_or_default());
        if name.contains(char::is_control) {
            return Err(format!("name {name:?} has control characters; name it in plain text"));
        }
        let mut settings = UpstreamSettings::new(name, table.url);
        settings.check().map_err(|error| error.to_string())?;
        settings.request_timeout = table.request_timeout.unwrap_or(settings.request_timeout);
        settings.health = table.health;
        settings.health_interval = table.health_interval.unwrap_or(settings.health_interval);
        settings.reuse_after_body = table.reuse_after_body.unwrap_or_default();
        Ok(Self { settings, routes, pages, headers, authorities: table.authorities })
    }
}

impl UpstreamConfig {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The upstream itself. With `health` it needs a tokio runtime.
    ///
    /// # Errors
    /// An invalid URL; a file of authorities that cannot be used.
    pub fn upstream(&self) -> Result<Upstream, ConfigError> {
        let trusted = match &self.authorities {
            Some(path) => Some(trusting(path)?),
            None => None,
        };
        let upstream = Upstream::new(self.settings.clone(), |builder| match &trusted {
            Some(trust) => trust(builder),
            None => builder,
        });
        upstream.map_err(|error| ConfigError::new(format!("service.{error}")))
    }
}

//! `[traces]`: spans of requests, for a collector of OpenTelemetry.
//!
//! Which requests have a span is decided by the trace that they come with; of traces that begin
//! here, by `sample`. What sends them is built with the feature `otlp` only; without it an endpoint
//! is an error, not silence.

use serde::Deserialize;
use tidewire_server::Builder;

use super::{ConfigError, Part};

/// `[traces]`.
///
/// ```
/// use tidewire::config::{Config, Part};
///
/// let text = "[traces]\nendpoint = \"http://127.0.0.1:4318\"\nsample = 0.1\n";
/// let traces = Config::parse(text, "tidewire.toml")?.traces;
/// assert_eq!(traces.sample.map(Part::get), Some(0.1));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TracesConfig {
    /// Where spans are sent, by OTLP over HTTP; nowhere unless set.
    pub endpoint: Option<String>,
    /// Of how many traces that begin here there are spans, from 0 to 1; of all unless set. Of a
    /// trace that came its caller decides.
    pub sample: Option<Part>,
    /// What this program is called in traces.
    pub service: Option<String>,
}

impl TracesConfig {
    /// What is wrong with the endpoint.
    pub(super) fn fault(&self) -> Option<String> {
        let endpoint = self.endpoint.as_ref()?;
        let fault = client(endpoint).err()?;
        Some(format!("traces.endpoint = {endpoint:?}: {fault}"))
    }

    /// The server with spans, where those are wanted.
    pub(super) fn apply(&self, builder: Builder) -> Result<Builder, ConfigError> {
        let Some(endpoint) = &self.endpoint else { return Ok(builder) };
        let service = self.service.as_deref().unwrap_or("tidewire");
        let builder = builder.traces(self.sample.map_or(1.0, Part::get));
        if let Some(fault) = self.fault() {
            return Err(ConfigError::new(fault));
        }
        observed(builder, endpoint, service).map_err(ConfigError::new)
    }
}

#[cfg(feature = "otlp")]
fn observed(builder: Builder, endpoint: &str, service: &str) -> Result<Builder, String> {
    let (client, path) = client(endpoint)?;
    Ok(builder.observer(tidewire_telemetry::Spans::new(client, path, service)))
}

#[cfg(feature = "otlp")]
fn client(endpoint: &str) -> Result<(tidewire_client::Client, http::Uri), String> {
    const EXAMPLE: &str = "this is not an address; write http://127.0.0.1:4318/v1/traces";
    const SEND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
    let uri: http::Uri = endpoint.parse().map_err(|_| EXAMPLE)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(EXAMPLE.to_owned());
    };
    let client = tidewire_client::Client::builder(format!("{scheme}://{authority}"));
    let client = client.timeout(SEND_TIMEOUT).build().map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = path.parse().map_err(|_| EXAMPLE)?;
    Ok((client, path))
}

#[cfg(not(feature = "otlp"))]
fn observed(builder: Builder, endpoint: &str, _: &str) -> Result<Builder, String> {
    client(endpoint).map(|()| builder)
}

#[cfg(not(feature = "otlp"))]
fn client(_: &str) -> Result<(), String> {
    Err("this program was built without the feature otlp".to_owned())
}

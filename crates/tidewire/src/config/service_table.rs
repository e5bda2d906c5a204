//! All keys of a `[[service]]` as they are read, before anything is known of what goes together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::header_rules::ChangesSetting;
use super::pages::PagesSetting;
use super::service::{Backend, UpstreamProtocol};
use super::value;

/// All keys that a `[[service]]` may have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    pub(super) proto: Option<PathBuf>,
    pub(super) names: Option<Vec<String>>,
    pub(super) backend: Option<Backend>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) url: Vec<String>,
    pub(super) protocol: Option<UpstreamProtocol>,
    pub(super) authorities: Option<PathBuf>,
    #[serde(deserialize_with = "value::duration")]
    pub(super) timeout: Option<Duration>,
    #[serde(deserialize_with = "value::command")]
    pub(super) run: Option<Vec<String>>,
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) route: Vec<String>,
    #[serde(deserialize_with = "value::texts")]
    pub(super) host: Vec<String>,
    pub(super) strip_prefix: Option<bool>,
    pub(super) listen: Option<ListenSetting>,
    pub(super) codec: Option<CodecSetting>,
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
    pub(super) idle_freeze: Option<Idle>,
    pub(super) idle_stop: Option<Idle>,
    #[serde(deserialize_with = "value::duration")]
    pub(super) stop_grace: Option<Duration>,
    pub(super) health: Option<String>,
    #[serde(deserialize_with = "value::positive_duration")]
    pub(super) health_interval: Option<Duration>,
    pub(super) reuse_after_body: Option<bool>,
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
    pub(super) cache: Option<PagesSetting>,
    pub(super) request_headers: Option<ChangesSetting>,
    pub(super) response_headers: Option<ChangesSetting>,
}

/// How a program is told where to listen; see [`Listen`](tidewire_hosting::Listen).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ListenSetting {
    Port,
    Unix,
    Inherited,
}

/// How a program reads and writes messages; see [`Codec`](tidewire_service::Codec).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CodecSetting {
    Protobuf,
    Json,
}

/// `idle_freeze`, `idle_stop`: a duration, or `"never"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Idle(
    #[serde(deserialize_with = "value::duration_or_never")] pub(super) Option<Duration>,
);

impl Table {
    /// A key that only services with `proto` have.
    pub(super) fn first_of_schema(&self) -> Option<&'static str> {
        let is_of_programs = |protocol: UpstreamProtocol| {
            use UpstreamProtocol::{H2c, Http, Native, PipeJson};
            matches!(protocol, Http | H2c | Native | PipeJson)
        };
        let set = [
            (self.names.is_some() && self.proto.is_none(), "names"),
            (self.backend.is_some(), "backend"),
            (!self.url.is_empty(), "url"),
            (
                !self.protocol.is_none_or(is_of_programs),
                "a protocol other than http, h2c, native and pipe-json",
            ),
            (self.authorities.is_some(), "authorities"),
            (self.timeout.is_some(), "timeout"),
        ];
        set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key)
    }

    /// A key that only services with methods have.
    pub(super) fn first_of_methods(&self) -> Option<&'static str> {
        let set = [
            (self.names.is_some(), "names"),
            (self.backend.is_some_and(|backend| backend != Backend::Upstream), "backend"),
            (self.timeout.is_some(), "timeout"),
        ];
        set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key)
    }

    /// A key that only programs and upstreams of plain HTTP have.
    pub(super) fn first_of_program(&self) -> Option<&'static str> {
        let set = [
            (self.name.is_some(), "name"),
            (!self.route.is_empty(), "route"),
            (!self.host.is_empty(), "host"),
            (self.strip_prefix.is_some(), "strip_prefix"),
            (self.request_timeout.is_some(), "request_timeout"),
            (self.health.is_some(), "health"),
            (self.health_interval.is_some(), "health_interval"),
            (self.reuse_after_body.is_some(), "reuse_after_body"),
            (self.cache.is_some(), "cache"),
            (self.request_headers.is_some(), "request_headers"),
            (self.response_headers.is_some(), "response_headers"),
        ];
        let first = set.iter().find(|(is_set, _)| *is_set).map(|(_, key)| *key);
        first.or_else(|| self.first_of_processes())
    }

    /// A key that only services with processes have.
    pub(super) fn first_of_processes(&self) -> Option<&'static str> {
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

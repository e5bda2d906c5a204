//! `[[service]]` with `run`: a program in any language, started by its first call.
//!
//! | `protocol` | it is found | it has |
//! |---|---|---|
//! | `"http"`, the default without `proto` | at its `route` | no change: it listens for HTTP |
//! | `"h2c"` | at its `route` | no change: it listens for HTTP/2 without TLS, as gRPC servers do |
//! | `"pipe-json"` | at its `route` | no change: it answers one JSON object per connection at `PIPE_ADDRESS` |
//! | `"native"`, the default with `proto` | by the methods of its `proto`, at its `route`, or both | a few files of ours |
//!
//! The table also says how it lives; bounds that are not set are those of [`LifeLimits`].

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tidewire_cache::PageSettings;
use tidewire_hosting::{HostedService, LifeLimits, Listen, Program};
use tidewire_proxy::{HeaderRules, Route};
use tidewire_schema::Schema;
use tidewire_server::Builder;
use tidewire_service::Codec;

use super::header_rules::header_rules;
use super::pages::PagesSetting;
use super::service::sources;
use super::service_table::{CodecSetting, Idle, ListenSetting, Table};
use super::{Backend, ConfigError, ServiceConfig, UpstreamProtocol};

/// `[[service]]` with `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramConfig {
    /// What is run.
    pub program: Program,
    /// Where its pages are found, if it has any.
    pub routes: Vec<Route>,
    /// How its pages are kept, if they are.
    pub pages: Option<PageSettings>,
    /// What is changed in headers on the way.
    pub headers: HeaderRules,
    /// The methods that it serves, if it has any.
    pub methods: Option<ServiceConfig>,
    /// How it reads and writes their messages, whatever its callers speak.
    pub codec: Codec,
    /// How it lives.
    pub life: LifeLimits,
    /// The program itself, as it is looked up.
    run: String,
    folder: Option<PathBuf>,
    /// What makes it start anew when it changes, beside its executable.
    watch: Vec<PathBuf>,
}

impl TryFrom<Table> for ProgramConfig {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let command = table.run.clone().unwrap_or_default();
        let Some(run) = command.first().filter(|run| !run.is_empty()).cloned() else {
            return Err("run names no program; write run = [\"python3\", \"app.py\"]".to_owned());
        };
        let missing = |key, example| {
            format!("{key} is missing; a service with run needs one, such as {example}")
        };
        if command.iter().any(|word| word.contains('\0')) {
            return Err("run has a NUL, which no argument can have; remove it".to_owned());
        }
        let name = table.name.clone().filter(|name| !name.trim().is_empty());
        let name = name.ok_or_else(|| missing("name", "name = \"shop\""))?;
        if name.contains(char::is_control) {
            return Err(format!("name {name:?} has control characters; name it in plain text"));
        }
        let listen = listen(&table)?;
        let routes = routes(&table)?;
        can_be_told(&table, listen)?;
        check_probes(&table, listen)?;
        check_response_bytes(&table)?;
        if routes.is_empty() && table.proto.is_none() {
            return Err(missing("route", "route = \"/shop/*\""));
        }
        let pages = table.cache.clone().and_then(PagesSetting::settings);
        if table.cache.is_some() && routes.is_empty() {
            return Err("cache goes with route; of methods it is said in the .proto, or in \
                        [memo.methods]"
                .to_owned());
        }
        let headers =
            header_rules(table.request_headers.as_ref(), table.response_headers.as_ref())?;
        if !headers.is_empty() && routes.is_empty() {
            return Err("request_headers and response_headers go with route".to_owned());
        }
        let methods = table.proto.as_ref().map(|proto| ServiceConfig {
            names: table.names.clone().unwrap_or_default(),
            backend: Backend::Program,
            ..ServiceConfig::echo(proto)
        });
        let codec = match table.codec {
            Some(CodecSetting::Json) => Codec::Json,
            None | Some(CodecSetting::Protobuf) => Codec::Proto,
        };
        let life = life(&table)?;
        let mut program = Program::new(name, command).listen(listen);
        if table.protocol == Some(UpstreamProtocol::H2c) {
            program = program.http2();
        }
        if let Some(path) = &table.ready {
            program = program.ready(path);
        }
        if let Some(path) = &table.health {
            program = program.health(path);
        }
        if table.reuse_after_body.is_some() && matches!(listen, Listen::Native | Listen::PipeJson) {
            return Err("reuse_after_body goes with plain HTTP; remove it".to_owned());
        }
        if table.reuse_after_body.is_some() && table.protocol == Some(UpstreamProtocol::H2c) {
            return Err(
                "reuse_after_body is of HTTP/1.1; a connection of h2c is always used again, \
                        so remove it"
                    .to_owned(),
            );
        }
        if table.reuse_after_body == Some(true) {
            program = program.reuse_after_body();
        }
        if let Some(folder) = &table.folder {
            program = program.folder(folder);
        }
        if let Some(user) = table.user {
            program = program.user(user);
        }
        for (name, value) in table.environment.unwrap_or_default() {
            program = program.environment(name, value);
        }
        let watch = table.watch.unwrap_or_default();
        let folder = table.folder;
        Ok(Self { program, routes, pages, headers, methods, codec, life, run, folder, watch })
    }
}

/// Whether the paths that say that it is ready, and well, can be asked for.
fn check_probes(table: &Table, listen: Listen) -> Result<(), String> {
    for (key, path) in [("ready", &table.ready), ("health", &table.health)] {
        let Some(path) = path else { continue };
        let instead = match listen {
            Listen::Native => "a native program says itself that it is ready",
            Listen::PipeJson => "a program of pipe-json is ready once it listens",
            _ => "",
        };
        if !instead.is_empty() {
            return Err(format!("{key} goes with plain HTTP; {instead}"));
        }
        is_path_to_ask(key, Some(path))?;
    }
    match table.health_interval {
        Some(_) if table.health.is_none() => {
            Err("health_interval goes with health; add health = \"/healthz\", or remove it"
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether the bound of a response is of a program whose responses are read whole.
fn check_response_bytes(table: &Table) -> Result<(), String> {
    match table.response_bytes_max {
        Some(_) if table.protocol != Some(UpstreamProtocol::PipeJson) => {
            Err("response_bytes_max goes with protocol = \"pipe-json\"; other bodies pass \
                        as streams"
                .to_owned())
        }
        Some(0) => Err("response_bytes_max = 0 would let nothing through; write more, or remove \
                        it"
        .to_owned()),
        _ => Ok(()),
    }
}

/// How it is reached.
fn listen(table: &Table) -> Result<Listen, String> {
    let default = match table.proto {
        Some(_) => UpstreamProtocol::Native,
        None => UpstreamProtocol::Http,
    };
    let protocol = table.protocol.unwrap_or(default);
    let is_native = protocol == UpstreamProtocol::Native;
    let is_pipe_json = protocol == UpstreamProtocol::PipeJson;
    let refuse = |text: &str| Err(text.to_owned());
    match table.listen {
        Some(_) if is_native => {
            refuse("listen goes with protocol = \"http\"; a native program inherits its socket")
        }
        _ if is_native => Ok(Listen::Native),
        Some(_) if is_pipe_json => refuse(
            "listen goes with protocol = \"http\"; a program of pipe-json listens at PIPE_ADDRESS",
        ),
        _ if table.proto.is_some() => {
            refuse("proto goes with protocol = \"native\"; a program of plain HTTP has no methods")
        }
        _ if table.codec.is_some() => refuse("codec goes with proto; plain HTTP has no messages"),
        _ if is_pipe_json => Ok(Listen::PipeJson),
        None | Some(ListenSetting::Port) => Ok(Listen::Port),
        Some(ListenSetting::Unix) => Ok(Listen::Unix),
        Some(ListenSetting::Inherited) => Ok(Listen::Inherited),
    }
}

/// Whether it can be told what the table says, and hears nothing else than what the gateway tells
/// it.
fn can_be_told(table: &Table, listen: Listen) -> Result<(), String> {
    let told: &[&str] = match listen {
        Listen::Port => &["PORT"],
        Listen::Unix => &["SOCKET"],
        Listen::PipeJson => &["PIPE_ADDRESS"],
        Listen::Inherited => &["LISTEN_FDS", "LISTEN_PID"],
        _ => &["TIDEWIRE_FD"],
    };
    for (name, value) in table.environment.iter().flatten() {
        if name.starts_with("$__toml") {
            return Err("environment is a date; write { NAME = \"value\" }".to_owned());
        }
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!(
                "environment has {name:?}, which cannot be a variable; name it without = and NUL"
            ));
        }
        if name == "HOSTED_BY_TIDEWIRE" {
            return Err(format!("environment sets {name}, which is the gateway's own; remove it"));
        }
        if told.contains(&name.as_str()) {
            return Err(format!(
                "environment sets {name}, by which the gateway says where to listen; remove it"
            ));
        }
    }
    for (place, of) in
        [("{port}", &[Listen::Port][..]), ("{socket}", &[Listen::Unix, Listen::PipeJson])]
    {
        let mut words = table.run.iter().flatten();
        if !of.contains(&listen) && words.any(|word| word.contains(place)) {
            return Err(format!(
                "run has {place}, and listen is another; set listen, or remove it"
            ));
        }
    }
    Ok(())
}

/// Where its pages are found: each route at each host.
pub(super) fn routes(table: &Table) -> Result<Vec<Route>, String> {
    if table.route.is_empty() {
        let set =
            [(!table.host.is_empty(), "host"), (table.strip_prefix.is_some(), "strip_prefix")];
        return match set.iter().find(|(is_set, _)| *is_set) {
            Some((_, key)) => Err(format!("{key} goes with route; add one, or remove it")),
            None => Ok(Vec::new()),
        };
    }
    table.host.iter().try_for_each(|host| is_host(host))?;
    let strips_prefix = table.strip_prefix.unwrap_or(false);
    let mut routes = Vec::new();
    for route in &table.route {
        let route = Route::new(route).map_err(|error| error.to_string())?;
        let route = route.strip_prefix(strips_prefix);
        routes.extend(table.host.iter().map(|host| route.clone().host(host)));
        if table.host.is_empty() {
            routes.push(route);
        }
    }
    Ok(routes)
}

fn is_host(host: &str) -> Result<(), String> {
    let is_label = |label: &str| {
        let may_be = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(may_be)
    };
    match host.split('.').all(is_label) {
        true => Ok(()),
        false => Err(format!(
            "host {host:?} matches nothing; write one name in ASCII, without a port and a dot at \
             its end, such as \"shop.example\""
        )),
    }
}

/// Whether what is set is a path that can be asked for.
pub(super) fn is_path_to_ask(key: &str, path: Option<&str>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let is_path = |uri: &http::Uri| uri.scheme().is_none() && uri.authority().is_none();
    match path.parse::<http::Uri>() {
        Ok(uri) if path.starts_with('/') && is_path(&uri) => Ok(()),
        _ => Err(format!("{key} = {path:?} is not a path; write one, such as \"/healthz\"")),
    }
}

fn life(table: &Table) -> Result<LifeLimits, String> {
    let mut life = LifeLimits::default();
    macro_rules! take {
        ($($name:ident)*) => { $(life.$name = table.$name.unwrap_or(life.$name);)* };
    }
    take! {
        instances_max spares concurrency queue_max queue_timeout start_timeout request_timeout stop_grace
        health_interval
    }
    (life.max_requests, life.max_age) = (table.max_requests, table.max_age);
    life.memory_max = table.memory_max.map(|bytes| bytes as u64);
    (life.processes_max, life.cpu_percent_max) = (table.processes_max, table.cpu_percent_max);
    life.cgroups = table.cgroups.unwrap_or(life.cgroups);
    life.response_bytes_max = table.response_bytes_max.unwrap_or(life.response_bytes_max);
    for (key, value) in [
        ("max_requests", life.max_requests),
        ("memory_max", life.memory_max),
        ("processes_max", life.processes_max.map(u64::from)),
        ("cpu_percent_max", life.cpu_percent_max.map(u64::from)),
    ] {
        if value == Some(0) {
            return Err(format!("{key} = 0 would let nothing run; write more, or remove it"));
        }
    }
    if let Some(Idle(idle_freeze)) = table.idle_freeze {
        life.idle_freeze = idle_freeze;
    }
    if let Some(Idle(idle_stop)) = table.idle_stop {
        life.idle_stop = idle_stop;
    }
    for (key, value) in [
        ("instances_max", life.instances_max),
        ("concurrency", life.concurrency),
        ("queue_max", life.queue_max),
    ] {
        if value == 0 {
            return Err(format!("{key} = 0 would never let a call through; write 1 or more"));
        }
    }
    for (key, value) in [("instances_max", life.instances_max), ("spares", life.spares)] {
        if value > PROCESSES_MAX {
            return Err(format!("{key} = {value} is over {PROCESSES_MAX} processes; write less"));
        }
    }
    if let (Some(freeze), Some(stop)) = (life.idle_freeze, life.idle_stop)
        && freeze >= stop
    {
        return Err(format!(
            "idle_freeze is not before the end by idle_stop, after {stop:?}; shorten it, or write \
             idle_stop = \"never\""
        ));
    }
    Ok(life)
}

impl ProgramConfig {
    /// What is not there that it needs, if it is certain: its folder, its program, what it watches.
    pub(super) fn missing(&self) -> Option<(&'static str, String)> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let text = "is not a folder; paths are relative to where the server is started";
            let name = Some(folder.display().to_string()).filter(|name| !name.is_empty());
            return Some(("folder", format!("{} {text}", name.as_deref().unwrap_or("\"\""))));
        }
        if let Err(error) = self.program.check_user() {
            return Some(("user", format!("{error}; add it, or name another")));
        }
        let has_path = self.run.contains('/') || std::env::var_os("PATH").is_some();
        let is_there = !has_path || self.executable().is_some_and(|path| path.is_file());
        let text = match self.run.contains('/') {
            true if self.executable().is_some_and(|path| path.is_dir()) => {
                "is a folder; name the program in it"
            }
            _ if self.run.contains(char::is_whitespace) => {
                "does not exist; write the program and each argument by itself, as \
                 run = [\"python3\", \"app.py\"]"
            }
            true => "does not exist; paths are relative to the folder of the service",
            false => "is not in any folder of PATH; install it, or write its path",
        };
        if !is_there {
            return Some(("run", format!("{} {text}", self.run)));
        }
        if self.executable().is_some_and(|path| !is_executable(&path)) {
            let text = "may not be executed; write its interpreter before it, or chmod +x";
            return Some(("run", format!("{} {text}", self.run)));
        }
        let watched = self.watch.iter().find(|path| !self.here().join(path).exists())?;
        let text = "does not exist; paths are relative to the folder of the service";
        Some(("watch", format!("{} {text}", watched.display())))
    }

    /// The program itself, if it can be told where it is or would be.
    pub(super) fn executable(&self) -> Option<PathBuf> {
        if self.run.contains('/') {
            return Some(self.here().join(&self.run));
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(&self.run))
            .find(|path| is_executable(path))
    }

    /// What makes it start anew when it changes.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        let declared = self.watch.iter().map(|path| self.here().join(path));
        self.executable().into_iter().chain(declared).collect()
    }

    /// Whether a process of the one is as good as one of the other; where they are found may
    /// differ.
    pub(super) fn is_started_like(&self, other: &Self) -> bool {
        let parts = |config: &Self| (config.program.clone(), config.life.clone(), config.watched());
        parts(self) == parts(other)
    }

    fn here(&self) -> &Path {
        self.folder.as_deref().unwrap_or_else(|| Path::new("."))
    }
}

/// Of one service: more are a slip of the pen.
const PROCESSES_MAX: usize = 1000;

/// Whether anybody may execute this file.
fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

impl ProgramConfig {
    pub(super) fn serve_methods(
        &self,
        mut builder: Builder,
        hosted: &HostedService,
    ) -> Result<Builder, ConfigError> {
        let wrong = |error: &dyn std::fmt::Display| ConfigError::new(error.to_string());
        let Some(methods) = &self.methods else { return Ok(builder) };
        let schema = Schema::compile(&sources(&methods.proto)).map_err(|error| wrong(&error))?;
        let names = match methods.names.is_empty() {
            true => schema.services().map(str::to_owned).collect(),
            false => methods.names.clone(),
        };
        for name in names {
            let service = hosted.typed(&schema, &name, self.codec);
            builder = builder.service(service.map_err(|error| wrong(&error))?);
        }
        Ok(builder)
    }
}

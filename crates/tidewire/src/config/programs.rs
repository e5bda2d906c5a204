//! Programs that are hosted, upstreams of plain HTTP, and how both follow their configuration while
//! the server runs.
//!
//! | what happens | what is done |
//! |---|---|
//! | SIGHUP | all of this is looked at at once |
//! | the configuration file changes | programs and upstreams whose table is another are replaced, new ones added, others ended; routes are those of the file |
//! | the executable of a program, or what its `watch` names, is another | it is replaced by a new start |
//! | the executable is gone | nothing, until there is one again |
//! | the file cannot be used | it is said, and all stays as it is |
//!
//! Of starts that no call waits for there are as many at a time as the machine has cores. No call
//! fails for it: see [`HostedService::replace`]. Limits, access rules and CORS of the server change
//! likewise. Methods (`proto`) and all other settings are those of its start; the log names those
//! that changed.

mod shared_log;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidewire_cache::{PageCache, PageSettings};
use tidewire_hosting::{Host, HostedService};
use tidewire_proxy::{HeaderRules, RouteError, Routes, Upstream};
use tidewire_server::{Builder, ReloadHandle};
use tidewire_service::{Call, Codec, Error, Layer, Reply, Service};
use tokio::signal::unix::{Signal, SignalKind, signal};

use tidewire_admin::Inventory;

use self::shared_log::SharedLog;
use super::{Config, ConfigError, Flags, ProgramConfig, ServiceConfig, UpstreamConfig};
use crate::changes::{Changes, Stamp};

/// The programs and upstreams of a server.
#[derive(Debug)]
pub struct Programs {
    /// None while there is no program.
    host: Option<Host>,
    transfer_rate_min: u64,
    pages: PageCache,
    log: SharedLog,
    sites: Routes,
    is_https: bool,
    inventory: Inventory,
    /// Gives the server other settings.
    server: ReloadHandle,
    /// What the server was started by.
    started_by: Config,
    running: Vec<RunningProgram>,
    upstreams: Vec<RunningUpstream>,
    /// The files that this was made of.
    served: Stamps,
    /// What the server serves of programs by their names: what these had when it started.
    methods: BTreeMap<String, Methods>,
}

#[derive(Debug)]
struct RunningProgram {
    config: ProgramConfig,
    hosted: HostedService,
}

#[derive(Debug)]
struct RunningUpstream {
    config: UpstreamConfig,
    upstream: Upstream,
}

/// The methods of a program, and how their messages are encoded.
type Methods = (ServiceConfig, Codec);

fn methods(config: &ProgramConfig) -> Option<Methods> {
    config.methods.clone().map(|methods| (methods, config.codec))
}

/// Files by the program that they belong to; the configuration belongs to none.
type Stamps = BTreeMap<(String, PathBuf), Option<Stamp>>;

impl Config {
    /// Hosts the programs, and adds them and the upstreams to a server that has nothing at `/` yet;
    /// without either, only the settings of the server are followed.
    ///
    /// Once the server is started, [`Host::answered_by`] its
    /// [`callee`](tidewire_server::RunningServer::callee) lets programs call back, and
    /// [`Programs::follow`] takes up changes. They end with [`Programs::stop`], after the server
    /// was drained.
    ///
    /// # Errors
    /// Two services at one route; `.proto` files that do not compile, or lack a service; an
    /// upstream that cannot be one; with programs, a `main` that does not begin with
    /// [`supervisor()`](crate::hosting::supervisor()).
    pub fn host(&self, builder: Builder) -> Result<(Builder, Programs), ConfigError> {
        for idle in self.idle_rules(&builder) {
            tracing::warn!("{idle}");
        }
        distinct(self).map_err(ConfigError::new)?;
        let is_https = self.server.tls.is_some();
        let inventory = self.admin_handles.0.clone();
        let sites = Routes::new().https(is_https);
        let named =
            |config: &ProgramConfig| Some((config.program.name().to_owned(), methods(config)?));
        let methods = self.programs().filter_map(named).collect();
        let pages = self.memo.page_cache();
        inventory.set_pages(pages.clone());
        let mut programs = Programs {
            host: None,
            transfer_rate_min: self.limits().transfer_rate_min as u64,
            pages,
            log: SharedLog::default(),
            sites,
            is_https,
            inventory,
            server: builder.reload_handle(),
            started_by: self.clone(),
            running: Vec::new(),
            upstreams: Vec::new(),
            served: Stamps::new(),
            methods,
        };
        let mut builder = builder;
        for config in self.programs() {
            let hosted = programs.add(config)?;
            builder = config.serve_methods(builder, &hosted)?;
        }
        programs.upstreams = programs.connect(self)?;
        programs.sites.set(programs.routes()?);
        programs.served = look(&programs.watched(None));
        if !is_without_routes(self) {
            builder = builder.mount("/", programs.sites.clone());
        }
        Ok((builder, programs))
    }
}

/// Whether there is no program and no upstream.
pub(super) fn hosts_nothing(config: &Config) -> bool {
    config.programs().next().is_none() && config.upstreams().next().is_none()
}

/// Whether no program and no upstream has a page.
fn is_without_routes(config: &Config) -> bool {
    let has_none = |program: &ProgramConfig| program.routes.is_empty();
    config.programs().all(has_none) && config.upstreams().next().is_none()
}

impl Programs {
    /// What runs the programs, if there are any.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The pages that are kept of programs and upstreams.
    pub fn pages(&self) -> &PageCache {
        &self.pages
    }

    /// Ends all of them; when it returns, no process is left. Commands of pages whose callers are
    /// gone have `limits.drain_timeout` to end.
    pub async fn stop(self) {
        let patience = self.started_by.limits.drain_timeout;
        let patience = patience.unwrap_or_else(|| tidewire_server::Limits::default().drain_timeout);
        let ended = tokio::time::timeout(patience, self.pages.until_commands_end()).await;
        if ended.is_err() {
            let count = self.pages.commands_without_callers();
            tracing::warn!(
                "{count} commands of pages whose callers were gone did not end within \
                 limits.drain_timeout = {patience:?}; they are cut off"
            );
        }
        if let Some(host) = self.host {
            host.stop().await;
        }
    }

    /// Runs beside a server: takes up changes until `stopped` says that it has, and then ends all
    /// of them. SIGHUP is heard from the call on, before the future is awaited.
    ///
    /// # Errors
    /// Those of `stopped`.
    pub fn run_until(
        mut self,
        stopped: impl Future<Output = io::Result<bool>>,
        flags: &Flags,
    ) -> impl Future<Output = io::Result<bool>> {
        let hangups = signal(SignalKind::hangup()).ok();
        async move {
            let outcome = tokio::select! {
                outcome = stopped => outcome,
                never = self.follow_with(flags, hangups) => match never {},
            };
            self.stop().await;
            outcome
        }
    }

    /// Takes up changes of the configuration that `flags` name, and of programs, for as long as it
    /// is polled. SIGHUP is heard from the call on.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub fn follow(&mut self, flags: &Flags) -> impl Future<Output = Infallible> {
        let hangups = signal(SignalKind::hangup()).ok();
        self.follow_with(flags, hangups)
    }

    async fn follow_with(&mut self, flags: &Flags, mut hangups: Option<Signal>) -> Infallible {
        let file = flags.file().map(Path::to_owned);
        let file = file.as_deref();
        // What changed since it was read, before anybody followed, is a change, too.
        if let Some(file) = file {
            let read = (String::new(), file.to_owned());
            self.served.entry(read).or_insert(self.started_by.stamp);
        }
        let mut changes = Changes::new(self.served.clone(), PAUSE);
        loop {
            let watched = self.watched(file);
            let (seen, is_asked) = tokio::select! {
                seen = changes.next(move || look(&watched)) => (seen, false),
                () = hung_up(&mut hangups) => (look(&self.watched(file)), true),
            };
            let of_config = |stamps: &Stamps| {
                stamps.iter().find(|((name, _), _)| name.is_empty()).map(|(_, stamp)| *stamp)
            };
            let mut served = None;
            if is_asked || of_config(&seen) != of_config(changes.served()) {
                served = self.reload(flags);
            }
            for running in &self.running {
                running.renew(changes.served(), &seen);
            }
            // As it was before anything was started: what changed since is another change.
            let mut served = served.unwrap_or_else(|| look(&self.watched(file)));
            for (at, stamp) in seen {
                served.entry(at).and_modify(|now| *now = stamp);
            }
            self.served.clone_from(&served);
            changes.serve(served);
        }
    }

    /// Takes up the configuration, if it can be used; returns how the files of its programs were
    /// before.
    fn reload(&mut self, flags: &Flags) -> Option<Stamps> {
        let is_empty = |file: &Path| std::fs::metadata(file).is_ok_and(|file| file.len() == 0);
        // Somebody may be writing it anew. Without it every access rule would be gone.
        let config = match (flags.file(), &self.started_by.origins.file) {
            (None, Some(file)) => Err(format!("{}: it is gone; put it back", file.display())),
            (Some(file), _) if is_empty(file) => {
                Err(format!("{}: it is empty now", file.display()))
            }
            _ => flags.load(std::env::vars()).map_err(|error| error.to_string()),
        };
        let config = config.and_then(|config| {
            if hosts_nothing(&config) && !hosts_nothing(&self.started_by) {
                // As while somebody writes the file anew, or moves another there.
                return Err("it has no programs and no upstreams now".to_owned());
            }
            distinct(&config)?;
            let upstreams = self.connect(&config).map_err(|error| error.to_string())?;
            let settings = self.started_by.settings_now(&config);
            let settings = settings.map_err(|error| error.to_string())?;
            let checked = self.server.check(&settings);
            checked.map_err(|error| config.placed(&error.to_string()))?;
            Ok((config, upstreams, settings))
        });
        let (config, upstreams, settings) = match config {
            Ok(usable) => usable,
            Err(error) => {
                tracing::error!(
                    "{error}: the configuration cannot be used, settings and programs stay as they are"
                );
                return None;
            }
        };
        if let Err(error) = self.server.reload(settings) {
            tracing::error!("{error}: settings and programs stay as they are");
            return None;
        }
        let waiting = self.started_by.waits_for_restart(&config);
        let before = look(&watched(flags.file(), self.programs_of(&config)));
        if !hosts_nothing(&self.started_by) {
            self.reload_programs(&config, upstreams);
        }
        tracing::info!("settings and programs are those of the configuration");
        if !waiting.is_empty() {
            tracing::warn!("changed, and waits for a restart: {}", waiting.join(", "));
        }
        Some(before)
    }

    /// The programs that a configuration has; none where nothing was hosted at the start.
    fn programs_of<'c>(&self, config: &'c Config) -> impl Iterator<Item = &'c ProgramConfig> {
        let hosts = !hosts_nothing(&self.started_by);
        config.programs().filter(move |_| hosts)
    }

    /// Takes up programs, upstreams and routes of a configuration that can be used.
    fn reload_programs(&mut self, config: &Config, upstreams: Vec<RunningUpstream>) {
        for known in &self.upstreams {
            let is_same = |other: &RunningUpstream| {
                other.config.settings == known.config.settings
                    && other.config.headers == known.config.headers
            };
            if !upstreams.iter().any(is_same) {
                self.pages.clear(known.config.name());
            }
        }
        self.upstreams = upstreams;
        self.running.retain(|running| {
            let service = running.hosted.name();
            let is_wanted = config.programs().any(|config| config.program.name() == service);
            if !is_wanted {
                tracing::info!(service, "removed");
                self.pages.clear(service);
                self.inventory.remove_program(service);
                if let Some(host) = &self.host {
                    host.remove(&running.hosted);
                }
            }
            is_wanted
        });
        for config in config.programs() {
            self.take_up(config);
        }
        match self.routes() {
            Ok(routes) => self.sites.set(routes),
            Err(error) => tracing::error!(%error, "routes stay as they are"),
        }
    }

    /// One table of the configuration, as it is now.
    fn take_up(&mut self, config: &ProgramConfig) {
        let service = config.program.name();
        if self.methods.get(service) != methods(config).as_ref() {
            tracing::warn!(service, "proto, names and codec change with a restart of the server");
        }
        let Some(running) = self.running.iter_mut().find(|r| r.hosted.name() == service) else {
            if let Err(error) = self.add(config) {
                tracing::error!(service, %error, "not started");
            }
            return;
        };
        if !config.is_started_like(&running.config) {
            tracing::info!(service, "replaced: its settings are read again");
            running.hosted.replace(config.program.clone(), config.life.clone());
        }
        if running.config.headers != config.headers {
            self.pages.clear(service);
        }
        running.config = config.clone();
    }

    /// The upstreams of a configuration; those that are as they were stay the same.
    fn connect(&self, config: &Config) -> Result<Vec<RunningUpstream>, ConfigError> {
        let upstreams = config.upstreams().map(|config| {
            let known = self.upstreams.iter().find(|known| {
                known.config.settings == config.settings
                    && known.config.authorities == config.authorities
            });
            let upstream = match known {
                Some(known) => known.upstream.clone(),
                None => config.upstream()?,
            };
            Ok(RunningUpstream { config: config.clone(), upstream })
        });
        upstreams.collect()
    }

    fn add(&mut self, config: &ProgramConfig) -> Result<HostedService, ConfigError> {
        let host = match &self.host {
            Some(host) => host,
            None => {
                let host = Host::start().map_err(|error| ConfigError::new(error.to_string()))?;
                let pages = self.pages.clone();
                let log = Arc::clone(&self.log.handle);
                host.sources().on_change(move |source, key| {
                    pages.source_changed(source, key);
                    if let Some(log) = log.get() {
                        log.publish(source, Some(key).filter(|key| !key.is_empty()));
                    }
                });
                let pages = self.pages.clone();
                host.sources().on_replace(move |service| _ = pages.clear(service));
                self.log.share(&host);
                self.host.insert(host.transfer_rate_min(self.transfer_rate_min))
            }
        };
        let hosted = host.add(config.program.clone(), config.life.clone());
        self.inventory.add_program(hosted.clone());
        self.running.push(RunningProgram { config: config.clone(), hosted: hosted.clone() });
        Ok(hosted)
    }

    /// A service whose pages are kept, if they are to be; any may say what it has changed.
    fn with_pages(
        &self,
        name: &str,
        settings: Option<&PageSettings>,
        headers: &HeaderRules,
        service: impl Service,
    ) -> Arc<dyn Service> {
        let service = headers.layer(Arc::new(service));
        match settings {
            Some(settings) => self.pages.layer(name, settings.clone()).layer(service),
            None => self.pages.changes_layer(name).layer(service),
        }
    }

    /// Where programs are found.
    fn routes(&self) -> Result<Routes, ConfigError> {
        let mut sites = Routes::new().https(self.is_https);
        let route = |it: &RunningProgram| {
            let routes: Vec<_> = it.config.routes.iter().map(ToString::to_string).collect();
            (!routes.is_empty()).then(|| (it.hosted.name().to_owned(), routes.join(" ")))
        };
        self.inventory.set_routes(self.running.iter().filter_map(route).collect());
        let wrong = |error: RouteError| ConfigError::new(error.to_string());
        for RunningProgram { config, hosted } in &self.running {
            let service = self.with_pages(
                hosted.name(),
                config.pages.as_ref(),
                &config.headers,
                hosted.clone(),
            );
            for route in &config.routes {
                sites.add(route.clone(), Arc::clone(&service)).map_err(wrong)?;
            }
        }
        for RunningUpstream { config, upstream } in &self.upstreams {
            let service = self.with_pages(
                config.name(),
                config.pages.as_ref(),
                &config.headers,
                upstream.clone(),
            );
            for route in &config.routes {
                sites.add(route.clone(), Arc::clone(&service)).map_err(wrong)?;
            }
        }
        Ok(sites)
    }

    fn watched(&self, config: Option<&Path>) -> Vec<(String, PathBuf)> {
        watched(config, self.running.iter().map(|running| &running.config))
    }
}

impl RunningProgram {
    /// Starts it anew if files of it are others than they were.
    fn renew(&self, before: &Stamps, now: &Stamps) {
        let service = self.hosted.name();
        let of_this = |stamps: &Stamps| -> Stamps {
            let of_this = stamps.iter().filter(|((name, _), _)| name == service);
            of_this.map(|(at, stamp)| (at.clone(), *stamp)).collect()
        };
        let before = of_this(before);
        let now = of_this(now);
        if before.is_empty() || before == now {
            return;
        }
        let executable = self.config.executable().map(|path| (service.to_owned(), path));
        if executable.is_none_or(|at| now.get(&at).is_some_and(Option::is_none)) {
            tracing::warn!(service, "its executable is gone; what runs of it goes on");
            return;
        }
        tracing::info!(service, "replaced: its files are others");
        let (program, life) = self.hosted.runs();
        self.hosted.replace(program, life);
    }
}

/// What is looked at; no program has an empty name, which is that of the configuration.
fn watched<'a>(
    config: Option<&Path>,
    programs: impl Iterator<Item = &'a ProgramConfig>,
) -> Vec<(String, PathBuf)> {
    let config = config.map(|path| (String::new(), path.to_owned()));
    let programs = programs.flat_map(|config| {
        let name = config.program.name();
        config.watched().into_iter().map(|path| (name.to_owned(), path))
    });
    config.into_iter().chain(programs).collect()
}

/// Whether no two have the same name or place.
fn distinct(config: &Config) -> Result<(), String> {
    let nobody = async |_: Call| Err::<Reply, _>(Error::unimplemented("it is never called"));
    let mut all = Routes::new();
    let mut names = BTreeSet::new();
    for config in config.programs() {
        let name = config.program.name();
        if !names.insert(name) {
            return Err(format!("two programs are called {name:?}; give one another name"));
        }
        for route in &config.routes {
            all.add(route.clone(), nobody).map_err(|error| error.to_string())?;
        }
    }
    for route in config.upstreams().flat_map(|config| &config.routes) {
        all.add(route.clone(), nobody).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Files as they are now; of a folder, all that are in it.
fn look(watched: &[(String, PathBuf)]) -> Stamps {
    let mut stamps = Stamps::new();
    for (name, path) in watched {
        add(&mut stamps, name, path, 0);
    }
    stamps
}

fn add(stamps: &mut Stamps, name: &str, path: &Path, depth: usize) {
    if stamps.len() >= FILES_MAX {
        return;
    }
    let entries = std::fs::read_dir(path).ok().filter(|_| depth < DEPTH_MAX);
    let Some(entries) = entries else {
        stamps.insert((name.to_owned(), path.to_owned()), Stamp::of(path));
        return;
    };
    for entry in entries.flatten() {
        // What interpreters and tools keep beside sources changes by itself.
        let file = entry.file_name();
        let is_kept = |name: &str| name.starts_with('.') || LEFT_OUT.contains(&name);
        if !file.to_str().is_none_or(is_kept) {
            add(stamps, name, &entry.path(), depth + 1);
        }
    }
}

async fn hung_up(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => _ = hangups.recv().await,
        None => std::future::pending().await,
    }
}

const PAUSE: Duration = Duration::from_millis(500);
const FILES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 16;
const LEFT_OUT: &[&str] = &["__pycache__", "node_modules", "target"];

//! `[[service]]` with `run`: a program in any language, started by its first call.
//!
//! The table says what is run, at which route it is found, and how it lives; bounds that are not set are
//! those of [`Life`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tidewire_process::{Host, Life, Listen, Program, Site, SiteError, Sites};
use tidewire_server::Builder;
use tidewire_service::Service;

use super::service::Table;
use super::{Config, ConfigError, value};

/// `[[service]]` with `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramConfig {
    /// What is run.
    pub program: Program,
    /// Where it is found.
    pub site: Site,
    /// How it lives.
    pub life: Life,
    /// The program itself, as it is looked up.
    run: String,
    folder: Option<PathBuf>,
}

/// How a program is told where to listen; see [`Listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ListenSetting {
    Port,
    Unix,
    Inherited,
}

/// `idle_stop`: a duration, or `"never"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct IdleStop(
    #[serde(deserialize_with = "value::duration_or_never")] Option<Duration>,
);

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
        let name = table.name.clone().ok_or_else(|| missing("name", "name = \"shop\""))?;
        let route =
            table.route.as_deref().ok_or_else(|| missing("route", "route = \"/shop/*\""))?;
        let mut site = Site::new(route).map_err(|error| error.to_string())?;
        if let Some(host) = &table.host {
            site = site.host(host);
        }
        site = site.strip_prefix(table.strip_prefix.unwrap_or(false));
        let life = life(&table)?;
        let mut program = Program::new(name, command).listen(match table.listen {
            None | Some(ListenSetting::Port) => Listen::Port,
            Some(ListenSetting::Unix) => Listen::Unix,
            Some(ListenSetting::Inherited) => Listen::Inherited,
        });
        if let Some(folder) = &table.folder {
            program = program.folder(folder);
        }
        if let Some(user) = table.user {
            program = program.user(user);
        }
        for (name, value) in table.environment.unwrap_or_default() {
            program = program.environment(name, value);
        }
        Ok(Self { program, site, life, run, folder: table.folder })
    }
}

fn life(table: &Table) -> Result<Life, String> {
    let mut life = Life::default();
    macro_rules! take {
        ($($name:ident)*) => { $(life.$name = table.$name.unwrap_or(life.$name);)* };
    }
    take! {
        instances_max concurrency queue_max queue_timeout start_timeout request_timeout stop_grace
    }
    life.idle_freeze = table.idle_freeze;
    if let Some(IdleStop(idle_stop)) = table.idle_stop {
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
    Ok(life)
}

impl ProgramConfig {
    /// What is not there that it needs, if it is certain: its folder, its program.
    pub(super) fn missing(&self) -> Option<(&'static str, String)> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let text = "is no folder; paths are relative to where the server is started";
            return Some(("folder", format!("{} {text}", folder.display())));
        }
        let here = self.folder.as_deref().unwrap_or_else(|| Path::new("."));
        let is_there = match self.run.contains('/') {
            true => here.join(&self.run).is_file(),
            false => std::env::var_os("PATH").is_none_or(|path| {
                std::env::split_paths(&path).any(|folder| folder.join(&self.run).is_file())
            }),
        };
        let text = match self.run.contains('/') {
            true => "does not exist; paths are relative to the folder of the service",
            false => "is in no folder of PATH; install it, or write its path",
        };
        (!is_there).then(|| ("run", format!("{} {text}", self.run)))
    }
}

impl Config {
    /// Hosts the programs, and adds them to a server that has nothing at `/` yet; without programs
    /// there is no host.
    ///
    /// The host ends with [`Host::stop`], after the server was drained.
    ///
    /// # Errors
    /// Two programs at one route; a `main` that does not begin with [`warden()`](crate::warden()).
    pub fn host(&self, builder: Builder) -> Result<(Builder, Option<Host>), ConfigError> {
        if self.programs().next().is_none() {
            return Ok((builder, None));
        }
        let host = Host::start().map_err(|error| ConfigError::new(error.to_string()))?;
        let add = |config: &ProgramConfig| host.add(config.program.clone(), config.life.clone());
        let sites = self.sites(add).map_err(|error| ConfigError::new(error.to_string()))?;
        Ok((builder.mount("/", sites), Some(host)))
    }

    fn sites<S: Service>(&self, add: impl Fn(&ProgramConfig) -> S) -> Result<Sites, SiteError> {
        let mut sites = Sites::new().https(self.server.tls.is_some());
        for config in self.programs() {
            sites.add(config.site.clone(), add(config))?;
        }
        Ok(sites)
    }
}

//! `tidewire.toml`, the environment and flags, as one typed configuration.
//!
//! Later wins: defaults, the file, environment variables (`server.listen` is
//! `TIDEWIRE_SERVER_LISTEN`), flags. A key that does not exist is an error that names its line and
//! the nearest key that does. The table of all keys is [`KEYS`].
//!
//! ```
//! use tidewire::config::Config;
//! let config = Config::parse("[server]\nlisten = [\"127.0.0.1:9000\"]\n", "tidewire.toml")?;
//! assert_eq!(config.server.listen[0].to_string(), "127.0.0.1:9000");
//!
//! let error = Config::parse("[server]\nlisten_on = 1\n", "tidewire.toml").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "tidewire.toml:2:1: unknown key listen_on; did you mean listen?"
//! );
//! # Ok::<(), tidewire::config::ConfigError>(())
//! ```

mod admin;
mod auth;
mod callers;
mod check;
mod console;
mod cors;
mod error;
mod flags;
mod header_rules;
mod hosts;
mod idle;
mod keys;
mod limits;
#[cfg(feature = "log")]
mod log;
mod memo;
mod oplog;
mod origin;
mod pages;
mod pending_restart;
mod place;
mod program;
mod programs;
mod rest;
mod service;
mod service_entry;
mod service_table;
mod tls;
mod traces;
mod upstream;
mod value;
mod variables;

use std::num::NonZero;
use std::path::Path;

use self::keys::ENV_PREFIX;
use self::origin::Origins;
use crate::changes::Stamp;
use serde::Deserialize;
use tidewire_memo::Graph;
use tidewire_proxy::Route;
use tidewire_server::{Address, Builder, Hosts, Server};
use toml::Table;

pub use self::admin::{AdminConfig, AdminHandles, LogControl};
pub use self::auth::{AccessConfig, AccessSetting, ApiKeyConfig, AuthConfig, JwtConfig};
pub use self::console::{ConsoleFile, announced, announcement, forget};
pub use self::cors::CorsConfig;
pub use self::error::ConfigError;
pub use self::flags::Flags;
pub use self::keys::{KEYS, Key};
pub use self::limits::LimitsConfig;
pub use self::memo::{Answers, MemoConfig, MemoMethodConfig};
pub use self::oplog::{CaptureConfig, OplogConfig};
pub use self::program::ProgramConfig;
pub use self::programs::Programs;
pub use self::rest::{
    DefaultsSetting, ErrorsSetting, Int64Setting, NamesSetting, RestConfig, RestServiceConfig,
    UnknownSetting,
};
pub use self::service::{Backend, ServiceConfig, UpstreamProtocol, sources};
pub use self::service_entry::ServiceEntry;
pub use self::tls::{TlsConfig, TlsPair};
pub use self::traces::TracesConfig;
pub use self::upstream::UpstreamConfig;
pub use self::value::Part;

/// Everything that can be set.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = "[limits]\ncalls_max = 100\n\n[cors]\norigins = [\"https://app.example\"]\n";
/// let config = Config::parse(text, "tidewire.toml")?;
/// let server = config.server()?; // a builder: add services, then start it
/// assert_eq!(config.limits().calls_max, Some(100));
/// # let _ = server;
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Config {
    /// `[server]`: where and how to listen.
    pub server: ServerConfig,
    /// `[limits]`: the bounds.
    pub limits: LimitsConfig,
    /// `[rest]`: how REST requests are read and replies are printed.
    pub rest: RestConfig,
    /// `[cors]`: which pages of other origins may call from a browser.
    pub cors: CorsConfig,
    /// `[auth]`: who is known, and who may call what.
    pub auth: AuthConfig,
    /// `[memo]`: for how long and for whom answers are kept.
    pub memo: MemoConfig,
    /// `[oplog]`: how changes made elsewhere are heard of.
    pub oplog: OplogConfig,
    /// `[validation]`: whether requests are checked against rules of their schema.
    pub validation: ValidationConfig,
    /// `[log]`: what is logged.
    pub log: LogConfig,
    /// `[traces]`: where spans of requests are sent.
    pub traces: TracesConfig,
    /// `[admin]`: where the program tells of itself.
    pub admin: AdminConfig,
    /// Where what is set comes from.
    #[serde(skip)]
    origins: Origins,
    /// The file, as it was before it was read.
    #[serde(skip)]
    stamp: Option<Stamp>,
    /// See [`CorsConfig::or_of_development`].
    #[serde(skip)]
    is_of_development: bool,
    #[serde(skip)]
    log_control: LogControl,
    /// What the admin listener shows beside the server.
    #[serde(skip)]
    pub(crate) admin_handles: AdminHandles,
    /// `[[service]]`: services without code, and programs in other languages.
    #[serde(rename = "service")]
    pub services: Vec<ServiceEntry>,
}

/// `[server]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let config = Config::parse(
///     "[server]\nlisten = [\"127.0.0.1:8080\", \"unix:/run/shop.sock\"]\n",
///     "tidewire.toml",
/// )?;
/// assert_eq!(config.server.listen.len(), 2);
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Addresses to listen on.
    #[serde(deserialize_with = "value::addresses")]
    pub listen: Vec<Address>,
    /// Hosts that the server answers for, beside those of this machine; any where it listens
    /// elsewhere than on loopback and none is set.
    #[serde(deserialize_with = "value::list")]
    pub hosts: Vec<String>,
    /// Addresses and networks from which calls are taken; from all unless set.
    #[serde(deserialize_with = "value::networks")]
    pub allow: Vec<String>,
    /// Addresses and networks from which no calls are taken.
    #[serde(deserialize_with = "value::networks")]
    pub deny: Vec<String>,
    /// Addresses and networks of proxies that are believed about their callers; none unless set.
    #[serde(deserialize_with = "value::proxies")]
    pub trusted_proxies: Vec<String>,
    /// Server reflection; by default on where every address is local.
    pub reflection: Option<bool>,
    /// The page `/docs`; by default on where reflection is on and every address is local.
    pub docs: Option<bool>,
    /// Threads of `tidewire serve` and `tidewire mock`. A program that loads its configuration has
    /// made its own runtime before; this says nothing to it.
    #[serde(deserialize_with = "value::threads")]
    pub threads: Option<NonZero<u16>>,
    /// `[server.tls]`: TLS on every TCP address.
    pub tls: Option<TlsConfig>,
}

/// `[validation]`.
///
/// ```
/// use tidewire::config::Config;
///
/// assert!(Config::default().validation.enabled, "requests are checked unless this is set");
/// let config = Config::parse("[validation]\nenabled = false\n", "tidewire.toml")?;
/// assert!(!config.validation.enabled);
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ValidationConfig {
    /// Whether requests are checked; on, where a schema has rules, unless set.
    pub enabled: bool,
}

/// `[log]`; with the feature `log` its `start` starts it.
///
/// ```
/// use tidewire::config::{AccessLogSetting, Config};
///
/// let config = Config::parse("[log]\nlevel = \"warn\"\naccess = \"json\"\n", "tidewire.toml")?;
/// assert_eq!(config.log.level, "warn");
/// assert_eq!(config.log.access, Some(AccessLogSetting::Json));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`, or directives such as `info,hyper=debug`.
    pub level: String,
    /// A line for each request; none unless set.
    pub access: Option<AccessLogSetting>,
    /// Of how many requests that went well there is one, from 0 to 1; of all unless set.
    pub access_sample: Option<Part>,
}

/// How lines of the access log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogSetting {
    /// There are none.
    Off,
    /// For people.
    Text,
    /// One object of JSON each.
    Json,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let listen = vec![Address::Tcp(([127, 0, 0, 1], 8080).into())];
        Self {
            listen,
            hosts: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            trusted_proxies: Vec::new(),
            reflection: None,
            docs: None,
            threads: None,
            tls: None,
        }
    }
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), access: None, access_sample: None }
    }
}

impl Config {
    /// Reads the text of a configuration file; `name` stands in errors.
    ///
    /// # Errors
    /// What is wrong first, with line and column.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::toml(name, text, &error))
    }

    /// Combines a file, environment variables and flags; later wins.
    ///
    /// `file` is read if it is given, and then has to exist. `env` are all variables of the
    /// process: those that start with `TIDEWIRE_` are looked at. `flags` are pairs of key and value
    /// as in the file (`server.listen`, `127.0.0.1:0`).
    ///
    /// # Errors
    /// A file that cannot be read; an unknown key, variable or flag, with the nearest known one; a
    /// value that does not fit.
    pub fn load(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, String)],
    ) -> Result<Self, ConfigError> {
        let stamp = file.and_then(Stamp::of);
        // What the file lacks may come from elsewhere.
        let (mut table, lacks) = match file {
            Some(path) => read(path)?,
            None => (Table::new(), None),
        };
        let mut from = None;
        let mut origins = Origins::of_file(&table, file);
        for (name, value) in env.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)) {
            let key = keys::of_variable(&name)?;
            keys::set(&mut table, key, keys::value(key, &value));
            origins.note(key, &value, &name);
            match table.clone().try_into::<Self>() {
                Err(error) if error::is_lack(&error) => from = Some(name),
                Err(error) => return Err(ConfigError::value(&name, &error)),
                Ok(_) => {}
            }
        }
        for (name, value) in flags {
            let key = keys::of_name(name)?;
            keys::set(&mut table, key, keys::value(key, value));
            origins.note(key, value, "flag");
            match table.clone().try_into::<Self>() {
                Err(error) if error::is_lack(&error) => from = Some(name.to_string()),
                Err(error) => return Err(ConfigError::value(name, &error)),
                Ok(_) => {}
            }
        }
        let mut config: Self = table.try_into().map_err(|error| {
            lacks.unwrap_or_else(|| {
                ConfigError::value(from.as_deref().unwrap_or("configuration"), &error)
            })
        })?;
        config.origins = origins;
        config.stamp = stamp;
        Ok(config)
    }

    /// A server with these settings, and no services yet. Answers are kept in [`Graph::global`].
    ///
    /// # Errors
    /// TLS files that cannot be read or used; invalid keys and hashes; origins that cannot be
    /// allowed; bounds that cannot work.
    pub fn server(&self) -> Result<Builder, ConfigError> {
        if let Some(fault) = self.limits().faults().first() {
            return Err(ConfigError::new(fault.to_string()));
        }
        if let Some(fault) = self.oplog.fault() {
            return Err(ConfigError::new(fault));
        }
        let cors = self.cors.cors();
        cors.check().map_err(|error| ConfigError::new(error.to_string()))?;
        let mut rest = self.rest.options();
        rest.security = self.auth.schemes()?;
        let mut builder = Server::builder()
            .limits(self.limits())
            .rest(rest)
            .cors(cors)
            .hosts(self.hosts()?)
            .callers(self.server.callers()?)
            .validation(self.validation.enabled)
            .methods_see_host(self.schemas().any(|service| service.backend == Backend::Upstream))
            .reflection(self.server.reflection)
            .docs(self.server.docs);
        if let Some(mut cache) = self.memo.reply_cache(&Graph::global()) {
            if let Some(header) = self.auth.key_header()? {
                cache = cache.credential_header(header);
            }
            if self.auth.certificates == Some(true) {
                cache = cache.certificates();
            }
            builder = builder.memo(cache);
        }
        for address in &self.server.listen {
            builder = builder.listen(address.clone());
        }
        builder = self.auth.apply(builder)?;
        builder = self.observe(builder)?;
        match &self.server.tls {
            None => Ok(builder),
            Some(tls) => tls.apply(builder),
        }
    }

    /// As [`server`](Self::server), going by a change log where there is one; see
    /// [`ChangeLog`](crate::ChangeLog). The admin listener tells of it.
    ///
    /// # Errors
    /// As those of [`server`](Self::server).
    pub fn server_with_log(
        &self,
        log: Option<&tidewire_oplog::OplogHandle>,
    ) -> Result<Builder, ConfigError> {
        use crate::ChangeLog as _;
        let builder = self.server()?;
        let Some(log) = log else { return Ok(builder) };
        self.admin_handles.0.set_oplog(log.clone());
        Ok(builder.change_log(log))
    }

    /// Lets the level of a log of the program's own be set while it runs, by the admin listener;
    /// that of [`LogConfig::start`] can be set without it.
    pub fn on_log_level(
        &mut self,
        set: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.log_control = LogControl::new(set);
    }

    /// Lets the admin listener tell of a mock, and change its rule files.
    #[cfg(feature = "mock")]
    pub fn tell_of_mock(&self, mock: &tidewire_mock::Mock, folders: &crate::mock::MockFolders) {
        self.admin_handles.0.set_mock(mock.clone());
        self.admin_handles.0.set_protos(folders.changed_protos(mock));
        if let Some(rules) = folders.steered(mock) {
            self.admin_handles.0.set_rules(rules);
        }
    }

    /// The hosts that the server answers for: names of this machine and those that are set, also
    /// for the routes of services; any where it listens elsewhere than on loopback and none is set.
    fn hosts(&self) -> Result<Hosts, ConfigError> {
        let set = hosts::names(&self.server.hosts)?;
        let is_public = !self.server.listen.iter().all(Address::is_local);
        if set.iter().any(|name| name == "*") || set.is_empty() && is_public {
            return Ok(Hosts::any());
        }
        let routes = self.services.iter().flat_map(|entry| match entry {
            ServiceEntry::Program(program) => &program.routes[..],
            ServiceEntry::Upstream(upstream) => &upstream.routes[..],
            ServiceEntry::Schema(_) => &[],
        });
        let sites = routes.filter_map(Route::required_host);
        Ok(set.iter().map(String::as_str).chain(sites).fold(Hosts::local(), Hosts::and))
    }
}

/// The table of a file, and what it lacks to be a configuration by itself.
fn read(path: &Path) -> Result<(Table, Option<ConfigError>), ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::file(path, &error))?;
    let name = path.display().to_string();
    let lacks = match toml::from_str::<Config>(&text) {
        Ok(_) => None,
        Err(error) if error::is_lack(&error) => Some(ConfigError::toml(&name, &text, &error)),
        Err(error) => return Err(ConfigError::toml(&name, &text, &error)),
    };
    let table = toml::from_str(&text).map_err(|error| ConfigError::toml(&name, &text, &error))?;
    Ok((table, lacks))
}

#[cfg(test)]
mod bounds;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, String> {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let flags: Vec<_> = flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        Config::load(None, env, &flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let env = [("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:1"), ("HOME", "/")];
        let config = load(&env, &[]).unwrap();
        assert_eq!(config.server.listen[0].to_string(), "127.0.0.1:1");
        let flags = [("server.listen", "127.0.0.1:2,unix:/run/a.sock")];
        let config = load(&env, &flags).unwrap();
        let listen: Vec<_> = config.server.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["127.0.0.1:2", "unix:/run/a.sock"]);
        let config = load(&[("TIDEWIRE_LIMITS_BODY_BYTES_MAX", "2MiB")], &[]).unwrap();
        assert_eq!(config.limits().body_bytes_max, 2 << 20);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_nearest_that_is_right() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Config::parse(text, "t.toml").unwrap_err().to_string(), expected);
        };
        check("[serve]\n", "t.toml:1:2: unknown key serve; did you mean server?");
        check(
            "\n[limits]\nbody_byte_max = 1\n",
            "t.toml:3:1: unknown key body_byte_max; did you mean body_bytes_max?",
        );
        check(
            "[limits]\nbody_bytes_max = \"4 parsecs\"\n",
            "t.toml:2:18: \"4 parsecs\" is not a size; write bytes as 4096, \"64KiB\" or \"4MiB\"",
        );
        check(
            "[server]\nlisten = \"8080\"\n",
            "t.toml:2:10: \"8080\" is not an address to listen on; write 127.0.0.1:8080, \
             [::1]:8080, localhost:8080 or unix:/path/to.sock",
        );
        assert_eq!(
            load(&[("TIDEWIRE_SERVER_LISTN", "x")], &[]).unwrap_err(),
            "unknown variable TIDEWIRE_SERVER_LISTN; did you mean TIDEWIRE_SERVER_LISTEN?"
        );
        assert!(
            load(&[("TIDEWIRE_LIMITS_STREAMS_MAX", "many")], &[])
                .unwrap_err()
                .starts_with("TIDEWIRE_LIMITS_STREAMS_MAX: ")
        );
    }

    #[test]
    fn tls_is_set_by_variables_or_flags_alone() {
        let variables =
            [("TIDEWIRE_SERVER_TLS_CERTIFICATE", "c.pem"), ("TIDEWIRE_SERVER_TLS_KEY", "k.pem")];
        let flags = [("server.tls.key", "k.pem"), ("server.tls.certificate", "c.pem")];
        for config in [load(&variables, &[]), load(&[], &flags), load(&variables[..1], &flags[..1])]
        {
            let tls = config.unwrap().server.tls.unwrap();
            assert_eq!((tls.certificate, tls.key), ("c.pem".into(), "k.pem".into()));
        }
        assert_eq!(
            load(&variables[..1], &[]).unwrap_err(),
            "TIDEWIRE_SERVER_TLS_CERTIFICATE: missing field `key`"
        );
        let folder = std::env::temp_dir().join(format!("tidewire-config-{}", std::process::id()));
        std::fs::write(&folder, "[server.tls]\ncertificate = \"c.pem\"\n").unwrap();
        let load = |flags: &[(&str, String)]| Config::load(Some(&folder), [], flags);
        assert!(load(&[("server.tls.key", "k.pem".to_owned())]).is_ok());
        let error = load(&[]).unwrap_err().to_string();
        std::fs::remove_file(&folder).unwrap();
        assert!(error.ends_with(":1:1: missing field `key`"), "{error}");
    }

    #[test]
    fn every_key_in_the_table_is_a_key_of_the_configuration() {
        for key in KEYS {
            let mut table = Table::new();
            if key.path.starts_with("server.tls.") {
                for other in ["server.tls.certificate", "server.tls.key"] {
                    keys::set(
                        &mut table,
                        keys::of_name(other).unwrap(),
                        toml::Value::String("x".into()),
                    );
                }
            }
            if key.path.starts_with("auth.jwt.") {
                for other in ["auth.jwt.issuer", "auth.jwt.audience", "auth.jwt.keys"] {
                    keys::set(
                        &mut table,
                        keys::of_name(other).unwrap(),
                        toml::Value::String("x".into()),
                    );
                }
            }
            keys::set(&mut table, key, keys::value(key, key.example));
            table.try_into::<Config>().unwrap_or_else(|e| panic!("{}: {e}", key.path));
        }
    }
}

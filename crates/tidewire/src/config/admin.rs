//! `[admin]` and the access log of `[log]`: what a running program tells of itself.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use tidewire_admin::{Admin, Inventory, SetLogLevel, SignIn, Token};
use tidewire_memo::Graph;
use tidewire_server::{Address, Builder};
use tidewire_telemetry::{AccessLog, LineFormat, Metrics};

use super::{AccessLogSetting, Config, ConfigError, LogConfig, value};

/// `[admin]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = "[admin]\nlisten = \"127.0.0.1:9090\"\ntoken_file = \"admin.token\"\n";
/// let admin = Config::parse(text, "tidewire.toml")?.admin;
/// assert!(admin.listen.is_some_and(|address| address.is_local()));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Where the program tells of itself; nowhere unless set.
    #[serde(deserialize_with = "value::address")]
    pub listen: Option<Address>,
    /// The file with the token for it.
    pub token_file: Option<PathBuf>,
    /// The file with a token for whoever may only read there.
    pub read_token_file: Option<PathBuf>,
}

/// What sets the level of the log while the program runs; the program says how.
#[derive(Clone, Default)]
pub struct LogControl(Option<SetLogLevel>);

/// Programs and mocks that the admin listener tells of, and who signs in there; clones share them.
#[derive(Clone, Default)]
pub struct AdminHandles(pub(crate) Inventory, pub(crate) Arc<ConsoleOfRun>);

/// How the console of this run is come to.
#[derive(Default)]
pub(crate) struct ConsoleOfRun {
    pub(crate) sign_in: SignIn,
    /// The token where no file of the settings has one.
    pub(crate) token: OnceLock<Token>,
}

impl LogControl {
    pub(super) fn new(set: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(set)))
    }
}

impl AdminConfig {
    /// What is wrong with it, with the key that it is about.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        match &self.listen {
            Some(address) if !address.is_local() => Some((
                "admin.listen",
                format!(
                    "admin.listen = {address} can be reached from elsewhere; write 127.0.0.1 and a port, or unix:/path"
                ),
            )),
            Some(Address::Tcp(_)) if self.token_file.is_none() => Some((
                "admin.listen",
                "admin.listen needs admin.token_file; the file is created if it does not exist"
                    .to_owned(),
            )),
            _ => None,
        }
    }

    /// The token for all there is, and that for reading.
    fn tokens(&self, of_run: Option<&Token>) -> Result<(Token, Option<Token>), ConfigError> {
        let of_file = |key: &str, path: &PathBuf| {
            let token = Token::of_file(path);
            token.map_err(|error| ConfigError::new(format!("admin.{key} = {error}")))
        };
        let token = match (&self.token_file, of_run) {
            (Some(path), _) => of_file("token_file", path)?,
            (None, Some(token)) => token.clone(),
            (None, None) => {
                Token::unknown().map_err(|error| ConfigError::new(error.to_string()))?
            }
        };
        let Some(path) = &self.read_token_file else { return Ok((token, None)) };
        let read = of_file("read_token_file", path)?;
        if read.is_that(&token) {
            let text = "admin.read_token_file holds the token of admin.token_file, which is good for more; name another file";
            return Err(ConfigError::new(text.to_owned()));
        }
        Ok((token, Some(read)))
    }
}

impl Config {
    /// The server with what observes it, and what tells of that.
    pub(super) fn observe(&self, mut builder: Builder) -> Result<Builder, ConfigError> {
        if let Some(log) = self.log.access_log() {
            builder = builder.observer(log).traces(0.0);
        }
        builder = self.traces.apply(builder)?;
        let Some(listen) = self.admin.listen.clone() else { return Ok(builder) };
        let of_run = self.admin_handles.1.token.get();
        if let Some((_, fault)) = self.admin.fault().filter(|_| of_run.is_none()) {
            return Err(ConfigError::new(fault));
        }
        let metrics = match self.log.access_log().is_some() || self.traces.endpoint.is_some() {
            true => Metrics::new().with_exemplars(),
            false => Metrics::new(),
        };
        let (token, read_token) = self.admin.tokens(of_run)?;
        let admin = Admin::new(token, metrics.clone(), Graph::global()).read_token(read_token);
        let mut admin =
            admin.settings(self.origins.settings()).inventory(self.admin_handles.0.clone());
        admin = admin.sign_in(self.admin_handles.1.sign_in.clone());
        #[cfg(feature = "log")]
        if let Some(set) = super::log::level_control() {
            admin = admin.log_level(Arc::new(set));
        }
        if let Some(set) = &self.log_control.0 {
            admin = admin.log_level(Arc::clone(set));
        }
        Ok(builder.observer(metrics).beside(move |handle| admin.server(listen, handle)))
    }
}

impl LogConfig {
    fn access_log(&self) -> Option<AccessLog> {
        let format = match self.access? {
            AccessLogSetting::Off => return None,
            AccessLogSetting::Text => LineFormat::Text,
            AccessLogSetting::Json => LineFormat::Json,
        };
        let write = |line: &str| tracing::info!(target: "tidewire::access", "{line}");
        let sample = self.access_sample.map_or(1.0, |part| part.get());
        Some(AccessLog::new(format, write).sample(sample))
    }
}

impl PartialEq for LogControl {
    /// What a program can do is not a setting.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LogControl {}

impl PartialEq for AdminHandles {
    /// What the admin listener shows is not a setting.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for AdminHandles {}

impl fmt::Debug for AdminHandles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminHandles")
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogControl")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_reached_from_elsewhere_or_by_anybody_here_does_not_start() {
        for (text, expected) in [
            ("listen = \"0.0.0.0:8081\"", "admin.listen = 0.0.0.0:8081 can be reached"),
            ("listen = \"192.168.1.1:0\"\ntoken_file = \"t\"", "admin.listen = 192.168.1.1:0"),
            ("listen = \"127.0.0.1:0\"", "admin.listen needs admin.token_file"),
            ("listen = \"127.0.0.1:0\"\ntoken_file = \"/\"", "admin.token_file = /: "),
        ] {
            let config = Config::parse(&format!("[admin]\n{text}\n"), "t.toml").unwrap();
            let error = config.server().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let open = Config::parse("[admin]\nlisten = \"unix:/tmp/none.sock\"\n", "t.toml").unwrap();
        assert!(open.server().is_ok());
    }
}

//! The flags that a program offers for its configuration.

use std::path::{Path, PathBuf};

use super::keys::ENV_PREFIX;
use super::{Config, ConfigError};

/// What was said on the command line: `--config`, `--listen` and `--set`.
///
/// ```
/// use tidewire::config::Flags;
/// let flags = Flags { settings: vec!["limits.streams_max=8".to_owned()], ..Flags::default() };
/// let config = flags.load([])?;
/// assert_eq!(config.limits().streams_max, 8);
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The configuration file; without one it is `tidewire.toml` where that exists.
    pub file: Option<PathBuf>,
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// Any other setting, each as `KEY=VALUE`.
    pub settings: Vec<String>,
}

impl Flags {
    /// The configuration: the file, then `env` (all variables of the process), then these flags.
    ///
    /// # Errors
    /// Those of [`Config::load`], and a setting that is not `KEY=VALUE`.
    pub fn load(
        &self,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let mut flags = Vec::new();
        if !self.listen.is_empty() {
            flags.push(("server.listen", self.listen.join(",")));
        }
        for setting in &self.settings {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                ConfigError::new(format!("--set {setting}: write it as KEY=VALUE"))
            })?;
            flags.push((key, value.to_owned()));
        }
        Config::load(self.file(), env, &flags)
    }

    /// Where settings come from beside the flags themselves, for a program to say: the file, and
    /// those of the variables `env` that are settings.
    pub fn origins(&self, env: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let file = self.file().map(|path| path.display().to_string());
        let mut variables: Vec<_> = env
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with(ENV_PREFIX))
            .collect();
        variables.sort();
        file.into_iter().chain(variables).collect()
    }

    pub(super) fn file(&self) -> Option<&Path> {
        let default = Path::new("tidewire.toml");
        self.file.as_deref().or_else(|| default.exists().then_some(default))
    }
}

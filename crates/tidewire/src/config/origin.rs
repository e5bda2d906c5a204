//! Where what is set comes from: a file, a variable or a flag.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidewire_admin::Setting;
use toml::{Table, Value};

use super::{KEYS, Key};

/// What is set, by key: its value as text and where that comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    set: BTreeMap<&'static str, (String, String)>,
    /// The configuration file.
    pub(super) file: Option<PathBuf>,
}

impl Origins {
    /// What is set in a file.
    pub(super) fn of_file(table: &Table, file: Option<&Path>) -> Self {
        let mut origins = Self { file: file.map(Path::to_owned), ..Self::default() };
        let name = file.map_or_else(String::new, |file| file.display().to_string());
        for key in KEYS {
            if let Some(value) = find(table, key.path) {
                origins.note(key, &text(value), &name);
            }
        }
        origins
    }

    /// Takes note of a value that replaces what was there.
    pub(super) fn note(&mut self, key: &Key, value: &str, origin: &str) {
        let known = KEYS.iter().find(|known| known.path == key.path);
        if let Some(known) = known {
            self.set.insert(known.path, (value.to_owned(), origin.to_owned()));
        }
    }

    /// The settings that are others here than there.
    pub(super) fn changed(&self, other: &Self) -> impl Iterator<Item = &'static str> {
        let value = |origins: &Self, key: &Key| {
            origins.set.get(key.path).map_or_else(|| key.default.to_owned(), |set| set.0.clone())
        };
        let changed = KEYS.iter().filter(move |key| value(self, key) != value(other, key));
        changed.map(|key| key.path)
    }

    /// Every setting, whether it is set or not.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let setting = |key: &Key| match self.set.get(key.path) {
            Some((value, origin)) => Setting::new(key.path, value, origin, key.about),
            None => Setting::new(key.path, key.default, "default", key.about),
        };
        KEYS.iter().map(setting).collect()
    }
}

fn find<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = table.get(first)?;
    if rest.is_empty() { Some(value) } else { find(value.as_table()?, rest) }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn the_origin_of_a_setting_is_the_last_that_said_it() {
        let folder = std::env::temp_dir().join(format!("tidewire-origin-{}", std::process::id()));
        std::fs::write(&folder, "[limits]\nstreams_max = 8\ncommands_max = 9\n").unwrap();
        let env = [("TIDEWIRE_LIMITS_COMMANDS_MAX".to_owned(), "10".to_owned())];
        let flags = [("log.level", "debug".to_owned())];
        let config = Config::load(Some(&folder), env, &flags).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let settings = config.origins.settings();
        let told = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.as_str(), setting.origin.as_str())
        };
        let file = folder.display().to_string();
        assert_eq!(told("limits.streams_max"), ("8", &*file));
        assert_eq!(told("limits.commands_max"), ("10", "TIDEWIRE_LIMITS_COMMANDS_MAX"));
        assert_eq!(told("log.level"), ("debug", "flag"));
        assert_eq!(told("memo.enabled"), ("true", "default"));
    }
}

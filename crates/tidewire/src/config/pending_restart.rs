//! What of a changed file is taken up by the server that runs, and what waits for a restart.

use tidewire_server::{Limits, Settings};

use super::programs::hosts_nothing;
use super::{Config, ConfigError, CorsConfig, ServiceEntry};

impl Config {
    /// The settings that are others in `now`, which was read while a server runs by these, and that
    /// take effect when it is started again.
    pub(super) fn waits_for_restart(&self, now: &Self) -> Vec<String> {
        let changed = self.origins.changed(&now.origins).filter(|key| !is_reloaded(key));
        let mut waiting: Vec<_> = changed.map(str::to_owned).collect();
        let also = |config: &Self| config.server.tls.as_ref().map(|tls| tls.also.clone());
        let schemas = |config: &Self| -> Vec<ServiceEntry> {
            let is_schema = |entry: &&ServiceEntry| matches!(entry, ServiceEntry::Schema(_));
            config.services.iter().filter(is_schema).cloned().collect()
        };
        let tables = [
            ("server.tls.also", also(self) != also(now)),
            ("rest.services", self.rest.services != now.rest.services),
            ("auth.api_key", self.auth.api_keys != now.auth.api_keys),
            ("memo.methods", self.memo.methods != now.memo.methods),
            ("oplog.capture", self.oplog.capture != now.oplog.capture),
            ("[[service]] with proto and without run", schemas(self) != schemas(now)),
            ("[[service]], since none was there", hosts_nothing(self) && !hosts_nothing(now)),
        ];
        waiting.extend(tables.iter().filter(|(_, is)| *is).map(|(name, _)| (*name).to_owned()));
        waiting
    }

    /// What the server that was started by this has of `now` while it runs. Who is known, and so
    /// what the general rule is, stays.
    pub(super) fn settings_now(&self, now: &Self) -> Result<Settings, ConfigError> {
        let mut now = now.clone();
        if self.is_of_development {
            CorsConfig::or_of_development(&mut now);
        }
        let mut settings = Settings::default();
        settings.limits = now.limits();
        settings.access = self.auth.with_rules_of(&now.auth).rules();
        settings.cors = now.cors.cors();
        settings.callers = now.server.callers()?;
        Ok(settings)
    }

    /// What is wrong with the settings of its file, with the place there that is to blame.
    pub(super) fn placed(&self, wrong: &str) -> String {
        let Some(file) = &self.origins.file else { return wrong.to_owned() };
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let (_, faults) = Self::check(&text, &name);
        let fault = faults.iter().find(|fault| fault.message == wrong);
        fault.map_or_else(|| format!("{name}: {wrong}"), ToString::to_string)
    }
}

/// Whether a setting changes while the server runs.
fn is_reloaded(key: &str) -> bool {
    const SINGLE: [&str; 5] = [
        "auth.otherwise",
        "auth.reflection",
        "server.allow",
        "server.deny",
        "server.trusted_proxies",
    ];
    let is_bound = key.strip_prefix("limits.");
    is_bound.is_some_and(|name| !Limits::READ_AT_START.contains(&name))
        || key.starts_with("cors.")
        || SINGLE.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, now: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidewire.toml");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let env = [("TIDEWIRE_LIMITS_STREAMS_MAX".to_owned(), "9".to_owned())];
            Config::load(Some(&file), env, &[]).unwrap()
        };
        assert_eq!(load(before).waits_for_restart(&load(now)), expected, "{now}");
    }

    #[test]
    fn what_changed_and_is_read_at_the_start_only_is_named() {
        let before = "[limits]\ncommands_max = 8\n[log]\nlevel = \"info\"\n";
        check(before, before, &[]);
        check(before, "[log]\nlevel = \"info\"\n", &["limits.commands_max"]);
        let more = "caller_rate = 3\n[cors]\norigins = \"https://a.example\"\n[log]";
        check(before, &before.replace("[log]", more), &[]);
        check(before, &before.replace("info", "debug"), &["log.level"]);
        // A variable wins over the file before and now.
        check(before, &before.replace("[log]", "streams_max = 3\n[log]"), &[]);
        let rules = "[auth.paths.\"/a/*\"]\naccess = \"anonymous\"\n\
                     [memo.methods.\"a.B/C\"]\nttl = \"9s\"\n";
        check(before, &format!("{before}{rules}"), &["memo.methods"]);
        let service = "[[service]]\nurl = \"http://127.0.0.1:1\"\nroute = \"/a\"\n";
        let alone = ["[[service]], since none was there"];
        check(before, &format!("{before}{service}"), &alone);
        check(&format!("{before}{service}"), before, &[]);
        let schema = "[[service]]\nproto = \"protos\"\n";
        let named = ["[[service]] with proto and without run"];
        check(before, &format!("{before}{schema}"), &named);
    }
}

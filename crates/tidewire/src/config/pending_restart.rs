//! What of a changed file waits for a restart: all but programs and upstreams.

use super::{Config, ServiceEntry};

impl Config {
    /// The settings that are others in `now`, which was read while a server runs by these, and that
    /// take effect when it is started again.
    pub(super) fn waits_for_restart(&self, now: &Self) -> Vec<String> {
        let mut waiting: Vec<_> = self.origins.changed(&now.origins).map(str::to_owned).collect();
        let also = |config: &Self| config.server.tls.as_ref().map(|tls| tls.also.clone());
        let schemas = |config: &Self| -> Vec<ServiceEntry> {
            let is_schema = |entry: &&ServiceEntry| matches!(entry, ServiceEntry::Schema(_));
            config.services.iter().filter(is_schema).cloned().collect()
        };
        let tables = [
            ("server.tls.also", also(self) != also(now)),
            ("rest.services", self.rest.services != now.rest.services),
            ("auth.api_key", self.auth.api_keys != now.auth.api_keys),
            ("auth.methods", self.auth.methods != now.auth.methods),
            ("auth.paths", self.auth.paths != now.auth.paths),
            ("memo.methods", self.memo.methods != now.memo.methods),
            ("oplog.capture", self.oplog.capture != now.oplog.capture),
            ("[[service]] with proto and without run", schemas(self) != schemas(now)),
        ];
        waiting.extend(tables.iter().filter(|(_, is)| *is).map(|(name, _)| (*name).to_owned()));
        waiting
    }
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
        let before = "[limits]\ncalls_max = 8\n[log]\nlevel = \"info\"\n";
        check(before, before, &[]);
        check(before, "[log]\nlevel = \"info\"\n", &["limits.calls_max"]);
        // A variable wins over the file before and now.
        check(before, &before.replace("[log]", "streams_max = 3\n[log]"), &[]);
        let rules = "[auth.paths.\"/a/*\"]\naccess = \"anonymous\"\n\
                     [memo.methods.\"a.B/C\"]\nttl = \"9s\"\n";
        check(before, &format!("{before}{rules}"), &["auth.paths", "memo.methods"]);
        let service = "[[service]]\nurl = \"http://127.0.0.1:1\"\nroute = \"/a\"\n";
        check(before, &format!("{before}{service}"), &[]);
        let schema = "[[service]]\nproto = \"protos\"\n";
        let named = ["[[service]] with proto and without run"];
        check(before, &format!("{before}{schema}"), &named);
    }
}

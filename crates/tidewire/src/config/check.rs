//! All that is wrong with a configuration file, not only what is wrong first.
//!
//! A file is read by the same code as at start. After a fault its key is taken out of the table and
//! the rest is read again, until nothing is wrong; so every kind of fault is found without a second
//! description of what is right. Then come values that fit their type and still cannot work, and
//! files that are not there.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use tidewire_proxy::{Route, Routes};
use tidewire_schema::Diagnostic;
use tidewire_service::{Call, Reply};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::error::{explain, is_lack};
use super::place::{Position, offset, position};
use super::variables::Variables;
use super::{Config, ServiceEntry, TlsConfig, hosts, service_entry};

impl Config {
    /// All that is wrong with the text of a configuration file, which is called `name` in what is
    /// said, in order of place; and what it says without that. Files that it names are looked for
    /// from the current folder, as a server does.
    ///
    /// ```
    /// use tidewire::config::Config;
    /// let text = "[server]\nlisten = \"8080\"\n[limits]\nstream_max = 4\n";
    /// let (_, faults) = Config::check(text, "tidewire.toml");
    /// assert_eq!(faults.len(), 2);
    /// assert_eq!(faults[1].message, "unknown key stream_max; did you mean streams_max?");
    /// ```
    pub fn check(text: &str, name: &str) -> (Self, Vec<Diagnostic>) {
        Self::check_with(text, name, [])
    }

    /// As [`check`](Self::check), of the file with the variables of a process, which win over it as
    /// they do in [`load`](Self::load). What is wrong with a variable has the name of that for a
    /// file, and no line.
    pub fn check_with(
        text: &str,
        name: &str,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> (Self, Vec<Diagnostic>) {
        let mut config = Self::default();
        let variables = Variables::after(text.len(), env);
        let mut checker =
            Checker { text, name, variables: &variables, found: vec![], incomplete: vec![] };
        for (variable, error) in &variables.unknown {
            checker.found.push(Diagnostic::new(variable, error.clone()));
        }
        let (mut table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            checker.report(error.span().map_or(0, |span| span.start), error.message());
        }
        // Half of a line that does not parse makes no sense as a setting.
        if errors.is_empty() {
            if !variables.is_empty() {
                checker.faults_of_file(&mut table);
                variables.lay_over(table.get_mut());
            }
            config = checker.read(&mut table);
            checker.values(&config, table.get_ref());
        }
        config.origins.file = Some(name.into());
        checker.found.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        (config, checker.found)
    }
}

struct Checker<'a> {
    text: &'a str,
    name: &'a str,
    variables: &'a Variables,
    found: Vec<Diagnostic>,
    /// Where services begin of which something was taken out.
    incomplete: Vec<usize>,
}

impl Checker<'_> {
    /// Reads the table of the file alone and takes out what is wrong in it, which is wrong whatever
    /// variables say. What it lacks stays: they may have it.
    fn faults_of_file(&mut self, table: &mut Spanned<DeTable<'_>>) {
        let mut alone = table.clone();
        while let Err(error) = Config::deserialize(Deserializer::from(alone.clone())) {
            let offset = offset(&error, alone.get_ref());
            if !is_lack(&error) {
                self.fault(&error, offset, alone.get_ref());
                take_out(table.get_mut(), offset);
            }
            if !take_out(alone.get_mut(), offset) {
                return;
            }
        }
    }

    /// Reads the table, without what is wrong in it.
    fn read(&mut self, table: &mut Spanned<DeTable<'_>>) -> Config {
        loop {
            let error = match Config::deserialize(Deserializer::from(table.clone())) {
                Ok(config) => return config,
                Err(error) => error,
            };
            let offset = offset(&error, table.get_ref());
            self.fault(&error, offset, table.get_ref());
            if !take_out(table.get_mut(), offset) {
                return Config::default();
            }
        }
    }

    fn fault(&mut self, error: &toml::de::Error, offset: usize, table: &DeTable<'_>) {
        // A service without what was taken out of it lacks that.
        if !self.incomplete.contains(&offset) {
            self.report(offset, error.message());
        }
        self.incomplete.extend(service_entry::around(table, offset));
    }

    fn values(&mut self, config: &Config, table: &DeTable<'_>) {
        for fault in config.limits().faults() {
            self.at_key(table, fault.key(), &fault.to_string());
        }
        let mut listened = Vec::new();
        for address in &config.server.listen {
            if listened.contains(&address) {
                let message = format!("{address} is listened on twice; remove one of the two");
                self.at_key(table, "server.listen", &message);
            }
            listened.push(address);
        }
        if let Err(error) = config.cors.cors().check() {
            self.at_key(table, error.key(), &error.to_string());
        }
        if let Err(error) = hosts::names(&config.server.hosts) {
            self.at_key(table, "server.hosts", &error.to_string());
        }
        if let Some((key, message)) = config.admin.fault() {
            self.at_key(table, key, &message);
        }
        if let Some(message) = config.oplog.fault().or_else(|| config.oplog.file_fault()) {
            self.at_key(table, "oplog.url", &message);
        }
        if let Some(message) = config.traces.fault() {
            self.at_key(table, "traces.endpoint", &message);
        }
        if let Err(error) = config.auth.authentication() {
            self.at_key(table, error.key().unwrap_or("auth"), &error.to_string());
        }
        if let Some(tls) = &config.server.tls {
            self.tls(config, tls, table);
        }
        let mut sites = Routes::new();
        let mut names = BTreeSet::new();
        for (index, service) in config.services.iter().enumerate() {
            let key = |key: &str| format!("service.{index}.{key}");
            match service {
                ServiceEntry::Schema(service) => self.file(table, &key("proto"), &service.proto),
                ServiceEntry::Program(program) => {
                    if let Some((what, message)) = program.missing() {
                        self.at_key(table, &key(what), &message);
                    }
                    if let Some(methods) = &program.methods {
                        self.file(table, &key("proto"), &methods.proto);
                    }
                    if !names.insert(program.program.name()) {
                        let name = program.program.name();
                        let text = format!("another program is called {name:?}, too");
                        self.at_key(table, &key("name"), &text);
                    }
                    self.routes(table, &key("route"), &mut sites, &program.routes);
                }
                ServiceEntry::Upstream(upstream) => {
                    if let Some(path) = &upstream.authorities {
                        self.file(table, &key("authorities"), path);
                    }
                    self.routes(table, &key("route"), &mut sites, &upstream.routes);
                }
            }
        }
    }

    /// Whether these routes are free; only their places count here.
    fn routes(&mut self, table: &DeTable<'_>, key: &str, taken: &mut Routes, routes: &[Route]) {
        let nothing = async |_: Call| Ok(Reply::text(""));
        for route in routes {
            if let Err(error) = taken.add(route.clone(), nothing) {
                self.at_key(table, key, &error.to_string());
            }
        }
    }

    fn tls(&mut self, config: &Config, tls: &TlsConfig, table: &DeTable<'_>) {
        let before = self.found.len();
        self.file(table, "server.tls.certificate", &tls.certificate);
        self.file(table, "server.tls.key", &tls.key);
        for (index, pair) in tls.also.iter().enumerate() {
            let key = |name: &str| format!("server.tls.also.{index}.{name}");
            self.file(table, &key("certificate"), &pair.certificate);
            self.file(table, &key("key"), &pair.key);
        }
        if let Some(authorities) = &tls.client_authorities {
            self.file(table, "server.tls.client_authorities", authorities);
        }
        if self.found.len() == before
            && let Err(error) = config.server()
        {
            self.at_key(table, "server.tls", &error.to_string());
        }
    }

    fn file(&mut self, table: &DeTable<'_>, key: &str, path: &Path) {
        if !path.exists() {
            let message = format!(
                "{} does not exist; paths are relative to where the server is started",
                path.display()
            );
            self.at_key(table, key, &message);
        }
    }

    fn at_key(&mut self, table: &DeTable<'_>, key: &str, message: &str) {
        let offset = find(table, key).map_or(0, |span| span.start);
        self.report(offset, message);
    }

    fn report(&mut self, offset: usize, message: &str) {
        let Position { line, column } = position(self.text, offset);
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (message, help) = match explain(message).rsplit_once("; ") {
            Some((message, help)) if !help.starts_with("did you mean") => {
                (message.to_owned(), Some(help.to_owned()))
            }
            _ => (explain(message), None),
        };
        let diagnostic = match self.variables.at(offset) {
            Some(variable) => Diagnostic::new(variable, message),
            None => Diagnostic::new(self.name, message).at(number(line), number(column)),
        };
        self.found.push(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    }
}

/// Takes the innermost entry out whose key or value is at `offset`.
fn take_out(table: &mut DeTable<'_>, offset: usize) -> bool {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        match take_out_of(value, offset) {
            EntryResult::Yes => return true,
            EntryResult::ItIsThis => found = Some(key.get_ref().clone()),
            EntryResult::No if key.span().contains(&offset) => found = Some(key.get_ref().clone()),
            EntryResult::No => {}
        }
    }
    found.is_some_and(|name| table.remove(name.as_ref()).is_some())
}

/// What became of the entry at an offset.
enum EntryResult {
    Yes,
    /// The value as a whole is it.
    ItIsThis,
    No,
}

fn take_out_of(value: &mut Spanned<DeValue<'_>>, offset: usize) -> EntryResult {
    let here = value.span().contains(&offset);
    let inside = match value.get_mut() {
        DeValue::Table(table) => take_out(table, offset),
        DeValue::Array(items) => match take_out_of_items(items, offset) {
            EntryResult::Yes => true,
            EntryResult::ItIsThis => return EntryResult::ItIsThis,
            EntryResult::No => false,
        },
        _ => false,
    };
    match (inside, here) {
        (true, _) => EntryResult::Yes,
        (false, true) => EntryResult::ItIsThis,
        (false, false) => EntryResult::No,
    }
}

/// A wrong table is taken out of an array of tables; any other array is wrong as a whole.
fn take_out_of_items(items: &mut DeArray<'_>, offset: usize) -> EntryResult {
    for index in 0..items.len() {
        let Some(item) = items.get_mut(index) else { break };
        match take_out_of(item, offset) {
            EntryResult::Yes => return EntryResult::Yes,
            EntryResult::ItIsThis if matches!(items[index].get_ref(), DeValue::Table(_)) => {
                let others = items.iter().enumerate().filter(|(at, _)| *at != index);
                let mut kept = DeArray::new();
                others.for_each(|(_, item)| kept.push(item.clone()));
                *items = kept;
                return EntryResult::Yes;
            }
            EntryResult::ItIsThis => return EntryResult::ItIsThis,
            EntryResult::No => {}
        }
    }
    EntryResult::No
}

/// Where the value of `a.b.c` is; a number is the index in an array.
fn find(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    find_in(table.get(first)?, rest)
}

fn find_in(value: &Spanned<DeValue<'_>>, rest: &str) -> Option<Range<usize>> {
    if rest.is_empty() {
        return Some(value.span());
    }
    match value.get_ref() {
        DeValue::Table(table) => find(table, rest),
        DeValue::Array(items) => {
            let (index, rest) = rest.split_once('.').unwrap_or((rest, ""));
            find_in(items.get(index.parse::<usize>().ok()?)?, rest)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(text: &str, expected: &[&str]) {
        let (_, found) = Config::check(text, "t.toml");
        let found: Vec<_> = found
            .iter()
            .map(|d| {
                let (line, column) = (d.line.unwrap(), d.column.unwrap());
                format!("{line}:{column}: {}", d.message)
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_fault_is_found_with_its_place() {
        check("", &[]);
        check("[server]\nlisten = [\"127.0.0.1:1\", \"unix:/run/a.sock\"]\n", &[]);
        check(
            "[serve]\nx = 1\n[limits]\nstream_max = 4\nbody_bytes_max = \"4 parsecs\"\n",
            &[
                "1:2: unknown key serve; did you mean server?",
                "4:1: unknown key stream_max; did you mean streams_max?",
                "5:18: \"4 parsecs\" is not a size",
            ],
        );
        check(
            "[limits]\nstreams_max = \"many\"\nconnections_max = -1\ndrain_timeout = \"soon\"\n",
            &[
                "2:15: invalid type: string \"many\", expected a whole number, 0 or more",
                "3:19: invalid value: integer `-1`, expected a whole number, 0 or more",
                "4:17: \"soon\" is not a duration",
            ],
        );
        check(
            "[limits]\nstreams_max = 0\n",
            &["2:15: limits.streams_max has to be from 1 to 4294967295"],
        );
        check("[server]\nlisten = []\n", &["2:10: listen names no address"]);
        check(
            "[cors]\norigins = [\"*\"]\ncredentials = true\n",
            &["3:15: cors.origins = \"*\" and cors.credentials = true exclude each other, since \
               any page could act for whoever opens it"],
        );
        check("[limits\nstreams_max = 1\n", &["1:8: unclosed table, expected `]`"]);
    }

    #[test]
    fn what_does_not_go_together_in_a_service_is_found() {
        let shop = "[[service]]\nname = \"shop\"\nroute = \"/shop/*\"\nrun = [\"sh\"]\n";
        check(shop, &[]);
        check(&format!("{shop}idle_stop = \"never\"\nlisten = \"unix\"\n"), &[]);
        check(
            &format!("{shop}{shop}"),
            &["6:8: another program is called \"shop\", too", "7:9: route /shop/* occurs twice"],
        );
        check(&format!("{shop}[[service]]\nrun = []\n"), &["6:7: run names no program"]);
        for (line, expected) in [
            (
                "protocol = \"native\"\nlisten = \"unix\"",
                "6:10: listen goes with protocol = \"http\"",
            ),
            ("protocol = \"h2c\"\nproto = \".\"", "6:9: proto goes with protocol = \"native\""),
            (
                "protocol = \"h2c\"\nreuse_after_body = true",
                "6:20: reuse_after_body is of HTTP/1.1",
            ),
            ("protocol = \"http\"\nproto = \".\"", "6:9: proto goes with protocol = \"native\""),
            ("codec = \"json\"", "5:9: codec goes with proto"),
            ("names = [\"a\"]", "5:9: names goes with proto, not with run"),
            ("protocol = \"grpc\"", "5:12: protocol = \"grpc\" goes with url, not with run"),
            (
                "protocol = \"grpc-web\"",
                "1:1: a protocol other than http, h2c, native and pipe-json goes with proto, not with run",
            ),
            ("concurrency = 0", "5:15: concurrency = 0 would never let a call through"),
            ("spares = 1001", "5:10: spares = 1001 is over 1000 processes"),
            ("instances_max = 90000", "5:17: instances_max = 90000 is over 1000 processes"),
            ("idle_stop = \"soon\"", "5:13: \"soon\" is not a duration"),
            ("start_timeout = 0", "5:17: a duration of 0 allows nothing"),
            ("ready = \"healthz\"", "5:9: ready = \"healthz\" is not a path"),
            ("protocol = \"native\"\nready = \"/a\"", "6:9: ready goes with plain HTTP"),
            (
                "protocol = \"pipe-json\"\nlisten = \"unix\"",
                "6:10: listen goes with protocol = \"http\"",
            ),
            ("protocol = \"pipe-json\"\nready = \"/a\"", "6:9: ready goes with plain HTTP"),
            (
                "protocol = \"pipe-json\"\nenvironment = { PIPE_ADDRESS = \"a\" }",
                "6:15: environment sets PIPE_ADDRESS, by which the gateway says where to listen",
            ),
            (
                "response_bytes_max = \"1MiB\"",
                "5:22: response_bytes_max goes with protocol = \"pipe-json\"",
            ),
            (
                "protocol = \"pipe-json\"\nresponse_bytes_max = 0",
                "6:22: response_bytes_max = 0 would let nothing through",
            ),
            ("health = \"healthz\"", "5:10: health = \"healthz\" is not a path"),
            ("health_interval = \"5s\"", "5:19: health_interval goes with health"),
            (
                "protocol = \"pipe-json\"\nreuse_after_body = true",
                "6:20: reuse_after_body goes with plain HTTP",
            ),
            ("max_requests = 0", "5:16: max_requests = 0 would let nothing run"),
            ("memory_max = \"0MiB\"", "5:14: memory_max = 0 would let nothing run"),
            ("memory_max = \"much\"", "5:14: \"much\" is not a size"),
            ("cpu_percent_max = 0", "5:19: cpu_percent_max = 0 would let nothing run"),
            ("max_age = 0", "5:11: a duration of 0 allows nothing"),
            ("folder = \"no/such\"", "5:10: no/such is not a folder"),
            ("host = \"shop.example:80\"", "5:8: host \"shop.example:80\" matches nothing"),
            ("host = \"*.example\"", "5:8: host \"*.example\" matches nothing"),
            (
                "environment = { PORT = \"1\" }",
                "5:15: environment sets PORT, by which the gateway says where to listen",
            ),
            (
                "environment = { \"A=B\" = \"x\" }",
                "5:15: environment has \"A=B\", which cannot be a variable",
            ),
            ("environment = 1979-05-27", "5:15: environment is a date"),
            ("user = \"nobody-here\"", "5:8: there is no user nobody-here in /etc/passwd"),
            ("host = \"shop.example.\"", "5:8: host \"shop.example.\" matches nothing"),
            ("listen = 8080", "5:10: expected a text in quotation marks"),
            (
                "watch = \"a.py\"",
                "5:9: invalid type: string \"a.py\", expected a list, such as [\"a\"]",
            ),
            ("folder = \"\"", "5:10: \"\" is not a folder"),
            (
                "idle_freeze = \"5m\"",
                "5:15: idle_freeze is not before the end by idle_stop, after 300s",
            ),
            (
                "environment = { HOSTED_BY_TIDEWIRE = \"1\" }",
                "5:15: environment sets HOSTED_BY_TIDEWIRE, which is the gateway's own",
            ),
            ("idle_stpo = 1", "5:1: unknown key idle_stpo; did you mean idle_stop?"),
        ] {
            check(&format!("{shop}{line}\n"), &[expected]);
        }
        check(
            &format!("{shop}concurrency = 0\nspares = 1001\nready = \"x\"\nhost = \"a b\"\n"),
            &[
                "5:15: concurrency = 0 would never let a call through",
                "6:10: spares = 1001 is over 1000 processes",
                "7:9: ready = \"x\" is not a path",
                "8:8: host \"a b\" matches nothing",
            ],
        );
        let reports = "[[service]]\nname = \"reports\"\nproto = \".\"\nrun = [\"sh\"]\n";
        check(&format!("{reports}codec = \"json\"\nnames = [\"a.A\"]\n"), &[]);
        check(&format!("{reports}host = \"a\"\n"), &["5:8: host goes with route"]);
        check("[[service]]\nname = \"a\"\nrun = [\"sh\"]\n", &["1:1: route is missing"]);
        check("[[service]]\nrun = [\"sh\"]\n", &["1:1: name is missing"]);
        check("[[service]]\nname = \" \"\nrun = [\"sh\"]\n", &["2:8: name is missing"]);
        check(
            "[[service]]\nname = \"a\"\nroute = \"/*\"\nrun = [\"sh\", \"{socket}\"]\n",
            &["4:7: run has {socket}, and listen is another"],
        );
        check(
            "[[service]]\nname = \"a\\n\"\nroute = \"/*\"\nrun = [\"sh\"]\n",
            &["2:8: name \"a\\n\" has control characters"],
        );
        check(
            "[[service]]\nname = \"a\"\nroute = \"a\"\nrun = [\"sh\"]\n",
            &["3:9: route \"a\" is invalid"],
        );
        check(
            "[[service]]\nname = \"a\"\nroute = \"/*\"\nrun = [\"no-such-program\"]\n",
            &["4:7: no-such-program is not in any folder of PATH"],
        );
        // A source text, which is a file and no program.
        check(
            "[[service]]\nname = \"a\"\nroute = \"/*\"\nrun = [\"./src/lib.rs\"]\n",
            &["4:7: ./src/lib.rs may not be executed"],
        );
        check(
            "[[service]]\nproto = \".\"\nroute = \"/a\"\n",
            &["3:9: route goes with run, not with proto"],
        );
    }

    #[test]
    fn what_does_not_go_together_in_an_upstream_is_found() {
        let shop = "[[service]]\nurl = \"http://127.0.0.1:9000\"\nroute = \"/shop/*\"\n";
        check(shop, &[]);
        check(&format!("{shop}cache = true\nreuse_after_body = true\n"), &[]);
        check(&format!("{shop}[service.cache]\nstale_if_error = \"1h\"\n"), &[]);
        let rules = "request_headers = { set = { X-Shop = \"1\" }, remove = [\"Cookie\"] }";
        check(&format!("{shop}{rules}\n"), &[]);
        check(&format!("{shop}name = \"shop\"\nprotocol = \"http\"\nhealth = \"/a\"\n"), &[]);
        check(
            "[[service]]\nurl = [\"unix:/run/a.sock\", \"https://a.example\"]\n\
             route = [\"/a/*\", \"/b\"]\nhost = [\"a.example\", \"b.example\"]\n",
            &[],
        );
        for (line, expected) in [
            ("instances_max = 2", "4:17: instances_max goes with run, not with url"),
            ("names = [\"a\"]", "4:9: names goes with proto"),
            ("timeout = \"5s\"", "4:11: timeout goes with proto"),
            ("protocol = \"grpc\"", "4:12: protocol of an upstream without proto is \"http\""),
            ("health = \"a\"", "4:10: health = \"a\" is not a path"),
            ("health_interval = \"5s\"", "4:19: health_interval goes with health"),
            ("authorities = \"none.pem\"", "4:15: none.pem does not exist"),
            ("request_timeout = 0", "4:19: a duration of 0 allows nothing"),
            (
                "request_headers = { set = { Connection = \"close\" } }",
                "4:19: request_headers has a wrong rule: header Connection is set by the gateway itself",
            ),
            (
                "response_headers = { remove = \"a b\" }",
                "4:20: response_headers has a wrong rule: \"a b\" is not the name of a header",
            ),
            ("cache = { page_bytes_max = \"much\" }", "4:28: \"much\" is not a size"),
            (
                "cache = { set_cookies = true }",
                "4:11: unknown key set_cookies; did you mean set_cookie?",
            ),
            (
                "cache = \"yes\"",
                "4:9: invalid type: string \"yes\", expected true, false, or a table [service.cache]",
            ),
        ] {
            check(&format!("{shop}{line}\n"), &[expected]);
        }
        for (url, expected) in [
            ("\"ftp://a\"", "2:7: url \"ftp://a\" is not the URL of a server"),
            ("[\"h2c://a:1\", \"http://a:2\"]", "2:7: url mixes h2c with other schemes"),
        ] {
            check(&format!("[[service]]\nurl = {url}\nroute = \"/*\"\n"), &[expected]);
        }
        check("[[service]]\nurl = \"http://a\"\n", &["1:1: route is missing"]);
        check(
            &format!("{shop}[[service]]\nname = \"a\"\nroute = \"/shop/*\"\nrun = [\"sh\"]\n"),
            &["6:9: route /shop/* occurs twice"],
        );
    }

    #[test]
    fn limits_of_a_program_are_read() {
        let shop = "[[service]]\nname = \"shop\"\nroute = \"/shop/*\"\nrun = [\"sh\"]\n";
        let all = "memory_max = \"1GiB\"\nprocesses_max = 9\ncpu_percent_max = 50\ncgroups = false\n\
                   max_requests = 9\nmax_age = \"1h\"\nhealth = \"/a\"\nhealth_interval = \"5s\"\n";
        check(&format!("{shop}{all}"), &[]);
        let (config, _) = Config::check(&format!("{shop}{all}"), "t.toml");
        let life = &config.programs().next().unwrap().life;
        let bounds = (life.memory_max, life.processes_max, life.cpu_percent_max, life.cgroups);
        assert_eq!(bounds, (Some(1 << 30), Some(9), Some(50), false));
        assert_eq!((life.max_requests, life.max_age), (Some(9), Some(Duration::from_hours(1))));
        assert_eq!(life.health_interval, Duration::from_secs(5));
    }

    #[test]
    fn a_run_that_cannot_be_run_is_one_fault_at_its_place() {
        for (run, expected) in [
            ("\"sleep 9\"", "4:7: run is a list, which no shell reads"),
            ("[\"sleep\", 9]", "4:7: run is a list of texts"),
            ("[\"/tmp\"]", "4:7: /tmp is a folder"),
            ("[\"sleep 9\"]", "4:7: sleep 9 does not exist"),
            ("[\"sleep\", \"\\u0000\"]", "4:7: run has a NUL, which no argument can have"),
        ] {
            let shop = "[[service]]\nname = \"shop\"\nroute = \"/shop/*\"\n";
            check(&format!("{shop}run = {run}\n"), &[expected]);
        }
        // What else is wrong with the service is said too.
        check(
            "[[service]]\nname = \"a\"\nroute = \"a\"\nrun = [\"sh\"]\nidle_freeze = \"never\"\n\
             queue_timeout = \"soon\"\n",
            &["3:9: route \"a\" is invalid", "6:17: \"soon\" is not a duration"],
        );
    }

    #[test]
    fn what_is_not_on_disk_is_found() {
        check(
            "[[service]]\nproto = \"no/such/folder\"\n[[service]]\nnames = [\"a\"]\n",
            &[
                "2:9: no/such/folder does not exist",
                "3:1: this service has neither proto nor run nor url",
            ],
        );
        check(
            "[server.tls]\ncertificate = \"none.pem\"\nkey = \"none.key\"\n",
            &["2:15: none.pem does not exist", "3:7: none.key does not exist"],
        );
    }
}

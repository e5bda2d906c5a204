//! `tidewire.toml`: its keys and values, and whether what it names is there and fits together.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Context;
use tidewire::Schema;
use tidewire::config::{Config, KEYS, Key, ServiceConfig};
use tidewire::service::Interface;

use super::finding::{Finding, Severity};
use super::{CheckReport, sources};
use crate::{names, serving};

/// Checks the variables that a server without a configuration file goes by.
pub(super) fn check_variables(found: &mut CheckReport) {
    let (config, faults) = Config::check_with("", "tidewire.toml", std::env::vars());
    found.findings.extend(faults.iter().map(Finding::from));
    ConfigFile { name: "tidewire.toml" }.log_level(&config, found);
}

/// Checks a configuration file, with the variables that win over it, and the sources that it names.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn check(path: &Path, found: &mut CheckReport) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    found.files += 1;
    let (config, faults) = Config::check_with(&text, &name, std::env::vars());
    found.findings.extend(faults.iter().map(Finding::from));
    let here = ConfigFile { name: &name };
    here.log_level(&config, found);
    here.services(&config, found);
    Ok(())
}

struct ConfigFile<'a> {
    name: &'a str,
}

impl ConfigFile<'_> {
    fn log_level(&self, config: &Config, found: &mut CheckReport) {
        if let Err(error) = config.log.check() {
            let error = error.to_string();
            let (message, help) = error.rsplit_once("; ").unwrap_or((&error, ""));
            let key = KEYS.iter().find(|key| key.path == "log.level");
            let variable = key.map(Key::variable).filter(|name| std::env::var_os(name).is_some());
            match variable {
                None => self.report(&config.log.level, message, help, found),
                Some(variable) => found.findings.push(Finding {
                    help: Some(help.to_owned()),
                    ..Finding::error(variable, message)
                }),
            }
        }
    }

    fn services(&self, config: &Config, found: &mut CheckReport) {
        let mut interfaces = Vec::new();
        let mut paths = HashMap::new();
        let mut served = HashSet::new();
        let mut schemas = Vec::new();
        for service in config.schemas().filter(|service| service.proto.exists()) {
            found.is_new(&service.proto);
            let Some(checked) = sources::load(&service.proto, found) else { continue };
            let known: Vec<_> = checked.schema.services().map(str::to_owned).collect();
            let wanted = self.selected_services(service, &known, found);
            for name in &wanted {
                if !served.insert(name.clone()) {
                    let message = format!("service {name} is served twice");
                    self.report(name, &message, "remove it from one [[service]]", found);
                }
            }
            interfaces.extend(checked.interfaces(&wanted, found));
            paths.extend(checked.paths);
            schemas.push((service, checked.schema));
        }
        sources::rest(&interfaces, &paths, found);
        found.memo = config.memo.clone();
        let captured = config.oplog.captured_sources().into_iter();
        found.captured = captured.map(str::to_owned).collect();
        for method in config.auth.unreachable(interfaces.iter().flat_map(Interface::methods)) {
            let why = format!("nobody can call {method}: {}", serving::NO_CREDENTIAL);
            let error = Finding::error(self.name, why);
            found.findings.push(Finding { severity: Severity::Warning, ..error });
        }
        if let Some(doubt) = config.single_writer_doubt() {
            let error = Finding::error(self.name, doubt.to_owned());
            found.findings.push(Finding { severity: Severity::Warning, ..error });
        }
        if !found.findings.iter().any(|finding| finding.severity == Severity::Error) {
            self.serve(config, &schemas, found);
        }
    }

    /// Puts the server together as `serve` does, short of listening: what it says is said here.
    fn serve(
        &self,
        config: &Config,
        schemas: &[(&ServiceConfig, Schema)],
        found: &mut CheckReport,
    ) {
        let mut config = config.clone();
        if schemas.is_empty() {
            // Those of a program with services in code; which methods it has is not known here.
            config.memo.methods.clear();
            let rules = std::mem::take(&mut config.auth.methods);
            if !config.services.is_empty() {
                rules.keys().for_each(|rule| self.warn_of_unknown_method(rule, found));
            }
        }
        let mut builder = match config.server() {
            Ok(builder) => builder,
            Err(error) => return self.report_refusal(&error.to_string(), "", found),
        };
        for (service, schema) in schemas {
            builder = match serving::add(builder, service, schema, &mut Vec::new()) {
                Ok(builder) => builder,
                Err(error) => {
                    let proto = service.proto.display().to_string();
                    return self.report_refusal(&format!("{error:#}"), &proto, found);
                }
            };
        }
        let idle = config.idle_rules(&builder);
        found.findings.extend(idle.iter().map(|idle| Finding {
            // Handlers of a program with services in code are not known here.
            severity: Severity::Warning,
            ..Finding::from(idle)
        }));
        if let Err(error) = builder.check() {
            self.report_refusal(&error.to_string(), "", found);
        }
    }

    /// Warns of a rule that `serve` refuses, since the methods of programs and of upstreams without
    /// `proto` are not known to it; only a program with this service in code takes it.
    fn warn_of_unknown_method(&self, rule: &str, found: &mut CheckReport) {
        let message = format!("auth.methods has {rule:?}, and no [[service]] has it by its proto");
        let help = "protect what a program or an upstream serves by its path in auth.paths; \
                    `tidewire serve` refuses this rule, unless the service is in code";
        self.report(rule, &message, help, found);
        if let Some(finding) = found.findings.last_mut() {
            finding.severity = Severity::Warning;
        }
    }

    /// Reports what a server refuses, at the first word of it that is written in the file, or else
    /// at `place`.
    fn report_refusal(&self, error: &str, place: &str, found: &mut CheckReport) {
        let trimmed =
            |word: &'_ str| word.trim_matches(|c: char| ".,:;\"'`".contains(c)).to_owned();
        let words = error.split_whitespace().map(trimmed).filter(|word| word.contains(['.', '/']));
        let mut is_written =
            |word: &String| found.texts.place(self.name, 1, &format!("\"{word}\""));
        let word = words.into_iter().find(|word| is_written(word).is_some());
        let word = word.unwrap_or_else(|| place.to_owned());
        let (message, help) =
            error.split_once("; ").unwrap_or((error, "`tidewire serve` says the same"));
        self.report(&word, message, help, found);
    }

    /// The services that are wanted and there.
    fn selected_services(
        &self,
        service: &ServiceConfig,
        known: &[String],
        found: &mut CheckReport,
    ) -> Vec<String> {
        if service.names.is_empty() {
            return known.to_vec();
        }
        for name in service.names.iter().filter(|name| !known.contains(name)) {
            let candidates = known.iter().map(String::as_str);
            let message = format!(
                "{} has no service {name}{}",
                service.proto.display(),
                names::suggestion(name, candidates)
            );
            self.report(name, &message, "`tidewire list` shows the services of a folder", found);
        }
        service.names.iter().filter(|name| known.contains(name)).cloned().collect()
    }

    /// Reports something about a value, at the first place where it is written.
    fn report(&self, value: &str, message: &str, help: &str, found: &mut CheckReport) {
        let place = found.texts.place(self.name, 1, &format!("\"{value}\""));
        found.findings.push(Finding {
            file: self.name.to_owned(),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            severity: Severity::Error,
            message: message.to_owned(),
            help: Some(help.to_owned()),
        });
    }
}

//! `.proto` files and descriptor sets: the compiler's diagnostics, then the server's view of REST
//! and of rules of validation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tidewire::config::{ServiceConfig, sources};
use tidewire::rest::{RestFinding, check_rest};
use tidewire::schema::{Diagnostic, SchemaError, Sources};
use tidewire::service::{Interface, StreamKind};
use tidewire::validate::{RuleSet, required_without_presence};
use tidewire::{Schema, Server};

use super::CheckReport;
use super::finding::{Finding, Severity};
use super::output::Position;
use crate::serving;

/// Checks a folder of `.proto` files, or a descriptor set.
pub(super) fn check(path: &Path, found: &mut CheckReport) {
    let checked = load(path, found);
    alone(checked, &path.display().to_string(), found);
}

/// Checks single `.proto` files.
pub(super) fn check_files(files: &[PathBuf], includes: &[PathBuf], found: &mut CheckReport) {
    let sources = includes.iter().fold(Sources::new(), |sources, folder| sources.include(folder));
    let sources = files.iter().fold(sources, |sources, file| sources.file(file));
    let checked = compile(&sources, found);
    alone(checked, &files[0].display().to_string(), found);
}

/// Checks the services of sources that a server serves without a configuration.
fn alone(checked: Option<CompiledSources>, name: &str, found: &mut CheckReport) {
    let Some(checked) = checked else { return };
    let services: Vec<_> = checked.schema.services().map(str::to_owned).collect();
    let interfaces = checked.interfaces(&services, found);
    rest(&interfaces, &checked.paths, found);
    // What is left is what only a server itself finds.
    if found.findings.iter().any(|finding| finding.severity == Severity::Error) {
        return;
    }
    let service = ServiceConfig::echo(name);
    let served = serving::add(Server::builder(), &service, &checked.schema, &mut Vec::new());
    let served = served.and_then(|builder| builder.check().map_err(anyhow::Error::from));
    if let Err(error) = served {
        found.findings.push(Finding::error(name, format!("{error:#}")));
    }
}

/// Sources that compile.
pub(super) struct CompiledSources {
    pub(super) schema: Schema,
    /// Where each file was read from, by the name it is imported by.
    pub(super) paths: HashMap<String, String>,
}

/// Compiles a folder, or reads a descriptor set; `None` when that found errors.
pub(super) fn load(path: &Path, found: &mut CheckReport) -> Option<CompiledSources> {
    compile(&sources(path), found)
}

fn compile(sources: &Sources, found: &mut CheckReport) -> Option<CompiledSources> {
    let descriptors = match sources.compile() {
        Ok(descriptors) => descriptors,
        Err(diagnostics) => {
            let mut files: Vec<_> = diagnostics.iter().map(|d| &d.file).collect();
            files.dedup();
            found.files += files.len();
            found.findings.extend(diagnostics.iter().map(Finding::from));
            return None;
        }
    };
    let requested = descriptors.files().iter().filter(|file| file.requested);
    found.files += requested.count();
    let paths = descriptors
        .files()
        .iter()
        .filter_map(|file| Some((file.name.clone(), file.path.as_ref()?.display().to_string())));
    let paths: HashMap<_, _> = paths.collect();
    match Schema::from_descriptors(descriptors.bytes()) {
        Ok(schema) => {
            rules(&schema, &paths, found);
            Some(CompiledSources { schema, paths })
        }
        Err(error) => {
            let first = descriptors.files().iter().find(|file| file.requested);
            let file = first.map(|file| file.name.clone()).unwrap_or_default();
            found.findings.push(Finding::error(file, error.to_string()));
            None
        }
    }
}

/// Rules of validation that do not compile, or say nothing.
fn rules(schema: &Schema, paths: &HashMap<String, String>, found: &mut CheckReport) {
    let finding = |diagnostic: &Diagnostic, severity| {
        let file = paths.get(&diagnostic.file).unwrap_or(&diagnostic.file).clone();
        Finding { file, severity, ..Finding::from(diagnostic) }
    };
    if let Err(SchemaError::Sources(faults)) = RuleSet::new(schema) {
        found.findings.extend(faults.iter().map(|fault| finding(fault, Severity::Error)));
    }
    let idle = required_without_presence(schema);
    found.findings.extend(idle.iter().map(|one| finding(one, Severity::Warning)));
}

impl CompiledSources {
    /// The interfaces of these services.
    pub(super) fn interfaces(
        &self,
        services: &[String],
        found: &mut CheckReport,
    ) -> Vec<Interface> {
        let mut interfaces = Vec::new();
        for name in services {
            match self.schema.interface(name) {
                Ok(interface) => interfaces.extend(interface),
                Err(error) => found.findings.push(Finding::error(name, error.to_string())),
            }
        }
        for method in interfaces.iter().flat_map(Interface::methods) {
            if method.cache.is_some() && method.kind == StreamKind::Unary {
                found.cached.insert(format!("{}/{}", method.service, method.method));
            }
        }
        interfaces
    }
}

/// Checks the REST bindings of services that one server is to serve.
pub(super) fn rest(
    interfaces: &[Interface],
    paths: &HashMap<String, String>,
    found: &mut CheckReport,
) {
    match check_rest(interfaces) {
        Ok(findings) => {
            for finding in findings {
                let finding = locate(finding, paths, found);
                found.findings.push(finding);
            }
        }
        Err(error) => found.findings.push(Finding::error("descriptors", error.to_string())),
    }
}

/// The finding at the path of its template, or else at the annotation.
fn locate(
    finding: RestFinding,
    paths: &HashMap<String, String>,
    found: &mut CheckReport,
) -> Finding {
    let file = paths.get(&finding.file).unwrap_or(&finding.file).clone();
    let annotation = finding.place.map(|place| Position { line: place.line, column: place.column });
    let mut place = annotation;
    if let (Some(annotation), Some((template, offset))) = (annotation, &finding.template) {
        let at_template = found.texts.place(&file, annotation.line, &format!("\"{template}\""));
        let offset = u32::try_from(*offset).unwrap_or(0);
        // A fault inside of the template is behind its opening quote.
        let inside = if offset > 0 { offset + 1 } else { 0 };
        let at_fault = |at: Position| Position { column: at.column + inside, ..at };
        place = at_template.map(at_fault).or(place);
    }
    Finding {
        file,
        line: place.map(|place| place.line),
        column: place.map(|place| place.column),
        severity: if finding.is_fault { Severity::Error } else { Severity::Warning },
        message: finding.message,
        help: finding.help,
    }
}

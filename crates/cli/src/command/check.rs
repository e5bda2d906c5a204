//! `tidewire check`: what is wrong with `.proto` files, rules of mocks and `tidewire.toml`, and
//! where.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | no errors; there may be warnings, unless `--strict` makes them errors |
//! | 1 | errors were found; they are on standard output |
//! | 2 | it could not be checked: a path that is not there, or nothing to check |

mod finding;
mod output;
mod rules;
mod settings;
mod sources;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidewire::config::MemoConfig;

use self::finding::{Finding, Severity};
use self::output::Texts;
use crate::failure::Failure;

/// The largest message of a reply that is compared with a recorded one.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Check `.proto` files, rules of mocks and tidewire.toml; points at file, line and column.
///
/// Reports, beside errors of the compiler: REST paths that do not fit their methods or match the
/// same requests; in tidewire.toml, unknown keys, values that cannot work, missing files and
/// unknown services; in rules, files without a method, unknown keys and fields, bodies that do not
/// fit the schema, patterns that do not compile and responses that are never used.
///
/// Exit codes: 0 no errors, 1 errors, 2 the check could not run.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Check {
    /// Folders of `.proto` files (the root of their imports), `.proto` files, descriptor sets,
    /// `.toml` files, rule files and folders of rule files. Rules are checked against the `.proto`
    /// files among these, or else those of this folder [default: tidewire.toml, proto, protos and
    /// rules, if they exist].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder in which single `.proto` files look up imports; may be repeated.
    #[arg(short = 'I', long = "include", value_name = "FOLDER")]
    includes: Vec<PathBuf>,
    /// Print one JSON object per finding, for editors and scripts.
    #[arg(long)]
    json: bool,
    /// Real service, such as http://127.0.0.1:50051: repeat the calls recorded in the rules. A
    /// reply that differs is an error [default: no calls].
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// Protocol of the real service.
    #[arg(long, value_name = "PROTOCOL", default_value = "grpc")]
    upstream_protocol: super::mock::UpstreamProtocol,
    /// Repeat recorded commands, too: calls that change something.
    #[arg(long, requires = "against")]
    with_commands: bool,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.paths.is_empty() && !has_defaults() {
            crate::serving::enter_settings_folder()?;
        }
        let paths = if self.paths.is_empty() { defaults()? } else { self.paths.clone() };
        if let Some(path) = paths.iter().find(|path| !path.exists()) {
            let why = anyhow::anyhow!("{} does not exist; nothing was checked", path.display());
            return Err(Failure::usage(why));
        }
        let mut found = CheckReport::default();
        if self.paths.is_empty() && !paths.iter().any(|path| matches!(kind(path), Kind::Settings)) {
            settings::check_variables(&mut found);
        }
        let mut files = Vec::new();
        let mut ruled = Vec::new();
        let mut protos = Vec::new();
        for path in &paths {
            match kind(path) {
                Kind::Settings => settings::check(path, &mut found).map_err(Failure::usage)?,
                Kind::Proto => files.push(path.clone()),
                Kind::Rules => ruled.push(path.clone()),
                Kind::Folder | Kind::DescriptorSet if !found.is_new(path) => {}
                Kind::Folder | Kind::DescriptorSet => {
                    sources::check(path, &mut found);
                    protos.push(path.clone());
                }
            }
        }
        protos.extend(files.first().cloned());
        if !ruled.is_empty() {
            let against = self
                .against
                .as_deref()
                .map(|url| self.upstream_protocol.client(url, REPLY_BYTES_MAX));
            let against = against.transpose()?.map(|client| (client, self.with_commands));
            rules::check(&ruled, &protos, against, &mut found).map_err(Failure::usage)?;
        }
        if !files.is_empty() {
            sources::check_files(&files, &self.includes, &mut found);
        }
        if self.strict {
            found.findings.iter_mut().for_each(|finding| finding.severity = Severity::Error);
        }
        found.findings.sort();
        found.findings.dedup();
        output::print(&found, self.json)?;
        let failed = found.findings.iter().any(|finding| finding.severity == Severity::Error);
        Ok(ExitCode::from(u8::from(failed)))
    }
}

/// What was checked, and what was found.
#[derive(Debug, Default)]
struct CheckReport {
    findings: Vec<Finding>,
    /// How many files were looked at.
    files: usize,
    /// Folders and sets that were looked at already.
    seen: Vec<PathBuf>,
    texts: Texts,
    /// Full names of methods whose replies are cached.
    cached: BTreeSet<String>,
    /// What the settings say of these.
    memo: MemoConfig,
    /// Sources whose tables are captured.
    captured: Vec<String>,
}

impl CheckReport {
    /// Whether `path` is met for the first time.
    fn is_new(&mut self, path: &Path) -> bool {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let new = !self.seen.contains(&path);
        if new {
            self.seen.push(path);
        }
        new
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Settings,
    Proto,
    Rules,
    Folder,
    DescriptorSet,
}

fn kind(path: &Path) -> Kind {
    if path.is_dir() {
        return if rules::is_folder_of_rules(path) { Kind::Rules } else { Kind::Folder };
    }
    match path.extension().and_then(|end| end.to_str()) {
        Some("json") if is_image(path) => Kind::DescriptorSet,
        Some("yaml" | "yml" | "json") => Kind::Rules,
        Some("toml") => Kind::Settings,
        Some("proto") => Kind::Proto,
        _ => Kind::DescriptorSet,
    }
}

/// Whether JSON is an image of buf, which begins with the list of its files.
fn is_image(path: &Path) -> bool {
    let mut begin = Vec::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(256).read_to_end(&mut begin));
    let text: Vec<u8> = begin.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
    read.is_ok() && text.starts_with(b"{\"file\":[{")
}

fn has_defaults() -> bool {
    DEFAULTS.iter().any(|path| Path::new(path).exists())
}

const DEFAULTS: [&str; 4] = ["tidewire.toml", "proto", "protos", "rules"];

fn defaults() -> Result<Vec<PathBuf>, Failure> {
    let here = DEFAULTS.map(PathBuf::from);
    let here: Vec<_> = here.into_iter().filter(|path| path.exists()).collect();
    if here.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!(
            "there is no tidewire.toml, proto or protos here; name what to check: tidewire check \
             my-protos"
        )));
    }
    Ok(here)
}

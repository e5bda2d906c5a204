//! Rule files of a mock, against the `.proto` files that they are for.

use std::path::{Path, PathBuf};

use tidewire::Client;
use tidewire::mock::{MockFolders, RuleFiles, drift, load_rule_file, load_rules};
use tidewire::schema::Diagnostic;

use super::CheckReport;
use super::finding::{Finding, Severity};

/// Whether a folder holds rule files, and no `.proto`.
pub(super) fn is_folder_of_rules(folder: &Path) -> bool {
    let has_rules = load_rules(folder).is_ok_and(|files| !files.is_empty());
    has_rules && !has_proto(folder, 0)
}

fn has_proto(folder: &Path, depth: usize) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => depth < 16 && has_proto(&path, depth + 1),
        false => path.extension().is_some_and(|end| end == "proto"),
    })
}

/// Checks rule files and folders of them for the services of `protos`.
///
/// # Errors
/// When there is nothing to check them against.
pub(super) fn check(
    rules: &[PathBuf],
    protos: &[PathBuf],
    against: Option<(Client, bool)>,
    found: &mut CheckReport,
) -> anyhow::Result<()> {
    let here = ["protos", "proto"].map(PathBuf::from);
    let Some(protos) = protos.iter().chain(&here).find(|path| path.exists()) else {
        anyhow::bail!(
            "rules are checked against .proto files, and there is no folder protos here; name both: \
             tidewire check my-protos rules"
        );
    };
    let loaded = MockFolders::new(protos).load();
    let mut files = RuleFiles::new();
    for path in rules {
        if path.is_dir() {
            match load_rules(path) {
                Ok(more) => files.extend(more),
                Err(fault) => found.findings.push(Finding::from(&fault)),
            }
            continue;
        }
        files.extend(load_rule_file(path));
    }
    found.files += files.len();
    for finding in files.check(&loaded.schema) {
        let severity = if finding.is_error { Severity::Error } else { Severity::Warning };
        found.findings.push(Finding { severity, ..Finding::from(&finding.diagnostic) });
    }
    let Some((client, with_commands)) = against else {
        tell_passed_on(&files.passed_on(&loaded.schema));
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let made = runtime.block_on(drift(&loaded.schema, &files, &client, with_commands));
    let (made, drifts) = made.map_err(|error| anyhow::anyhow!("{error}"))?;
    let all = files.recorded(&loaded.schema).len();
    crate::failure::report(&format!("{made} of {all} recorded calls were made again"));
    for drift in drifts {
        let place =
            Diagnostic::new(&drift.call.file, format!("{}: {}", drift.call.method, drift.what));
        let place = place.at(drift.call.line, 1).help("record it anew, or mend the service");
        found.findings.push(Finding { severity: Severity::Error, ..Finding::from(&place) });
    }
    Ok(())
}

/// Says which responses want `--upstream`; whether a mock will have it is not known here.
fn tell_passed_on(places: &[Diagnostic]) {
    let Some(first) = places.first() else { return };
    let line = first.line.unwrap_or(1);
    let more = match places.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    crate::failure::report(&format!(
        "{}:{line}{more}: upstream: true has nobody to answer unless the mock is started with \
         --upstream URL",
        first.file
    ));
}

//! Which crate depends on which, held against the table of ARCHITECTURE.md.
//!
//! | kind of dependency | what a crate may name |
//! |---|---|
//! | normal | the crates of its row |
//! | build | the same, and `build` (any crate but `memo`): generated code is not an edge |
//! | dev | the same, `build`, and any crate of the same level, whatever the letter, or below |
//!
//! A permission that no `Cargo.toml` uses is an error too, so that the table says what is.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::architecture::{DOCUMENT, Imports, Row, Table};
use crate::tree::{Finding, Tree};

/// What stands beside the crates, by its first folder, and what it may import; `None` is anything.
const BESIDE: &[(&str, Option<&[&str]>)] = &[
    ("examples", Some(&["tidewire", "build"])),
    ("clients", None),
    ("conformance", Some(&["tidewire", "build"])),
    ("sdk", Some(&["tidewire", "build"])),
    ("tests", None),
    ("xtask", Some(&[])),
];

/// The compiler of generated code needs what that code is written against, in its tests only.
const BUILD_DEV: &[&str] = &["service"];

/// What the tests of an example may import beside: a protocol as bytes, without a socket, so that
/// they restart its other end at every step.
const EXAMPLES_DEV: &[&str] = &["live-proto"];

/// A package of this workspace and its dependencies within it.
#[derive(Debug)]
pub(crate) struct Package {
    name: String,
    /// Its folder: `crates/memo`.
    folder: String,
    edges: Vec<Edge>,
}

#[derive(Debug)]
struct Edge {
    /// The folder of the package depended on.
    to: String,
    kind: Kind,
    /// Where the manifest names it.
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Build,
    Dev,
}

/// The packages of the workspace, as `cargo metadata` lists them.
///
/// # Errors
/// When cargo cannot read the workspace.
pub(crate) fn packages(root: &Path, tree: &Tree) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let text = |path: &str| {
        tree.files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str())
    };
    parse(&metadata, text)
}

fn parse<'a>(metadata: &Value, manifest: impl Fn(&str) -> &'a str) -> Result<Vec<Package>> {
    let root = metadata["workspace_root"].as_str().context("no workspace_root")?;
    let below =
        |path: &str| path.strip_prefix(root).map(|rest| rest.trim_start_matches('/').to_owned());
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let name = package["name"].as_str().context("a package without a name")?.to_owned();
        let folder = package["manifest_path"]
            .as_str()
            .and_then(below)
            .map(|path| path.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned())
            .with_context(|| format!("{name} lies outside of the workspace"))?;
        let text = manifest(&format!("{folder}/Cargo.toml"));
        let mut edges = Vec::new();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(to) = dependency["path"].as_str().and_then(below) else { continue };
            let kind = match dependency["kind"].as_str() {
                Some("build") => Kind::Build,
                Some("dev") => Kind::Dev,
                _ => Kind::Normal,
            };
            let name = dependency["name"].as_str().unwrap_or_default();
            edges.push(Edge { to, kind, line: line_of(text, name) });
        }
        packages.push(Package { name, folder, edges });
    }
    Ok(packages)
}

/// The line of a manifest that starts with the name; 1 if there is none.
fn line_of(manifest: &str, name: &str) -> usize {
    manifest
        .lines()
        .position(|line| {
            line.trim_start()
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        })
        .map_or(1, |index| index + 1)
}

/// Every edge that the table does not have, and every permission that nothing uses.
pub(crate) fn check(table: &Table, packages: &[Package]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        packages.iter().flat_map(|package| check_package(table, package)).collect();
    findings.extend(table.rows.iter().flat_map(|row| unused(row, packages)));
    findings
}

fn check_package(table: &Table, package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let (place, rest) = package.folder.split_once('/').unwrap_or((&package.folder, ""));
    let mut findings = Vec::new();
    let from = if place == "crates" {
        let Some(row) = table.find(rest) else {
            let text = format!("`{rest}` has no row in the table of {DOCUMENT}; add one");
            return vec![Finding::error(&manifest, 1, text)];
        };
        let name = if rest == "tidewire" { rest.to_owned() } else { format!("tidewire-{rest}") };
        if package.name != name {
            let text = format!(
                "the package is called `{}`; call it `{name}` after its folder",
                package.name
            );
            findings.push(Finding::error(&manifest, 1, text));
        }
        Some(row)
    } else if BESIDE.iter().any(|(name, _)| *name == place) {
        None
    } else {
        let text = format!(
            "`{}` is not a known place for a package; add it to BESIDE in xtask/src/tidy/edges.rs",
            package.folder
        );
        return vec![Finding::error(&manifest, 1, text)];
    };
    for edge in &package.edges {
        let why = match from {
            Some(row) => refuse_crate(table, row, edge),
            None => refuse_beside(place, edge),
        };
        findings.extend(why.map(|why| Finding::error(&manifest, edge.line, why)));
    }
    findings
}

/// Why a crate may not have this edge.
fn refuse_crate(table: &Table, from: &Row, edge: &Edge) -> Option<String> {
    let Some(to) = edge.to.strip_prefix("crates/") else {
        let text =
            format!("a crate depends on `{}`, which is outside of crates/; remove it", edge.to);
        return Some(text);
    };
    let level = |name: &str| table.find(name).and_then(|row| row.level).map(|(number, _)| number);
    let is_build = to == "build" && from.name != "memo";
    let is_allowed = table.allows(from, to)
        || match edge.kind {
            Kind::Normal => false,
            Kind::Build => is_build,
            Kind::Dev if from.level.is_none() => BUILD_DEV.contains(&to),
            Kind::Dev => is_build || level(to) <= from.level.map(|(number, _)| number),
        };
    if is_allowed {
        return None;
    }
    let kind = match edge.kind {
        Kind::Normal => "may import",
        Kind::Build => "may import (and use `build` while building)",
        Kind::Dev => "may import (and test with `build` and crates of its level or below)",
    };
    Some(format!(
        "`{}` depends on `{to}` but {kind}: {}; move the code to a crate that may, or change the \
         table of {DOCUMENT}",
        from.name,
        listed(&from.imports)
    ))
}

fn listed(imports: &Imports) -> String {
    match imports {
        Imports::Only(names) if names.is_empty() => "none".to_owned(),
        Imports::Only(names) => names.join(", "),
        Imports::AllBelowBut(names) if names.is_empty() => "all below it".to_owned(),
        Imports::AllBelowBut(names) => format!("all below it but {}", names.join(", ")),
    }
}

/// Permissions of a row that its manifest does not use, and a row without a package.
fn unused(row: &Row, packages: &[Package]) -> Vec<Finding> {
    let folder = format!("crates/{}", row.name);
    let Some(package) = packages.iter().find(|package| package.folder == folder) else {
        let text = format!("`{folder}` does not exist; remove its row");
        return vec![Finding::error(DOCUMENT, row.line, text)];
    };
    let Imports::Only(names) = &row.imports else { return Vec::new() };
    let is_used = |name: &str| {
        let to = format!("crates/{name}");
        package.edges.iter().any(|edge| edge.kind == Kind::Normal && edge.to == to)
    };
    let unused = names.iter().filter(|name| !is_used(name));
    let findings = unused.map(|name| {
        let text = format!(
            "`{}` may import `{name}`, but {folder}/Cargo.toml does not; remove it here",
            row.name
        );
        Finding::error(DOCUMENT, row.line, text)
    });
    findings.collect()
}

/// Why a package beside the crates may not have this edge.
fn refuse_beside(place: &str, edge: &Edge) -> Option<String> {
    let allowed = BESIDE.iter().find(|(name, _)| *name == place).map(|(_, allowed)| *allowed)??;
    let to = edge.to.strip_prefix("crates/").unwrap_or(&edge.to);
    let is_test = place == "examples" && edge.kind == Kind::Dev;
    if allowed.contains(&to) || is_test && EXAMPLES_DEV.contains(&to) {
        return None;
    }
    let names = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    Some(format!("`{place}` depends on `{to}` but may import: {names}; use what those export"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the repository itself.
    fn table() -> Table {
        let root = crate::tree::root().expect("a root");
        let text = std::fs::read_to_string(root.join(DOCUMENT)).expect("it exists");
        Table::read(&Tree::of(&[(DOCUMENT, &text)])).0
    }

    fn package(folder: &str, edges: &[(&str, Kind)]) -> Package {
        let name = match folder.strip_prefix("crates/") {
            Some("tidewire") | None => folder.trim_start_matches("crates/").to_owned(),
            Some(name) => format!("tidewire-{name}"),
        };
        let edges = edges.iter().map(|(to, kind)| Edge { to: (*to).into(), kind: *kind, line: 7 });
        Package { name, folder: folder.to_owned(), edges: edges.collect() }
    }

    /// Findings of one package with one dependency, what it does not use apart.
    fn check_edge(folder: &str, to: &str, kind: Kind) -> Vec<String> {
        let findings = check_package(&table(), &package(folder, &[(to, kind)]));
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn edges_go_down_as_the_table_says() {
        use Kind::{Build, Dev, Normal};
        for (from, to, kind, is_allowed) in [
            ("crates/service", "crates/memo", Normal, false),
            ("crates/memo", "crates/service", Normal, false),
            ("crates/service", "crates/proto", Normal, false),
            ("crates/schema", "crates/service", Normal, true),
            ("crates/schema", "crates/proto", Normal, true),
            ("crates/service", "crates/schema", Normal, false),
            ("crates/build", "crates/proto", Normal, true),
            ("crates/proto", "crates/memo", Normal, false),
            ("crates/memo", "crates/memo-macros", Normal, true),
            ("crates/service", "crates/memo-macros", Normal, false),
            ("crates/server", "crates/client", Normal, false),
            ("crates/server", "crates/client", Dev, true),
            ("crates/server", "crates/hosting", Dev, false),
            ("crates/server", "crates/build", Build, true),
            ("crates/server", "crates/build", Normal, false),
            ("crates/memo", "crates/build", Build, false),
            ("crates/mock", "crates/cache", Normal, false),
            ("crates/mock", "crates/cache", Dev, true),
            ("crates/build", "crates/service", Normal, false),
            ("crates/build", "crates/service", Dev, true),
            ("crates/build", "crates/server", Dev, false),
            ("crates/admin", "crates/loadgen", Normal, false),
            ("crates/admin", "crates/cache", Normal, true),
            ("crates/bench", "crates/tidewire", Normal, false),
            ("crates/cli", "crates/tidewire", Normal, true),
            ("crates/cli", "crates/server", Normal, false),
            ("examples/hello", "crates/tidewire", Normal, true),
            ("examples/hello", "crates/server", Normal, false),
            ("examples/hello", "crates/live-proto", Normal, false),
            ("examples/hello", "crates/live-proto", Dev, true),
            ("examples/hello", "crates/server", Dev, false),
            ("conformance", "crates/build", Build, true),
            ("conformance", "examples/hello", Normal, false),
            ("tests", "crates/server", Normal, true),
            ("xtask", "crates/bench", Normal, false),
        ] {
            let findings = check_edge(from, to, kind);
            assert_eq!(findings.is_empty(), is_allowed, "{from} -> {to} ({kind:?}): {findings:?}");
        }
    }

    #[test]
    fn a_wrong_edge_is_named_with_its_line_and_what_would_be_right() {
        let findings = check_edge("crates/live-proto", "crates/memo", Kind::Normal);
        assert_eq!(
            findings,
            [
                "crates/live-proto/Cargo.toml:7: `live-proto` depends on `memo` but may import: service; move the code to a crate that may, or change the table of ARCHITECTURE.md"
            ]
        );
    }

    #[test]
    fn a_permission_that_no_manifest_uses_is_a_finding_at_its_row() {
        let rows = "| level | crate | job | may import |\n|---|---|---|---|\n\
                    | 2 | `admin` | x | all below it |\n| 1 | `live` | x | `service`, `memo` |\n\
                    | 0 | `service` | x | none |\n| 0 | `memo` | x | none |\n";
        let (table, faults) = Table::read(&Tree::of(&[(DOCUMENT, rows)]));
        assert!(faults.is_empty(), "{faults:?}");
        let service = [("crates/service", Kind::Normal), ("crates/memo", Kind::Dev)];
        let packages = [
            package("crates/admin", &[]),
            package("crates/live", &service),
            package("crates/service", &[]),
        ];
        let findings: Vec<String> =
            check(&table, &packages).iter().map(Finding::to_string).collect();
        assert_eq!(
            findings,
            [
                "ARCHITECTURE.md:4: `live` may import `memo`, but crates/live/Cargo.toml does not; remove it here",
                "ARCHITECTURE.md:6: `crates/memo` does not exist; remove its row",
            ]
        );
    }

    #[test]
    fn a_folder_without_a_row_and_a_package_with_another_name_are_findings() {
        let check = |name: &str, folder: &str| {
            let package = Package { name: name.into(), folder: folder.into(), edges: Vec::new() };
            check_package(&table(), &package).len()
        };
        assert_eq!(check("tidewire-core", "crates/core"), 1);
        assert_eq!(check("memo", "crates/memo"), 1);
        assert_eq!(check("tool", "tools/tool"), 1);
        assert_eq!(check("tidewire", "crates/tidewire"), 0);
    }

    #[test]
    fn dependencies_are_read_from_the_metadata_of_cargo() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "tidewire-memo",
                "manifest_path": "/w/crates/memo/Cargo.toml",
                "dependencies": [
                    {"name": "bytes", "kind": null},
                    {"name": "tidewire-service", "kind": null, "path": "/w/crates/service"},
                ],
            }],
        });
        let manifest = "[dependencies]\nbytes = \"1\"\ntidewire-service.workspace = true\n";
        let packages = parse(&metadata, |_| manifest).expect("it is metadata");
        let findings = check_package(&table(), &packages[0]);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0]
                .to_string()
                .starts_with("crates/memo/Cargo.toml:3: `memo` depends on `service`")
        );
    }
}

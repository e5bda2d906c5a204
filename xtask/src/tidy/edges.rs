//! Which room may import which: the table of ARCHITECTURE.md, as data.
//!
//! ```text
//!  8   cli
//!  7   tidewire    bench
//!  6   admin
//!  5   process  mock  oplog  load
//!  4   server      client
//!  3   edge   link
//!  2   wire   rest   live   auth   observe   otlp
//!  1   service ◀ schema
//!  0   memo (with memo-macros)   proto   forms   json   listen
//!  beside  build, xtask, tests, conformance, examples, clients, docs
//! ```
//!
//! | kind of dependency | what a room may name |
//! |---|---|
//! | normal | the rooms of its row in `ROOMS` |
//! | build | the same, and `build` (any room but `memo`): generated code is not an edge |
//! | dev | the same, `build`, and any room on its own floor or below |

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tree::{Finding, Tree};

/// A room, its floor, and the rooms that it may import.
struct Room {
    name: &'static str,
    /// `None` beside the floors: nothing of it runs in a service.
    floor: Option<u8>,
    imports: &'static [&'static str],
}

const fn room(name: &'static str, floor: u8, imports: &'static [&'static str]) -> Room {
    Room { name, floor: Some(floor), imports }
}

const ROOMS: &[Room] = &[
    room("memo-macros", 0, &[]),
    room("memo", 0, &["memo-macros"]),
    room("proto", 0, &[]),
    room("forms", 0, &[]),
    room("json", 0, &[]),
    room("listen", 0, &[]),
    room("service", 1, &[]),
    // On the half-floor between `service` and what stands on both.
    room("schema", 1, &["service", "proto", "forms", "json"]),
    room("wire", 2, &["service"]),
    room("rest", 2, &["service", "schema", "proto"]),
    room("live", 2, &["service"]),
    room("auth", 2, &["service"]),
    room("observe", 2, &["service"]),
    room("otlp", 2, &["service"]),
    room("edge", 3, &["memo", "service"]),
    room("link", 3, &["live", "service"]),
    room(
        "server",
        4,
        &["listen", "service", "schema", "wire", "rest", "live", "link", "edge", "memo"],
    ),
    room("client", 4, &["service", "schema", "wire", "live", "link", "memo"]),
    room("process", 5, &["service", "schema", "live", "link", "edge", "memo", "client", "server"]),
    room("mock", 5, &["service", "schema", "memo"]),
    room("oplog", 5, &["memo"]),
    room("load", 5, &["service", "schema", "wire", "live", "link", "client"]),
    room(
        "admin",
        6,
        &[
            "memo", "service", "schema", "wire", "rest", "live", "auth", "observe", "link", "edge",
            "server", "client", "process", "mock", "oplog",
        ],
    ),
    room(
        "tidewire",
        7,
        &[
            "memo", "listen", "service", "schema", "wire", "rest", "live", "auth", "observe",
            "otlp", "link", "edge", "server", "client", "process", "mock", "oplog", "admin",
        ],
    ),
    room("bench", 7, &["load", "client", "service", "schema"]),
    room("cli", 8, &["tidewire", "bench", "load", "client", "admin"]),
    Room { name: "build", floor: None, imports: &["proto"] },
];

/// What stands beside the rooms, by its first folder, and what it may import; `None` is anything.
const BESIDE: &[(&str, Option<&[&str]>)] = &[
    ("examples", Some(&["tidewire", "build"])),
    ("clients", None),
    ("conformance", Some(&["tidewire", "build"])),
    ("docs", Some(&["tidewire", "build"])),
    ("sdk", Some(&["tidewire", "build"])),
    ("tests", None),
    ("xtask", Some(&[])),
];

/// The compiler of generated code needs what that code is written against, in its tests only.
const BUILD_DEV: &[&str] = &["service"];

/// What the tests of an example may import beside: a protocol as bytes, without a socket, so that they
/// restart its other end at every step.
const EXAMPLES_DEV: &[&str] = &["live"];

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

/// Every edge that the table does not have.
pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let (place, rest) = package.folder.split_once('/').unwrap_or((&package.folder, ""));
    let mut findings = Vec::new();
    let from = if place == "crates" {
        let Some(room) = ROOMS.iter().find(|room| room.name == rest) else {
            let text = format!(
                "`{rest}` is no room; add it to the table of ARCHITECTURE.md and to ROOMS in xtask/src/tidy/edges.rs, or move its code into a room"
            );
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
        Some(room)
    } else if BESIDE.iter().any(|(name, _)| *name == place) {
        None
    } else {
        let text = format!(
            "`{}` is no known place for a package; add it to BESIDE in xtask/src/tidy/edges.rs",
            package.folder
        );
        return vec![Finding::error(&manifest, 1, text)];
    };
    for edge in &package.edges {
        let why = match from {
            Some(room) => refuse_room(room, edge),
            None => refuse_beside(place, edge),
        };
        findings.extend(why.map(|why| Finding::error(&manifest, edge.line, why)));
    }
    findings
}

/// Why a room may not have this edge.
fn refuse_room(from: &Room, edge: &Edge) -> Option<String> {
    let Some(to) = edge.to.strip_prefix("crates/") else {
        return Some(format!("a room depends on `{}`, which is no room; remove it", edge.to));
    };
    let floor =
        |name: &str| ROOMS.iter().find(|room| room.name == name).and_then(|room| room.floor);
    let is_allowed = from.imports.contains(&to)
        || match edge.kind {
            Kind::Normal => false,
            Kind::Build => to == "build" && from.name != "memo",
            Kind::Dev if from.floor.is_none() => BUILD_DEV.contains(&to),
            Kind::Dev => (to == "build" && from.name != "memo") || floor(to) <= from.floor,
        };
    if is_allowed {
        return None;
    }
    let allowed = match from.imports {
        [] => "no room".to_owned(),
        imports => imports.join(", "),
    };
    let kind = match edge.kind {
        Kind::Normal => "may import",
        Kind::Build => "may import (and use `build` while building)",
        Kind::Dev => "may import (and test with `build` and rooms on its floor or below)",
    };
    Some(format!(
        "`{}` depends on `{to}` but {kind}: {allowed}; move the code or the need to a room that may",
        from.name
    ))
}

/// Why a package beside the rooms may not have this edge.
fn refuse_beside(place: &str, edge: &Edge) -> Option<String> {
    let allowed = BESIDE.iter().find(|(name, _)| *name == place).map(|(_, allowed)| *allowed)??;
    let to = edge.to.strip_prefix("crates/").unwrap_or(&edge.to);
    let is_test = place == "examples" && edge.kind == Kind::Dev;
    if allowed.contains(&to) || is_test && EXAMPLES_DEV.contains(&to) {
        return None;
    }
    let rooms = if allowed.is_empty() { "no room".to_owned() } else { allowed.join(", ") };
    Some(format!("`{place}` depends on `{to}` but may import: {rooms}; use what those export"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings for one package with one dependency.
    fn check_edge(folder: &str, to: &str, kind: Kind) -> Vec<String> {
        let name = match folder.strip_prefix("crates/") {
            Some("tidewire") | None => folder.trim_start_matches("crates/").to_owned(),
            Some(room) => format!("tidewire-{room}"),
        };
        let edge = Edge { to: to.to_owned(), kind, line: 7 };
        let package = Package { name, folder: folder.to_owned(), edges: vec![edge] };
        check(&[package]).iter().map(Finding::to_string).collect()
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
            ("crates/server", "crates/process", Dev, false),
            ("crates/server", "crates/build", Build, true),
            ("crates/server", "crates/build", Normal, false),
            ("crates/mock", "crates/memo", Normal, true),
            ("crates/mock", "crates/edge", Normal, false),
            ("crates/mock", "crates/edge", Dev, true),
            ("crates/build", "crates/service", Normal, false),
            ("crates/build", "crates/service", Dev, true),
            ("crates/build", "crates/server", Dev, false),
            ("crates/bench", "crates/tidewire", Normal, false),
            ("crates/cli", "crates/tidewire", Normal, true),
            ("crates/cli", "crates/server", Normal, false),
            ("examples/hello", "crates/tidewire", Normal, true),
            ("examples/hello", "crates/server", Normal, false),
            ("examples/hello", "crates/live", Normal, false),
            ("examples/hello", "crates/live", Dev, true),
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
        let findings = check_edge("crates/live", "crates/memo", Kind::Normal);
        assert_eq!(
            findings,
            [
                "crates/live/Cargo.toml:7: `live` depends on `memo` but may import: service; move the code or the need to a room that may"
            ]
        );
    }

    #[test]
    fn a_folder_that_is_no_room_and_a_package_with_another_name_are_findings() {
        let package = |name: &str, folder: &str| Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            edges: Vec::new(),
        };
        assert_eq!(check(&[package("tidewire-core", "crates/core")]).len(), 1);
        assert_eq!(check(&[package("memo", "crates/memo")]).len(), 1);
        assert_eq!(check(&[package("tool", "tools/tool")]).len(), 1);
        assert!(check(&[package("tidewire", "crates/tidewire")]).is_empty());
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
        let findings = check(&packages);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0]
                .to_string()
                .starts_with("crates/memo/Cargo.toml:3: `memo` depends on `service`")
        );
    }
}

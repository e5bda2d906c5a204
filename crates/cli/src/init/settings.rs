//! A `tidewire.toml` for the `.proto` files and descriptor sets of a folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidewire::Schema;
use tidewire::config::sources;

/// How far below a folder files are looked for.
const DEPTH_MAX: usize = 8;

/// The roots of `.proto` files below `folder`, and descriptor sets, relative to it.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    if folder.exists() {
        look(folder, 0, &mut found).with_context(|| format!("cannot read {}", folder.display()))?;
    }
    let below = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).to_owned();
    let found: Vec<PathBuf> = found.iter().map(below).collect();
    let is_inner = |path: &PathBuf| found.iter().any(|root| root != path && path.starts_with(root));
    Ok(found.iter().filter(|path| !is_inner(path)).cloned().collect())
}

fn look(folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_left_out =
            name.to_string_lossy().starts_with('.') || name == "target" || name == "node_modules";
        if is_left_out || depth > DEPTH_MAX {
            continue;
        }
        match path.extension().and_then(|end| end.to_str()) {
            _ if entry.file_type()?.is_dir() => look(&path, depth + 1, found)?,
            Some("proto") => {
                found.insert(root_of(&path, folder));
            }
            Some("binpb" | "protoset") => {
                found.insert(path);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The folder that imports of a file are relative to: `api` for `api/shop/v1/shop.proto` of the
/// package `shop.v1`, and the file's own where the package does not say.
fn root_of(file: &Path, folder: &Path) -> PathBuf {
    let text = fs::read_to_string(file).unwrap_or_default();
    let package = text.lines().find_map(|line| line.trim().strip_prefix("package "));
    let package = package.and_then(|rest| rest.split(';').next()).unwrap_or_default();
    let mut root = folder;
    for part in package.trim().rsplit('.').filter(|part| !part.is_empty()) {
        match root.parent() {
            Some(parent) if root.file_name().is_some_and(|name| name == part) => root = parent,
            _ => return folder.to_owned(),
        }
    }
    root.to_owned()
}

/// Writes the settings; what to say of them.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(folder: &Path, found: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut text =
        "# What `tidewire serve` reads; `tidewire check` looks it through.\n\n[server]\n\
                    listen = \"127.0.0.1:8080\"\n"
            .to_owned();
    let mut lines = Vec::new();
    for path in found {
        let shown = match path.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => path.display().to_string(),
        };
        text.push_str(
            "\n# Every call is answered with the fields of its request. For a server that is\n",
        );
        text.push_str("# there: backend = \"upstream\", url = \"127.0.0.1:9000\".\n");
        text.push_str(&format!("[[service]]\nproto = {shown:?}\nbackend = \"echo\"\n"));
        lines.push(match Schema::compile(&sources(&folder.join(path))) {
            Ok(schema) => match schema.services().collect::<Vec<_>>()[..] {
                [] => format!("{shown}: no service in it"),
                ref names => format!("{shown}: {}", names.join(", ")),
            },
            Err(error) => format!("{shown}: {error}"),
        });
    }
    let path = folder.join("tidewire.toml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    lines.push(format!("wrote {}", path.display()));
    let there = match folder == Path::new(".") {
        true => "tidewire serve".to_owned(),
        false => format!("cd {} && tidewire serve", folder.display()),
    };
    lines.push(format!("next: {there}"));
    Ok(lines)
}

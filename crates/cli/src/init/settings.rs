//! A `tidewire.toml` for the `.proto` files and descriptor sets of a folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tidewire::Schema;
use tidewire::config::sources;

use super::hosting::{self, Program};

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

/// Writes the settings of `.proto` files, and of the program beside them, if there is one; what to
/// say of each.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(
    folder: &Path,
    found: &[PathBuf],
    program: anyhow::Result<Option<Program>>,
) -> anyhow::Result<Vec<String>> {
    let mut text = HEAD.to_owned();
    let mut lines = Vec::new();
    let program = program.unwrap_or_else(|why| {
        lines.push(format!("nothing is hosted: {why}"));
        None
    });
    let mut next = Program::default().next(folder);
    match (&program, found) {
        (Some(program), [root]) if program.uses_library() => {
            let place = format!("proto = {:?}\ncodec = \"json\"", display(root));
            text.push_str(&format!("\n{}", program.service(folder, &place)?));
            lines.push(services(folder, root, "served by the program"));
            lines.push(format!("{}: hosted, with these methods", hosting::name(program)));
            next = program.next(folder);
        }
        (program, _) => {
            for root in found {
                text.push_str(&echo(root));
                lines.push(services(folder, root, ECHO));
            }
            if let Some(program) = program {
                text.push_str(&format!("\n{}", comment(program, folder)?));
                lines.push(format!(
                    "{}: not hosted; its [[service]] is in tidewire.toml as a comment, since {}",
                    hosting::name(program),
                    why_not(program)
                ));
            }
        }
    }
    let path = folder.join("tidewire.toml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    lines.push(format!("wrote {}", path.display()));
    lines.push(next);
    Ok(lines)
}

/// Why a program beside `.proto` files is not hosted: whose methods they are is not known.
fn why_not(program: &Program) -> &'static str {
    match program.uses_library() {
        true => "a [[service]] has one folder of .proto files, and there are several",
        false => "it does not use the library `tidewire` to serve methods",
    }
}

/// A program's `[[service]]`, to be uncommented.
fn comment(program: &Program, folder: &Path) -> anyhow::Result<String> {
    let place = match program.uses_library() {
        true => "proto = \"FOLDER\"\ncodec = \"json\"",
        false => "route = \"/*\"",
    };
    let service = program.service(folder, place)?;
    let lines = service.lines().map(|line| format!("# {}\n", line.trim_start_matches("# ")));
    Ok(lines.collect())
}

/// The `[[service]]` of a root that nobody serves yet.
fn echo(root: &Path) -> String {
    format!(
        "\n# Every call is answered with the fields of its request. For a server that is\n\
         # there: backend = \"upstream\", url = \"127.0.0.1:9000\".\n\
         [[service]]\nproto = {:?}\nbackend = \"echo\"\n",
        display(root)
    )
}

fn display(root: &Path) -> String {
    match root.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => root.display().to_string(),
    }
}

/// A root with what it has, and how that is served.
fn services(folder: &Path, root: &Path, how: &str) -> String {
    let path = display(root);
    match Schema::compile(&sources(&folder.join(root))) {
        Ok(schema) => match schema.services().collect::<Vec<_>>()[..] {
            [] => format!("{path}: no service in it"),
            ref names => format!("{path}: {}: {how}", names.join(", ")),
        },
        Err(error) => format!("{path}: {error}"),
    }
}

const ECHO: &str = "answered with the fields of the request (backend = \"echo\")";

/// How a file of settings begins.
pub(super) const HEAD: &str = "# What `tidewire serve` reads; `tidewire check` looks it through.\n\n\
                               [server]\nlisten = \"127.0.0.1:8080\"\n";

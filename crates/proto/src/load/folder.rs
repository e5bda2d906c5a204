//! Finding the `.proto` files below a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::diagnostics::Diagnostic;
use crate::sources::{FILES_MAX, FOLDER_DEPTH_MAX};

/// The `.proto` files below `root`, relative to it, in order of name.
pub(crate) fn proto_files(root: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((folder, depth)) = open.pop() {
        if depth > FOLDER_DEPTH_MAX {
            let message = format!("folders are nested more than {FOLDER_DEPTH_MAX} deep");
            return Err(Diagnostic::new(root.join(folder).display().to_string(), message)
                .help("name a folder nearer to the .proto files"));
        }
        search(root, &folder, depth, &mut found, &mut open)?;
    }
    if found.is_empty() {
        return Err(Diagnostic::new(root.display().to_string(), "no .proto file in this folder")
            .help("name the folder that holds your .proto files"));
    }
    found.sort();
    Ok(found)
}

fn search(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    open: &mut Vec<(PathBuf, usize)>,
) -> Result<(), Diagnostic> {
    let path = root.join(folder);
    let failed = |error: std::io::Error| {
        Diagnostic::new(path.display().to_string(), format!("cannot read this folder: {error}"))
            .help("name a folder that exists and may be read")
    };
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let kind = entry.file_type().map_err(failed)?;
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let relative = folder.join(&name);
        if kind.is_dir() {
            open.push((relative, depth + 1));
        } else if relative.extension().is_some_and(|end| end == "proto") && entry.path().is_file() {
            found.push(relative);
        }
        if found.len() > FILES_MAX {
            let message = format!("more than {FILES_MAX} .proto files below this folder");
            return Err(Diagnostic::new(root.display().to_string(), message)
                .help("compile a smaller folder, or single files"));
        }
    }
    Ok(())
}

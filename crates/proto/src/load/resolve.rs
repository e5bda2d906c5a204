//! From paths to the names files are imported by, and back.
//!
//! | given | is |
//! |---|---|
//! | `protos/shop/v1/a.proto`, include `protos` | `shop/v1/a.proto` |
//! | `shop/v1/a.proto`, include `protos` which has it | `shop/v1/a.proto` |
//! | `../other/a.proto`, include `protos` | refused: outside every include |
//! | `b/a.proto`, includes `a`, `b`, both with `a.proto` | refused: `a/a.proto` comes first |

use std::path::{Component, Path, PathBuf};

use crate::diagnostics::Diagnostic;

/// The folders in which files are looked up, in order.
#[derive(Debug, Default)]
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    pub(crate) fn new(roots: Vec<PathBuf>) -> Self {
        Self(roots)
    }

    /// Refuses roots that are not folders.
    pub(crate) fn check(&self) -> Vec<Diagnostic> {
        let missing = self.0.iter().filter(|root| !or_here(root).is_dir());
        let message = "this include is not a folder";
        let help = "name the folder that imports are relative to";
        missing.map(|root| Diagnostic::new(display(root), message).help(help)).collect()
    }

    /// Where the file `name` is: in the first root that has it.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        self.0.iter().map(|root| root.join(name)).find(|path| path.is_file())
    }

    /// The name by which the file at `path` is imported.
    pub(crate) fn name_of(&self, path: &Path) -> Result<String, Diagnostic> {
        let under = self.0.iter().filter_map(|root| Some((root, strip(path, root)?)));
        for (root, rest) in under {
            let Some(name) = plain_name(rest) else { continue };
            if root.join(&name).is_file() {
                return self.first_of(&name, &root.join(&name));
            }
        }
        if let Some(name) = plain_name(path).filter(|name| self.find(name).is_some()) {
            return Ok(name);
        }
        let file = display(path);
        if !path.exists() {
            return Err(Diagnostic::new(file, "no such file")
                .help("give a path from the current folder, or a name relative to an include"));
        }
        if !path.is_file() {
            return Err(Diagnostic::new(file, "not a file").help("give a folder as a folder"));
        }
        let roots: Vec<String> = self.0.iter().map(|root| display(root)).collect();
        let message = format!("this file is outside every include ({})", roots.join(", "));
        Err(Diagnostic::new(file, message).help("add the folder it is in as an include"))
    }

    /// `name`, unless a root before that of `path` has another file of that name.
    pub(crate) fn first_of(&self, name: &str, path: &Path) -> Result<String, Diagnostic> {
        match self.find(name).filter(|first| !same_file(first, path)) {
            None => Ok(name.to_owned()),
            Some(first) => {
                let first = display(&first);
                let message = format!("{first} comes first under the same name '{name}'");
                Err(Diagnostic::new(display(path), message)
                    .help("rename one of the two, or put the include of this one first"))
            }
        }
    }
}

/// `path` for a reader.
pub(crate) fn display(path: &Path) -> String {
    or_here(path).display().to_string()
}

/// The name of the file at the relative `path`, unless it leaves its root.
pub(crate) fn plain_name(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

fn strip<'a>(path: &'a Path, root: &Path) -> Option<&'a Path> {
    let skip_here = |path: &'a Path| path.strip_prefix(".").unwrap_or(path);
    skip_here(path).strip_prefix(root.strip_prefix(".").unwrap_or(root)).ok()
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

//! The files of the repository, read once, and what a rule says about them.
//!
//! A [`Tree`] holds every file that git knows or would add. Rules are functions from a tree to
//! findings, so a test builds a tree from two strings. Rust files are parsed when they are read.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::rust_file::RustFile;

/// Larger files are not read: no rule looks into them.
const READ_BYTES_MAX: u64 = 4 << 20;

/// The repository's files.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// Paths of modules that their parent declares under `#[cfg(test)]`, as `foo.rs` and `foo/`.
    test_modules: HashSet<String>,
}

/// One file; `path` is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Empty if the file is not UTF-8.
    pub(crate) text: String,
    /// `None` unless this is a Rust file that parses.
    pub(crate) rust: Option<RustFile>,
    /// Why a Rust file does not parse, and where.
    pub(crate) parse_error: Option<(usize, String)>,
}

/// One broken rule, printed as `path:line: what, and what to do`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    /// A warning is printed and fails nothing.
    pub(crate) warning: bool,
}

impl Finding {
    pub(crate) fn error(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into(), warning: false }
    }

    pub(crate) fn warning(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { warning: true, ..Self::error(path, line, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, text, warning } = self;
        write!(f, "{path}:{line}: {}{text}", if *warning { "warning: " } else { "" })
    }
}

impl Tree {
    /// Reads the files that git tracks or would add.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .current_dir(root)
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()
            .context("git ls-files")?;
        if !output.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let listing = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut files = Vec::new();
        for path in listing.split_terminator('\0') {
            let full = root.join(path);
            // Deleted but still in the index, or a submodule.
            let Ok(metadata) = full.symlink_metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            let text = if metadata.len() <= READ_BYTES_MAX {
                let bytes = std::fs::read(&full).with_context(|| path.to_owned())?;
                String::from_utf8(bytes).unwrap_or_default()
            } else {
                String::new()
            };
            files.push(File::new(path, metadata.len(), text));
        }
        Ok(Self::of_files(files))
    }

    /// A tree of the given paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| File::new(path, text.len() as u64, (*text).to_owned()))
            .collect();
        Self::of_files(files)
    }

    fn of_files(files: Vec<File>) -> Self {
        let mut test_modules = HashSet::new();
        for file in &files {
            let Some(rust) = &file.rust else { continue };
            let folder = file.module_folder();
            for name in &rust.test_modules {
                test_modules.insert(format!("{folder}{name}.rs"));
                test_modules.insert(format!("{folder}{name}/"));
            }
        }
        Self { files, test_modules }
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// The Rust files that parse.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &RustFile)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// Is every line of this file test code?
    pub(crate) fn is_test(&self, file: &File) -> bool {
        let path = &file.path;
        path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
            || self.test_modules.contains(path)
            || self
                .test_modules
                .iter()
                .any(|module| module.ends_with('/') && path.starts_with(module))
    }

    /// Is this line test code?
    pub(crate) fn is_test_line(&self, file: &File, line: usize) -> bool {
        self.is_test(file) || file.rust.as_ref().is_some_and(|rust| rust.is_test_line(line))
    }
}

impl File {
    fn new(path: &str, bytes: u64, text: String) -> Self {
        let (rust, parse_error) = if path.ends_with(".rs") {
            match RustFile::parse(&text) {
                Ok(rust) => (Some(rust), None),
                Err(error) => (None, Some(error)),
            }
        } else {
            (None, None)
        };
        Self { path: path.to_owned(), bytes, text, rust, parse_error }
    }

    /// The crate whose source this is: `memo` for `crates/memo/src/cell.rs`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// The file name without its folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Was this file written by a generator? Such a file says so near its start.
    pub(crate) fn is_generated(&self) -> bool {
        self.text.lines().take(5).any(|line| line.contains("@generated"))
    }

    /// The folder of this module's children, with a `/` at the end.
    fn module_folder(&self) -> String {
        let folder = self.path.strip_suffix(self.name()).unwrap_or_default();
        match self.name() {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            name => format!("{folder}{}/", name.trim_end_matches(".rs")),
        }
    }
}

/// The root of the repository: the folder above this package.
pub(crate) fn root() -> Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().map(Path::to_path_buf).context("xtask has no parent folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_a_test_file_wherever_it_lies() {
        let tree = Tree::of(&[
            ("crates/memo/src/lib.rs", "#[cfg(test)] mod model;\nmod cell;"),
            ("crates/memo/src/model.rs", ""),
            ("crates/memo/src/model/oracle.rs", ""),
            ("crates/memo/src/cell.rs", "#[cfg(test)]\nmod tests {}\n"),
            ("crates/memo/tests/all.rs", ""),
        ]);
        let tests: Vec<bool> = tree.files.iter().map(|file| tree.is_test(file)).collect();
        assert_eq!(tests, [false, true, true, false, true]);
        assert!(tree.is_test_line(&tree.files[3], 2));
    }
}

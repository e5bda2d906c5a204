//! Reading the folders of a mock, as far as they are not broken.

use std::path::{Path, PathBuf};

use tidewire_mock::{RULE_FILE_BYTES_MAX, RuleFiles};
use tidewire_mock_import::{Program, StubFile};
use tidewire_schema::{Diagnostic, Schema, SchemaError, Sources};

/// How deep folders of rules may nest, and how many files they may hold.
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 100_000;

/// What was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedFolders {
    /// The schema of all `.proto` files that compile together.
    pub schema: Schema,
    /// The rule files.
    pub rules: RuleFiles,
    /// What is wrong with the others: file, line and column.
    pub faults: Vec<Diagnostic>,
    /// Whether a folder could not be read at all.
    pub is_gone: bool,
    /// Whether the folder of rules is there; it may come later.
    pub has_rules: bool,
}

/// Reads what is there; of the `.proto` files nothing where their schema is known.
pub(super) fn load(protos: &Path, rules: Option<&Path>, known: Option<Schema>) -> LoadedFolders {
    let mut faults = Vec::new();
    let schema = known.or_else(|| schema(protos, &mut faults));
    let rules = rules.filter(|rules| rules.exists());
    let found = rules.map_or_else(|| Ok(RuleFiles::new()), load_rules);
    let is_gone = schema.is_none() && !protos.exists() || found.is_err();
    let has_rules = rules.is_some();
    let rules = found.unwrap_or_else(|fault| {
        faults.push(fault);
        RuleFiles::new()
    });
    let schema = schema.unwrap_or_else(|| {
        Schema::from_descriptors(Vec::new()).expect("no descriptors are descriptors")
    });
    LoadedFolders { schema, rules, faults, is_gone, has_rules }
}

/// The schema of what compiles; `None` when nothing does.
fn schema(protos: &Path, faults: &mut Vec<Diagnostic>) -> Option<Schema> {
    let whole = match (protos.is_dir(), protos.extension().is_some_and(|end| end == "proto")) {
        (true, _) => Sources::new().folder(protos),
        (_, true) => Sources::new().file(protos),
        _ => Sources::new().descriptor_set(protos),
    };
    let told = match Schema::compile(&whole) {
        Ok(schema) => return Some(schema),
        Err(SchemaError::Sources(told)) => told,
        Err(other) => {
            faults.push(Diagnostic::new(protos.display().to_string(), other.to_string()));
            return None;
        }
    };
    faults.extend(told.iter().cloned());
    if !protos.is_dir() {
        return None;
    }
    let mut files = Vec::new();
    // What is wrong with the folder itself was told already.
    let _ =
        walk(protos, 0, &mut |path| path.extension().is_some_and(|end| end == "proto"), &mut files);
    let compile = |files: &[PathBuf]| {
        let sources = Sources::new().include(protos);
        Schema::compile(&files.iter().fold(sources, |sources, file| sources.file(file)))
    };
    // Each by itself: what does not compile alone is left out.
    files.retain(|file| match compile(std::slice::from_ref(file)) {
        Ok(_) => true,
        Err(error) => {
            if let SchemaError::Sources(told) = error {
                faults.extend(told.iter().cloned());
            }
            false
        }
    });
    // What does not go with those before it, such as a symbol that occurs twice.
    let mut together: Vec<PathBuf> = Vec::new();
    let mut schema = compile(&files).ok();
    if schema.is_none() {
        for file in files {
            together.push(file);
            match compile(&together) {
                Ok(compiled) => schema = Some(compiled),
                Err(_) => drop(together.pop()),
            }
        }
    }
    faults.sort();
    faults.dedup();
    schema
}

/// The rule files of a folder and of those below it.
///
/// # Errors
/// When the folder cannot be read; a file that cannot is a finding of the rules.
pub fn load_rules(folder: &Path) -> Result<RuleFiles, Diagnostic> {
    let mut paths = Vec::new();
    let gone = |why: std::io::Error| {
        Diagnostic::new(folder.display().to_string(), format!("the folder cannot be read: {why}"))
    };
    walk(folder, 0, &mut |path| RuleFiles::is_rule_file(path), &mut paths).map_err(gone)?;
    let mut files = RuleFiles::new();
    for path in paths {
        match read(&path) {
            Ok(text) => files.add(&path, text),
            Err(why) => files.add_unreadable(&path, why),
        }
    }
    Ok(files)
}

/// A rule file, and those that it includes.
pub fn load_rule_file(path: &Path) -> RuleFiles {
    let mut files = RuleFiles::new();
    match read(path) {
        Ok(text) => files.add(path, text),
        Err(why) => files.add_unreadable(path, why),
    }
    files.add_included(|included| included.exists().then(|| read(included)));
    files
}

/// The text of a file, or why there is none.
fn read(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path);
    if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
        // Reading it may never end.
        return Err("it is not a regular file, so it is not read".to_owned());
    }
    let size = metadata.map_or(0, |metadata| metadata.len());
    if size > RULE_FILE_BYTES_MAX {
        let max = RULE_FILE_BYTES_MAX >> 20;
        return Err(format!("the file is {} MiB, over {max} MiB", size >> 20));
    }
    std::fs::read_to_string(path).map_err(|why| format!("the file cannot be read: {why}"))
}

/// Stub files of another program.
#[derive(Debug, Default)]
pub struct LoadedStubs {
    /// What was read.
    pub files: Vec<StubFile>,
    /// What could not be.
    pub unreadable: Vec<Diagnostic>,
}

/// The stub files of a folder and of those below it, or one stub file. Of a folder of WireMock only
/// `mappings` is read.
///
/// # Errors
/// When there is nothing, or the folder cannot be read.
pub fn load_stubs(program: Program, path: &Path) -> Result<LoadedStubs, Diagnostic> {
    let shown = path.display().to_string();
    if !path.exists() {
        let fault = Diagnostic::new(shown, "does not exist");
        return Err(fault.help("name a stub file or a folder of stub files"));
    }
    let mappings = path.join("mappings");
    let folder = match program == Program::WireMock && mappings.is_dir() {
        true => mappings.as_path(),
        false => path,
    };
    let mut paths = Vec::new();
    if folder.is_dir() {
        let is_stub = |path: &Path| match program {
            Program::WireMock => {
                path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
            }
            Program::GripMock => RuleFiles::is_rule_file(path),
            Program::FauxRpc => {
                let is_jsonc =
                    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("jsonc"));
                is_jsonc || RuleFiles::is_rule_file(path)
            }
        };
        let gone = |why: std::io::Error| {
            Diagnostic::new(shown.clone(), format!("the folder cannot be read: {why}"))
        };
        walk(folder, 0, &mut |path| is_stub(path), &mut paths).map_err(gone)?;
        if paths.is_empty() {
            return Err(Diagnostic::new(shown, "there is no stub file in this folder"));
        }
    } else {
        paths.push(folder.to_owned());
    }
    let mut loaded = LoadedStubs::default();
    for path in paths {
        let name = path.display().to_string();
        match read(&path) {
            Ok(text) => loaded.files.push(StubFile { name, text }),
            Err(why) => loaded.unreadable.push(Diagnostic::new(name, why)),
        }
    }
    Ok(loaded)
}

/// Whether a path is a link to a folder or to one that holds it.
fn is_above(path: &Path, folder: &Path) -> bool {
    path.is_symlink()
        && path.canonicalize().is_ok_and(|target| {
            folder.canonicalize().is_ok_and(|folder| folder.starts_with(target))
        })
}

/// The files below a folder, in the order of their names; hidden ones are left out.
pub(super) fn walk(
    folder: &Path,
    depth: usize,
    is_wanted: &mut dyn FnMut(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to the folder itself, or to one above it, would be read over and over.
        if is_above(&path, folder) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with('.') || found.len() >= FILES_MAX {
            continue;
        }
        if path.is_dir() {
            if depth < DEPTH_MAX {
                // A folder that went away meanwhile has no files.
                let _ = walk(&path, depth + 1, is_wanted, found);
            }
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_regular_file_is_told_and_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.yaml"), "[]").expect("a file");
        let made = std::process::Command::new("mkfifo").arg(path("fifo.yaml")).status();
        assert!(made.expect("mkfifo").success());
        std::os::unix::fs::symlink("/dev/zero", path("zero.yaml")).expect("a link");
        std::os::unix::fs::symlink("/", path("root")).expect("a link");
        std::os::unix::fs::symlink(".", path("itself")).expect("a link");
        let files = load_rules(folder.path()).expect("the folder is there");
        let names: Vec<_> = files.paths().filter_map(Path::file_name).collect();
        assert_eq!(names, ["a.yaml", "fifo.yaml", "zero.yaml"]);
        let schema = Schema::from_descriptors(Vec::new()).expect("no descriptors");
        let told = files.check(&schema).iter().map(ToString::to_string).collect::<String>();
        assert_eq!(
            told.matches("it is not a regular file, so it is not read").count(),
            2,
            "{told}"
        );
    }
}

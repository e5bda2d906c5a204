//! The rule files of a mock on disk, as a request may name, read and change them.
//!
//! A name is that of a file which is listed, or parts of letters, digits, `_`, `-` and `.` with `/`
//! between them, none of which begins with a dot. Nothing that a symbolic link leads to is read or
//! written, so no name leads out of the folder. A file is written beside its place under a hidden
//! name and renamed, so whoever reads sees all of the old text or all of the new; two requests that
//! change files come one after the other.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use parking_lot::Mutex;
use tidewire_mock::{ReloadReport, RuleFiles, etag};
use tidewire_schema::Diagnostic;
use tidewire_service::{Error, Result};

/// Reads the folder of rules as a mock does.
pub type LoadRules = Arc<dyn Fn() -> Result<RuleFiles, Diagnostic> + Send + Sync>;
/// Lets the mock answer by what the folder says now.
pub type ReloadRules = Arc<dyn Fn() -> ReloadReport + Send + Sync>;

/// The folder with the rule files of a mock; see [`Inventory::set_rules`](crate::Inventory).
#[derive(Clone)]
pub struct RuleFolder {
    root: PathBuf,
    load: LoadRules,
    reload: ReloadRules,
    changing: Arc<Mutex<()>>,
}

/// A file and its text.
pub(crate) struct NamedText {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// How deep folders of rules may nest.
const DEPTH_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 1024;

impl RuleFolder {
    /// A folder, which may not be there yet.
    pub fn new(root: impl Into<PathBuf>, load: LoadRules, reload: ReloadRules) -> Self {
        Self { root: root.into(), load, reload, changing: Arc::default() }
    }

    /// The files as the mock reads them.
    pub(crate) fn files(&self) -> Result<RuleFiles> {
        if !self.root.exists() {
            return Ok(RuleFiles::new());
        }
        (self.load)().map_err(|fault| Error::failed_precondition(fault.to_string()))
    }

    /// What a file is called in requests; `None` where it cannot be.
    pub(crate) fn name_of(&self, path: &Path) -> Option<String> {
        let parts = path.strip_prefix(&self.root).ok()?.components();
        let parts: Option<Vec<_>> = parts.map(|part| part.as_os_str().to_str()).collect();
        Some(parts?.join("/"))
    }

    /// The path of a name.
    ///
    /// # Errors
    /// When it is not a name, or a symbolic link is on the way.
    pub(super) fn path_of(&self, name: &str) -> Result<PathBuf> {
        let is_listed = self.is_listed(name)?;
        path_in(&self.root, name, RuleFiles::is_rule_file, is_listed)
    }

    /// Whether a file of the folder is called so, whatever its letters.
    fn is_listed(&self, name: &str) -> Result<bool> {
        if is_name(name) {
            return Ok(false);
        }
        let is_inside = !name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        Ok(is_inside
            && self.files()?.paths().any(|path| self.name_of(path).as_deref() == Some(name)))
    }

    /// A file with its text.
    ///
    /// # Errors
    /// When there is no such file, or its name is not one.
    pub(crate) fn read(&self, name: &str) -> Result<NamedText> {
        let path = self.path_of(name)?;
        match self.text_at(name, &path)? {
            Some(text) => Ok(NamedText { name: name.to_owned(), path, text }),
            None => Err(Error::not_found(format!("there is no rule file {name:?}"))),
        }
    }

    fn text_at(&self, name: &str, path: &Path) -> Result<Option<String>> {
        let is_file = match fs::symlink_metadata(path) {
            Ok(found) => found.is_file(),
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(failed("read", name, &why)),
        };
        if !is_file {
            return Err(Error::invalid_argument(format!("{name:?} is not a regular file")));
        }
        fs::read_to_string(path).map(Some).map_err(|why| failed("read", name, &why))
    }

    /// Writes a file; an `etag` is that of the text which is there, and none is of a new file.
    ///
    /// # Errors
    /// When another text is there than the etag names, or it cannot be written.
    pub(super) fn write(&self, name: &str, text: &str, tag: &str) -> Result<NamedText> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        self.expect(name, &path, tag)?;
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|why| failed("created", name, &why))?;
        write_whole(&path, text, tag.is_empty()).map_err(|why| match why.kind() {
            ErrorKind::AlreadyExists => exists(name),
            _ => failed("written", name, &why),
        })?;
        (self.reload)();
        Ok(NamedText { name: name.to_owned(), path, text: text.to_owned() })
    }

    /// Writes a file whatever is there.
    ///
    /// # Errors
    /// When it cannot be written, or its name is not one.
    pub(crate) fn overwrite(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|why| failed("created", name, &why))?;
        write_whole(&path, text, false).map_err(|why| failed("written", name, &why))?;
        (self.reload)();
        Ok(path)
    }

    /// Deletes a file whose text an `etag` names.
    ///
    /// # Errors
    /// When there is none, or it has another text.
    pub(super) fn delete(&self, name: &str, tag: &str) -> Result<()> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        if tag.is_empty() {
            let why = "etag is empty; get the file, and send the etag of what is to be deleted";
            return Err(Error::invalid_argument(why));
        }
        self.expect(name, &path, tag)?;
        fs::remove_file(&path).map_err(|why| failed("deleted", name, &why))?;
        (self.reload)();
        Ok(())
    }

    /// Whether what is there is what an etag names.
    fn expect(&self, name: &str, path: &Path, tag: &str) -> Result<()> {
        let stale = |why: String| {
            Err(Error::aborted(why).with_http_status(StatusCode::PRECONDITION_FAILED))
        };
        match (self.text_at(name, path)?, tag) {
            (None, "") => Ok(()),
            (Some(_), "") => Err(exists(name)),
            (None, _) => stale(format!("{name:?} is not there any more")),
            (Some(text), tag) if etag(&text) == tag.trim_matches('"') => Ok(()),
            (Some(text), _) => stale(format!(
                "{name:?} has changed and has the etag {} now; get it, and change that text",
                etag(&text)
            )),
        }
    }
}

/// Whether a name is of plain parts.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(known)
    };
    name.split('/').all(is_part)
}

/// The path of a file that a request names, in a folder with files of a kind.
///
/// # Errors
/// When it is not a name, or a symbolic link is on the way.
pub(crate) fn safe_path(root: &Path, name: &str, is_kind: fn(&Path) -> bool) -> Result<PathBuf> {
    path_in(root, name, is_kind, false)
}

fn path_in(
    root: &Path,
    name: &str,
    is_kind: fn(&Path) -> bool,
    is_listed: bool,
) -> Result<PathBuf> {
    let has_form = name.len() <= NAME_BYTES_MAX && name.split('/').count() <= DEPTH_MAX;
    if !has_form || !(is_name(name) || is_listed) || !is_kind(Path::new(name)) {
        return Err(Error::invalid_argument(format!(
            "{name:?} is not a name of such a file; write letters, digits, _, - and ., with / \
             between folders, and the end that these files have"
        )));
    }
    let mut path = root.to_owned();
    for part in name.split('/') {
        path.push(part);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_symlink() {
            let why = "is a symbolic link, or behind one; change what it leads to";
            return Err(Error::invalid_argument(format!("{name:?} {why}")));
        }
    }
    Ok(path)
}

fn exists(name: &str) -> Error {
    Error::already_exists(format!(
        "{name:?} is there already; get it, and send its etag to put another text in its place"
    ))
}

fn failed(what: &str, name: &str, why: &std::io::Error) -> Error {
    Error::failed_precondition(format!("{name:?} cannot be {what}: {why}"))
}

/// Writes a file at once: beside its place under a name that nobody reads, and renamed.
///
/// # Errors
/// Those of the system; and, of one that `is_new`, that there is a file already.
pub fn write_whole(path: &Path, text: &str, is_new: bool) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let hidden = format!(".tidewire-{}-{number}.part", std::process::id());
    let hidden = path.with_file_name(hidden);
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&hidden)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        match is_new {
            // A link is refused where there is a file, whoever made it meanwhile.
            true => fs::hard_link(&hidden, path),
            false => fs::rename(&hidden, path),
        }
    })();
    if is_new || written.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    written
}

impl std::fmt::Debug for RuleFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleFolder").field("root", &self.root).finish_non_exhaustive()
    }
}

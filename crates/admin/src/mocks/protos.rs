//! The `.proto` files of a mock on disk, as a request may name, read and change them.
//!
//! Names are those of `folder.rs`. A file that the mock cannot use is written all the same: the one
//! before it goes on to be served until it is whole, and what is wrong with it is said.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use tidewire_mock::etag;
use tidewire_service::{Error, Result};

use super::folder::{safe_path, write_whole};

/// Lets the mock answer by what the folders say now; texts are what is wrong with them.
pub type ReloadProtos = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The folder with the `.proto` files of a mock; see [`Inventory::set_protos`](crate::Inventory).
#[derive(Clone)]
pub struct ProtoFolder {
    root: PathBuf,
    reload: ReloadProtos,
    changing: Arc<Mutex<()>>,
}

/// How deep folders are looked through.
const DEPTH_MAX: usize = 16;

impl ProtoFolder {
    /// A folder.
    pub fn new(root: impl Into<PathBuf>, reload: ReloadProtos) -> Self {
        Self { root: root.into(), reload, changing: Arc::default() }
    }

    /// The files beside each other in the folder, by name; as deep as it goes with `nested`.
    pub(crate) fn names(&self, nested: bool) -> Vec<String> {
        let mut names = Vec::new();
        let depth = if nested { DEPTH_MAX } else { 1 };
        collect(&self.root, "", depth, &mut names);
        names.sort();
        names
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        if !self.root.is_dir() {
            let why = "this mock is not made of a folder of .proto files";
            return Err(Error::failed_precondition(why));
        }
        safe_path(&self.root, name, is_proto)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// There is no such file, or the name cannot be one.
    pub(crate) fn read(&self, name: &str) -> Result<String> {
        std::fs::read_to_string(self.path_of(name)?)
            .map_err(|_| Error::not_found(format!("proto file not found: {name}")))
    }

    /// Writes a file whatever is there; returns where, and what is wrong with the files then.
    ///
    /// # Errors
    /// What cannot be written.
    pub(crate) fn overwrite(&self, name: &str, text: &str) -> Result<(PathBuf, Vec<String>)> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        self.write(name, &path, text)
    }

    /// Writes a file in place of the text with this etag; of a new file it is empty.
    ///
    /// # Errors
    /// Another text is there; what cannot be written.
    pub(crate) fn replace(&self, name: &str, text: &str, tag: &str) -> Result<Vec<String>> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        expect(name, &path, tag)?;
        self.write(name, &path, text).map(|(_, faults)| faults)
    }

    fn write(&self, name: &str, path: &Path, text: &str) -> Result<(PathBuf, Vec<String>)> {
        let failed = |why: std::io::Error| Error::internal(format!("{name}: {why}"));
        std::fs::create_dir_all(path.parent().unwrap_or(&self.root)).map_err(failed)?;
        write_whole(path, text, false).map_err(failed)?;
        tracing::warn!(file = name, "a .proto file was written by an admin listener");
        Ok((path.to_owned(), (self.reload)()))
    }

    /// Deletes a file with this etag.
    ///
    /// # Errors
    /// Another text is there, or none.
    pub(crate) fn delete(&self, name: &str, tag: &str) -> Result<Vec<String>> {
        let path = self.path_of(name)?;
        let _alone = self.changing.lock();
        if tag.is_empty() {
            return Err(Error::invalid_argument("send the etag of the text to delete"));
        }
        expect(name, &path, tag)?;
        std::fs::remove_file(&path).map_err(|why| Error::internal(format!("{name}: {why}")))?;
        tracing::warn!(file = name, "a .proto file was deleted by an admin listener");
        Ok((self.reload)())
    }
}

fn expect(name: &str, path: &Path, tag: &str) -> Result<()> {
    let there = std::fs::read_to_string(path).map(|text| etag(&text)).unwrap_or_default();
    if there == tag {
        return Ok(());
    }
    let text = format!("{name:?} has another text than the etag names; get it again");
    Err(Error::aborted(text).with_http_status(StatusCode::PRECONDITION_FAILED))
}

fn is_proto(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "proto")
}

fn collect(folder: &Path, before: &str, depth: usize, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (Ok(kind), Some(name)) =
            (entry.file_type(), entry.file_name().to_str().map(str::to_owned))
        else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let full = format!("{before}{name}");
        if kind.is_dir() && depth > 1 {
            collect(&entry.path(), &format!("{full}/"), depth - 1, names);
        } else if !kind.is_dir() && is_proto(Path::new(&name)) {
            names.push(full);
        }
    }
}

impl std::fmt::Debug for ProtoFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProtoFolder").field("root", &self.root).finish_non_exhaustive()
    }
}

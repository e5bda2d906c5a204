//! Naming what to compile, and how much that may be.

use std::path::PathBuf;

/// The most bytes one `.proto` file may have: 8 MiB.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// The most bytes one descriptor set may have: 256 MiB.
pub const DESCRIPTOR_SET_BYTES_MAX: u64 = 256 << 20;

/// The most files one compilation may have, imports included.
pub const FILES_MAX: usize = 20_000;

/// The most folders below one another that are searched for `.proto` files.
pub const FOLDER_DEPTH_MAX: usize = 64;

/// The most imports that may lead from one file to another.
pub const IMPORT_DEPTH_MAX: usize = 256;

/// What to compile.
///
/// Imports are looked up in the includes in order, then in the descriptor sets, then among the
/// built-in files.
///
/// ```
/// # mod tidewire { pub mod schema { pub use tidewire_proto::*; } }
/// # let folder = std::env::temp_dir().join("tidewire-sources-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), "syntax = \"proto3\"; message Item {}")?;
/// use tidewire::schema::Sources;
///
/// let descriptors = Sources::new().folder(&folder).compile()?;
/// assert_eq!(descriptors.files().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) sets: Vec<PathBuf>,
}

impl Sources {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder in which imports are looked up.
    #[must_use]
    pub fn include(mut self, folder: impl Into<PathBuf>) -> Self {
        self.includes.push(folder.into());
        self
    }

    /// Adds one `.proto` file: a path under an include, or a name relative to one. Without any
    /// include, the file's own folder is one.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Adds every `.proto` file below a folder, which is an include too. Hidden folders and
    /// links to folders are left out.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Adds a file that holds an encoded `FileDescriptorSet` with its imports, as made by
    /// `buf build -o x.binpb` or `protoc --include_imports --descriptor_set_out=x.binpb`. It may be
    /// JSON, as `buf build -o x.json` makes it, and compressed by gzip.
    #[must_use]
    pub fn descriptor_set(mut self, path: impl Into<PathBuf>) -> Self {
        self.sets.push(path.into());
        self
    }
}

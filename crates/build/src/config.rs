//! What to generate from what, and doing it.
//!
//! ```text
//!  sources ─▶ descriptors ─▶ selected files ─▶ messages (buffa) + services (ours)
//!                 └─▶ tidewire.binpb               └─▶ runtime path ─▶ tidewire/<package>.rs ─▶ tidewire.rs
//! ```

use std::env;
use std::path::{Path, PathBuf};

use tidewire_proto::{Descriptors, Sources};

use crate::{Error, bindings, messages, modules, refuse, runtime, select, service};

/// What to generate from what.
#[derive(Debug, Clone)]
pub struct Config {
    sources: Sources,
    watched: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
    name: String,
    runtime_path: String,
    extern_paths: Vec<(String, String)>,
    shared_bytes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sources: Sources::new(),
            watched: Vec::new(),
            out_dir: None,
            name: "tidewire".to_owned(),
            runtime_path: "::tidewire::generated".to_owned(),
            extern_paths: Vec::new(),
            shared_bytes: false,
        }
    }
}

impl Config {
    /// Nothing to compile yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one `.proto` file: a path under an include, or a name relative to one.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources = self.sources.file(path);
        self
    }

    /// Adds a folder that imports are relative to.
    #[must_use]
    pub fn include(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.watched.push(folder.clone());
        self.sources = self.sources.include(folder);
        self
    }

    /// Adds every `.proto` file below a folder, which is an include too.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.watched.push(folder.clone());
        self.sources = self.sources.folder(folder);
        self
    }

    /// Adds a file that holds an encoded `FileDescriptorSet` with its imports: the way in for
    /// files of an edition.
    #[must_use]
    pub fn descriptor_set(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources = self.sources.descriptor_set(path);
        self
    }

    /// Sets the folder that is written to; `OUT_DIR` unless set.
    #[must_use]
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Sets the stem of what is written: `tidewire` gives `tidewire.rs`, `tidewire.binpb` and the
    /// folder `tidewire`. A second compilation in one crate needs its own name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the path below which generated code finds all it names; `::tidewire::generated` unless
    /// set. It begins with `::` or `crate::`.
    #[must_use]
    pub fn runtime_path(mut self, path: impl Into<String>) -> Self {
        self.runtime_path = path.into();
        self
    }

    /// Takes the types of a package, or one type, from another crate instead of generating them:
    /// `extern_path("shop.common", "::shop_protos::shop::common")`.
    #[must_use]
    pub fn extern_path(mut self, proto: impl Into<String>, rust: impl Into<String>) -> Self {
        let proto = proto.into();
        let proto = format!(".{}", proto.trim_start_matches('.'));
        self.extern_paths.push((proto, rust.into()));
        self
    }

    /// Makes every field of type `bytes` a `bytes::Bytes` in place of a `Vec<u8>`: clones of a
    /// message share it, so that a server that sends the same bytes often does not copy them. The
    /// code of a `required` field of proto2 with a default does not compile then.
    #[must_use]
    pub fn shared_bytes(mut self) -> Self {
        self.shared_bytes = true;
        self
    }

    /// Compiles, generates and writes.
    ///
    /// # Errors
    ///
    /// As [`compile`](crate::compile).
    pub fn compile(&self) -> Result<(), Error> {
        let descriptors = self.sources.compile()?;
        let in_out_dir = self.out_dir.is_none();
        let out_dir = match &self.out_dir {
            Some(folder) => folder.clone(),
            None => env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| {
                Error::generate("OUT_DIR is not set: call this from build.rs, or set out_dir")
            })?,
        };
        self.watch(&descriptors);
        let generated = self.generate(&descriptors)?;
        modules::write(&out_dir, &self.name, in_out_dir, &generated)
    }

    /// All the code, without writing any.
    fn generate(&self, descriptors: &Descriptors) -> Result<modules::GeneratedFiles, Error> {
        let runtime = runtime::Runtime::parse(&self.runtime_path)?;
        let corpus = messages::Corpus::decode(descriptors)?;
        let wanted = select::files(descriptors, &corpus, &self.extern_paths);
        refuse::names(descriptors, &corpus, &wanted)?;
        bindings::check(descriptors, &corpus, &wanted)?;
        let config = messages::config(&self.extern_paths, self.shared_bytes);
        let mut packages = messages::generate(&corpus, &wanted, &config)?;
        service::append(&corpus, &wanted, &config, &mut packages)?;
        for package in &mut packages {
            package.code = runtime.put_into(&package.code, package.name.is_empty())?;
        }
        Ok(modules::GeneratedFiles {
            packages,
            descriptor_set: descriptors.with_places_of_methods(),
            runtime_path: self.runtime_path.clone(),
        })
    }

    /// Tells cargo what the code was made of. A folder that holds the crate itself is left out:
    /// it would be new after every build.
    #[expect(clippy::print_stdout, reason = "this is how build.rs talks to cargo")]
    fn watch(&self, descriptors: &Descriptors) {
        let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let here = here.canonicalize().unwrap_or(here);
        let holds_us =
            |folder: &Path| folder.canonicalize().is_ok_and(|folder| here.starts_with(folder));
        let files = descriptors.files().iter().filter_map(|file| file.path.as_deref());
        let folders = self.watched.iter().map(PathBuf::as_path).filter(|folder| !holds_us(folder));
        let mut watched: Vec<&Path> = files.chain(folders).collect();
        watched.sort();
        watched.dedup();
        for path in watched {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

//! Messages and enums: driving `buffa`'s generator.
//!
//! Views are off (half the code, and our services hand over owned messages), JSON is on, one file a
//! package.

use buffa::DecodeOptions;
use buffa_codegen::generated::descriptor::{FileDescriptorProto, FileDescriptorSet};
use buffa_codegen::{
    BytesRepr, CodeGenConfig, GeneratedFile, MapRepr, TOOLING_ELEMENT_MEMORY_LIMIT,
};
use tidewire_proto::Descriptors;

use crate::{Error, comments};

/// Every file of a compilation, as the generator's descriptors.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) files: Vec<FileDescriptorProto>,
}

/// The code of one package.
#[derive(Debug)]
pub(crate) struct Package {
    /// The package's name; empty for files without one.
    pub(crate) name: String,
    /// Its Rust code.
    pub(crate) code: String,
}

impl Corpus {
    pub(crate) fn decode(descriptors: &Descriptors) -> Result<Self, Error> {
        let options = DecodeOptions::new().with_element_memory_limit(TOOLING_ELEMENT_MEMORY_LIMIT);
        let set = options
            .decode_from_slice::<FileDescriptorSet>(&descriptors.bytes())
            .map_err(|error| Error::generate(format!("the descriptors do not decode: {error}")))?;
        Ok(Self { files: set.file })
    }

    /// The file `name`.
    pub(crate) fn file(&self, name: &str) -> Option<&FileDescriptorProto> {
        self.files.iter().find(|file| file.name.as_deref() == Some(name))
    }
}

/// How the generator is set.
pub(crate) fn config(extern_paths: &[(String, String)], shared_bytes: bool) -> CodeGenConfig {
    let mut config = CodeGenConfig::default();
    config.generate_views = false;
    config.generate_json = true;
    config.file_per_package = true;
    // Ordered, so that the same content is the same bytes.
    config.map_fields = vec![(".".to_owned(), MapRepr::BTreeMap)];
    config.extern_paths = extern_paths.to_vec();
    if shared_bytes {
        config.bytes_fields = vec![(".".to_owned(), BytesRepr::Bytes)];
    }
    config
}

/// Generates the messages of the files `wanted`.
pub(crate) fn generate(
    corpus: &Corpus,
    wanted: &[String],
    config: &CodeGenConfig,
) -> Result<Vec<Package>, Error> {
    let files = buffa_codegen::generate(&corpus.files, wanted, config)
        .map_err(|error| Error::generate(error.to_string()))?;
    let package = |file: GeneratedFile| Package {
        name: file.package,
        code: comments::without_doctests(&file.content),
    };
    Ok(files.into_iter().map(package).collect())
}

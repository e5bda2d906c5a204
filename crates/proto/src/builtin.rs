//! Files that can be imported without being on disk.
//!
//! The well-known types come with the parser's library; these are the others. A file of the same
//! name in an include folder or a descriptor set is taken instead.

use protox::file::{FileResolver, GoogleFileResolver};

/// The built-in files, each with its name and its text: for tools that want imports on disk.
pub fn builtin_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXTS.into_iter()
}

/// The text of the built-in file `name`.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The well-known file `name` (`google/protobuf/…`), already parsed.
pub(crate) fn well_known(name: &str) -> Option<protox::file::File> {
    name.starts_with("google/protobuf/")
        .then(|| GoogleFileResolver::new().open_file(name).ok())
        .flatten()
}

/// The names of all built-in files.
pub(crate) fn names<'a>() -> impl Iterator<Item = &'a str> + Clone {
    TEXTS.iter().map(|(name, _)| *name).chain(WELL_KNOWN)
}

/// Whether `name` is where a published file is expected, whoever provides it.
pub(crate) fn is_published(name: &str) -> bool {
    ["google/", "tidewire/v1/", "buf/validate/", "validate/"]
        .iter()
        .any(|folder| name.starts_with(folder))
}

const TEXTS: [(&str, &str); 7] = [
    ("buf/validate/validate.proto", include_str!("../proto/buf/validate/validate.proto")),
    ("google/api/annotations.proto", include_str!("../proto/google/api/annotations.proto")),
    ("google/api/field_behavior.proto", include_str!("../proto/google/api/field_behavior.proto")),
    ("google/api/http.proto", include_str!("../proto/google/api/http.proto")),
    ("google/api/httpbody.proto", include_str!("../proto/google/api/httpbody.proto")),
    ("tidewire/v1/options.proto", include_str!("../proto/tidewire/v1/options.proto")),
    ("validate/validate.proto", include_str!("../proto/validate/validate.proto")),
];

const WELL_KNOWN: [&str; 11] = [
    "google/protobuf/any.proto",
    "google/protobuf/api.proto",
    "google/protobuf/descriptor.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/empty.proto",
    "google/protobuf/field_mask.proto",
    "google/protobuf/source_context.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/type.proto",
    "google/protobuf/wrappers.proto",
];

//! Which files need Rust code.
//!
//! Those that were asked for, and those that a field or a method of a selected file names a type
//! of. A file imported only for its options (`google/api/annotations.proto`,
//! `tidewire/v1/options.proto`) needs none; the well-known types are in `buffa-types`; packages
//! with an extern path are in another crate.

use std::collections::{BTreeMap, BTreeSet};

use buffa_codegen::generated::descriptor::{DescriptorProto, FileDescriptorProto};
use tidewire_proto::Descriptors;

use crate::messages::Corpus;

/// The names of the files that need Rust code, in order.
pub(crate) fn files(
    descriptors: &Descriptors,
    corpus: &Corpus,
    extern_paths: &[(String, String)],
) -> Vec<String> {
    let mut declared = BTreeMap::new();
    for file in &corpus.files {
        let scope = scope(file);
        for message in &file.message_type {
            declare(message, &scope, file.name.as_deref().unwrap_or_default(), &mut declared);
        }
        let enums = file.enum_type.iter().filter_map(|item| item.name.as_deref());
        let name = file.name.as_deref().unwrap_or_default();
        declared.extend(enums.map(|item| (format!("{scope}.{item}"), name)));
    }
    let requested = descriptors.files().iter().filter(|file| file.requested);
    let mut open: Vec<&str> = requested.map(|file| file.name.as_str()).collect();
    let mut wanted = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(file) = corpus.file(name) else { continue };
        if is_elsewhere(file, extern_paths) || !wanted.insert(name.to_owned()) {
            continue;
        }
        let named = types_named(file);
        open.extend(named.iter().filter_map(|name| declared.get(*name).copied()));
    }
    wanted.into_iter().collect()
}

/// Whether the types of `file` are in another crate.
fn is_elsewhere(file: &FileDescriptorProto, extern_paths: &[(String, String)]) -> bool {
    let scope = scope(file);
    let covers = |proto: &str| {
        scope.strip_prefix(proto).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    covers(".google.protobuf") || extern_paths.iter().any(|(proto, _)| covers(proto))
}

/// `.package`, or nothing for a file without one.
fn scope(file: &FileDescriptorProto) -> String {
    file.package.as_deref().map(|package| format!(".{package}")).unwrap_or_default()
}

fn declare<'a>(
    message: &DescriptorProto,
    scope: &str,
    file: &'a str,
    declared: &mut BTreeMap<String, &'a str>,
) {
    let name = format!("{scope}.{}", message.name.as_deref().unwrap_or_default());
    for nested in &message.nested_type {
        declare(nested, &name, file, declared);
    }
    let enums = message.enum_type.iter().filter_map(|item| item.name.as_deref());
    declared.extend(enums.map(|item| (format!("{name}.{item}"), file)));
    declared.insert(name, file);
}

/// The full names of the types that fields and methods of `file` name.
fn types_named(file: &FileDescriptorProto) -> Vec<&str> {
    fn of_message<'a>(message: &'a DescriptorProto, named: &mut Vec<&'a str>) {
        let fields = message.field.iter().chain(&message.extension);
        named.extend(fields.filter_map(|field| field.type_name.as_deref()));
        for nested in &message.nested_type {
            of_message(nested, named);
        }
    }
    let mut named = Vec::new();
    for message in &file.message_type {
        of_message(message, &mut named);
    }
    named.extend(file.extension.iter().filter_map(|field| field.type_name.as_deref()));
    for method in file.service.iter().flat_map(|service| &service.method) {
        named.extend(method.input_type.as_deref());
        named.extend(method.output_type.as_deref());
    }
    named
}

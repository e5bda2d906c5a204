//! What protoc refuses and the linker does not: checked over linked files, with places.
//!
//! A rule is a function that is given one declaration. Rules of proto3, of ranges, of enums, of
//! fields, of extensions, of services and of options each have a file. `tests/cases/protoc.txt` has
//! protoc's own verdict on each of them. Files of descriptor sets passed a compiler already and are
//! not checked.

mod enums;
mod extensions;
mod features;
mod fields;
mod findings;
mod json;
mod options;
mod path;
mod ranges;
mod services;

use std::collections::BTreeMap;

use prost_reflect::prost_types::DescriptorProto;
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};

use crate::diagnostics::Diagnostic;
use crate::unit::Unit;
use extensions::Numbers;
use findings::Rules;

/// Refuses what is illegal in `units`, all of which are linked in `pool`.
pub(crate) fn check(units: &[Unit], pool: &DescriptorPool) -> Vec<Diagnostic> {
    let syntaxes: BTreeMap<&str, &str> =
        units.iter().map(|unit| (unit.name.as_str(), unit.descriptor.syntax())).collect();
    let numbers = Numbers::of(pool);
    let mut found = Vec::new();
    for unit in units.iter().filter(|unit| unit.text.is_some() && unit.path.is_some()) {
        let Some(file) = pool.get_file_by_name(&unit.name) else { continue };
        let mut rules = Rules::new(unit, &file, &syntaxes);
        rules.file(&file, &numbers);
        found.append(&mut rules.found);
    }
    found
}

impl Rules<'_> {
    fn file(&mut self, file: &FileDescriptor, numbers: &Numbers) {
        options::check(self, file);
        features::of_file(self, file);
        extensions::imports(self, file);
        for extension in file.extensions() {
            extensions::check(self, &extension, numbers);
        }
        for of_enum in file.enums() {
            enums::check(self, &of_enum);
        }
        for (index, written) in self.unit.descriptor.service.iter().enumerate() {
            services::check(self, index, written);
        }
        for (message, written) in file.messages().zip(&self.unit.descriptor.message_type) {
            self.message(&message, written, numbers);
        }
    }

    fn message(
        &mut self,
        message: &MessageDescriptor,
        written: &DescriptorProto,
        numbers: &Numbers,
    ) {
        fields::check(self, message, written);
        json::check(self, message, written);
        ranges::of_message(self, message);
        extensions::ranges(self, message);
        for extension in message.child_extensions() {
            extensions::check(self, &extension, numbers);
        }
        for of_enum in message.child_enums() {
            enums::check(self, &of_enum);
        }
        for (inner, written) in message.child_messages().zip(&written.nested_type) {
            self.message(&inner, written, numbers);
        }
    }
}

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
mod json;
mod options;
mod ranges;
mod services;

use std::collections::{BTreeMap, HashMap};

use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorPool, FileDescriptor, MessageDescriptor};

use crate::diagnostics::Diagnostic;
use crate::load::Unit;
use extensions::Numbers;

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

/// The rules, on the way through one file.
struct Rules<'a> {
    unit: &'a Unit,
    /// The syntax of each file as it was written.
    syntaxes: &'a BTreeMap<&'a str, &'a str>,
    /// Line and column by path, both from 0.
    places: HashMap<&'a [i32], (i32, i32)>,
    found: Vec<Diagnostic>,
}

impl<'a> Rules<'a> {
    fn new(
        unit: &'a Unit,
        file: &'a FileDescriptor,
        syntaxes: &'a BTreeMap<&'a str, &'a str>,
    ) -> Self {
        let linked: &FileDescriptorProto = file.file_descriptor_proto();
        let locations = linked.source_code_info.iter().flat_map(|info| &info.location);
        let places = locations.filter_map(|location| match location.span[..] {
            [line, column, ..] => Some((location.path.as_slice(), (line, column))),
            _ => None,
        });
        Self { unit, syntaxes, places: places.collect(), found: Vec::new() }
    }

    /// Says that what is at `path` is wrong; `part` is where in it, as far as that has a place.
    fn refuse(&mut self, path: &[i32], part: &[i32], message: impl Into<String>, help: &str) {
        let whole = [path, part].concat();
        let place = (0..=whole.len()).rev().find_map(|length| self.places.get(&whole[..length]));
        let diagnostic = Diagnostic::new(self.unit.display.clone(), message).help(help);
        self.found.push(match place {
            Some((line, column)) => {
                diagnostic.at(line.unsigned_abs() + 1, column.unsigned_abs() + 1)
            }
            None => diagnostic,
        });
    }

    /// Whether an enum is of a file of proto2, whose enums take only the values that they declare.
    fn is_of_proto2(&self, of_enum: &prost_reflect::EnumDescriptor) -> bool {
        let syntax = self.syntaxes.get(of_enum.parent_file().name()).copied().unwrap_or_default();
        !["proto3", "editions"].contains(&syntax)
    }

    fn is_proto3(&self) -> bool {
        self.unit.descriptor.syntax() == "proto3"
    }

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

/// Paths within declarations, as `descriptor.proto` numbers them.
mod path {
    pub(super) const NAME: &[i32] = &[1];
    pub(super) const FILE_SERVICE: i32 = 6;
    pub(super) const SERVICE_METHOD: i32 = 2;
    pub(super) const METHOD_INPUT: &[i32] = &[2];
    pub(super) const METHOD_OUTPUT: &[i32] = &[3];
    pub(super) const MESSAGE_FIELD: i32 = 2;
    pub(super) const MESSAGE_EXTENSION_RANGE: i32 = 5;
    pub(super) const MESSAGE_OPTIONS: i32 = 7;
    pub(super) const MESSAGE_RESERVED_RANGE: i32 = 9;
    pub(super) const MESSAGE_RESERVED_NAME: i32 = 10;
    pub(super) const ENUM_VALUE: i32 = 2;
    pub(super) const ENUM_RESERVED_RANGE: i32 = 4;
    pub(super) const ENUM_RESERVED_NAME: i32 = 5;
    pub(super) const FIELD_EXTENDEE: &[i32] = &[2];
    pub(super) const FIELD_NUMBER: &[i32] = &[3];
    pub(super) const FIELD_TYPE_NAME: &[i32] = &[6];
    pub(super) const FIELD_JSON_NAME: &[i32] = &[10];
}

/// An index as a step of a path.
fn step(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

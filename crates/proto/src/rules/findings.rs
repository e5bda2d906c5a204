//! What the rules find in one file, with the places of declarations.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::FileDescriptor;
use prost_reflect::prost_types::FileDescriptorProto;

use crate::diagnostics::Diagnostic;
use crate::unit::Unit;

/// The rules, on the way through one file.
pub(super) struct Rules<'a> {
    pub(super) unit: &'a Unit,
    /// The syntax of each file as it was written.
    pub(super) syntaxes: &'a BTreeMap<&'a str, &'a str>,
    /// Line and column by path, both from 0.
    places: HashMap<&'a [i32], (i32, i32)>,
    pub(super) found: Vec<Diagnostic>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(
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
    pub(super) fn refuse(
        &mut self,
        path: &[i32],
        part: &[i32],
        message: impl Into<String>,
        help: &str,
    ) {
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
    pub(super) fn is_of_proto2(&self, of_enum: &prost_reflect::EnumDescriptor) -> bool {
        let syntax = self.syntaxes.get(of_enum.parent_file().name()).copied().unwrap_or_default();
        !["proto3", "editions"].contains(&syntax)
    }

    pub(super) fn is_proto3(&self) -> bool {
        self.unit.descriptor.syntax() == "proto3"
    }
}

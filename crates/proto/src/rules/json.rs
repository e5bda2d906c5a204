//! Names of fields in JSON.
//!
//! Two fields of proto3, and of editions unless `features.json_format` is `LEGACY_BEST_EFFORT`, may
//! not have the same JSON name. In proto2, and in a message with
//! `deprecated_legacy_json_field_conflicts`, only two that were given by hand may not.

use std::collections::BTreeMap;

use prost_reflect::MessageDescriptor;
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto};

use super::features;
use super::findings::Rules;
use super::path::{self, step};
use crate::link::linker_workarounds::{default_json_name, json_name};

/// Refuses JSON names that no field may have, and those that two fields have.
pub(super) fn check(rules: &mut Rules<'_>, message: &MessageDescriptor, written: &DescriptorProto) {
    for (index, field) in written.field.iter().enumerate() {
        shape(rules, &[message.path(), &[path::MESSAGE_FIELD, step(index)]].concat(), field);
    }
    let options = message.options();
    let is_legacy = options
        .get_field_by_name("deprecated_legacy_json_field_conflicts")
        .and_then(|value| value.as_bool())
        .unwrap_or_default();
    if !meeting(rules, message, written, is_legacy, &default_json_name) {
        meeting(rules, message, written, is_legacy, &json_name);
    }
}

fn shape(rules: &mut Rules<'_>, field_path: &[i32], field: &FieldDescriptorProto) {
    let Some(name) = &field.json_name else { return };
    let message = if name.contains('\0') {
        "a JSON name may not have a NUL in it"
    } else if name.starts_with('[') && name.ends_with(']') {
        "a JSON name may not be in brackets"
    } else {
        return;
    };
    rules.refuse(field_path, path::FIELD_JSON_NAME, message, "give it another name");
}

/// Whether two fields have the same `name_of` and may not.
fn meeting(
    rules: &mut Rules<'_>,
    message: &MessageDescriptor,
    written: &DescriptorProto,
    is_legacy: bool,
    name_of: &dyn Fn(&FieldDescriptorProto) -> String,
) -> bool {
    let is_strict = match rules.unit.descriptor.syntax() {
        crate::text::edition::SYNTAX => features::is_strict_json(message),
        _ => rules.is_proto3(),
    };
    let mut met = BTreeMap::new();
    let mut found = false;
    for (index, field) in written.field.iter().enumerate() {
        let name = name_of(field);
        let by_hand = |field: &FieldDescriptorProto| field.json_name.as_ref() == Some(&name);
        let other = *met.entry(name.clone()).or_insert(field);
        let both_by_hand = by_hand(field) && by_hand(other);
        if other.name() != field.name() && (both_by_hand || is_strict && !is_legacy) {
            let what =
                format!("'{}' and '{}' are both '{name}' in JSON", other.name(), field.name());
            let place = [&[path::MESSAGE_FIELD, step(index)], path::NAME].concat();
            rules.refuse(message.path(), &place, what, "rename one, or give it a `json_name`");
            found = true;
        }
    }
    found
}

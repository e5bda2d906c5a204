//! Types of fields, and options that only fields of some types may have.

use prost_reflect::prost_types::DescriptorProto;
use prost_reflect::prost_types::field_options::JsType;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::findings::Rules;
use super::{features, path};

/// Refuses what is wrong with a message's fields.
pub(super) fn check(rules: &mut Rules<'_>, message: &MessageDescriptor, written: &DescriptorProto) {
    explicit_map_entry(rules, message, written);
    for field in message.fields() {
        let packable = field.is_list() && is_packable(&field.kind());
        options(rules, field.path(), field.field_descriptor_proto(), &field.kind(), packable);
        if field.is_map() {
            map(rules, &field);
        }
        if let Some(number) = rules.unit.numbers.get(&field.number()).copied() {
            let what = format!("number {number} is over the greatest of a field, 536870911");
            rules.refuse(field.path(), path::FIELD_NUMBER, what, "use a smaller number");
        }
        entry_as_type(rules, &field);
        features::of_field(rules, &field);
        closed_enum(rules, &field);
    }
}

/// `option map_entry`, which only the compiler sets.
fn explicit_map_entry(
    rules: &mut Rules<'_>,
    message: &MessageDescriptor,
    written: &DescriptorProto,
) {
    let options = written.options.iter().flat_map(|options| &options.uninterpreted_option);
    if options.into_iter().any(|option| matches!(&option.name[..], [part] if part.name_part == "map_entry" && !part.is_extension)) {
        let what = "`map_entry` is set by the compiler only";
        let place = [path::MESSAGE_OPTIONS, MAP_ENTRY];
        rules.refuse(message.path(), &place, what, "write the field as `map<key, value>`");
    }
}

/// `packed`, `lazy` and `jstype` where they mean nothing.
pub(super) fn options(
    rules: &mut Rules<'_>,
    field_path: &[i32],
    field: &prost_reflect::prost_types::FieldDescriptorProto,
    kind: &Kind,
    is_packable: bool,
) {
    let Some(options) = &field.options else { return };
    if options.packed() && !is_packable {
        let what = "`packed` is for repeated numbers, booleans and enums only";
        rules.refuse(field_path, &[FIELD_OPTIONS, PACKED], what, "remove it");
    }
    if options.lazy() && !matches!(kind, Kind::Message(_)) {
        let what = "`lazy` is for messages only";
        rules.refuse(field_path, &[FIELD_OPTIONS, LAZY], what, "remove it");
    }
    let is_wide =
        matches!(kind, Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64);
    if options.jstype() != JsType::JsNormal && !is_wide {
        let what = "`jstype` is for integers of 64 bits only";
        rules.refuse(field_path, &[FIELD_OPTIONS, JSTYPE], what, "remove it");
    }
}

/// Whether repeated values of this kind can be packed.
pub(super) fn is_packable(kind: &Kind) -> bool {
    !matches!(kind, Kind::String | Kind::Bytes | Kind::Message(_))
}

/// A map whose values are an enum without 0.
fn map(rules: &mut Rules<'_>, field: &FieldDescriptor) {
    let Kind::Message(entry) = field.kind() else { return };
    let Kind::Enum(of_enum) = entry.map_entry_value_field().kind() else { return };
    if of_enum.values().next().is_some_and(|value| value.number() != 0) {
        let what =
            format!("the first value of '{}', an enum in a map, is not 0", of_enum.full_name());
        rules.refuse(field.path(), path::FIELD_TYPE_NAME, what, "begin the enum with a value of 0");
    }
    refuse_closed(rules, field, &of_enum);
}

/// A field whose type is the entry of some map.
fn entry_as_type(rules: &mut Rules<'_>, field: &FieldDescriptor) {
    let Kind::Message(entry) = field.kind() else { return };
    if !entry.is_map_entry() {
        return;
    }
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let of = entry.name().strip_suffix("Entry").map(plain);
    let is_own = field.cardinality() == Cardinality::Repeated
        && of == Some(plain(field.name()))
        && entry.parent_message().as_ref() == Some(field.parent_message());
    if !is_own {
        let what = format!("'{}' is the entry of a map, and no type", entry.full_name());
        rules.refuse(field.path(), path::FIELD_TYPE_NAME, what, "declare a message of your own");
    }
}

/// An enum of proto2 as the type of a field of proto3.
fn closed_enum(rules: &mut Rules<'_>, field: &FieldDescriptor) {
    if let Kind::Enum(of_enum) = field.kind() {
        refuse_closed(rules, field, &of_enum);
    }
}

fn refuse_closed(rules: &mut Rules<'_>, field: &FieldDescriptor, of_enum: &EnumDescriptor) {
    if rules.is_proto3() && features::is_closed_anywhere(rules, of_enum) {
        let what = format!("'{}' is a closed enum, and this is proto3", of_enum.full_name());
        let help = "declare the enum in a file of proto3, or make this file proto2";
        rules.refuse(field.path(), path::FIELD_TYPE_NAME, what, help);
    }
}

/// `FieldDescriptorProto.options` and options in it.
const FIELD_OPTIONS: i32 = 8;
const PACKED: i32 = 2;
const LAZY: i32 = 5;
const JSTYPE: i32 = 6;
/// `MessageOptions.map_entry`.
const MAP_ENTRY: i32 = 7;

//! Values of options: required fields that are missing, options and features on what they are not
//! for.

use prost_reflect::{
    Cardinality, DynamicMessage, EnumDescriptor, FieldDescriptor, FileDescriptor,
    MessageDescriptor, ReflectMessage, Value,
};

use super::findings::Rules;
use super::path::step;

/// What an option can be on, as `FieldOptions.OptionTargetType` numbers it.
#[derive(Debug, Clone, Copy)]
enum Target {
    File = 1,
    Message = 3,
    Field = 4,
    Oneof = 5,
    Enum = 6,
    EnumEntry = 7,
    Service = 8,
    Method = 9,
}

/// Refuses what is wrong with the options of a file and of all in it.
pub(super) fn check(rules: &mut Rules<'_>, file: &FileDescriptor) {
    if file.file_descriptor_proto().options.is_some() {
        of(rules, &[OF_FILE], &file.options(), Target::File);
    }
    for service in file.services() {
        if service.service_descriptor_proto().options.is_some() {
            of(rules, &inside(service.path(), 3), &service.options(), Target::Service);
        }
        for method in service.methods() {
            if method.method_descriptor_proto().options.is_some() {
                of(rules, &inside(method.path(), 4), &method.options(), Target::Method);
            }
        }
    }
    for extension in file.extensions() {
        if extension.field_descriptor_proto().options.is_some() {
            of(rules, &inside(extension.path(), 8), &extension.options(), Target::Field);
        }
    }
    file.enums().for_each(|of_enum| in_enum(rules, &of_enum));
    file.messages().for_each(|message| in_message(rules, &message));
}

fn in_message(rules: &mut Rules<'_>, message: &MessageDescriptor) {
    // The entry of a map has options that nobody wrote.
    if message.is_map_entry() {
        return;
    }
    if message.descriptor_proto().options.is_some() {
        of(rules, &inside(message.path(), 7), &message.options(), Target::Message);
    }
    for field in message.fields() {
        if field.field_descriptor_proto().options.is_some() {
            of(rules, &inside(field.path(), 8), &field.options(), Target::Field);
        }
    }
    for oneof in message.oneofs() {
        if oneof.oneof_descriptor_proto().options.is_some() {
            of(rules, &inside(oneof.path(), 2), &oneof.options(), Target::Oneof);
        }
    }
    for extension in message.child_extensions() {
        if extension.field_descriptor_proto().options.is_some() {
            of(rules, &inside(extension.path(), 8), &extension.options(), Target::Field);
        }
    }
    message.child_enums().for_each(|of_enum| in_enum(rules, &of_enum));
    message.child_messages().for_each(|inner| in_message(rules, &inner));
}

fn in_enum(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    if of_enum.enum_descriptor_proto().options.is_some() {
        of(rules, &inside(of_enum.path(), 3), &of_enum.options(), Target::Enum);
    }
    for value in of_enum.values() {
        if value.enum_value_descriptor_proto().options.is_some() {
            of(rules, &inside(value.path(), 3), &value.options(), Target::EnumEntry);
        }
    }
}

/// The rules on one message of options, which is at `path`.
fn of(rules: &mut Rules<'_>, path: &[i32], options: &DynamicMessage, target: Target) {
    for (field, value) in options.fields() {
        let place = [number(field.number())];
        let is_edition = rules.unit.descriptor.syntax() == crate::text::edition::SYNTAX;
        if field.name() == "features" && is_edition {
            features(rules, path, &place, value, target);
        } else if field.name() == "features" {
            let help = "say `edition = \"2023\";` instead of a syntax, or remove them";
            rules.refuse(path, &place, "features are for editions only", help);
        }
        if !is_for(&field.options(), target) {
            not_for(rules, path, &place, field.name(), target);
        }
        missing(rules, path, &place, field.name(), value);
    }
    for (extension, value) in options.extensions() {
        let place = [number(extension.number())];
        let name = format!("({})", extension.full_name());
        if !is_for(&extension.options(), target) {
            not_for(rules, path, &place, &name, target);
        }
        missing(rules, path, &place, &name, value);
    }
}

/// Features that are not for what they are on, and values that mean nothing.
fn features(rules: &mut Rules<'_>, path: &[i32], place: &[i32], value: &Value, target: Target) {
    let Value::Message(features) = value else { return };
    for (feature, value) in features.fields() {
        let name = format!("features.{}", feature.name());
        let is_for = match feature.name() {
            "enum_type" => matches!(target, Target::File | Target::Enum),
            "json_format" => matches!(target, Target::File | Target::Enum | Target::Message),
            _ => matches!(target, Target::File | Target::Field),
        };
        if !is_for {
            not_for(rules, path, place, &name, target);
        }
        if value.as_enum_number() == Some(0) {
            let what = format!("`{name}` cannot be unknown");
            rules.refuse(path, place, what, "choose one of its other values");
        }
    }
}

/// Whether the option with these its own options may be on `target`.
fn is_for(options: &DynamicMessage, target: Target) -> bool {
    let targets = options.get_field_by_name("targets");
    let targets = targets.as_ref().and_then(|value| value.as_list()).unwrap_or_default();
    targets.is_empty() || targets.contains(&Value::EnumNumber(target as i32))
}

fn not_for(rules: &mut Rules<'_>, path: &[i32], place: &[i32], name: &str, target: Target) {
    let what = format!("option '{name}' cannot be on {target:?}").to_ascii_lowercase();
    rules.refuse(path, place, what, "see the `targets` where the option is declared");
}

/// Refuses a value in which required fields are missing.
fn missing(rules: &mut Rules<'_>, path: &[i32], place: &[i32], name: &str, value: &Value) {
    if let Some(field) = missing_in(value) {
        let what = format!("option '{name}' lacks the required field '{field}'");
        rules.refuse(path, place, what, "set it");
    }
}

/// The first required field that is missing in `value`, with the way to it.
fn missing_in(value: &Value) -> Option<String> {
    match value {
        Value::Message(message) => {
            let is_missing = |field: &FieldDescriptor| {
                field.cardinality() == Cardinality::Required && !message.has_field(field)
            };
            let own = message.descriptor().fields().find(is_missing);
            own.map(|field| field.name().to_owned()).or_else(|| {
                let fields =
                    message.fields().map(|(field, value)| (field.name().to_owned(), value));
                let extensions = message.extensions();
                let extensions =
                    extensions.map(|(field, value)| (format!("[{}]", field.full_name()), value));
                fields
                    .chain(extensions)
                    .find_map(|(name, value)| Some(format!("{name}.{}", missing_in(value)?)))
            })
        }
        Value::List(values) => values.iter().find_map(missing_in),
        Value::Map(values) => values.values().find_map(missing_in),
        _ => None,
    }
}

fn inside(path: &[i32], options: i32) -> Vec<i32> {
    [path, &[options]].concat()
}

fn number(number: u32) -> i32 {
    step(usize::try_from(number).unwrap_or(usize::MAX))
}

/// `FileDescriptorProto.options`.
const OF_FILE: i32 = 8;

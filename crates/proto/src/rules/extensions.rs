//! Extensions: who may extend what, with which numbers.
//!
//! A range of extension numbers may declare what extends it (`declaration = { … }`); an extension
//! then has to be what was declared.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, ExtensionDescriptor, FileDescriptor, Kind,
    MessageDescriptor,
};

use super::fields;
use super::findings::Rules;
use super::path::{self, step};
use crate::link::linker_workarounds;

/// The first extension of each number of each message.
pub(super) struct Numbers(BTreeMap<(String, u32), String>);

impl Numbers {
    /// Those of all files, in the order they were linked in.
    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let mut first = BTreeMap::new();
        for extension in pool.all_extensions() {
            let key = (extension.containing_message().full_name().to_owned(), extension.number());
            first.entry(key).or_insert_with(|| extension.full_name().to_owned());
        }
        Self(first)
    }
}

/// Refuses what is wrong with an extension.
pub(super) fn check(rules: &mut Rules<'_>, extension: &ExtensionDescriptor, numbers: &Numbers) {
    let field = extension.field_descriptor_proto();
    let packable =
        extension.cardinality() == Cardinality::Repeated && fields::is_packable(&extension.kind());
    fields::options(rules, extension.path(), field, &extension.kind(), packable);
    of_proto3(rules, extension);
    of_message_set(rules, extension);
    of_lite(rules, extension);
    declared(rules, extension);
    let number = rules.unit.numbers.get(&extension.number()).copied();
    if let Some(number) = number.filter(|_| !is_message_set(&extension.containing_message())) {
        let name = extension.containing_message();
        let what =
            format!("\"{}\" does not declare {number} as an extension number", name.full_name());
        rules.refuse(extension.path(), path::FIELD_NUMBER, what, "use a number of up to 536870911");
    }
    let mut refuse = |part: &[i32], what: String, help| {
        rules.refuse(extension.path(), part, what, help);
    };
    if extension.cardinality() == Cardinality::Required {
        refuse(path::NAME, "an extension cannot be required".to_owned(), "make it optional");
    }
    // The parser gives extensions of proto3 no JSON name of their own either.
    if field
        .json_name
        .as_deref()
        .is_some_and(|name| name != linker_workarounds::default_json_name(field))
    {
        let what = "an extension cannot have a `json_name`".to_owned();
        refuse(path::FIELD_JSON_NAME, what, "remove it");
    }
    let key = (extension.containing_message().full_name().to_owned(), extension.number());
    if let Some(other) = numbers.0.get(&key).filter(|other| *other != extension.full_name()) {
        let what = format!("extension number {} of '{}' is taken by '{other}'", key.1, key.0);
        refuse(path::FIELD_NUMBER, what, "give it another number");
    }
}

/// Proto3 extends options and nothing else.
fn of_proto3(rules: &mut Rules<'_>, extension: &ExtensionDescriptor) {
    let message = extension.containing_message();
    let name = message.full_name().strip_prefix("google.protobuf.");
    let is_option = name.is_some_and(|name| name.ends_with("Options") || name == "FeatureSet");
    if rules.is_proto3() && !is_option {
        let what = format!("'{}' cannot be extended in proto3, only options", message.full_name());
        let help = "make this file proto2, or hold the message in an `Any`";
        rules.refuse(extension.path(), path::FIELD_EXTENDEE, what, help);
    }
}

fn of_message_set(rules: &mut Rules<'_>, extension: &ExtensionDescriptor) {
    let is_message = matches!(extension.kind(), Kind::Message(_))
        && extension.cardinality() == Cardinality::Optional;
    if is_message_set(&extension.containing_message()) && !is_message {
        let what = "an extension of a message set has to be an optional message";
        rules.refuse(extension.path(), path::NAME, what, "put the field into a message");
    }
}

/// A file of the lite runtime cannot extend a message of the full one.
fn of_lite(rules: &mut Rules<'_>, extension: &ExtensionDescriptor) {
    let extended = extension.containing_message().parent_file();
    if is_lite(&extension.parent_file()) && !is_lite(&extended) {
        let what = format!("this file is LITE_RUNTIME, and {} is not", extended.name());
        let help = "declare the extension in a file without LITE_RUNTIME";
        rules.refuse(extension.path(), path::FIELD_EXTENDEE, what, help);
    }
}

/// Refuses imports and services that `optimize_for = LITE_RUNTIME` does not allow.
pub(super) fn imports(rules: &mut Rules<'_>, file: &FileDescriptor) {
    if is_lite(file) {
        let options = file.file_descriptor_proto().options.clone().unwrap_or_default();
        if options.cc_generic_services() || options.java_generic_services() {
            for service in file.services() {
                let what = "a file with LITE_RUNTIME and generic services cannot have a service";
                let help = "set cc_generic_services and java_generic_services to false";
                rules.refuse(service.path(), path::NAME, what, help);
            }
        }
        return;
    }
    for (index, import) in file.dependencies().enumerate().filter(|(_, file)| is_lite(file)) {
        let what = format!("{} is LITE_RUNTIME, and this file is not", import.name());
        let help = "set `optimize_for = LITE_RUNTIME` in both files or in none";
        rules.refuse(&[FILE_IMPORT, step(index)], &[], what, help);
    }
}

/// Refuses what is wrong with the extension ranges of a message.
pub(super) fn ranges(rules: &mut Rules<'_>, message: &MessageDescriptor) {
    if is_message_set(message) {
        if rules.is_proto3() {
            let what = "message sets are not for proto3";
            rules.refuse(message.path(), path::NAME, what, "make this file proto2");
        }
        for field in message.fields() {
            let what = "a message set cannot have fields, only extensions";
            rules.refuse(field.path(), path::NAME, what, "declare it as an extension");
        }
    }
    let mut names = BTreeSet::new();
    for (index, range) in message.descriptor_proto().extension_range.iter().enumerate() {
        let place = [path::MESSAGE_EXTENSION_RANGE, step(index)];
        if rules.is_proto3() {
            let what = "extension ranges are not for proto3";
            rules.refuse(message.path(), &place, what, "make this file proto2");
        }
        for what in wrong_declarations(message, index, range.start()..range.end(), &mut names) {
            rules.refuse(message.path(), &place, what, "correct the declaration");
        }
    }
}

/// What one range says of the extensions in it.
struct Declaration {
    number: i32,
    full_name: String,
    type_name: String,
    is_reserved: bool,
    is_repeated: bool,
}

/// The declarations of the range `index` of a message, and whether all extensions need one.
fn declarations(message: &MessageDescriptor, index: usize) -> (Vec<Declaration>, Option<i32>) {
    let range = message.descriptor_proto().extension_range.get(index);
    if range.is_none_or(|range| range.options.is_none()) {
        return (Vec::new(), None);
    }
    let place = [message.path(), &[path::MESSAGE_EXTENSION_RANGE, step(index)]].concat();
    let mut file = linker_workarounds::dynamic(&message.parent_file().encode_to_vec());
    let range = file.as_mut().and_then(|file| linker_workarounds::at(file, &place));
    let options =
        range.and_then(|range| range.get_field_by_name("options").map(|o| o.into_owned()));
    let Some(options) = options.as_ref().and_then(|options| options.as_message()) else {
        return (Vec::new(), None);
    };
    let verification = options
        .get_field_by_name("verification")
        .filter(|_| options.has_field_by_name("verification"));
    let declared = options.get_field_by_name("declaration");
    let declared = declared.as_ref().and_then(|list| list.as_list()).unwrap_or_default();
    let declared = declared.iter().filter_map(|value| Some(declaration(value.as_message()?)));
    (declared.collect(), verification.and_then(|value| value.as_enum_number()))
}

fn declaration(message: &DynamicMessage) -> Declaration {
    let text = |name| {
        let value = message.get_field_by_name(name);
        value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let flag = |name| message.get_field_by_name(name).and_then(|value| value.as_bool());
    Declaration {
        number: message.get_field_by_name("number").and_then(|value| value.as_i32()).unwrap_or(0),
        full_name: text("full_name"),
        type_name: text("type"),
        is_reserved: flag("reserved").unwrap_or_default(),
        is_repeated: flag("repeated").unwrap_or_default(),
    }
}

fn wrong_declarations(
    message: &MessageDescriptor,
    index: usize,
    range: std::ops::Range<i32>,
    names: &mut BTreeSet<String>,
) -> Vec<String> {
    let (declared, verification) = declarations(message, index);
    let mut wrong = Vec::new();
    if verification == Some(UNVERIFIED) && !declared.is_empty() {
        wrong.push("the range declares extensions, so it cannot be UNVERIFIED".to_owned());
    }
    let mut numbers = BTreeSet::new();
    for Declaration { number, full_name, type_name, is_reserved, .. } in declared {
        if !range.contains(&number) {
            wrong.push(format!("the declaration of {number} is outside the range"));
        }
        if !numbers.insert(number) {
            wrong.push(format!("{number} is declared twice"));
        }
        if !full_name.is_empty() && !names.insert(full_name.clone()) {
            wrong.push(format!("the name '{full_name}' is declared twice"));
        }
        if full_name.is_empty() != type_name.is_empty() || full_name.is_empty() && !is_reserved {
            wrong.push(format!("the declaration of {number} needs `full_name` and `type`"));
        } else if !full_name.is_empty() && !full_name.starts_with('.') {
            wrong.push(format!("the declared name '{full_name}' has to begin with a dot"));
        } else if !type_name.starts_with('.') && !type_name.is_empty() && !is_scalar(&type_name) {
            wrong.push(format!("the declared type '{type_name}' has to begin with a dot"));
        }
    }
    wrong
}

/// Refuses an extension that is not what its range declares.
fn declared(rules: &mut Rules<'_>, extension: &ExtensionDescriptor) {
    let message = extension.containing_message();
    let number = extension.number().cast_signed();
    let ranges = &message.descriptor_proto().extension_range;
    let index = ranges.iter().position(|range| (range.start()..range.end()).contains(&number));
    let Some(index) = index else { return };
    let (declared, verification) = declarations(&message, index);
    if declared.is_empty() && verification != Some(MUST_BE_DECLARED) {
        return;
    }
    let name = format!(".{}", extension.full_name());
    let type_name = match extension.kind() {
        Kind::Message(message) => format!(".{}", message.full_name()),
        Kind::Enum(of_enum) => format!(".{}", of_enum.full_name()),
        scalar => format!("{scalar:?}").to_ascii_lowercase(),
    };
    let is_repeated = extension.cardinality() == Cardinality::Repeated;
    let what = match declared.iter().find(|declared| declared.number == number) {
        None => format!("extension number {number} of '{}' is not declared", message.full_name()),
        Some(declared) if declared.is_reserved => {
            format!("extension number {number} of '{}' is declared reserved", message.full_name())
        }
        Some(declared) if declared.full_name != name => {
            format!("extension number {number} is declared as '{}'", declared.full_name)
        }
        Some(declared) if declared.type_name != type_name => {
            format!("extension number {number} is declared with type '{}'", declared.type_name)
        }
        Some(declared) if declared.is_repeated != is_repeated => {
            let label = if declared.is_repeated { "repeated" } else { "optional" };
            format!("extension number {number} is declared {label}")
        }
        Some(_) => return,
    };
    let help = "make the extension and its declaration alike";
    rules.refuse(extension.path(), path::FIELD_EXTENDEE, what, help);
}

fn is_message_set(message: &MessageDescriptor) -> bool {
    let options = message.descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.message_set_wire_format())
}

fn is_lite(file: &FileDescriptor) -> bool {
    let options = file.file_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.optimize_for() as i32 == LITE_RUNTIME)
}

fn is_scalar(name: &str) -> bool {
    const SCALARS: [&str; 15] = [
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string",
        "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
    ];
    SCALARS.contains(&name)
}

/// `FileDescriptorProto.dependency`.
const FILE_IMPORT: i32 = 3;
/// `FileOptions.OptimizeMode`.
const LITE_RUNTIME: i32 = 3;
/// `ExtensionRangeOptions.VerificationState`.
const MUST_BE_DECLARED: i32 = 0;
const UNVERIFIED: i32 = 1;

//! Features of edition 2023: what they are where, and where they may not be said.
//!
//! A feature of a file holds for all in it, one of a message for what is in that, until something
//! inside says another one. The rules are protoc's.

use prost_reflect::{
    Cardinality, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value,
};

use super::fields::is_packable;
use super::findings::Rules;
use super::path;
use crate::text::edition;

/// The features that change what else a file may say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    presence: i32,
    enum_type: i32,
    json: i32,
}

/// Those of edition 2023.
const DEFAULTS: Features = Features { presence: EXPLICIT, enum_type: OPEN, json: ALLOW };

const EXPLICIT: i32 = 1;
const IMPLICIT: i32 = 2;
const LEGACY_REQUIRED: i32 = 3;
const OPEN: i32 = 1;
const PACKED: i32 = 1;
const ALLOW: i32 = 1;

/// The features that options say themselves.
fn own_features(options: &DynamicMessage) -> Option<DynamicMessage> {
    let features =
        options.get_field_by_name("features").filter(|_| options.has_field_by_name("features"))?;
    match features.as_ref() {
        Value::Message(features) => Some(features.clone()),
        _ => None,
    }
}

fn number(features: &DynamicMessage, name: &str) -> Option<i32> {
    let is_set = features.has_field_by_name(name);
    features.get_field_by_name(name).filter(|_| is_set)?.as_enum_number()
}

impl Features {
    /// With what options say themselves.
    fn with(self, options: &DynamicMessage) -> Self {
        let Some(said) = own_features(options) else { return self };
        Self {
            presence: number(&said, "field_presence").unwrap_or(self.presence),
            enum_type: number(&said, "enum_type").unwrap_or(self.enum_type),
            json: number(&said, "json_format").unwrap_or(self.json),
        }
    }

    /// What holds in a message.
    fn of_message(message: &MessageDescriptor) -> Self {
        let outer = match message.parent_message() {
            Some(outer) => Self::of_message(&outer),
            None => DEFAULTS.with(&message.parent_file().options()),
        };
        outer.with(&message.options())
    }
}

/// Whether an enum of a file of an edition takes only the values that it declares.
pub(super) fn is_closed(of_enum: &EnumDescriptor) -> bool {
    let outer = match of_enum.parent_message() {
        Some(outer) => Features::of_message(&outer),
        None => DEFAULTS.with(&of_enum.parent_file().options()),
    };
    outer.with(&of_enum.options()).enum_type != OPEN
}

/// Whether an enum of any file takes only the values that it declares.
pub(super) fn is_closed_anywhere(rules: &Rules<'_>, of_enum: &EnumDescriptor) -> bool {
    let syntax = rules.syntaxes.get(of_enum.parent_file().name());
    match syntax == Some(&edition::SYNTAX) {
        true => is_closed(of_enum),
        false => rules.is_of_proto2(of_enum),
    }
}

/// Whether the JSON names of a message of an edition may not meet.
pub(super) fn is_strict_json(message: &MessageDescriptor) -> bool {
    Features::of_message(message).json == ALLOW
}

/// Refuses what a file may not say of features.
pub(super) fn of_file(rules: &mut Rules<'_>, file: &prost_reflect::FileDescriptor) {
    if rules.unit.descriptor.syntax() != edition::SYNTAX {
        return;
    }
    let presence = own_features(&file.options()).and_then(|said| number(&said, "field_presence"));
    if presence == Some(LEGACY_REQUIRED) {
        let what = "a file cannot say that all its fields are required";
        rules.refuse(&[FILE_OPTIONS], &[FEATURES], what, "say it at the fields");
    }
}

/// Refuses what a field may not say.
pub(super) fn of_field(rules: &mut Rules<'_>, field: &FieldDescriptor) {
    if rules.unit.descriptor.syntax() != edition::SYNTAX {
        return;
    }
    let options = field.options();
    let outer = Features::of_message(field.parent_message());
    let presence = outer.with(&options).presence;
    let said = own_features(&options);
    let own = |name: &str| said.as_ref().and_then(|said| number(said, name));
    let is_repeated = field.cardinality() == Cardinality::Repeated;
    let is_message = matches!(field.kind(), Kind::Message(_));
    let is_plain = !is_repeated && field.containing_oneof().is_none();
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut refuse = |is_wrong: bool, what: &'static str, help: &'static str| {
        if is_wrong {
            found.push((what, help));
        }
    };
    refuse(
        options.has_field_by_name("packed"),
        "`packed` is not for editions",
        "write `features.repeated_field_encoding = PACKED` or `EXPANDED`",
    );
    if let Some(presence) = own("field_presence") {
        refuse(is_repeated, "repeated fields have no presence", "remove `field_presence`");
        let in_oneof = field.containing_oneof().is_some();
        refuse(in_oneof, "fields of a oneof always have presence", "remove `field_presence`");
        let is_implicit = presence == IMPLICIT && is_message && !is_repeated;
        refuse(is_implicit, "messages always have presence", "remove `field_presence`");
    }
    let has_default = field.field_descriptor_proto().default_value.is_some();
    let is_implicit = presence == IMPLICIT && is_plain && !is_message;
    refuse(
        is_implicit && has_default,
        "a field without presence has no other default",
        "remove the default, or say `features.field_presence = EXPLICIT`",
    );
    if let Kind::Enum(of_enum) = field.kind() {
        let is_closed = is_closed_anywhere(rules, &of_enum);
        refuse(
            is_implicit && is_closed,
            "a field without presence has an open enum",
            "say `features.enum_type = OPEN` at the enum, or give the field presence",
        );
    }
    if let Some(encoding) = own("repeated_field_encoding") {
        let packs = is_packable(&field.kind());
        refuse(
            !is_repeated,
            "only repeated fields have such an encoding",
            "remove `repeated_field_encoding`",
        );
        refuse(
            is_repeated && encoding == PACKED && !packs,
            "only numbers, booleans and enums can be packed",
            "remove `repeated_field_encoding`",
        );
    }
    refuse(
        own("utf8_validation").is_some() && !has_text(&field.kind()),
        "only strings are checked for UTF-8",
        "remove `utf8_validation`",
    );
    refuse(
        own("message_encoding").is_some() && (!is_message || field.is_map()),
        "only messages have such an encoding",
        "remove `message_encoding`",
    );
    for (what, help) in found {
        rules.refuse(field.path(), &[FIELD_OPTIONS, FEATURES_OF_FIELD], what, help);
    }
}

/// Whether it is a text, or a map of texts.
fn has_text(kind: &Kind) -> bool {
    match kind {
        Kind::Message(entry) if entry.is_map_entry() => {
            let parts = [entry.map_entry_key_field(), entry.map_entry_value_field()];
            parts.iter().any(|part| part.kind() == Kind::String)
        }
        kind => *kind == Kind::String,
    }
}

/// Refuses an open enum that does not begin with 0.
pub(super) fn of_enum(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    let proto = of_enum.enum_descriptor_proto();
    let begins = proto.value.first().is_some_and(|value| value.number() == 0);
    if rules.unit.descriptor.syntax() == edition::SYNTAX && !begins && !is_closed(of_enum) {
        let message = "the first value of an open enum must be 0";
        let help = "begin with a value of 0, or say `option features.enum_type = CLOSED;`";
        rules.refuse(of_enum.path(), &[path::ENUM_VALUE, 0], message, help);
    }
}

/// `FileDescriptorProto.options` and `FileOptions.features`.
const FILE_OPTIONS: i32 = 8;
const FEATURES: i32 = 50;
/// `FieldDescriptorProto.options` and `FieldOptions.features`.
const FIELD_OPTIONS: i32 = 8;
const FEATURES_OF_FIELD: i32 = 21;

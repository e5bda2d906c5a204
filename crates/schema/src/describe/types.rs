//! The types that a request is made of, as a form or a JSON Schema wants them. As JSON they are
//! what pages read, without what is empty.

use std::collections::{HashSet, VecDeque};

use serde::Serialize;

use crate::{EnumType, Field, Kind, MessageType, Schema, Single};

/// The types that a message is made of, itself first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Types {
    /// Messages and enums, each once.
    pub types: Vec<TypeText>,
    /// Whether there are more than are told.
    pub cut: bool,
}

/// A message or an enum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TypeText {
    /// The full name.
    pub name: String,
    /// The fields of a message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldText>,
    /// The values of an enum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<EnumValueText>,
    /// The comment above it, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// A field of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FieldText {
    /// Its name in the `.proto`.
    pub name: String,
    /// Its name in JSON.
    pub json_name: String,
    /// `int32`, or the full name of a message or an enum; of a map that of its values.
    pub r#type: String,
    /// `one`, `list` or `map`.
    pub kind: &'static str,
    /// The type of a map's keys, or nothing.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub key: &'static str,
    /// The oneof that it is in, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oneof: String,
    /// Whether a field with its default value differs from one that is not set.
    pub optional: bool,
    /// The comment above it, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Whether it is marked `debug_redact`.
    pub redacted: bool,
}

/// A value of an enum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EnumValueText {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: i32,
}

/// The types that a message is made of, itself first; `None` where there is no such message.
pub fn types(schema: &Schema, message: &str) -> Option<Types> {
    let mut queue = VecDeque::from([Single::Message(schema.message_type(message)?)]);
    let mut seen = HashSet::from([message.to_owned()]);
    let mut told = Types::default();
    while let Some(next) = queue.pop_front() {
        if told.types.len() == TYPES_MAX {
            told.cut = true;
            break;
        }
        match next {
            Single::Message(message) => {
                for field in message.fields() {
                    let (Kind::One(of) | Kind::List(of) | Kind::Map { value: of, .. }) =
                        field.kind();
                    let name = name(of);
                    let is_told = !matches!(of, Single::Scalar(_)) && !has_own_json(name);
                    if is_told && seen.insert(name.to_owned()) {
                        queue.push_back(of);
                    }
                }
                told.types.push(message_text(message));
            }
            Single::Enum(of) => told.types.push(enum_text(of)),
            Single::Scalar(_) => {}
        }
    }
    Some(told)
}

/// Whether its JSON is not an object of its fields: a text, a number, any JSON.
fn has_own_json(name: &str) -> bool {
    name.starts_with("google.protobuf.")
}

fn message_text(message: MessageType<'_>) -> TypeText {
    TypeText {
        name: message.full_name().to_owned(),
        fields: message.fields().map(field_text).collect(),
        comment: message.comment().unwrap_or_default().trim().to_owned(),
        ..TypeText::default()
    }
}

fn enum_text(of: EnumType<'_>) -> TypeText {
    let values = of.values().map(|(name, number)| EnumValueText { name: name.to_owned(), number });
    TypeText { name: of.full_name().to_owned(), values: values.collect(), ..TypeText::default() }
}

fn field_text(field: Field<'_>) -> FieldText {
    let (kind, of, key) = match field.kind() {
        Kind::One(of) => ("one", of, ""),
        Kind::List(of) => ("list", of, ""),
        Kind::Map { key, value } => ("map", value, key.as_str()),
    };
    FieldText {
        name: field.name().to_owned(),
        json_name: field.json_name().to_owned(),
        r#type: name(of).to_owned(),
        kind,
        key,
        oneof: field.oneof().map_or_else(String::new, |oneof| oneof.name().to_owned()),
        optional: kind == "one" && field.has_presence(),
        comment: field.comment().unwrap_or_default().trim().to_owned(),
        redacted: field.is_redacted(),
    }
}

fn name(of: Single<'_>) -> &str {
    match of {
        Single::Scalar(scalar) => scalar.as_str(),
        Single::Enum(of) => of.full_name(),
        Single::Message(of) => of.full_name(),
    }
}

const TYPES_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    #[test]
    fn a_message_is_told_with_all_that_it_is_made_of_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let proto = r#"syntax = "proto3";
            package a;
            import "google/protobuf/timestamp.proto";
            // A thing.
            message Thing {
              Thing inner = 1;
              repeated Color colors = 2;
              map<int32, Part> parts = 3;
              oneof choice { string text = 4; int64 number = 5; }
              google.protobuf.Timestamp at = 6;
              string card = 7 [debug_redact = true];
            }
            message Part { bool is_new = 1; }
            enum Color { COLOR_UNSPECIFIED = 0; RED = 1; }"#;
        std::fs::write(folder.path().join("a.proto"), proto).unwrap();
        let schema = Schema::compile(&Sources::new().folder(folder.path())).unwrap();
        let told = types(&schema, "a.Thing").unwrap();
        let names: Vec<_> = told.types.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a.Thing", "a.Color", "a.Part"]);
        let fields: Vec<_> = told.types[0]
            .fields
            .iter()
            .map(|it| (&*it.json_name, it.kind, it.key, &*it.r#type, &*it.oneof, it.redacted))
            .collect();
        assert_eq!(
            fields,
            [
                ("inner", "one", "", "a.Thing", "", false),
                ("colors", "list", "", "a.Color", "", false),
                ("parts", "map", "int32", "a.Part", "", false),
                ("text", "one", "", "string", "choice", false),
                ("number", "one", "", "int64", "choice", false),
                ("at", "one", "", "google.protobuf.Timestamp", "", false),
                ("card", "one", "", "string", "", true),
            ]
        );
        assert_eq!(told.types[0].comment, "A thing.");
        assert_eq!(told.types[1].values[1].name, "RED");
        assert!(!told.cut && types(&schema, "a.None").is_none());
    }
}

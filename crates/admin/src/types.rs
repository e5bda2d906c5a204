//! The types that a request is made of, as a form or a JSON Schema wants them.

use std::collections::{HashSet, VecDeque};

use tidewire_schema::{EnumType, Field, Kind, MessageType, Schema, Single};

use crate::proto::tidewire::admin::v1::{EnumValueInfo, FieldInfo, TypeInfo, TypesReply};

/// The types that a message is made of, itself first; `None` where there is no such message.
pub(crate) fn reachable(schema: &Schema, message: &str) -> Option<TypesReply> {
    let mut queue = VecDeque::from([Single::Message(schema.message_type(message)?)]);
    let mut seen = HashSet::from([message.to_owned()]);
    let mut reply = TypesReply::default();
    while let Some(next) = queue.pop_front() {
        if reply.types.len() == TYPES_MAX {
            reply.cut = true;
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
                reply.types.push(message_info(message));
            }
            Single::Enum(of) => reply.types.push(enum_info(of)),
            Single::Scalar(_) => {}
        }
    }
    Some(reply)
}

/// Whether its JSON is not an object of its fields: a text, a number, any JSON.
fn has_own_json(name: &str) -> bool {
    name.starts_with("google.protobuf.")
}

fn message_info(message: MessageType<'_>) -> TypeInfo {
    TypeInfo {
        name: message.full_name().to_owned(),
        fields: message.fields().map(field_info).collect(),
        comment: message.comment().unwrap_or_default().trim().to_owned(),
        ..Default::default()
    }
}

fn enum_info(of: EnumType<'_>) -> TypeInfo {
    let values = of.values().map(|(name, number)| EnumValueInfo {
        name: name.to_owned(),
        number,
        ..Default::default()
    });
    TypeInfo { name: of.full_name().to_owned(), values: values.collect(), ..Default::default() }
}

fn field_info(field: Field<'_>) -> FieldInfo {
    let (kind, of, key) = match field.kind() {
        Kind::One(of) => ("one", of, ""),
        Kind::List(of) => ("list", of, ""),
        Kind::Map { key, value } => ("map", value, key.as_str()),
    };
    FieldInfo {
        name: field.name().to_owned(),
        json_name: field.json_name().to_owned(),
        r#type: name(of).to_owned(),
        kind: kind.to_owned(),
        key: key.to_owned(),
        oneof: field.oneof().map_or_else(String::new, |oneof| oneof.name().to_owned()),
        optional: kind == "one" && field.has_presence(),
        comment: field.comment().unwrap_or_default().trim().to_owned(),
        redacted: field.is_redacted(),
        ..Default::default()
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
    use tidewire_schema::Sources;

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
        let told = reachable(&schema, "a.Thing").unwrap();
        let names: Vec<_> = told.types.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a.Thing", "a.Color", "a.Part"]);
        let fields: Vec<_> = told.types[0]
            .fields
            .iter()
            .map(|it| (&*it.json_name, &*it.kind, &*it.key, &*it.r#type, &*it.oneof, it.redacted))
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
        assert!(!told.cut && reachable(&schema, "a.None").is_none());
    }
}

//! The enums that messages use: a reader of a message wants to know what its fields may hold.

use std::sync::Arc;

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::DescriptorProto;
use buffa_descriptor::generated::descriptor::field_descriptor_proto::Type;

use super::proto::{enumeration, find_message};

/// The texts of the enums that fields of these messages have, each once and in the order of the
/// fields. Enums that are declared in one of the messages are in its text.
pub fn enumerations_of(pool: &Arc<DescriptorPool>, messages: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for full_name in messages {
        let file = pool.file_containing_symbol(full_name);
        let Some((_, found)) = file.and_then(|file| find_message(file, full_name)) else {
            continue;
        };
        collect(found, &mut names);
    }
    let is_shown = |name: &str| {
        messages
            .iter()
            .any(|message| name.strip_prefix(message).is_some_and(|rest| rest.starts_with('.')))
    };
    names.retain(|name| !is_shown(name));
    names.into_iter().filter_map(|name| enumeration(pool, name)).collect()
}

/// The enums of the fields of a message, and of the messages that are declared in it, those of
/// maps among them.
fn collect<'a>(message: &'a DescriptorProto, names: &mut Vec<&'a str>) {
    let enums = message.field.iter().filter(|field| field.r#type == Some(Type::TYPE_ENUM));
    for field in enums {
        let name = field.type_name.as_deref().unwrap_or_default().trim_start_matches('.');
        if !names.contains(&name) {
            names.push(name);
        }
    }
    message.nested_type.iter().for_each(|nested| collect(nested, names));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Schema, Sources};

    #[test]
    fn enums_are_those_of_fields_maps_and_nested_messages_each_once() {
        let text = r#"syntax = "proto3";
            package a;
            enum Color { NO_COLOR = 0; RED = 1; }
            enum Size { NO_SIZE = 0; }
            enum Other { NO_OTHER = 0; }
            message Item {
              enum Own { NO_OWN = 0; }
              message Part { Size size = 1; }
              Own own = 1;
              Color color = 2;
              map<string, Color> colors = 3;
            }
            message Reply { Color color = 1; }"#;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.proto"), text).unwrap();
        let schema = Schema::compile(&Sources::new().folder(folder.path())).unwrap();
        let texts = enumerations_of(schema.pool(), &["a.Item", "a.Reply"]);
        assert_eq!(
            texts,
            ["enum Color {\n  NO_COLOR = 0;\n  RED = 1;\n}\n", "enum Size {\n  NO_SIZE = 0;\n}\n"]
        );
        assert!(enumerations_of(schema.pool(), &["a.None"]).is_empty());
    }
}

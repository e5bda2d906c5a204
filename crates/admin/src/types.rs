//! The types that a request is made of, as messages of the admin interface.

use tidewire_schema::describe::{FieldText, TypeText, Types};

use crate::proto::tidewire::admin::v1::{EnumValueInfo, FieldInfo, TypeInfo, TypesReply};

/// The same as a reply.
pub(crate) fn reply(types: Types) -> TypesReply {
    let Types { types, cut, .. } = types;
    TypesReply { types: types.into_iter().map(type_info).collect(), cut, ..Default::default() }
}

fn type_info(text: TypeText) -> TypeInfo {
    let values = text.values.into_iter().map(|value| EnumValueInfo {
        name: value.name,
        number: value.number,
        ..Default::default()
    });
    TypeInfo {
        name: text.name,
        fields: text.fields.into_iter().map(field_info).collect(),
        values: values.collect(),
        comment: text.comment,
        ..Default::default()
    }
}

fn field_info(text: FieldText) -> FieldInfo {
    FieldInfo {
        name: text.name,
        json_name: text.json_name,
        r#type: text.r#type,
        kind: text.kind.to_owned(),
        key: text.key.to_owned(),
        oneof: text.oneof,
        optional: text.optional,
        comment: text.comment,
        redacted: text.redacted,
        ..Default::default()
    }
}

//! Names of the oneofs that stand for `optional` fields of proto3.
//!
//! `optional int32 a` is a field in a oneof `_a` that nobody wrote. Where the message has another
//! `_a`, the oneof is called `X_a`, `XX_a` and so on, as protoc calls it.

use std::collections::BTreeSet;

use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};

/// Renames the oneofs of `file` whose names are taken.
pub(crate) fn rename(file: &mut FileDescriptorProto) {
    file.message_type.iter_mut().for_each(rename_in);
}

fn rename_in(message: &mut DescriptorProto) {
    message.nested_type.iter_mut().for_each(rename_in);
    let synthetic = |index: usize| {
        message.field.iter().any(|field| {
            field.proto3_optional() && field.oneof_index.map(usize::try_from) == Some(Ok(index))
        })
    };
    let (ours, written): (Vec<usize>, Vec<usize>) =
        (0..message.oneof_decl.len()).partition(|index| synthetic(*index));
    let names = message.field.iter().map(|field| field.name());
    let names = names.chain(written.iter().map(|index| message.oneof_decl[*index].name()));
    let mut taken: BTreeSet<String> = names.map(str::to_owned).collect();
    for index in ours {
        let name = message.oneof_decl[index].name.get_or_insert_default();
        while taken.contains(name) {
            name.insert(0, 'X');
        }
        taken.insert(name.clone());
    }
}

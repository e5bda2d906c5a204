//! Descriptor sets made elsewhere, cut into their files.

use protox::prost::Message;
use protox::prost_reflect::prost_types::FileDescriptorProto;

use crate::descriptors::SET_FILE;
use crate::encoded::{self, Value};

/// The files of an encoded descriptor set, decoded and as they are.
pub(crate) fn split(set: &[u8]) -> Option<Vec<(FileDescriptorProto, Vec<u8>)>> {
    let mut files = Vec::new();
    for field in encoded::fields(set)? {
        match field.value {
            Value::Bytes(bytes) if field.number == SET_FILE => {
                let file = FileDescriptorProto::decode(bytes).ok()?;
                // Any other syntax is damage, and the linker's report of it would panic.
                let known = ["", "proto2", "proto3", "editions"].contains(&file.syntax());
                if file.name().is_empty() || !known {
                    return None;
                }
                files.push((file, bytes.to_vec()));
            }
            _ => {}
        }
    }
    (!files.is_empty()).then_some(files)
}

/// How to make a descriptor set.
pub(crate) const HOW_TO_MAKE: &str = "give a descriptor set instead: `buf build -o x.binpb`, or \
    `protoc --include_imports --include_source_info --descriptor_set_out=x.binpb`";

//! Descriptor sets made elsewhere, cut into their files. An image of buf is one, and has more about
//! its files in fields that nobody else knows; it may be JSON, and compressed by gzip.

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost_reflect::prost_types::FileDescriptorProto;
use protox::prost::Message;

use crate::descriptors::SET_FILE;
use crate::load::image_json;
use crate::wire_format::{self, Value};

/// The files of an encoded descriptor set, decoded and as they are.
pub(crate) fn split(set: &[u8]) -> Option<Vec<(FileDescriptorProto, Vec<u8>)>> {
    let mut files = Vec::new();
    for field in wire_format::fields(set)? {
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

/// A descriptor set as it is without gzip, and in protobuf.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn plain(encoded: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, String> {
    if !encoded.starts_with(&GZIP) {
        return without_json(encoded);
    }
    let mut plain = Vec::new();
    let read = GzDecoder::new(&encoded[..]).take(bytes_max + 1).read_to_end(&mut plain);
    read.map_err(|why| format!("the gzip is not whole: {why}"))?;
    match plain.len() as u64 > bytes_max {
        true => Err(format!("without gzip it has more than {bytes_max} bytes")),
        false => without_json(plain),
    }
}

/// A descriptor set that may be in JSON, as buf makes it.
fn without_json(set: Vec<u8>) -> Result<Vec<u8>, String> {
    match set.trim_ascii_start().starts_with(b"{") {
        true => image_json::to_protobuf(&set),
        false => Ok(set),
    }
}

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How to make a descriptor set.
pub(crate) const HOW_TO_MAKE: &str = "give a descriptor set instead: `buf build -o x.binpb`, or \
    `protoc --include_imports --include_source_info --descriptor_set_out=x.binpb`";

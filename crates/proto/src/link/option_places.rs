//! The places of a file's options, in the order in which other tools read them.
//!
//! `option go_package = "x";` has two locations with one span: that of the statement, `8`, and that
//! of the option that it sets, `8, 11`. protoc writes the second right after the first, and buf
//! refuses a file where it stands elsewhere (managed mode: "must have a preceding parent path").
//! The linker sorts locations by path, so that all the statements come first.

use crate::wire_format::{self, Value};

/// `file`, an encoded `FileDescriptorProto`, with each option of the file after its statement.
pub(crate) fn after_statements(file: Vec<u8>) -> Vec<u8> {
    let Some(fields) = wire_format::fields(&file) else { return file };
    let mut ordered = Vec::with_capacity(file.len());
    for field in fields {
        match field.value {
            Value::Bytes(info) if field.number == SOURCE_CODE_INFO => {
                wire_format::push_bytes(&mut ordered, SOURCE_CODE_INFO, &in_order(info));
            }
            _ => ordered.extend_from_slice(&file[field.range]),
        }
    }
    ordered
}

struct Location<'a> {
    path: Vec<u64>,
    span: Vec<u64>,
    encoded: &'a [u8],
}

fn in_order(info: &[u8]) -> Vec<u8> {
    let Some(fields) = wire_format::fields(info) else { return info.to_vec() };
    let locations = fields.into_iter().map(|field| match field.value {
        Value::Bytes(location) if field.number == INFO_LOCATION => Location {
            path: numbers(location, LOCATION_PATH),
            span: numbers(location, LOCATION_SPAN),
            encoded: &info[field.range],
        },
        _ => Location { path: Vec::new(), span: Vec::new(), encoded: &info[field.range] },
    });
    let is_option = |location: &Location<'_>| matches!(location.path[..], [FILE_OPTIONS, _, ..]);
    let (mut options, others): (Vec<_>, Vec<_>) = locations.partition(is_option);
    let mut ordered = Vec::with_capacity(info.len());
    for location in others {
        ordered.extend_from_slice(location.encoded);
        if location.path == [FILE_OPTIONS] {
            let of_statement = |option: &mut Location<'_>| option.span == location.span;
            for option in options.extract_if(.., of_statement) {
                ordered.extend_from_slice(option.encoded);
            }
        }
    }
    options.iter().for_each(|option| ordered.extend_from_slice(option.encoded));
    ordered
}

fn numbers(location: &[u8], wanted: u32) -> Vec<u64> {
    let fields = wire_format::fields(location).unwrap_or_default();
    let found = fields.iter().find_map(|field| match field.value {
        Value::Bytes(packed) if field.number == wanted => wire_format::varints(packed),
        _ => None,
    });
    found.unwrap_or_default()
}

/// `FileDescriptorProto.options`.
const FILE_OPTIONS: u64 = 8;
/// `FileDescriptorProto.source_code_info`.
const SOURCE_CODE_INFO: u32 = 9;
/// `SourceCodeInfo.location`, and `path` and `span` in it.
const INFO_LOCATION: u32 = 1;
const LOCATION_PATH: u32 = 1;
const LOCATION_SPAN: u32 = 2;

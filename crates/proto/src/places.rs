//! Where methods, their HTTP rules and rules of validation are written, cut out of a file's source
//! info.
//!
//! Source info is often larger than all the rest of a file. A server needs three things of it: the
//! lines of `google.api.http` and of rules of fields and messages, for what it says of them, and
//! the comments of methods, for its OpenAPI document. Only these are kept in what a program embeds.
//!
//! | place | path in the file's descriptor | kept of it |
//! |---|---|---|
//! | a method | `6, service, 2, method` | span, comment above |
//! | its HTTP rule | `6, service, 2, method, 4, 72295728` | span |
//! | a rule of a message | `4, message, …, 7, option` | span |
//! | a rule of a field | `4, message, …, 2, field, 8, option` | span |

use crate::wire_format::{self, Value};

/// `file`, an encoded `FileDescriptorProto`, with its source info cut down.
pub(crate) fn of_methods_only(file: &[u8]) -> Vec<u8> {
    let Some(fields) = wire_format::fields(file) else { return file.to_vec() };
    let mut kept = Vec::with_capacity(file.len());
    for field in fields {
        match field.value {
            Value::Bytes(info) if field.number == SOURCE_CODE_INFO => {
                let info = cut_down(info);
                if !info.is_empty() {
                    wire_format::push_bytes(&mut kept, SOURCE_CODE_INFO, &info);
                }
            }
            _ => kept.extend_from_slice(&file[field.range]),
        }
    }
    kept
}

/// The locations of methods and HTTP rules.
fn cut_down(info: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut last_rule = Vec::new();
    for field in wire_format::fields(info).unwrap_or_default() {
        let Value::Bytes(location) = field.value else { continue };
        let Some(fields) = wire_format::fields(location) else { continue };
        let path = fields.iter().find_map(|field| match field.value {
            Value::Bytes(path) if field.number == LOCATION_PATH => wire_format::varints(path),
            _ => None,
        });
        let wanted: &[u32] = match path.as_deref() {
            Some([SERVICE, _, METHOD, _]) => &[LOCATION_PATH, LOCATION_SPAN, LEADING_COMMENTS],
            // A rule may be written field by field; its first place is where it begins.
            Some(path @ [SERVICE, _, METHOD, _, OPTIONS, HTTP, ..]) if last_rule != path[..4] => {
                last_rule = path[..4].to_vec();
                &[LOCATION_PATH, LOCATION_SPAN]
            }
            Some(path) if is_of_rule(path) => &[LOCATION_PATH, LOCATION_SPAN],
            _ => continue,
        };
        let mut cut = Vec::new();
        for field in fields.iter().filter(|field| wanted.contains(&field.number)) {
            cut.extend_from_slice(&location[field.range.clone()]);
        }
        wire_format::push_bytes(&mut kept, field.number, &cut);
    }
    kept
}

/// Whether a path leads into an option that holds rules of validation.
fn is_of_rule(path: &[u64]) -> bool {
    let mut rest = path;
    while let [MESSAGE | NESTED, _, after @ ..] = rest {
        rest = after;
    }
    match rest {
        [MESSAGE_OPTIONS, option, ..] | [FIELD, _, FIELD_OPTIONS, option, ..] => {
            rest.len() < path.len() && RULES.contains(option)
        }
        _ => false,
    }
}

/// `FileDescriptorProto.source_code_info`.
const SOURCE_CODE_INFO: u32 = 9;
/// `SourceCodeInfo.Location.path`, `.span` and `.leading_comments`.
const LOCATION_PATH: u32 = 1;
const LOCATION_SPAN: u32 = 2;
const LEADING_COMMENTS: u32 = 3;
/// The steps of a path.
const SERVICE: u64 = 6;
const METHOD: u64 = 2;
const OPTIONS: u64 = 4;
const HTTP: u64 = 72_295_728;
const MESSAGE: u64 = 4;
const NESTED: u64 = 3;
const FIELD: u64 = 2;
const MESSAGE_OPTIONS: u64 = 7;
const FIELD_OPTIONS: u64 = 8;
/// `(buf.validate.…)`, `(validate.rules)` and `(google.api.field_behavior)`.
const RULES: [u64; 3] = [1159, 1071, 1052];

//! The options of envoy's protoc-gen-validate, read as rules of protovalidate.
//!
//! The older options number nearly all rules alike, so that reading them is renaming what differs:
//!
//! | protoc-gen-validate | here |
//! |---|---|
//! | `ignore_empty` | `ignore = IGNORE_IF_ZERO_VALUE` |
//! | `required` of a message, `Any`, duration or timestamp | `required` |
//! | `message.skip` | `ignore = IGNORE_ALWAYS` |
//! | `(validate.disabled)`, `(validate.ignored)` | no rules in this message |

use super::wire_format::{self, Fields, Raw, push_bytes, push_number, push_raw};

/// `(validate.rules)` and `(validate.required)`, `(validate.disabled)`; `(validate.ignored)`.
pub(super) const RULES: u32 = 1071;
pub(super) const IGNORED: u32 = 1072;

const MESSAGE: u32 = 17;

/// The encoded `buf.validate.FieldRules` that says what an encoded `validate.FieldRules` says.
pub(super) fn translated(rules: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut fields = Fields::new(rules);
    while let Ok(Some((number, raw))) = fields.next() {
        let inner = raw.bytes();
        let flag = |number| wire_format::last(inner, number).is_some_and(|raw| raw.bits() != 0);
        if number == MESSAGE {
            if flag(1) {
                push_number(&mut out, super::options::IGNORE, super::options::IGNORE_ALWAYS);
            }
            if flag(2) {
                push_number(&mut out, super::options::REQUIRED, 1);
            }
            continue;
        }
        let empty = ignore_empty(number);
        if empty.is_some_and(flag) {
            push_number(&mut out, super::options::IGNORE, super::options::IGNORE_ZERO);
        }
        let required = matches!(number, 20..=22).then_some(1);
        if required.is_some_and(flag) {
            push_number(&mut out, super::options::REQUIRED, 1);
        }
        let mut kept = Vec::new();
        let mut members = Fields::new(inner);
        while let Ok(Some((member, raw))) = members.next() {
            match (number, member) {
                _ if Some(member) == empty || Some(member) == required => {}
                // `no_sparse` is about messages that are null in a map, which there are none of.
                (19, 3) => {}
                (18, 4) | (19, 4 | 5) => {
                    push_bytes(&mut kept, member, &translated(raw.bytes()));
                }
                _ => push_raw(&mut kept, member, raw),
            }
        }
        push_raw(&mut out, number, Raw::Bytes(&kept));
    }
    out
}

/// The number of `ignore_empty` in the rules of a type.
fn ignore_empty(rules: u32) -> Option<u32> {
    match rules {
        1..=12 => Some(8),
        14 => Some(26),
        15 => Some(14),
        18 => Some(5),
        19 => Some(6),
        _ => None,
    }
}

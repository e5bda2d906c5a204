//! Where rules are in a descriptor: options of protovalidate, protoc-gen-validate and AIP-203.
//!
//! Where a field has rules of protovalidate, those of protoc-gen-validate are not read.

use buffa_descriptor::{FieldDescriptor, MessageDescriptor, OneofDescriptor};

use super::pgv;
use super::wire_format::{self, Raw};

/// `(buf.validate.field)`, `(buf.validate.message)` and `(buf.validate.oneof)`.
pub(super) const RULES: u32 = 1159;
/// `(buf.validate.predefined)`.
pub(super) const PREDEFINED: u32 = 1160;
/// `(google.api.field_behavior)`.
pub(super) const BEHAVIOR: u32 = 1052;

/// Members of `buf.validate.FieldRules` that are for every type.
pub(super) const CEL: u32 = 23;
pub(super) const REQUIRED: u32 = 25;
pub(super) const IGNORE: u32 = 27;
pub(super) const CEL_EXPRESSION: u32 = 29;
/// Values of `buf.validate.Ignore`.
pub(super) const IGNORE_ZERO: u64 = 1;
pub(super) const IGNORE_ALWAYS: u64 = 3;

/// `google.api.FieldBehavior.REQUIRED`.
const BEHAVIOR_REQUIRED: u64 = 2;

/// The rules of a field.
#[derive(Debug, Default)]
pub(super) struct FieldRules {
    /// An encoded `buf.validate.FieldRules`.
    pub(super) rules: Vec<u8>,
    /// Whether `(google.api.field_behavior)` says `REQUIRED`.
    pub(super) behavior_required: bool,
    /// The option that is read, for places.
    pub(super) option: u32,
}

impl FieldRules {
    pub(super) fn of(field: &FieldDescriptor) -> Self {
        let Some(options) = field.options().map(buffa::Message::encode_to_vec) else {
            return Self::default();
        };
        let behavior = wire_format::all(&options, BEHAVIOR).any(|raw| match raw {
            Raw::Bytes(packed) => {
                wire_format::packed(packed, 0).flatten().any(|one| one == BEHAVIOR_REQUIRED)
            }
            raw => raw.bits() == BEHAVIOR_REQUIRED,
        });
        let ours = wire_format::message(&options, RULES);
        let option = if ours.is_some() { RULES } else { pgv::RULES };
        let theirs =
            || wire_format::message(&options, pgv::RULES).map(|rules| pgv::translated(&rules));
        let rules = ours.or_else(theirs).unwrap_or_default();
        Self { rules, behavior_required: behavior, option }
    }
}

/// An encoded `buf.validate.MessageRules`; `None` when no rules are to be read in the message.
pub(super) fn of_message(message: &MessageDescriptor) -> Option<Vec<u8>> {
    let Some(options) = message.options().map(buffa::Message::encode_to_vec) else {
        return Some(Vec::new());
    };
    let flag = |number| wire_format::last(&options, number).is_some_and(|raw| raw.bits() != 0);
    if flag(pgv::RULES) || flag(pgv::IGNORED) {
        return None;
    }
    Some(wire_format::message(&options, RULES).unwrap_or_default())
}

/// Whether a member of the oneof has to be set.
pub(super) fn is_oneof_required(oneof: &OneofDescriptor) -> bool {
    let Some(options) = oneof.options().map(buffa::Message::encode_to_vec) else { return false };
    let ours = wire_format::message(&options, RULES)
        .and_then(|rules| Some(wire_format::last(&rules, 1)?.bits()));
    let theirs = || wire_format::last(&options, pgv::RULES).map(Raw::bits);
    ours.or_else(theirs).is_some_and(|required| required != 0)
}

/// Rules in CEL: `Rule` in this field of a message, and texts alone in that one, in the order in
/// which they are evaluated, each with the number that it is at and its place there.
pub(super) fn cel_rules(rules: &[u8], texts: u32, messages: u32) -> Vec<CelRule> {
    let text = |raw: Raw<'_>| String::from_utf8_lossy(raw.bytes()).into_owned();
    let plain = wire_format::all(rules, texts).map(text).map(|expression| CelRule {
        id: expression.clone(),
        message: String::new(),
        expression,
        member: texts,
        index: 0,
    });
    let full = wire_format::all(rules, messages).map(|raw| {
        let part = |number| wire_format::last(raw.bytes(), number).map(text).unwrap_or_default();
        CelRule { id: part(1), message: part(2), expression: part(3), member: messages, index: 0 }
    });
    let number = |(index, rule): (usize, CelRule)| CelRule { index: index as u64, ..rule };
    plain.enumerate().map(number).chain(full.enumerate().map(number)).collect()
}

/// A rule in CEL as it is written.
#[derive(Debug)]
pub(super) struct CelRule {
    pub(super) id: String,
    pub(super) message: String,
    pub(super) expression: String,
    pub(super) member: u32,
    pub(super) index: u64,
}

//! Names and numbers of enum values.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::EnumDescriptor;

use super::findings::Rules;
use super::path::{self, step};
use super::{features, ranges};

/// Refuses what is wrong with an enum.
pub(super) fn check(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    ranges::of_enum(rules, of_enum);
    first_is_zero(rules, of_enum);
    features::of_enum(rules, of_enum);
    alias(rules, of_enum);
    same_without_prefix(rules, of_enum);
}

/// The linker sees this too, but not in a file that it is shown as one of proto2.
fn first_is_zero(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    let proto = of_enum.enum_descriptor_proto();
    if rules.is_proto3() && proto.value.first().is_some_and(|value| value.number() != 0) {
        let message = "the first value for proto3 enums must be 0";
        rules.refuse(of_enum.path(), &[path::ENUM_VALUE, 0], message, "begin with a value of 0");
    }
}

/// `allow_alias` that allows nothing.
fn alias(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    let proto = of_enum.enum_descriptor_proto();
    let said = proto.options.as_ref().and_then(|options| options.allow_alias);
    let numbers: BTreeSet<i32> = proto.value.iter().map(|value| value.number()).collect();
    let message = match said {
        Some(false) => "`allow_alias = false` has no effect",
        Some(true) if numbers.len() == proto.value.len() => {
            "`allow_alias` is set and no two values have the same number"
        }
        _ => return,
    };
    rules.refuse(of_enum.path(), path::NAME, message, "remove the option");
}

/// `FOO_BAR` and `BAR` of an enum `Foo`, which are one name in many languages.
fn same_without_prefix(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    let proto = of_enum.enum_descriptor_proto();
    let mut met = BTreeMap::new();
    for (index, value) in proto.value.iter().enumerate() {
        let short = pascal_case(without_prefix(value.name(), of_enum.name()));
        let (other, number) = *met.entry(short).or_insert_with(|| (value.name(), value.number()));
        if other != value.name() && number != value.number() {
            let message = format!(
                "'{}' and '{other}' are one name without case and the prefix of their enum",
                value.name()
            );
            let place = [&[path::ENUM_VALUE, step(index)], path::NAME].concat();
            rules.refuse(of_enum.path(), &place, message, "rename one of the two");
        }
    }
}

/// `value` without the name of its enum, case and underscores apart; all of it where nothing else
/// would be left.
fn without_prefix<'a>(value: &'a str, of_enum: &str) -> &'a str {
    let mut prefix = of_enum.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase());
    let mut next = prefix.next();
    for (at, c) in value.char_indices() {
        match next {
            _ if c == '_' => {}
            Some(expected) if expected == c.to_ascii_lowercase() => next = prefix.next(),
            Some(_) => return value,
            None => return &value[at..],
        }
    }
    value
}

fn pascal_case(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    let words = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase());
    words.collect()
}

//! Reserved ranges, reserved names and extension ranges.

use std::collections::BTreeSet;

use prost_reflect::{EnumDescriptor, MessageDescriptor};

use super::findings::Rules;
use super::path::{self, step};

/// A range as it was written, both ends in it, and its place.
#[derive(Clone, Copy)]
struct Range {
    first: i64,
    last: i64,
    place: [i32; 2],
}

/// Refuses ranges of a message that run backwards or overlap, and reserved names that are used.
pub(super) fn of_message(rules: &mut Rules<'_>, message: &MessageDescriptor) {
    let proto = message.descriptor_proto();
    let ranges = |ends: Vec<(i32, i32)>, field: i32| {
        let all = ends.into_iter().enumerate().map(move |(index, (start, end))| Range {
            first: i64::from(start),
            last: i64::from(end) - 1,
            place: [field, step(index)],
        });
        all.collect::<Vec<_>>()
    };
    let reserved = proto.reserved_range.iter().map(|range| (range.start(), range.end()));
    let extensions = proto.extension_range.iter().map(|range| (range.start(), range.end()));
    let reserved = ranges(reserved.collect(), path::MESSAGE_RESERVED_RANGE);
    let extensions = ranges(extensions.collect(), path::MESSAGE_EXTENSION_RANGE);
    backwards(rules, message.path(), &reserved);
    backwards(rules, message.path(), &extensions);
    overlapping(rules, message.path(), [reserved, extensions].concat());
    let names = proto.field.iter().map(|field| field.name());
    let reserved = (path::MESSAGE_RESERVED_NAME, proto.reserved_name.as_slice());
    reserved_names(rules, message.path(), path::MESSAGE_FIELD, names, reserved);
}

/// The same for an enum.
pub(super) fn of_enum(rules: &mut Rules<'_>, of_enum: &EnumDescriptor) {
    let proto = of_enum.enum_descriptor_proto();
    let ranges = proto.reserved_range.iter().enumerate().map(|(index, range)| Range {
        first: i64::from(range.start()),
        last: i64::from(range.end()),
        place: [path::ENUM_RESERVED_RANGE, step(index)],
    });
    let ranges: Vec<Range> = ranges.collect();
    backwards(rules, of_enum.path(), &ranges);
    overlapping(rules, of_enum.path(), ranges);
    let names = proto.value.iter().map(|value| value.name());
    let reserved = (path::ENUM_RESERVED_NAME, proto.reserved_name.as_slice());
    reserved_names(rules, of_enum.path(), path::ENUM_VALUE, names, reserved);
}

fn backwards(rules: &mut Rules<'_>, of: &[i32], ranges: &[Range]) {
    for range in ranges.iter().filter(|range| range.last < range.first) {
        let message = format!("the range {} to {} runs backwards", range.first, range.last);
        rules.refuse(of, &range.place, message, "write the smaller number first");
    }
}

fn overlapping(rules: &mut Rules<'_>, of: &[i32], mut ranges: Vec<Range>) {
    ranges.retain(|range| range.first <= range.last);
    ranges.sort_by_key(|range| (range.first, range.place));
    // The range so far that reaches furthest.
    let mut furthest: Option<Range> = None;
    for range in ranges {
        if let Some(before) = furthest.filter(|before| range.first <= before.last) {
            let (one, other) =
                if range.place < before.place { (before, range) } else { (range, before) };
            let message = format!(
                "the range {} to {} overlaps {} to {}",
                one.first, one.last, other.first, other.last
            );
            rules.refuse(of, &one.place, message, "name each number once");
        }
        if furthest.is_none_or(|before| range.last > before.last) {
            furthest = Some(range);
        }
    }
}

/// Refuses reserved names that are there twice, and declared names that are reserved. `declared` is
/// the field that holds the declarations of `names`.
fn reserved_names<'a>(
    rules: &mut Rules<'_>,
    of: &[i32],
    declared: i32,
    names: impl Iterator<Item = &'a str>,
    (field, reserved): (i32, &[String]),
) {
    let mut met = BTreeSet::new();
    for (index, name) in reserved.iter().enumerate() {
        if !met.insert(name.as_str()) {
            let message = format!("the name '{name}' is reserved twice");
            rules.refuse(of, &[field, step(index)], message, "remove one of the two");
        }
    }
    for (index, name) in names.enumerate().filter(|(_, name)| met.contains(name)) {
        let message = format!("the name '{name}' is reserved");
        let place = [&[declared, step(index)], path::NAME].concat();
        rules.refuse(of, &place, message, "give it another name");
    }
}

//! Numbers of extensions of message sets, which go further than any other number of a field.
//!
//! Parser and linker know numbers up to 536,870,911. An extension of a message with
//! `message_set_wire_format` may have one up to 2,147,483,646: its number stands outside of a tag.
//! Such a number is written as a smaller one for them, which is put back into what was linked;
//! where the message is not a message set, [`rules`](crate::rules) refuse it. Ranges of such
//! numbers are written `to max`.

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, Value};
use protox::prost::Message;

use crate::link::linker_workarounds;

/// The real number, by the one that stands for it.
pub(crate) type RealNumbers = BTreeMap<u32, u32>;

/// A number of a message set, and what stands for it.
#[derive(Clone, Copy)]
pub(crate) struct StandIn {
    pub(crate) stand_in: u32,
    pub(crate) real: u32,
}

/// What stands for the number `text`, if it is only one of a message set. Where two numbers share
/// what stands for them, the file is refused as if they were one; that takes two that differ by a
/// multiple of 2²⁸.
pub(crate) fn stand_in(text: &str) -> Option<StandIn> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None if text.starts_with('0') => u32::from_str_radix(text, 8),
        None => text.parse(),
    };
    let number = number.ok().filter(|number| (FIELD_MAX + 1..=MESSAGE_SET_MAX).contains(number))?;
    Some(StandIn { stand_in: 1 << 28 | number & ((1 << 28) - 1), real: number })
}

/// What the linker says, with the real numbers.
pub(crate) fn name_of(message: &str, numbers: &RealNumbers) -> String {
    numbers.iter().fold(message.to_owned(), |message, (stand_in, number)| {
        message.replace(&stand_in.to_string(), &number.to_string())
    })
}

/// The linked file with the real numbers.
pub(crate) fn restore(linked: Vec<u8>, numbers: &RealNumbers) -> Vec<u8> {
    if numbers.is_empty() {
        return linked;
    }
    let Some(mut file) = linker_workarounds::dynamic(&linked) else { return linked };
    extensions(&mut file, FILE_EXTENSION, numbers);
    messages(&mut file, FILE_MESSAGE, numbers);
    file.encode_to_vec()
}

fn messages(parent: &mut DynamicMessage, list: u32, numbers: &RealNumbers) {
    each(parent, list, &mut |message| {
        extensions(message, MESSAGE_EXTENSION, numbers);
        messages(message, MESSAGE_NESTED, numbers);
    });
}

fn extensions(parent: &mut DynamicMessage, list: u32, numbers: &RealNumbers) {
    each(parent, list, &mut |field| {
        let number = field.get_field_by_number(FIELD_NUMBER).and_then(|number| number.as_i32());
        let number = number.and_then(|number| numbers.get(&number.cast_unsigned()));
        if let Some(number) = number {
            field.set_field_by_number(FIELD_NUMBER, Value::I32(number.cast_signed()));
        }
    });
}

fn each(parent: &mut DynamicMessage, list: u32, change: &mut dyn FnMut(&mut DynamicMessage)) {
    let list = parent.get_field_by_number_mut(list).and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_message_mut).for_each(change);
}

/// The greatest number of a field, and of an extension of a message set.
const FIELD_MAX: u32 = 536_870_911;
const MESSAGE_SET_MAX: u32 = 2_147_483_646;

/// `FileDescriptorProto.message_type` and `.extension`.
const FILE_MESSAGE: u32 = 4;
const FILE_EXTENSION: u32 = 7;
/// `DescriptorProto.nested_type` and `.extension`.
const MESSAGE_NESTED: u32 = 3;
const MESSAGE_EXTENSION: u32 = 6;
/// `FieldDescriptorProto.number`.
const FIELD_NUMBER: u32 = 3;

//! Legal files that the linker refuses, shown to it in a way that it takes.
//!
//! | in the file | shown as | afterwards |
//! |---|---|---|
//! | fields whose JSON names meet | fields with JSON their own names | the JSON names are put back |
//! | fields of proto3 that differ in case and `_` only | a file of proto2 | the syntax is put back |
//! | an option that is `inf` or `nan` | one with that number as its value | |
//! | an edition | proto2 | the edition is put back |
//!
//! Whether the JSON names may meet is decided by [`rules`](crate::rules), on the file as it is.

use std::collections::BTreeMap;

use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, UninterpretedOption,
};
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, Value};
use protox::prost::Message;

use crate::text::edition;

/// What has to be put back into one file.
#[derive(Debug, Default)]
pub(crate) struct Workarounds {
    /// The JSON names, by the path of their field.
    json_names: Vec<(Vec<i32>, String)>,
    /// Whether a file of proto3 was shown as proto2.
    is_proto3: bool,
    /// Whether a file of an edition was.
    is_edition: bool,
}

/// Adds `file` to the pool, as it is or with workarounds.
pub(crate) fn add(
    pool: &mut DescriptorPool,
    file: &FileDescriptorProto,
) -> Result<Workarounds, DescriptorError> {
    let (shown, workarounds) = Workarounds::of(file);
    let Err(error) = pool.add_file_descriptor_proto(shown) else { return Ok(workarounds) };
    let (mut shown, workarounds) = Workarounds::of(file);
    if !numbers_for_names(&mut shown) {
        return Err(error);
    }
    // The first error speaks of what is in the file.
    pool.add_file_descriptor_proto(shown).map(|()| workarounds).map_err(|_| error)
}

impl Workarounds {
    /// `file` as it is shown, and what has to be put back.
    fn of(file: &FileDescriptorProto) -> (FileDescriptorProto, Self) {
        let mut shown = file.clone();
        let mut workarounds = Self::default();
        let is_proto3 = file.syntax() == "proto3";
        for (index, message) in shown.message_type.iter_mut().enumerate() {
            workarounds.message(message, &[FILE_MESSAGE, place(index)], is_proto3);
        }
        workarounds.is_edition = file.syntax() == edition::SYNTAX;
        if workarounds.is_proto3 || workarounds.is_edition {
            shown.syntax = None;
        }
        (shown, workarounds)
    }

    fn message(&mut self, message: &mut DescriptorProto, path: &[i32], is_proto3: bool) {
        for (index, inner) in message.nested_type.iter_mut().enumerate() {
            let path = [path, &[MESSAGE_NESTED, place(index)]].concat();
            self.message(inner, &path, is_proto3);
        }
        let mut plain = BTreeMap::<String, usize>::new();
        let mut json = BTreeMap::<String, usize>::new();
        for field in &message.field {
            *plain.entry(field.name().replace('_', "").to_ascii_lowercase()).or_default() += 1;
            *json.entry(json_name(field)).or_default() += 1;
        }
        self.is_proto3 |= is_proto3 && plain.values().any(|count| *count > 1);
        for (index, field) in message.field.iter_mut().enumerate() {
            let name = json_name(field);
            if json.get(&name).is_some_and(|count| *count > 1) {
                // No JSON name that anybody wrote has a line break in it.
                field.json_name = Some(format!("{name}\n{index}"));
                self.json_names.push(([path, &[MESSAGE_FIELD, place(index)]].concat(), name));
            }
        }
    }

    /// The linked file as it was meant.
    pub(crate) fn restore(&self, linked: Vec<u8>) -> Vec<u8> {
        if self.json_names.is_empty() && !self.is_proto3 && !self.is_edition {
            return linked;
        }
        let Some(mut file) = dynamic(&linked) else { return linked };
        if self.is_proto3 {
            file.set_field_by_number(FILE_SYNTAX, Value::String("proto3".to_owned()));
        }
        if self.is_edition {
            file.set_field_by_number(FILE_SYNTAX, Value::String(edition::SYNTAX.to_owned()));
            edition::number_features(&mut file);
        }
        for (path, name) in &self.json_names {
            if let Some(field) = at(&mut file, path) {
                field.set_field_by_number(FIELD_JSON_NAME, Value::String(name.clone()));
            }
        }
        let mut restored = file.encode_to_vec();
        if self.is_edition {
            restored.extend(edition::ENCODED);
        }
        restored
    }
}

/// The name of `field` in JSON.
pub(crate) fn json_name(field: &FieldDescriptorProto) -> String {
    field.json_name.clone().unwrap_or_else(|| default_json_name(field))
}

/// The name of `field` in JSON when no other is given.
pub(crate) fn default_json_name(field: &FieldDescriptorProto) -> String {
    let mut name = String::new();
    let mut upper = false;
    for c in field.name().chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}

/// An encoded `FileDescriptorProto` with all of its options, known or not.
pub(crate) fn dynamic(file: &[u8]) -> Option<DynamicMessage> {
    let kind = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorProto");
    DynamicMessage::decode(kind?, file).ok()
}

/// The message at `path`, which is pairs of a repeated field and an index.
pub(crate) fn at<'a>(file: &'a mut DynamicMessage, path: &[i32]) -> Option<&'a mut DynamicMessage> {
    let [field, index, rest @ ..] = path else { return Some(file) };
    let list = file.get_field_by_number_mut(u32::try_from(*field).ok()?)?.as_list_mut()?;
    at(list.get_mut(usize::try_from(*index).ok()?)?.as_message_mut()?, rest)
}

fn place(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// Gives options that are named `inf` and `nan` the number of that name; whether there are any.
fn numbers_for_names(file: &mut FileDescriptorProto) -> bool {
    let mut found = false;
    let mut number = |option: &mut UninterpretedOption| {
        option.double_value = match option.identifier_value() {
            "inf" => Some(f64::INFINITY),
            "nan" => Some(f64::NAN),
            _ => return,
        };
        option.identifier_value = None;
        found = true;
    };
    macro_rules! of {
        ($declared:expr) => {
            if let Some(options) = &mut $declared.options {
                options.uninterpreted_option.iter_mut().for_each(&mut number);
            }
        };
    }
    fn enums<'a>(
        all: impl Iterator<Item = &'a mut prost_reflect::prost_types::EnumDescriptorProto>,
        number: &mut impl FnMut(&mut UninterpretedOption),
    ) {
        for of_enum in all {
            let own = of_enum.options.iter_mut().flat_map(|all| &mut all.uninterpreted_option);
            own.for_each(&mut *number);
            for value in &mut of_enum.value {
                let own = value.options.iter_mut().flat_map(|all| &mut all.uninterpreted_option);
                own.for_each(&mut *number);
            }
        }
    }
    of!(file);
    file.extension.iter_mut().for_each(|field| of!(field));
    enums(file.enum_type.iter_mut(), &mut number);
    for service in &mut file.service {
        of!(service);
        service.method.iter_mut().for_each(|method| of!(method));
    }
    let mut messages: Vec<&mut DescriptorProto> = file.message_type.iter_mut().collect();
    while let Some(message) = messages.pop() {
        of!(message);
        message.field.iter_mut().for_each(|field| of!(field));
        message.extension.iter_mut().for_each(|field| of!(field));
        message.oneof_decl.iter_mut().for_each(|oneof| of!(oneof));
        message.extension_range.iter_mut().for_each(|range| of!(range));
        enums(message.enum_type.iter_mut(), &mut number);
        messages.extend(&mut message.nested_type);
    }
    found
}

/// `FileDescriptorProto.message_type` and `.syntax`.
const FILE_MESSAGE: i32 = 4;
const FILE_SYNTAX: u32 = 12;
/// `DescriptorProto.field` and `.nested_type`.
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
/// `FieldDescriptorProto.json_name`.
const FIELD_JSON_NAME: u32 = 10;

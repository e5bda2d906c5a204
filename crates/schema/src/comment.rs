//! What a `.proto` says that the message library does not keep: comments, and defaults of proto2.

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};

/// Field numbers of `FileDescriptorProto` and `DescriptorProto`, as paths of places name them.
const MESSAGE_OF_FILE: i32 = 4;
const FIELD_OF_MESSAGE: i32 = 2;
const MESSAGE_OF_MESSAGE: i32 = 3;

/// The comment before a message, or before its field of a number.
pub(crate) fn of<'a>(
    pool: &'a DescriptorPool,
    message: &str,
    field: Option<u32>,
) -> Option<&'a str> {
    let (file, mut place, found) = place(pool, message)?;
    if let Some(number) = field {
        let (index, _) = field_of(found, number)?;
        place.extend([FIELD_OF_MESSAGE, i32::try_from(index).ok()?]);
    }
    let places = &file.source_code_info.as_option()?.location;
    let comment = places.iter().find(|one| one.path == place)?.leading_comments.as_deref()?;
    Some(comment.trim()).filter(|comment| !comment.is_empty())
}

/// The default that a field of a message is declared with, as descriptors spell it.
pub(crate) fn default<'a>(pool: &'a DescriptorPool, message: &str, field: u32) -> Option<&'a str> {
    let (_, _, found) = place(pool, message)?;
    field_of(found, field)?.1.default_value.as_deref()
}

/// The file of a message, its path in there, and its descriptor.
fn place<'a>(
    pool: &'a DescriptorPool,
    message: &str,
) -> Option<(&'a FileDescriptorProto, Vec<i32>, &'a DescriptorProto)> {
    let file = pool.file_containing_symbol(message)?;
    let package = file.package.as_deref().unwrap_or_default();
    let name = match package {
        "" => message,
        package => message.strip_prefix(package)?.strip_prefix('.')?,
    };
    let mut place = Vec::new();
    let mut messages = &file.message_type;
    let mut step = MESSAGE_OF_FILE;
    let mut found = None;
    for part in name.split('.') {
        let index = messages.iter().position(|one| one.name.as_deref() == Some(part))?;
        place.extend([step, i32::try_from(index).ok()?]);
        let message = messages.get(index)?;
        found = Some(message);
        (messages, step) = (&message.nested_type, MESSAGE_OF_MESSAGE);
    }
    Some((file, place, found?))
}

/// A field of a message by its number, and which it is.
fn field_of(message: &DescriptorProto, number: u32) -> Option<(usize, &FieldDescriptorProto)> {
    let number = i32::try_from(number).ok()?;
    message.field.iter().enumerate().find(|(_, field)| field.number == Some(number))
}

//! Comments of a `.proto`, where its descriptors kept them.

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::{DescriptorProto, FileDescriptorProto};

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
    let file = pool.file_containing_symbol(message)?;
    let package = file.package.as_deref().unwrap_or_default();
    let name = match package {
        "" => message,
        package => message.strip_prefix(package)?.strip_prefix('.')?,
    };
    let (mut place, found) = place(file, name)?;
    if let Some(number) = field {
        let number = i32::try_from(number).ok()?;
        let index = found.field.iter().position(|field| field.number == Some(number))?;
        place.extend([FIELD_OF_MESSAGE, i32::try_from(index).ok()?]);
    }
    let places = &file.source_code_info.as_option()?.location;
    let comment = places.iter().find(|one| one.path == place)?.leading_comments.as_deref()?;
    Some(comment.trim()).filter(|comment| !comment.is_empty())
}

/// The path of a message in its file, and its descriptor.
fn place<'a>(file: &'a FileDescriptorProto, name: &str) -> Option<(Vec<i32>, &'a DescriptorProto)> {
    let mut place = Vec::new();
    let (mut messages, mut step, mut found) = (&file.message_type, MESSAGE_OF_FILE, None);
    for part in name.split('.') {
        let index = messages.iter().position(|one| one.name.as_deref() == Some(part))?;
        place.extend([step, i32::try_from(index).ok()?]);
        let message = messages.get(index)?;
        found = Some(message);
        (messages, step) = (&message.nested_type, MESSAGE_OF_MESSAGE);
    }
    Some((place, found?))
}

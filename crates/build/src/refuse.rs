//! Names in a `.proto` that cannot be Rust types.
//!
//! Fields, packages and methods may be called anything; a message or an enum becomes a type of just
//! that name, and what it holds goes into a module of the name in lower case.

use buffa_codegen::generated::descriptor::{DescriptorProto, FileDescriptorProto};
use buffa_codegen::idents::is_rust_keyword;
use tidewire_proto::{Descriptors, Diagnostic, Diagnostics, Position};

use crate::messages::Corpus;
use crate::names;

/// Refuses names of messages and enums that the files `wanted` would make types of.
pub(crate) fn names(
    descriptors: &Descriptors,
    corpus: &Corpus,
    wanted: &[String],
) -> Result<(), Diagnostics> {
    let mut found = Vec::new();
    for file in wanted.iter().filter_map(|name| corpus.file(name)) {
        let name = file.name.as_deref().unwrap_or_default();
        let path = descriptors.files().iter().find(|known| known.name == name);
        let path = path.and_then(|known| known.path.as_ref());
        let display = path.map_or_else(|| name.to_owned(), |path| path.display().to_string());
        let mut refuse = |path: &[i32], message: String, help: &str| {
            let diagnostic = Diagnostic::new(display.clone(), message).help(help);
            found.push(diagnostic.at_position(place(file, path)));
        };
        for (index, message) in (0..).zip(&file.message_type) {
            in_message(message, &[FILE_MESSAGE, index], &mut refuse);
        }
        for (index, item) in (0..).zip(&file.enum_type) {
            keyword(item.name.as_deref(), &[FILE_ENUM, index], &mut refuse);
        }
    }
    Diagnostics::from_list(found).map_or(Ok(()), Err)
}

fn in_message(
    message: &DescriptorProto,
    path: &[i32],
    refuse: &mut impl FnMut(&[i32], String, &str),
) {
    let name = message.name.as_deref();
    keyword(name, path, refuse);
    let holds = !message.nested_type.is_empty()
        || !message.enum_type.is_empty()
        || !message.oneof_decl.is_empty();
    if let Some(name) = name.filter(|name| holds && names::snake(name) == *name) {
        let message = format!("message `{name}` and the module of its nested types have one name");
        refuse(path, message, "begin the name of the message with a capital letter");
    }
    for (index, nested) in (0..).zip(&message.nested_type) {
        in_message(nested, &[path, &[MESSAGE_MESSAGE, index]].concat(), refuse);
    }
    for (index, item) in (0..).zip(&message.enum_type) {
        let path = [path, &[MESSAGE_ENUM, index]].concat();
        keyword(item.name.as_deref(), &path, refuse);
    }
}

fn keyword(name: Option<&str>, path: &[i32], refuse: &mut impl FnMut(&[i32], String, &str)) {
    if let Some(name) = name.filter(|name| is_rust_keyword(name)) {
        let message = format!("`{name}` cannot be the name of a Rust type");
        refuse(path, message, "rename the message or enum; its name is not a part of the encoding");
    }
}

/// Where the name of what is at `path` stands, or else where it begins.
fn place(file: &FileDescriptorProto, path: &[i32]) -> Option<Position> {
    let info = file.source_code_info.as_option()?;
    let name = [path, &[NAME]].concat();
    let find = |path: &[i32]| info.location.iter().find(|place| place.path == path);
    let place = find(&name).or_else(|| find(path))?;
    Position::of_span(&place.span)
}

const FILE_MESSAGE: i32 = 4;
const FILE_ENUM: i32 = 5;
const MESSAGE_MESSAGE: i32 = 3;
const MESSAGE_ENUM: i32 = 4;
/// The field `name` of messages and enums alike.
const NAME: i32 = 1;

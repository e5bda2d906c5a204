//! Files of an edition, for a parser and a linker that know proto2 and proto3 only.
//!
//! | in the file | read as |
//! |---|---|
//! | `edition = "2023";` | `syntax = "proto2";` |
//! | `string name = 1;` | `optional string name = 1;` |
//! | `reserved foo;` | `reserved "foo";` |
//!
//! What was put in is counted out of all places again, and the linked file says that it is of the
//! edition. Features stay options, as protoc has them in descriptors; whether they may be where
//! they are is decided by [`rules`](crate::rules).

use std::ops::Range;

use prost_reflect::prost_types::{FileDescriptorProto, SourceCodeInfo};
use prost_reflect::{DynamicMessage, Value};

use crate::text::lexemes::{Kind, Lexeme};

/// The edition that is read as text.
pub(crate) const NAME: &str = "2023";

/// `FileDescriptorProto.syntax` of files of an edition.
pub(crate) const SYNTAX: &str = "editions";

/// `FileDescriptorProto.edition = EDITION_2023`, encoded.
pub(crate) const ENCODED: [u8; 3] = [14 << 3, 0xe8, 0x07];

/// What a brace opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Fields are declared in it.
    Fields,
    /// `reserved` may be in it, and fields may not.
    Enum,
    /// Anything else: a oneof, a service, the value of an option.
    Other,
}

/// The way through a file of an edition, lexeme by lexeme.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    blocks: Vec<Block>,
    /// The first word of the statement.
    first: String,
    is_inside: bool,
    /// How many brackets are open.
    brackets: usize,
    /// Whether `reserved` is followed by names.
    reserves_names: Option<bool>,
    /// What is wrong, by its byte in the source, with what to do.
    pub(crate) refused: Vec<Refusal>,
}

/// What a file of an edition may not say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    /// The byte in the source.
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
    /// What to do.
    pub(crate) help: &'static str,
}

/// What begins a statement of a message that declares no field without a label.
const KEYWORDS: [&str; 11] = [
    "message",
    "enum",
    "extend",
    "oneof",
    "option",
    "extensions",
    "reserved",
    "map",
    "repeated",
    "optional",
    "required",
];

impl Walk {
    /// What is written in place of a part of the source, if anything.
    pub(crate) fn instead(&mut self, lexeme: &Lexeme<'_>) -> Option<(Range<usize>, String)> {
        let at = lexeme.offset;
        let all = at..lexeme.end();
        match (lexeme.kind, lexeme.text) {
            (Kind::Mark, "[") => self.brackets += 1,
            (Kind::Mark, "]") => self.brackets = self.brackets.saturating_sub(1),
            _ if self.brackets > 0 => {}
            (Kind::Mark, ";") => self.end(),
            (Kind::Mark, "{") => {
                self.blocks.push(match self.first.as_str() {
                    "message" | "extend" => Block::Fields,
                    "enum" => Block::Enum,
                    _ => Block::Other,
                });
                self.end();
            }
            (Kind::Mark, "}") => {
                self.blocks.pop();
                self.end();
            }
            _ if !self.is_inside => return self.begin(lexeme),
            (kind, text) if self.first == "reserved" => {
                let names = *self.reserves_names.get_or_insert(kind == Kind::Word);
                match kind {
                    Kind::Word if names => return Some((all, format!("\"{text}\""))),
                    Kind::Quoted => {
                        let what = "reserved names are identifiers in editions, not strings";
                        let help = "remove the quotes";
                        self.refused.push(Refusal { offset: at, what, help });
                    }
                    _ => {}
                }
            }
            (Kind::Quoted, _) if self.first == "edition" => {
                return Some((all, "\"proto2\"".to_owned()));
            }
            (Kind::Word, "group") if self.first == "repeated" => self.refuse_group(at),
            _ => {}
        }
        None
    }

    fn begin(&mut self, lexeme: &Lexeme<'_>) -> Option<(Range<usize>, String)> {
        let at = lexeme.offset;
        self.is_inside = true;
        lexeme.text.clone_into(&mut self.first);
        let is_name = lexeme.kind == Kind::Word || lexeme.text == ".";
        match (self.blocks.last(), lexeme.text) {
            (None, "edition") => Some((at..lexeme.end(), "syntax ".to_owned())),
            (Some(Block::Fields), "optional") => {
                let what = "the label `optional` is not for editions: fields have presence";
                self.refused.push(Refusal { offset: at, what, help: "remove it" });
                None
            }
            (Some(Block::Fields), "required") => {
                let what = "the label `required` is not for editions";
                let help = "write `[features.field_presence = LEGACY_REQUIRED]`";
                self.refused.push(Refusal { offset: at, what, help });
                None
            }
            (Some(Block::Fields), "group") => {
                self.refuse_group(at);
                None
            }
            (Some(Block::Fields), text) if is_name && !KEYWORDS.contains(&text) => {
                Some((at..at, "optional ".to_owned()))
            }
            _ => None,
        }
    }

    fn end(&mut self) {
        self.is_inside = false;
        self.first.clear();
        self.reserves_names = None;
    }

    fn refuse_group(&mut self, at: usize) {
        let help = "declare a message, and write `[features.message_encoding = DELIMITED]`";
        let what = "groups are not for editions";
        self.refused.push(Refusal { offset: at, what, help });
    }
}

/// Says that a file is of the edition, and takes the places of labels away that nobody wrote.
pub(crate) fn mark(file: &mut FileDescriptorProto, text: &str) {
    file.syntax = Some(SYNTAX.to_owned());
    let Some(info) = &mut file.source_code_info else { return };
    let lines: Vec<&str> = text.lines().collect();
    let is_made = |span: &[i32]| {
        let [line, from, to] = *span else { return false };
        let place = |number: i32| usize::try_from(number).ok();
        let line = place(line).and_then(|line| lines.get(line));
        let part = line.and_then(|line| line.get(place(from)?..place(to)?));
        part == Some("optional")
    };
    info.location.retain(|location| {
        let is_label = location.path.last() == Some(&FIELD_LABEL) && location.path.len() % 2 == 1;
        !(is_label && is_made(&location.span))
    });
    rename_syntax(info);
}

/// Gives features the numbers that they have: the linker's `descriptor.proto` is of a time when
/// `utf8_validation = NONE` was 1, and it is 3.
pub(crate) fn number_features(file: &mut DynamicMessage) {
    number_utf8(file, OPTIONS, FILE_FEATURES);
    each(file, FILE_EXTENSION, &mut |field| number_utf8(field, OPTIONS, FIELD_FEATURES));
    each(file, FILE_MESSAGE, &mut in_message);
}

fn in_message(message: &mut DynamicMessage) {
    for list in [MESSAGE_FIELD, MESSAGE_EXTENSION] {
        each(message, list, &mut |field| number_utf8(field, OPTIONS, FIELD_FEATURES));
    }
    each(message, MESSAGE_NESTED, &mut in_message);
}

fn number_utf8(declared: &mut DynamicMessage, options: u32, features: u32) {
    if !declared.has_field_by_number(options) {
        return;
    }
    let options = declared.get_field_by_number_mut(options).and_then(Value::as_message_mut);
    let Some(options) = options.filter(|options| options.has_field_by_number(features)) else {
        return;
    };
    let features = options.get_field_by_number_mut(features).and_then(Value::as_message_mut);
    let Some(features) = features else { return };
    let is_none =
        features.get_field_by_number(UTF8).and_then(|value| value.as_enum_number()) == Some(1);
    if features.has_field_by_number(UTF8) && is_none {
        features.set_field_by_number(UTF8, Value::EnumNumber(3));
    }
}

fn each(parent: &mut DynamicMessage, list: u32, change: &mut dyn FnMut(&mut DynamicMessage)) {
    let list = parent.get_field_by_number_mut(list).and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_message_mut).for_each(change);
}

/// What stands at the syntax is the edition.
fn rename_syntax(info: &mut SourceCodeInfo) {
    for location in &mut info.location {
        if location.path == [FILE_SYNTAX] {
            location.path = vec![FILE_EDITION];
        }
    }
}

/// `FileDescriptorProto.message_type` and `.extension`.
const FILE_MESSAGE: u32 = 4;
const FILE_EXTENSION: u32 = 7;
/// `DescriptorProto.field`, `.nested_type` and `.extension`.
const MESSAGE_FIELD: u32 = 2;
const MESSAGE_NESTED: u32 = 3;
const MESSAGE_EXTENSION: u32 = 6;
/// `FileDescriptorProto.options` and `FieldDescriptorProto.options`, and `features` in them.
const OPTIONS: u32 = 8;
const FILE_FEATURES: u32 = 50;
const FIELD_FEATURES: u32 = 21;
/// `FeatureSet.utf8_validation`.
const UTF8: u32 = 4;
/// `FieldDescriptorProto.label`.
const FIELD_LABEL: i32 = 4;
/// `FileDescriptorProto.syntax` and `.edition`.
const FILE_SYNTAX: i32 = 12;
const FILE_EDITION: i32 = 14;

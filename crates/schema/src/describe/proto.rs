//! Descriptors as `.proto` text, with comments where there are any.
//!
//! What changes how a call is made is shown (streams, `idempotency_level`, `google.api.http`,
//! `deprecated`, `debug_redact`, `optional`, oneofs, maps), and every custom option that the schema
//! knows; other options are not.

use std::fmt::Write as _;
use std::sync::Arc;

use buffa::Message as _;
use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::field_descriptor_proto::{Label, Type};
use buffa_descriptor::generated::descriptor::method_options::IdempotencyLevel;
use buffa_descriptor::generated::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    MethodDescriptorProto,
};

use tidewire_proto::http::HttpRule;

use super::enums::enumerations_of;
use super::options::custom;

/// The text of a service.
pub fn service(pool: &Arc<DescriptorPool>, full_name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (at, found) = find_by_name(&file.service, full_name, |service| service.name.as_deref())?;
    let mut text = Text::new(pool, file);
    text.comment(&[SERVICE, at]);
    text.open(&format!("service {}", found.name.as_deref().unwrap_or_default()));
    if let Some(options) = found.options.as_option() {
        text.options(&custom(pool, "ServiceOptions", options));
    }
    for (index, method) in found.method.iter().enumerate() {
        if index > 0 && text.has_comment(&[SERVICE, at, METHOD, number(index)]) {
            text.out.push('\n');
        }
        text.method(method, &[SERVICE, at, METHOD, number(index)]);
    }
    text.close();
    Some(text.out)
}

/// The text of one method, `full_name` being that of its service.
pub fn method(pool: &Arc<DescriptorPool>, full_name: &str, name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (at, service) = find_by_name(&file.service, full_name, |service| service.name.as_deref())?;
    let (index, method) = find_by_name(&service.method, name, |method| method.name.as_deref())?;
    let mut text = Text::new(pool, file);
    text.method(method, &[SERVICE, at, METHOD, index]);
    Some(text.out)
}

/// The text of one method with those of its messages, and of the enums that they use.
pub fn method_with_messages(
    pool: &Arc<DescriptorPool>,
    full_name: &str,
    name: &str,
) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (_, service) = find_by_name(&file.service, full_name, |service| service.name.as_deref())?;
    let (_, found) = find_by_name(&service.method, name, |method| method.name.as_deref())?;
    let types = [&found.input_type, &found.output_type];
    let mut messages: Vec<_> = types.into_iter().flatten().collect();
    messages.dedup();
    let messages: Vec<_> = messages.iter().map(|name| name.trim_start_matches('.')).collect();
    let mut texts = vec![method(pool, full_name, name)?];
    texts.extend(messages.iter().filter_map(|name| message(pool, name)));
    texts.extend(enumerations_of(pool, &messages));
    Some(texts.join("\n"))
}

/// The comment above a service.
pub fn service_comment(pool: &DescriptorPool, full_name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (at, _) = find_by_name(&file.service, full_name, |service| service.name.as_deref())?;
    comment(file, &[SERVICE, at]).map(plain)
}

/// The comment above a method, `full_name` being that of its service.
pub fn method_comment(pool: &DescriptorPool, full_name: &str, name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (at, service) = find_by_name(&file.service, full_name, |service| service.name.as_deref())?;
    let (index, _) = find_by_name(&service.method, name, |method| method.name.as_deref())?;
    comment(file, &[SERVICE, at, METHOD, index]).map(plain)
}

/// A comment without the space that begins its lines.
fn plain(comment: &str) -> String {
    let lines = comment.trim_end().lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The text of a message.
pub fn message(pool: &Arc<DescriptorPool>, full_name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (path, found) = find_message(file, full_name)?;
    let mut text = Text::new(pool, file);
    text.message(found, &path);
    Some(text.out)
}

/// The text of an enum.
pub fn enumeration(pool: &Arc<DescriptorPool>, full_name: &str) -> Option<String> {
    let file = pool.file_containing_symbol(full_name)?;
    let (path, found) = find_enum(file, full_name)?;
    let mut text = Text::new(pool, file);
    text.enumeration(found, &path);
    Some(text.out)
}

/// `.proto` text being written.
struct Text<'a> {
    pool: &'a Arc<DescriptorPool>,
    file: &'a FileDescriptorProto,
    /// The package with a dot, which names lose.
    package: String,
    out: String,
    depth: usize,
}

impl<'a> Text<'a> {
    fn new(pool: &'a Arc<DescriptorPool>, file: &'a FileDescriptorProto) -> Self {
        let package = file.package.as_ref().map(|package| format!(".{package}."));
        let package = package.unwrap_or_else(|| ".".to_owned());
        Self { pool, file, package, out: String::new(), depth: 0 }
    }

    fn line(&mut self, text: &str) {
        let indent = self.depth * 2;
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    fn open(&mut self, text: &str) {
        self.line(&format!("{text} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn has_comment(&self, path: &[i32]) -> bool {
        comment(self.file, path).is_some()
    }

    fn comment(&mut self, path: &[i32]) {
        let Some(comment) = comment(self.file, path) else { return };
        for line in comment.trim_end().lines() {
            let line = format!("//{line}");
            self.line(line.trim_end());
        }
    }

    /// A type's name as this file may write it.
    fn type_name(&self, full_name: &str) -> String {
        let short = full_name.strip_prefix(&self.package);
        short.unwrap_or_else(|| full_name.trim_start_matches('.')).to_owned()
    }

    fn method(&mut self, method: &MethodDescriptorProto, path: &[i32]) {
        self.comment(path);
        let side = |streams: Option<bool>, name: &Option<String>| {
            let name = self.type_name(name.as_deref().unwrap_or_default());
            if streams == Some(true) { format!("stream {name}") } else { name }
        };
        let input = side(method.client_streaming, &method.input_type);
        let output = side(method.server_streaming, &method.output_type);
        let name = method.name.as_deref().unwrap_or_default();
        let head = format!("rpc {name}({input}) returns ({output})");
        let options = method_options(self.pool, method);
        if options.is_empty() {
            self.line(&format!("{head};"));
            return;
        }
        self.open(&head);
        self.options(&options);
        self.close();
    }

    fn options(&mut self, options: &[String]) {
        for option in options {
            self.line(&format!("option {option};"));
        }
    }

    fn message(&mut self, message: &DescriptorProto, path: &[i32]) {
        self.comment(path);
        let head = format!("message {}", message.name.as_deref().unwrap_or_default());
        let options = message.options.as_option();
        let options = options.map(|options| custom(self.pool, "MessageOptions", options));
        let options = options.unwrap_or_default();
        if options.is_empty()
            && message.field.is_empty()
            && message.nested_type.is_empty()
            && message.enum_type.is_empty()
        {
            self.line(&format!("{head} {{}}"));
            return;
        }
        self.open(&head);
        self.options(&options);
        let at = |kind: i32, index: usize| [path, &[kind, number(index)]].concat();
        for (index, nested) in message.enum_type.iter().enumerate() {
            self.enumeration(nested, &at(NESTED_ENUM, index));
        }
        for (index, nested) in message.nested_type.iter().enumerate() {
            if !is_map_entry(nested) {
                self.message(nested, &at(NESTED, index));
            }
        }
        let mut open_oneof = None;
        for (index, field) in message.field.iter().enumerate() {
            let oneof = field.oneof_index.filter(|_| field.proto3_optional != Some(true));
            if open_oneof != oneof {
                if open_oneof.is_some() {
                    self.close();
                }
                if let Some(oneof) = oneof {
                    let position = usize::try_from(oneof).unwrap_or_default();
                    let found = message.oneof_decl.get(position);
                    let name = found.and_then(|one| one.name.clone());
                    self.comment(&at(ONEOF, position));
                    self.open(&format!("oneof {}", name.unwrap_or_default()));
                    if let Some(options) = found.and_then(|one| one.options.as_option()) {
                        self.options(&custom(self.pool, "OneofOptions", options));
                    }
                }
                open_oneof = oneof;
            }
            self.field(message, field, &at(FIELD, index));
        }
        if open_oneof.is_some() {
            self.close();
        }
        self.close();
    }

    fn field(&mut self, of: &DescriptorProto, field: &FieldDescriptorProto, path: &[i32]) {
        self.comment(path);
        let label = match field.label {
            Some(Label::LABEL_REPEATED) if map_entry(of, field).is_none() => "repeated ",
            Some(Label::LABEL_REQUIRED) => "required ",
            _ if field.proto3_optional == Some(true) => "optional ",
            _ => "",
        };
        let type_name = match map_entry(of, field) {
            Some([key, value]) => {
                format!("map<{}, {}>", self.field_type(key), self.field_type(value))
            }
            None => self.field_type(field),
        };
        let mut options = Vec::new();
        if let Some(found) = field.options.as_option() {
            let is_set =
                |(name, value): (&str, _)| (value == Some(true)).then(|| format!("{name} = true"));
            let known = [("deprecated", found.deprecated), ("debug_redact", found.debug_redact)];
            options.extend(known.into_iter().filter_map(is_set));
            options.extend(custom(self.pool, "FieldOptions", found));
        }
        let name = field.name.as_deref().unwrap_or_default();
        let number = field.number.unwrap_or_default();
        self.with_options(&format!("{label}{type_name} {name} = {number}"), &options);
    }

    /// A field or a value with its options, in one line where that is short enough.
    fn with_options(&mut self, head: &str, options: &[String]) {
        if options.is_empty() {
            self.line(&format!("{head};"));
            return;
        }
        let line = format!("{head} [{}];", options.join(", "));
        if self.depth * 2 + line.chars().count() <= COLUMNS_MAX {
            self.line(&line);
            return;
        }
        self.line(&format!("{head} ["));
        self.depth += 1;
        for (index, option) in options.iter().enumerate() {
            let end = if index + 1 < options.len() { "," } else { "" };
            self.line(&format!("{option}{end}"));
        }
        self.depth -= 1;
        self.line("];");
    }

    fn field_type(&self, field: &FieldDescriptorProto) -> String {
        match (&field.type_name, field.r#type) {
            (Some(name), _) => self.type_name(name),
            (None, Some(kind)) => scalar(kind).to_owned(),
            (None, None) => String::new(),
        }
    }

    fn enumeration(&mut self, found: &EnumDescriptorProto, path: &[i32]) {
        self.comment(path);
        self.open(&format!("enum {}", found.name.as_deref().unwrap_or_default()));
        if let Some(options) = found.options.as_option() {
            self.options(&custom(self.pool, "EnumOptions", options));
        }
        for (index, value) in found.value.iter().enumerate() {
            self.comment(&[path, &[VALUE, number(index)]].concat());
            let name = value.name.as_deref().unwrap_or_default();
            let options = value.options.as_option();
            let options = options.map(|options| custom(self.pool, "EnumValueOptions", options));
            let head = format!("{name} = {}", value.number.unwrap_or_default());
            self.with_options(&head, &options.unwrap_or_default());
        }
        self.close();
    }
}

fn method_options(pool: &Arc<DescriptorPool>, method: &MethodDescriptorProto) -> Vec<String> {
    let Some(options) = method.options.as_option() else { return Vec::new() };
    let mut texts = Vec::new();
    if options.deprecated == Some(true) {
        texts.push("deprecated = true".to_owned());
    }
    match options.idempotency_level {
        Some(IdempotencyLevel::NO_SIDE_EFFECTS) => {
            texts.push("idempotency_level = NO_SIDE_EFFECTS".to_owned());
        }
        Some(IdempotencyLevel::IDEMPOTENT) => {
            texts.push("idempotency_level = IDEMPOTENT".to_owned());
        }
        _ => {}
    }
    let rules = HttpRule::decode(&options.encode_to_vec()).unwrap_or_default();
    if let Some((first, more)) = rules.split_first() {
        let more = more.iter().map(|rule| format!(" additional_bindings {{ {} }}", binding(rule)));
        let more: String = more.collect();
        texts.push(format!("(google.api.http) = {{ {}{more} }}", binding(first)));
    }
    texts.extend(custom(pool, "MethodOptions", options));
    texts
}

fn binding(rule: &HttpRule) -> String {
    let path = &rule.template;
    let mut text = match rule.verb.as_str() {
        verb @ ("GET" | "PUT" | "POST" | "DELETE" | "PATCH") => {
            format!("{}: {path:?}", verb.to_lowercase())
        }
        verb => format!("custom {{ kind: {verb:?} path: {path:?} }}"),
    };
    for (name, value) in [("body", &rule.body), ("response_body", &rule.response_body)] {
        if !value.is_empty() {
            let _ = write!(text, " {name}: {value:?}");
        }
    }
    text
}

fn comment<'a>(file: &'a FileDescriptorProto, path: &[i32]) -> Option<&'a str> {
    let places = &file.source_code_info.as_option()?.location;
    places.iter().find(|place| place.path == path)?.leading_comments.as_deref()
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_option().is_some_and(|options| options.map_entry == Some(true))
}

/// Key and value of a map field.
fn map_entry<'a>(
    of: &'a DescriptorProto,
    field: &FieldDescriptorProto,
) -> Option<[&'a FieldDescriptorProto; 2]> {
    let last = field.type_name.as_deref()?.rsplit('.').next()?;
    let entry = of.nested_type.iter().find(|nested| nested.name.as_deref() == Some(last))?;
    match &entry.field[..] {
        [key, value] if is_map_entry(entry) => Some([key, value]),
        _ => None,
    }
}

/// The part whose name is the last part of a full name, with its index.
fn find_by_name<'a, T>(
    parts: &'a [T],
    full_name: &str,
    name: impl Fn(&'a T) -> Option<&'a str>,
) -> Option<(i32, &'a T)> {
    let wanted = full_name.rsplit('.').next();
    let at = parts.iter().position(|part| name(part) == wanted)?;
    Some((number(at), &parts[at]))
}

/// The parts of a full name below the package of its file.
fn below_package<'n>(file: &FileDescriptorProto, full_name: &'n str) -> Option<Vec<&'n str>> {
    let rest = match file.package.as_deref().unwrap_or_default() {
        "" => full_name,
        package => full_name.strip_prefix(package)?.strip_prefix('.')?,
    };
    Some(rest.split('.').collect())
}

pub(super) fn find_message<'a>(
    file: &'a FileDescriptorProto,
    full_name: &str,
) -> Option<(Vec<i32>, &'a DescriptorProto)> {
    let parts = below_package(file, full_name)?;
    let (first, rest) = parts.split_first()?;
    let (at, mut found) =
        find_by_name(&file.message_type, first, |message| message.name.as_deref())?;
    let mut path = vec![MESSAGE, at];
    for part in rest {
        let (at, inner) =
            find_by_name(&found.nested_type, part, |message| message.name.as_deref())?;
        path.extend([NESTED, at]);
        found = inner;
    }
    Some((path, found))
}

fn find_enum<'a>(
    file: &'a FileDescriptorProto,
    full_name: &str,
) -> Option<(Vec<i32>, &'a EnumDescriptorProto)> {
    if below_package(file, full_name)?.len() == 1 {
        let (at, found) = find_by_name(&file.enum_type, full_name, |one| one.name.as_deref())?;
        return Some((vec![ENUM, at], found));
    }
    let (outer, _) = full_name.rsplit_once('.')?;
    let (mut path, message) = find_message(file, outer)?;
    let (at, found) = find_by_name(&message.enum_type, full_name, |one| one.name.as_deref())?;
    path.extend([NESTED_ENUM, at]);
    Some((path, found))
}

const fn scalar(kind: Type) -> &'static str {
    match kind {
        Type::TYPE_DOUBLE => "double",
        Type::TYPE_FLOAT => "float",
        Type::TYPE_INT64 => "int64",
        Type::TYPE_UINT64 => "uint64",
        Type::TYPE_INT32 => "int32",
        Type::TYPE_FIXED64 => "fixed64",
        Type::TYPE_FIXED32 => "fixed32",
        Type::TYPE_BOOL => "bool",
        Type::TYPE_STRING => "string",
        Type::TYPE_GROUP => "group",
        Type::TYPE_MESSAGE => "message",
        Type::TYPE_BYTES => "bytes",
        Type::TYPE_UINT32 => "uint32",
        Type::TYPE_ENUM => "enum",
        Type::TYPE_SFIXED32 => "sfixed32",
        Type::TYPE_SFIXED64 => "sfixed64",
        Type::TYPE_SINT32 => "sint32",
        Type::TYPE_SINT64 => "sint64",
    }
}

fn number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// How long a field's line may be before its options have their own.
const COLUMNS_MAX: usize = 100;

/// Numbers of `descriptor.proto`, of which paths in source info are made.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const METHOD: i32 = 2;
const FIELD: i32 = 2;
const NESTED: i32 = 3;
const NESTED_ENUM: i32 = 4;
const ONEOF: i32 = 8;
const VALUE: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Schema, Sources};

    const SHOP: &str = r#"syntax = "proto3";
        package a;
        import "buf/validate/validate.proto";
        import "google/api/annotations.proto";
        import "google/protobuf/descriptor.proto";
        import "tidewire/v1/options.proto";
        extend google.protobuf.MethodOptions { repeated string owner = 50001; Mark mark = 50002; }
        extend google.protobuf.EnumValueOptions { string label = 50003; }
        message Mark {}
        service Shop {
          rpc Buy(Order) returns (Order) {
            option (google.api.http) = {post: "/buy" body: "*"};
            option (tidewire.v1.method) = {scopes: ["a", "b"]};
            option (owner) = "she";
            option (owner) = "he";
            option (mark) = {};
          }
        }
        message Order {
          option (buf.validate.message).cel = {id: "x" message: "a \"b\"" expression: "true"};
          string id = 1 [(buf.validate.field).string.min_len = 1];
          string code = 2 [deprecated = true, (buf.validate.field).string = {in: ["a", "b"]}];
          repeated double sums = 3 [(buf.validate.field).repeated = {
            min_items: 1 items: {double: {gte: 0.5 lt: 100000}}
          }, (buf.validate.field).ignore = IGNORE_ALWAYS];
          string card = 4 [debug_redact = true];
          oneof way { option (buf.validate.oneof).required = true; string street = 5; }
        }
        enum Color { NO_COLOR = 0; RED = 1 [(label) = "r\n"]; }"#;

    #[test]
    fn every_custom_option_is_shown_as_proto_text_that_compiles_to_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let compile = |text: &str| {
            std::fs::write(folder.path().join("a.proto"), text).unwrap();
            Schema::compile(&Sources::new().folder(folder.path())).unwrap()
        };
        let all = |schema: &Schema| {
            let pool = schema.pool();
            let text =
                [service(pool, "a.Shop"), message(pool, "a.Order"), enumeration(pool, "a.Color")];
            text.map(Option::unwrap).join("")
        };
        let text = all(&compile(SHOP));
        assert_eq!(text, DESCRIBED);
        let (head, _) = SHOP.split_once("service Shop").unwrap();
        assert_eq!(all(&compile(&format!("{head}{text}"))), text);
    }

    const DESCRIBED: &str = r#"service Shop {
  rpc Buy(Order) returns (Order) {
    option (google.api.http) = { post: "/buy" body: "*" };
    option (a.owner) = "she";
    option (a.owner) = "he";
    option (a.mark) = {};
    option (tidewire.v1.method) = { scopes: ["a", "b"] };
  }
}
message Order {
  option (buf.validate.message).cel = { id: "x" message: "a \"b\"" expression: "true" };
  string id = 1 [(buf.validate.field).string.min_len = 1];
  string code = 2 [deprecated = true, (buf.validate.field).string = { in: ["a", "b"] }];
  repeated double sums = 3 [
    (buf.validate.field) = { repeated: { min_items: 1 items: { double: { lt: 100000 gte: 0.5 } } } ignore: IGNORE_ALWAYS }
  ];
  string card = 4 [debug_redact = true];
  oneof way {
    option (buf.validate.oneof).required = true;
    string street = 5;
  }
}
enum Color {
  NO_COLOR = 0;
  RED = 1 [(a.label) = "r\n"];
}
"#;
}

//! Paths of `google.api.http` that name what the request does not have.
//!
//! A server refuses them when it starts; here they are faults of the build, at their line, in the
//! same words. What depends on more than one service, such as two routes that match the same
//! requests, is left to the start and to `tidewire check`.

use std::collections::BTreeMap;

use buffa::Message;
use buffa_codegen::generated::descriptor::field_descriptor_proto::{Label, Type};
use buffa_codegen::generated::descriptor::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto,
};
use tidewire_proto::http::{HttpRule, Template};
use tidewire_proto::{Descriptors, Diagnostic, Diagnostics, Position};

use crate::messages::Corpus;

/// Refuses bindings of the files `wanted` that do not fit their methods.
pub(crate) fn check(
    descriptors: &Descriptors,
    corpus: &Corpus,
    wanted: &[String],
) -> Result<(), Diagnostics> {
    let messages = Messages::of(corpus);
    let mut found = Vec::new();
    for file in wanted.iter().filter_map(|name| corpus.file(name)) {
        let name = file.name.as_deref().unwrap_or_default();
        let path = descriptors.files().iter().find(|known| known.name == name);
        let path = path.and_then(|known| known.path.as_ref());
        for Method { service, descriptor: method, path: path_in_file } in methods(file) {
            let encoded = method.options.as_option().map(Message::encode_to_vec);
            let faults = match HttpRule::decode(&encoded.unwrap_or_default()) {
                Ok(rules) => rules.iter().filter_map(|rule| messages.fault(method, rule)).collect(),
                Err(why) => vec![Fault { template: String::new(), offset: 0, why }],
            };
            let text = match (faults.is_empty(), path) {
                (false, Some(path)) => std::fs::read_to_string(path).unwrap_or_default(),
                _ => String::new(),
            };
            found.extend(faults.into_iter().map(|fault| {
                let display =
                    path.map_or_else(|| name.to_owned(), |path| path.display().to_string());
                let what = match &*fault.template {
                    "" => format!("{service}: {}", fault.why),
                    template => format!("path {template:?}: {}", fault.why),
                };
                let diagnostic = Diagnostic::new(display, what).help(HELP);
                diagnostic.at_position(place(file, &path_in_file, &text, &fault))
            }));
        }
    }
    Diagnostics::from_list(found).map_or(Ok(()), Err)
}

/// Why a binding does not fit its method.
struct Fault {
    /// The template that it is about, and the byte in it.
    template: String,
    offset: usize,
    why: String,
}

/// A method of a file.
struct Method<'a> {
    service: &'a str,
    descriptor: &'a MethodDescriptorProto,
    /// Its path in the file's descriptor.
    path: [i32; 4],
}

fn methods(file: &FileDescriptorProto) -> Vec<Method<'_>> {
    let mut found = Vec::new();
    for (at_service, service) in (0..).zip(&file.service) {
        let name = service.name.as_deref().unwrap_or_default();
        for (at_method, descriptor) in (0..).zip(&service.method) {
            let path = [FILE_SERVICE, at_service, SERVICE_METHOD, at_method];
            found.push(Method { service: name, descriptor, path });
        }
    }
    found
}

/// Where the template is written, or else the annotation, or else the method; from 1.
fn place(
    file: &FileDescriptorProto,
    method: &[i32; 4],
    text: &str,
    fault: &Fault,
) -> Option<Position> {
    let places = &file.source_code_info.as_option()?.location;
    let option = [&method[..], &[METHOD_OPTIONS, HttpRule::EXTENSION.cast_signed()]].concat();
    let place = places
        .iter()
        .find(|place| place.path.starts_with(&option))
        .or_else(|| places.iter().find(|place| place.path == method))?;
    let begin = Position::of_span(&place.span)?;
    let quoted = format!("\"{}\"", fault.template);
    let mut lines = (1u32..).zip(text.lines()).skip(begin.line as usize - 1);
    let at_template = lines.find_map(|(line, text)| {
        let before = text.get(..text.find(&quoted)? + 1 + fault.offset)?;
        Some(Position { line, column: u32::try_from(before.chars().count()).ok()? + 1 })
    });
    Some(at_template.unwrap_or(begin))
}

/// Every message by its full name, which begins with a dot.
struct Messages<'a>(BTreeMap<String, &'a DescriptorProto>);

impl<'a> Messages<'a> {
    fn of(corpus: &'a Corpus) -> Self {
        fn add<'a>(
            scope: &str,
            messages: &'a [DescriptorProto],
            found: &mut BTreeMap<String, &'a DescriptorProto>,
        ) {
            for message in messages {
                let name = format!("{scope}.{}", message.name.as_deref().unwrap_or_default());
                add(&name, &message.nested_type, found);
                found.insert(name, message);
            }
        }
        let mut found = BTreeMap::new();
        for file in &corpus.files {
            let scope = match file.package.as_deref().unwrap_or_default() {
                "" => String::new(),
                package => format!(".{package}"),
            };
            add(&scope, &file.message_type, &mut found);
        }
        Self(found)
    }

    /// What is wrong with one binding, first.
    fn fault(&self, method: &MethodDescriptorProto, rule: &HttpRule) -> Option<Fault> {
        let fault = |offset, why| Some(Fault { template: rule.template.clone(), offset, why });
        let template = match Template::parse(&rule.template) {
            Ok(template) => template,
            Err(error) => return fault(error.column() - 1, error.why().to_owned()),
        };
        let input = method.input_type.as_deref().unwrap_or_default();
        for variable in &template.variables {
            if let Err(why) = self.resolve(input, &variable.field) {
                let at = rule.template.find(&format!("{{{}", variable.field));
                return fault(at.map_or(0, |at| at + 1), why);
            }
        }
        let is_field = |message: &str, name: &str| {
            self.0.get(message).is_none_or(|message| find_field(message, name).is_some())
        };
        let output = method.output_type.as_deref().unwrap_or_default();
        let of_request = ("body", input, &rule.body);
        let of_reply = ("response_body", output, &rule.response_body);
        for (option, message, name) in [of_request, of_reply] {
            if !matches!(&**name, "" | "*") && !is_field(message, name) {
                let why = format!(
                    "`{option}: {name:?}` is not a field of {}; it has {}",
                    message.trim_start_matches('.'),
                    self.names(message)
                );
                return fault(0, why);
            }
        }
        None
    }

    /// Whether a dotted name leads to a field that a part of a path can fill.
    fn resolve(&self, message: &str, dotted: &str) -> Result<(), String> {
        let mut message = message;
        let mut names = dotted.split('.').peekable();
        while let Some(name) = names.next() {
            // A message of another compilation is not known here.
            let Some(descriptor) = self.0.get(message) else { return Ok(()) };
            let Some(field) = find_field(descriptor, name) else {
                let shown = message.trim_start_matches('.');
                return Err(format!("{shown} has no field {name}; it has {}", self.names(message)));
            };
            if field.label == Some(Label::LABEL_REPEATED) {
                return Err(format!("{name} is repeated, so no path can fill it"));
            }
            let inner = field.type_name.as_deref().unwrap_or_default();
            let is_message = matches!(field.r#type, Some(Type::TYPE_MESSAGE | Type::TYPE_GROUP));
            match (names.peek(), is_message) {
                (None, true) if !has_text_form(inner) => {
                    let inner = inner.trim_start_matches('.');
                    return Err(format!("{name} is a {inner}, so no part of a path can fill it"));
                }
                (Some(_), false) => {
                    return Err(format!("{name} is not a message, so no name can follow it"));
                }
                (Some(_), true) if has_text_form(inner) => {
                    return Err(format!("{name} is given as one value, without a name after it"));
                }
                _ => message = inner,
            }
        }
        Ok(())
    }

    fn names(&self, message: &str) -> String {
        let fields = self.0.get(message).map(|message| &*message.field).unwrap_or_default();
        match fields {
            [] => "none".to_owned(),
            fields => {
                let names = fields.iter().filter_map(|field| field.name.as_deref());
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The field of an original name or of one in JSON.
fn find_field<'a>(message: &'a DescriptorProto, name: &str) -> Option<&'a FieldDescriptorProto> {
    let is = |known: &Option<String>| known.as_deref() == Some(name);
    message.field.iter().find(|field| is(&field.name) || is(&field.json_name))
}

/// Messages that are one value in JSON.
fn has_text_form(name: &str) -> bool {
    let Some(name) = name.strip_prefix(".google.protobuf.") else { return false };
    matches!(name, "Timestamp" | "Duration" | "FieldMask")
        || name.strip_suffix("Value").is_some_and(|of| !matches!(of, "" | "List"))
}

const HELP: &str = "see the comments of google/api/http.proto";

/// `FileDescriptorProto.service`, `ServiceDescriptorProto.method`, `MethodDescriptorProto.options`.
const FILE_SERVICE: i32 = 6;
const SERVICE_METHOD: i32 = 2;
const METHOD_OPTIONS: i32 = 4;

//! Paths that lead nowhere: fields that the request does not have, roots that nobody knows.

use serde_json::Value as Json;
use tidewire_schema::{EnumType, Field, Kind, MessageType, Scalar, Single};

use super::Compiler;
use crate::body::meant;
use crate::condition::PathTarget;
use crate::template::Template;
use crate::template::formula::Formula;
use crate::template::value_template::ValueTemplate;
use crate::value::node::{Node, Position, Tree};
use crate::value::path::{Path, ROOTS, Root};
use crate::value::view::JSON_TYPES;

impl Compiler<'_> {
    /// Whether a path can lead to something.
    pub(super) fn check_path(&mut self, path: &Path, key: &str, place: Position) {
        let why = match &path.root {
            Root::Request => self.in_request(path.steps()),
            Root::Message => self.in_input(path.steps()),
            Root::State | Root::Vars if path.steps().is_empty() => {
                Some(format!("{key} is an object; write {key}.NAME for what is in it"))
            }
            Root::Metadata(None) => {
                Some(format!("{key} is all headers; write {key}.NAME for one of them"))
            }
            Root::Unknown => {
                let first = key.split(['.', '[']).next().unwrap_or(key);
                let meant = match self.in_input(&[first.to_owned()]) {
                    None => format!("; did you mean request.{key}?"),
                    Some(_) => meant(first, &ROOTS),
                };
                Some(format!("{key} is always absent: nothing is called {first}{meant}"))
            }
            _ => None,
        };
        if let Some(why) = why {
            self.warn(place, why);
        }
    }

    /// The template of a text; `None` where it has no expression, or was rendered already.
    pub(super) fn template(&mut self, text: &str, place: Position) -> Option<Template> {
        if self.is_rendered {
            return None;
        }
        self.check_braces(text, place);
        let schema = self.schema;
        let method = self.method;
        let template = Template::parse(text, &mut |text| Formula::new(schema, method, text))?;
        self.check_template(&template, place);
        Some(template)
    }

    /// A value with its templates.
    pub(super) fn value_template(&mut self, node: &Node) -> ValueTemplate {
        if self.is_rendered {
            return ValueTemplate::Plain(node.clone());
        }
        self.check_braces_within(node);
        let schema = self.schema;
        let method = self.method;
        let value_template =
            ValueTemplate::new(node, &mut |text| Formula::new(schema, method, text));
        let mut templates = Vec::new();
        value_template.templates(&mut |template, place| templates.push((template, place)));
        for (template, place) in templates {
            self.check_template(template, place);
        }
        value_template
    }

    /// Braces that begin a template and do not end it.
    fn check_braces(&mut self, text: &str, place: Position) {
        if text.rfind("{{").is_some_and(|at| !text[at..].contains("}}")) {
            self.warn(place, "{{ is not closed with }}, so it stays as it is");
        }
    }

    fn check_braces_within(&mut self, node: &Node) {
        match &node.value {
            Tree::Text(text) => self.check_braces(text, node.place),
            Tree::List(items) => items.iter().for_each(|item| self.check_braces_within(item)),
            Tree::Object(members) => {
                members.iter().for_each(|member| self.check_braces_within(&member.value));
            }
            _ => {}
        }
    }

    fn check_template(&mut self, template: &Template, place: Position) {
        for path in template.paths() {
            if matches!(path.root, Root::Request | Root::Message) {
                self.check_path(path, "", place);
            }
        }
        for doubt in template.doubts() {
            self.warn(place, doubt);
        }
    }

    /// What is known of what a path leads to.
    pub(super) fn this_at(&self, path: &Path) -> PathTarget {
        if let Root::Metadata(Some(_)) = path.root {
            return PathTarget { absent: "".into(), ..PathTarget::default() };
        }
        match self.kind_at(path) {
            None => PathTarget::default(),
            Some(Kind::One(single)) => this_of(single),
            Some(Kind::List(single)) => {
                let element = Some(Box::new(this_of(single)));
                PathTarget { absent: Json::Array(Vec::new()), element, message: None }
            }
            Some(Kind::Map { .. }) => {
                PathTarget { absent: Json::Object(Default::default()), ..PathTarget::default() }
            }
        }
    }

    /// The kind of field that a path leads to, where it is one of the request.
    fn kind_at(&self, path: &Path) -> Option<Kind<'_>> {
        let steps = match (&path.root, self.method.kind.client_streams(), path.steps()) {
            (Root::Request, false, steps) | (Root::Message, _, steps) => steps,
            (Root::Request, true, [first, rest @ ..]) if first == "first" || first == "last" => {
                rest
            }
            (Root::Request, true, [items, _, rest @ ..]) if items == "items" => rest,
            _ => return None,
        };
        let mut at = Kind::One(Single::Message(self.schema.message_type(&self.method.input)?));
        for step in steps {
            at = match at {
                // Only the message says what is in its JSON.
                Kind::One(Single::Message(owner)) if JSON_TYPES.contains(&owner.full_name()) => {
                    return None;
                }
                Kind::One(Single::Message(owner)) => owner.field(step).map(Field::kind)?,
                Kind::List(single) | Kind::Map { value: single, .. } => Kind::One(single),
                Kind::One(_) => return None,
            };
        }
        Some(at)
    }

    /// Whether the enum that a path leads to has what is expected of it.
    pub(super) fn check_enum(&mut self, path: &Path, expected: &Node) {
        let (Some(Kind::One(single)) | Some(Kind::List(single))) = self.kind_at(path) else {
            return;
        };
        let Single::Enum(owner) = single else { return };
        let mut wrong = Vec::new();
        wrong_names(owner, expected, &mut wrong);
        wrong.into_iter().for_each(|(place, why)| self.error(place, why));
    }

    fn in_request(&self, steps: &[String]) -> Option<String> {
        if !self.method.kind.client_streams() {
            return self.in_input(steps);
        }
        let (first, rest) = steps.split_first()?;
        match (first.as_str(), rest) {
            ("first" | "last", rest) => self.in_input(rest),
            ("items" | "stream", [index, rest @ ..]) if index != "length" => self.in_input(rest),
            ("items" | "stream" | "count", _) => None,
            (name, _) => {
                let meant = match self.in_input(&[name.to_owned()]) {
                    None => format!("; did you mean request.last.{name}?"),
                    Some(_) => String::new(),
                };
                Some(format!("request.{name} is always absent: requests are a stream{meant}"))
            }
        }
    }

    /// Whether a path is the whole request, and this a field of it.
    pub(super) fn is_input(&self, path: &Path, name: &str) -> bool {
        let is_whole = path.root == Root::Request && path.steps().is_empty();
        is_whole
            && !self.method.kind.client_streams()
            && self.in_input(&[name.to_owned()]).is_none()
    }

    fn in_input(&self, steps: &[String]) -> Option<String> {
        let owner = self.schema.message_type(&self.method.input)?;
        in_message(owner, steps)
    }
}

/// The names in a test that an enum does not have; any number is one of its values.
fn wrong_names(owner: EnumType<'_>, expected: &Node, wrong: &mut Vec<(Position, String)>) {
    match &expected.value {
        Tree::Object(members) => {
            for member in members {
                match &*member.key {
                    "eq" | "ne" | "contains" | "not" | "any" | "all" | "none" => {
                        wrong_names(owner, &member.value, wrong);
                    }
                    "in" | "any_of" => {
                        member.value.items().iter().for_each(|one| wrong_names(owner, one, wrong));
                    }
                    _ => {}
                }
            }
        }
        // Empty text is what is absent.
        Tree::Text(text)
            if !text.is_empty()
                && owner.number_of(text).is_none()
                && text.parse::<i32>().is_err() =>
        {
            let known: Vec<_> = owner.values().map(|(name, _)| name).collect();
            let meant = meant(text, &known);
            wrong.push((
                expected.place,
                format!("{} has no value {text}{meant}", owner.full_name()),
            ));
        }
        _ => {}
    }
}

fn this_of(single: Single<'_>) -> PathTarget {
    let absent = match single {
        Single::Message(owner) if JSON_TYPES.contains(&owner.full_name()) => Json::Null,
        Single::Message(owner) => {
            return PathTarget {
                message: Some(owner.full_name().to_owned()),
                ..PathTarget::default()
            };
        }
        Single::Enum(_) => 0.into(),
        Single::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Single::Scalar(Scalar::Bool) => false.into(),
        Single::Scalar(Scalar::Double | Scalar::Float) => 0.0.into(),
        Single::Scalar(_) => 0.into(),
    };
    PathTarget { absent, ..PathTarget::default() }
}

fn in_message(owner: MessageType<'_>, steps: &[String]) -> Option<String> {
    let (name, rest) = steps.split_first()?;
    if owner.full_name() == "google.protobuf.ListValue" {
        let is_member = name.parse::<usize>().is_ok() || name == "length" || name == "values";
        return (!is_member)
            .then(|| format!("a ListValue is a list; what follows it is an index, not {name}"));
    }
    if JSON_TYPES.contains(&owner.full_name()) {
        return None;
    }
    let Some(field) = owner.field(name) else {
        let is_oneof = owner.oneofs().any(|oneof| oneof.name() == name);
        let is_optional = name.strip_prefix('_').is_some_and(|name| owner.field(name).is_some());
        if is_oneof || is_optional {
            return None;
        }
        let known: Vec<_> = owner.fields().map(Field::name).collect();
        let meant = meant(name, &known);
        return Some(format!(
            "{} has no field {name}, so it is always absent{meant}",
            owner.full_name()
        ));
    };
    match (field.kind(), rest) {
        (Kind::One(single), rest) => in_single(field, single, rest),
        (Kind::List(_), [step]) if step == "length" => None,
        (Kind::List(single), [index, rest @ ..]) => match index.parse::<usize>() {
            Ok(_) => in_single(field, single, rest),
            Err(_) => Some(format!(
                "{} is a list; what follows it is an index, not {index}",
                field.name()
            )),
        },
        (Kind::Map { value, .. }, [_, rest @ ..]) => in_single(field, value, rest),
        (_, []) => None,
    }
}

fn in_single(field: Field<'_>, single: Single<'_>, rest: &[String]) -> Option<String> {
    match single {
        Single::Message(owner)
            if owner.full_name() == "google.protobuf.StringValue" && rest == ["length"] =>
        {
            None
        }
        Single::Message(owner) => in_message(owner, rest),
        Single::Scalar(Scalar::String) if rest.first().is_some_and(|step| step == "length") => None,
        _ => rest
            .first()
            .map(|step| format!("{} has no fields, so {step} is always absent", field.name())),
    }
}

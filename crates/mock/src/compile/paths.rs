//! Paths that lead nowhere: fields that the request does not have, roots that nobody knows.

use tidewire_schema::{Field, Kind, MessageType, Scalar, Single};

use super::Compiler;
use crate::body::meant;
use crate::node::Place;
use crate::path::{Path, Root};
use crate::sketch::Sketch;
use crate::template::Template;

const ROOTS: [&str; 7] = ["request", "metadata", "stream", "message", "state", "attempt", "vars"];

impl Compiler<'_> {
    /// Whether a path can lead to something.
    pub(super) fn check_path(&mut self, path: &Path, key: &str, place: Place) {
        let why = match &path.root {
            Root::Request => self.in_request(path.steps()),
            Root::Message => self.in_input(path.steps()),
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

    pub(super) fn check_template(&mut self, template: &Template, place: Place) {
        for path in template.paths() {
            if matches!(path.root, Root::Request | Root::Message) {
                self.check_path(path, "", place);
            }
        }
    }

    pub(super) fn check_sketch(&mut self, sketch: &Sketch) {
        let mut paths = Vec::new();
        sketch.paths(&mut |path, place| paths.push((path.clone(), place)));
        for (path, place) in paths {
            if matches!(path.root, Root::Request | Root::Message) {
                self.check_path(&path, "", place);
            }
        }
    }

    /// The type of the message that a path leads to, where it is one.
    pub(super) fn message_at(&self, path: &Path) -> Option<String> {
        let steps = match (&path.root, self.method.kind.client_streams(), path.steps()) {
            (Root::Request, false, steps) | (Root::Message, _, steps) => steps,
            (Root::Request, true, [first, rest @ ..]) if first == "first" || first == "last" => {
                rest
            }
            _ => return None,
        };
        let owner = self.schema.message_type(&self.method.input)?;
        let mut at = Kind::One(Single::Message(owner));
        for step in steps {
            at = match at {
                Kind::One(Single::Message(owner)) => owner.field(step)?.kind(),
                Kind::List(single) | Kind::Map { value: single, .. } => Kind::One(single),
                Kind::One(_) => return None,
            };
        }
        match at {
            Kind::One(Single::Message(owner)) => Some(owner.full_name().to_owned()),
            _ => None,
        }
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

    fn in_input(&self, steps: &[String]) -> Option<String> {
        let owner = self.schema.message_type(&self.method.input)?;
        in_message(owner, steps)
    }
}

fn in_message(owner: MessageType<'_>, steps: &[String]) -> Option<String> {
    let (name, rest) = steps.split_first()?;
    if matches!(
        owner.full_name(),
        "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue"
    ) {
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
        Single::Message(owner) => in_message(owner, rest),
        Single::Scalar(Scalar::String) if rest.first().is_some_and(|step| step == "length") => None,
        _ => rest
            .first()
            .map(|step| format!("{} has no fields, so {step} is always absent", field.name())),
    }
}

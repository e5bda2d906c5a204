//! Values as rules see them: fields of requests, headers, state, and what stands in a rule itself.
//!
//! Rules compare text, so every value has one, as JavaScript writes it:
//!
//! | value | text | as a number |
//! |---|---|---|
//! | absent, `null` | nothing | absent means missing, `null` is 0 |
//! | 64-bit integer, `double`, `float` | its shortest digits | itself, integers exactly |
//! | enum | its name; equality takes the number too | none |
//! | `bytes` | as UTF-8; equality takes base64 too | as of its text |
//! | list | its elements, with commas | as of its text |
//! | message, map, object, `Struct` | `[object Object]` | none |
//! | `Timestamp` | the same; equality, patterns and order take RFC 3339 | none |
//! | `Duration` | what its JSON says; equality and order take any text that is as long | none |
//! | `FieldMask` | what its JSON says | none |
//! | wrapper, `Value`, `ListValue` | that of what it holds | that of what it holds |
//! | these and `Timestamp` in a template | what its JSON says | as of its text |
//!
//! A field without presence that has its default is absent.

use std::borrow::Cow;

use base64::Engine;
use serde_json::{Value as Json, json};
use tidewire_schema::{JsonStyle, Message, MessageRef, Value};
use tidewire_validate::{parse_timestamp, print_timestamp};

use crate::value::javascript;
use crate::value::node::{Node, Number, Position, Tree};
use crate::value::seconds;

/// A value that a rule looks at.
#[derive(Debug, Clone)]
pub(crate) enum View<'a> {
    /// Nothing is there.
    Missing,
    /// A field, an element or an entry of a message.
    Field(Value<'a>),
    /// What stands in a rule, or in the state that rules set.
    Rule(&'a Node),
    /// All messages of a stream.
    Messages(&'a [Message]),
    /// Text, such as of a header.
    Text(Cow<'a, str>),
    /// A number that nobody sent: a count, a length, a time.
    Number(Number),
    /// A truth that nobody sent.
    Bool(bool),
    /// All headers, a request that is a stream: something with members.
    Object,
}

const OBJECT: &str = "[object Object]";

impl<'a> View<'a> {
    /// A count as a view.
    pub(crate) fn count(count: usize) -> Self {
        Self::Number(Number::Integer(i128::try_from(count).unwrap_or(i128::MAX)))
    }

    /// Whether there is nothing.
    pub(crate) fn is_absent(&self) -> bool {
        match self {
            Self::Missing => true,
            Self::Rule(node) => node.value == Tree::Null,
            _ => false,
        }
    }

    /// Its text; of what is absent none.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        if let Some(value) = self.json_value() {
            return value.text();
        }
        if self.is_absent() { Cow::Borrowed("") } else { self.spelled() }
    }

    /// What is compared of a type whose JSON is not an object of its fields; of another `None`.
    pub(crate) fn json_value(&self) -> Option<Self> {
        match self {
            Self::Field(Value::Message(message)) => json_value(*message),
            _ => None,
        }
    }

    /// Its text; `null` where it is `null` and `undefined` where nothing is.
    pub(crate) fn spelled(&self) -> Cow<'a, str> {
        match self {
            Self::Missing => Cow::Borrowed("undefined"),
            Self::Field(value) => match self.json_value() {
                Some(value) => value.spelled(),
                None => field_text(*value),
            },
            Self::Rule(node) => node_text(node),
            Self::Messages(messages) => Cow::Owned(vec![OBJECT; messages.len()].join(",")),
            Self::Text(text) => text.clone(),
            Self::Number(number) => Cow::Owned(javascript::write(*number)),
            Self::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Object => Cow::Borrowed(OBJECT),
        }
    }

    /// What a template sees of it: of a well-known type its JSON, of text without quotes.
    pub(crate) fn in_template(self) -> Self {
        let json = match &self {
            Self::Field(Value::Message(message)) => well_known_json(*message),
            Self::Field(Value::List(list)) => {
                let json = |one| match one {
                    Value::Message(message) => well_known_json(message),
                    _ => None,
                };
                let texts: Option<Vec<_>> = list.iter().map(json).collect();
                texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join(","))
            }
            _ => None,
        };
        json.map_or(self, |text| Self::Text(Cow::Owned(text)))
    }

    /// The number that it is, or that its text reads as.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Missing | Self::Object | Self::Field(Value::Map(_)) => None,
            Self::Field(Value::Message(_)) => self.json_value().and_then(|value| value.number()),
            Self::Number(number) => Some(*number),
            Self::Bool(value) | Self::Field(Value::Bool(value)) => {
                Some(Number::Integer(i128::from(*value)))
            }
            Self::Rule(node) => match &node.value {
                Tree::Null => Some(Number::Integer(0)),
                Tree::Bool(value) => Some(Number::Integer(i128::from(*value))),
                Tree::Number(number) => Some(*number),
                Tree::Object(_) | Tree::Date(_) => None,
                _ => javascript::read(&self.spelled()),
            },
            _ => javascript::read(&self.spelled()),
        }
    }

    /// The elements, where it is a list.
    pub(crate) fn elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::Field(Value::List(list)) => Some(list.iter().map(View::Field).collect()),
            Self::Rule(Node { value: Tree::List(items), .. }) => {
                Some(items.iter().map(View::Rule).collect())
            }
            Self::Messages(messages) => {
                Some(messages.iter().map(|one| View::Field(Value::from(one))).collect())
            }
            _ => self.json_value()?.elements(),
        }
    }

    /// Other texts that equality takes for it: the number of an enum, the base64 of bytes.
    pub(crate) fn other_text(&self) -> Option<String> {
        match self {
            Self::Field(Value::Enum(value)) => Some(value.number().to_string()),
            Self::Field(Value::Bytes(bytes)) => {
                Some(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            _ => self.json_value()?.other_text(),
        }
    }

    /// Whether it is what JSON says.
    pub(crate) fn is_same(&self, wanted: &Json) -> bool {
        match self {
            Self::Missing | Self::Object => wanted.is_null(),
            Self::Field(value) => value.matches(wanted),
            Self::Rule(node) => plain_json(node) == *wanted,
            Self::Messages(messages) => wanted.as_array().is_some_and(|wanted| {
                wanted.len() == messages.len()
                    && messages.iter().zip(wanted).all(|(one, json)| Value::from(one).matches(json))
            }),
            Self::Text(text) => wanted == &**text,
            Self::Number(number) => wanted.as_f64() == Some(number.as_f64()),
            Self::Bool(value) => wanted == value,
        }
    }

    /// Whether it is what JSON says, with anything in the place of [`ANYTHING`].
    pub(crate) fn is_like(&self, wanted: &Json) -> bool {
        match (self, wanted) {
            (Self::Missing, _) => false,
            (_, Json::String(text)) if text == ANYTHING => true,
            (Self::Field(Value::Message(message)), _) => {
                let json = message.print(JsonStyle::default()).ok();
                let json = json.and_then(|json| serde_json::from_slice(&json).ok());
                json.is_some_and(|json: Json| is_like(&json, wanted))
            }
            (Self::Field(Value::List(_)) | Self::Messages(_), Json::Array(wanted)) => {
                let elements = self.elements().unwrap_or_default();
                elements.len() == wanted.len()
                    && elements.iter().zip(wanted).all(|(one, wanted)| one.is_like(wanted))
            }
            (Self::Field(Value::Map(map)), Json::Object(wanted)) => {
                let mut entries = map.iter();
                map.len() == wanted.len()
                    && entries.all(|(key, value)| {
                        let wanted = wanted.get(&*field_text(key));
                        wanted.is_some_and(|wanted| View::Field(value).is_like(wanted))
                    })
            }
            (_, Json::String(pattern)) if pattern.contains(ANYTHING) => {
                is_text_like(&self.text(), pattern)
            }
            _ => self.is_same(wanted),
        }
    }

    /// Whether it equals a text; a point in time and a duration however that writes it.
    pub(crate) fn equals(&self, text: &str) -> bool {
        self.text() == text
            || self.other_text().is_some_and(|other| other == text)
            || self.timestamp().is_some_and(|at| parse_timestamp(text) == Some(at))
            || self.nanos_of("Duration").is_some_and(|long| seconds::nanos(text) == Some(long))
    }

    /// The text that patterns look at: of a point in time RFC 3339.
    pub(crate) fn readable(&self) -> Cow<'a, str> {
        self.timestamp().map_or_else(|| self.text(), |at| Cow::Owned(print_timestamp(at)))
    }

    /// What people are shown of it: a message, a list or a map as JSON without what its schema
    /// marks with `debug_redact`, and anything else as text in quotes.
    pub(crate) fn for_people(&self) -> String {
        if let Some(value) = self.json_value() {
            return value.for_people();
        }
        match self {
            Self::Field(Value::Message(_) | Value::List(_) | Value::Map(_))
                if self.timestamp().is_none() =>
            {
                field_json(self).to_string()
            }
            Self::Rule(node) if matches!(node.value, Tree::Object(_) | Tree::List(_)) => {
                plain_json(node).to_string()
            }
            Self::Messages(messages) => {
                let all = messages.iter().map(|one| field_json(&View::Field(Value::from(one))));
                Json::Array(all.collect()).to_string()
            }
            _ => format!("{:?}", self.readable()),
        }
    }

    /// The nanoseconds since 1970 of a `google.protobuf.Timestamp`.
    fn timestamp(&self) -> Option<i128> {
        self.nanos_of("Timestamp")
    }

    /// The nanoseconds of a `google.protobuf.Timestamp` or `Duration`, whichever is asked for.
    fn nanos_of(&self, short: &str) -> Option<i128> {
        let Self::Field(Value::Message(message)) = self else { return None };
        let owner = message.message_type();
        if owner.full_name().strip_prefix("google.protobuf.") != Some(short) {
            return None;
        }
        let part = |name: &str| match message.get(name) {
            Ok(Some(Value::I64(number))) => i128::from(number),
            Ok(Some(Value::I32(number))) => i128::from(number),
            _ => 0,
        };
        Some(part("seconds") * 1_000_000_000 + part("nanos"))
    }

    /// The same, also of text in the form of RFC 3339.
    pub(crate) fn time(&self) -> Option<i128> {
        self.timestamp().or_else(|| match self {
            Self::Rule(Node { value: Tree::Date(text), .. }) => parse_timestamp(text),
            Self::Field(Value::String(_)) | Self::Rule(_) | Self::Text(_) => {
                parse_timestamp(&self.text())
            }
            _ => self.json_value()?.time(),
        })
    }

    /// The nanoseconds of a `google.protobuf.Duration`, also of text that is one: `1.5s`, `80ms`.
    pub(crate) fn duration(&self) -> Option<i128> {
        self.nanos_of("Duration").or_else(|| match self {
            Self::Field(Value::String(_)) | Self::Rule(_) | Self::Text(_) => {
                seconds::nanos(&self.text())
            }
            _ => self.json_value()?.duration(),
        })
    }
}

/// What is compared of a message whose JSON is not an object of its fields: the text of a duration
/// and of a field mask, what a wrapper or a `Value` holds, the elements of a `ListValue`.
fn json_value(message: MessageRef<'_>) -> Option<View<'_>> {
    static NULL: Node = Node { value: Tree::Null, place: Position { line: 0, column: 0, file: 0 } };
    let owner = message.message_type();
    let value_of = |name: &str| owner.field(name).and_then(|field| message.value_of(field));
    Some(match owner.full_name().strip_prefix("google.protobuf.")? {
        "Duration" | "FieldMask" => View::Text(well_known_json(message)?.into()),
        "ListValue" => value_of("values").map_or(View::Messages(&[]), View::Field),
        "Value" => match message.which("kind").and_then(|field| message.value_of(field)) {
            None => View::Missing,
            Some(Value::Enum(_)) => View::Rule(&NULL),
            Some(Value::Message(inner)) => {
                json_value(inner).unwrap_or(View::Field(Value::Message(inner)))
            }
            Some(scalar) => View::Field(scalar),
        },
        short @ ("StringValue" | "BytesValue" | "BoolValue" | "DoubleValue" | "FloatValue"
        | "Int32Value" | "Int64Value" | "UInt32Value" | "UInt64Value") => {
            match (value_of("value"), short) {
                (Some(value), _) => View::Field(value),
                (None, "StringValue" | "BytesValue") => View::Text(Cow::Borrowed("")),
                (None, "BoolValue") => View::Bool(false),
                (None, _) => View::count(0),
            }
        }
        _ => return None,
    })
}

/// What stands for any text in a text, and for any value by itself, where something is compared
/// without its secrets.
pub(crate) const ANYTHING: &str = "***";

/// Whether JSON is as wanted, with anything in the place of [`ANYTHING`].
fn is_like(actual: &Json, wanted: &Json) -> bool {
    match (actual, wanted) {
        (_, Json::String(pattern)) if pattern == ANYTHING => true,
        (Json::String(text), Json::String(pattern)) => is_text_like(text, pattern),
        (Json::Number(one), Json::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Json::Array(all), Json::Array(wanted)) => {
            all.len() == wanted.len()
                && all.iter().zip(wanted).all(|(one, wanted)| is_like(one, wanted))
        }
        (Json::Object(members), Json::Object(wanted)) => {
            let is_member = |(key, value): (&String, &Json)| {
                wanted.get(key).is_some_and(|wanted| is_like(value, wanted))
            };
            members.len() == wanted.len() && members.iter().all(is_member)
        }
        _ => actual == wanted,
    }
}

/// The same of a text: the parts between come one after the other.
fn is_text_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANYTHING) else { return text == pattern };
    let (between, last) = rest.rsplit_once(ANYTHING).unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first) else { return false };
    let Some(mut text) = text.strip_suffix(last) else { return false };
    for part in between.split(ANYTHING) {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// The beginning of a text that is longer than people read.
pub(crate) fn short(text: String) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}… ({} characters)", &text[..at], text.chars().count()),
        None => text,
    }
}

/// How many characters of a value are shown.
const SHOWN_MAX: usize = 200;

/// A field as JSON, for people.
fn field_json(view: &View<'_>) -> Json {
    match view {
        View::Field(Value::Message(message)) => match well_known(*message) {
            // What is in it may be of a type that marks it.
            Some(json) if json["@type"].is_string() => json!({"@type": json["@type"]}),
            Some(json) => json,
            None => {
                let fields = message.fields().map(|(field, value)| {
                    let shown = match field.is_redacted() {
                        true => "***".into(),
                        false => field_json(&View::Field(value)),
                    };
                    (field.json_name().to_owned(), shown)
                });
                Json::Object(fields.collect())
            }
        },
        View::Field(Value::List(list)) => {
            list.iter().map(|one| field_json(&View::Field(one))).collect()
        }
        View::Field(Value::Map(map)) => {
            let entries = map.iter().map(|(key, value)| {
                (field_text(key).into_owned(), field_json(&View::Field(value)))
            });
            Json::Object(entries.collect())
        }
        View::Field(Value::Bool(value)) => (*value).into(),
        View::Field(Value::I32(value)) => (*value).into(),
        View::Field(Value::U32(value)) => (*value).into(),
        other => other.readable().into(),
    }
}

/// The JSON of a message whose type has a special form there.
fn well_known_json(message: MessageRef<'_>) -> Option<String> {
    Some(match well_known(message)? {
        Json::String(text) => text,
        Json::Number(number) => javascript::write(match number.as_i64() {
            Some(integer) => Number::Integer(integer.into()),
            None => Number::Float(number.as_f64().unwrap_or(f64::NAN)),
        }),
        other => other.to_string(),
    })
}

/// The same by itself.
fn well_known(message: MessageRef<'_>) -> Option<Json> {
    let short = message.message_type().full_name().strip_prefix("google.protobuf.")?;
    let is_known = matches!(short, "Timestamp" | "Duration" | "FieldMask" | "Struct" | "Any")
        || short.ends_with("Value");
    let json = message.print(JsonStyle::default()).ok().filter(|_| is_known)?;
    serde_json::from_slice(&json).ok()
}

/// The types whose values are JSON.
pub(crate) const JSON_TYPES: [&str; 3] =
    ["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"];

/// What a message is whose type stands for JSON.
pub(crate) fn any_json(message: MessageRef<'_>) -> Option<Json> {
    let is_json = JSON_TYPES.contains(&message.message_type().full_name());
    is_json.then(|| well_known(message)).flatten()
}

/// The JSON that a value is by itself.
pub fn plain_json(node: &Node) -> Json {
    match &node.value {
        Tree::Null => Json::Null,
        Tree::Bool(value) => (*value).into(),
        Tree::Number(Number::Integer(integer)) => match i64::try_from(*integer) {
            Ok(integer) => integer.into(),
            Err(_) => u64::try_from(*integer)
                .map_or_else(|_| javascript::write(Number::Integer(*integer)).into(), Json::from),
        },
        Tree::Number(Number::Float(number)) => (*number).into(),
        Tree::Text(text) | Tree::Date(text) => text.clone().into(),
        Tree::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes).into(),
        Tree::List(items) => items.iter().map(plain_json).collect(),
        Tree::Object(members) => {
            let members = members.iter().map(|one| (one.key.clone(), plain_json(&one.value)));
            Json::Object(members.collect())
        }
    }
}

fn field_text(value: Value<'_>) -> Cow<'_, str> {
    Cow::Owned(match value {
        Value::String(text) => return Cow::Borrowed(text),
        Value::Bool(value) => return Cow::Borrowed(if value { "true" } else { "false" }),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        // The shortest digits of the `float`, not those of the `double` that it widens to.
        Value::F32(value) => javascript::write(Number::Float(
            format!("{value:e}").parse().unwrap_or_else(|_| f64::from(value)),
        )),
        Value::F64(value) => javascript::write(Number::Float(value)),
        Value::Bytes(bytes) => return String::from_utf8_lossy(bytes),
        Value::Enum(value) => match value.name() {
            Some(name) => return Cow::Borrowed(name),
            None => value.number().to_string(),
        },
        Value::List(list) => {
            let texts: Vec<_> = list.iter().map(|one| View::Field(one).text()).collect();
            texts.join(",")
        }
        Value::Message(_) | Value::Map(_) => return Cow::Borrowed(OBJECT),
    })
}

fn node_text(node: &Node) -> Cow<'_, str> {
    match &node.value {
        Tree::Null => Cow::Borrowed("null"),
        Tree::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        Tree::Number(number) => Cow::Owned(javascript::write(*number)),
        Tree::Text(text) => Cow::Borrowed(text),
        // JavaScript would spell it with the zone of the machine; no sender does.
        Tree::Date(text) => Cow::Owned(format!("the date {text}")),
        Tree::Bytes(bytes) => String::from_utf8_lossy(bytes),
        Tree::List(items) => {
            let texts: Vec<_> = items.iter().map(|item| View::Rule(item).text()).collect();
            Cow::Owned(texts.join(","))
        }
        Tree::Object(_) => Cow::Borrowed(OBJECT),
    }
}

//! What a rule says an answer is, as a message of the schema.
//!
//! A rule is written by hand, so it is read more kindly than JSON is: `"42"` and `42.0` are an
//! integer, `5` is text where text is wanted, `"false"` is false, a timestamp may be
//! `{seconds: 3}`, a wrapper its value or `{value: x}`, bytes a list of numbers. Empty text is a
//! number's default, and a fraction in a text is cut off where an integer is wanted: templates give
//! text. What the schema does not know is left out (`check` tells it). So is a name that an enum
//! does not have, which `check` calls an error where a rule has it. Anything else that cannot be
//! what the schema wants is an error that names the field.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};
use tidewire_schema::{EnumType, Field, Kind, Message, MessageType, Scalar, Schema, Single};

use crate::value::node::{Node, Number, Position, Tree};
use crate::value::view::{View, plain_json};

/// Why a body is not a message, or what of it is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyFault {
    pub(crate) place: Position,
    /// The field: `item.tags[1]`.
    pub(crate) path: String,
    pub(crate) message: String,
    /// An enum does not have this name.
    pub(crate) is_wrong_name: bool,
}

impl BodyFault {
    pub(crate) fn new(place: Position, path: String, message: String) -> Self {
        Self { place, path, message, is_wrong_name: false }
    }
}

/// The message that a body says; `dropped` is told what is left out of it.
///
/// # Errors
/// The first thing that cannot be what the schema wants.
pub(crate) fn message(
    schema: &Schema,
    type_name: &str,
    body: &Node,
    dropped: &mut dyn FnMut(BodyFault),
) -> Result<Message, BodyFault> {
    let whole = |message: String| BodyFault::new(body.place, String::new(), message);
    let Some(owner) = schema.message_type(type_name) else {
        return Err(whole(format!("the schema has no message type {type_name}")));
    };
    let json = match &body.value {
        Tree::Null => Json::Object(Map::new()),
        _ => Coercion { schema, dropped, path: Vec::new() }.message(owner, body)?,
    };
    schema.from_json(type_name, &json).map_err(|error| whole(error.message().to_owned()))
}

struct Coercion<'s, 'd> {
    schema: &'s Schema,
    dropped: &'d mut dyn FnMut(BodyFault),
    path: Vec<String>,
}

impl Coercion<'_, '_> {
    fn fault(&self, node: &Node, message: impl Into<String>) -> BodyFault {
        let mut path = String::new();
        for step in &self.path {
            if !path.is_empty() && !step.starts_with('[') {
                path.push('.');
            }
            path.push_str(step);
        }
        BodyFault::new(node.place, path, message.into())
    }

    fn wants<T>(&self, node: &Node, wanted: &str) -> Result<T, BodyFault> {
        let shown = match &node.value {
            Tree::Text(text) => format!("the text {:?}", shortened(text)),
            Tree::Number(_) | Tree::Bool(_) => View::Rule(node).text().into_owned(),
            _ => node.kind().to_owned(),
        };
        Err(self.fault(node, format!("{shown} is not a valid {wanted}")))
    }

    fn message(&mut self, owner: MessageType<'_>, node: &Node) -> Result<Json, BodyFault> {
        if let Some(json) = self.well_known(owner, node)? {
            return Ok(json);
        }
        let Tree::Object(members) = &node.value else {
            return self.wants(node, owner.full_name());
        };
        let mut json = Map::new();
        let mut oneofs: Vec<(&str, String)> = Vec::new();
        for member in members {
            // What an expression gave says what it is.
            if member.key == "@type" {
                continue;
            }
            let Some(field) = owner.field(&member.key) else {
                let why = no_field(owner, &member.key);
                let fault = self.fault(&Node { value: Tree::Null, place: member.place }, why);
                (self.dropped)(fault);
                continue;
            };
            if member.value.value == Tree::Null && !is_value(field) {
                continue;
            }
            self.path.push(field.name().to_owned());
            let value = self.field(field, &member.value)?;
            self.path.pop();
            let Some(value) = value else { continue };
            // Of the members of a oneof the last one stands.
            if let Some(oneof) = field.oneof() {
                if let Some(index) = oneofs.iter().position(|(name, _)| *name == oneof.name()) {
                    let (_, before) = oneofs.swap_remove(index);
                    json.remove(&before);
                }
                oneofs.push((oneof.name(), field.json_name().to_owned()));
            }
            json.insert(field.json_name().to_owned(), value);
        }
        Ok(Json::Object(json))
    }

    fn field(&mut self, field: Field<'_>, node: &Node) -> Result<Option<Json>, BodyFault> {
        match field.kind() {
            Kind::One(single) => self.single(single, node),
            Kind::List(single) => {
                let Tree::List(items) = &node.value else { return self.wants(node, "list") };
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    self.path.push(format!("[{index}]"));
                    list.extend(self.single(single, item)?);
                    self.path.pop();
                }
                Ok(Some(Json::Array(list)))
            }
            Kind::Map { value, .. } => {
                let Tree::Object(members) = &node.value else { return self.wants(node, "map") };
                let mut map = Map::new();
                for member in members {
                    self.path.push(format!("[{}]", member.key));
                    let value = self.single(value, &member.value)?;
                    self.path.pop();
                    map.extend(value.map(|value| (member.key.clone(), value)));
                }
                Ok(Some(Json::Object(map)))
            }
        }
    }

    fn single(&mut self, single: Single<'_>, node: &Node) -> Result<Option<Json>, BodyFault> {
        match single {
            Single::Message(owner) => self.message(owner, node).map(Some),
            Single::Enum(owner) => self.enumeration(owner, node),
            Single::Scalar(scalar) => self.scalar(scalar, node).map(Some),
        }
    }

    fn enumeration(&mut self, owner: EnumType<'_>, node: &Node) -> Result<Option<Json>, BodyFault> {
        if owner.full_name() == "google.protobuf.NullValue" {
            return Ok(Some(Json::Null));
        }
        let text = View::Rule(node).text();
        let number = match &node.value {
            Tree::Number(_) | Tree::Text(_) => owner.number_of(&text).or_else(|| text.parse().ok()),
            _ => return self.wants(node, owner.full_name()),
        };
        let Some(number) = number else {
            let known: Vec<_> = owner.values().map(|(name, _)| name).collect();
            let meant = meant(&text, &known);
            let why = format!("{} has no value {text}{meant}", owner.full_name());
            let fault = self.fault(node, why);
            (self.dropped)(BodyFault { is_wrong_name: true, ..fault });
            return Ok(None);
        };
        Ok(Some(number.into()))
    }

    fn scalar(&self, scalar: Scalar, node: &Node) -> Result<Json, BodyFault> {
        let view = View::Rule(node);
        Ok(match scalar {
            Scalar::String => match &node.value {
                Tree::Date(text) => text.clone().into(),
                Tree::Object(_) => return self.wants(node, "text"),
                _ => view.text().into_owned().into(),
            },
            Scalar::Bool => match &node.value {
                Tree::Text(text) => (!matches!(text.trim(), "" | "false" | "0")).into(),
                Tree::List(_) | Tree::Object(_) => return self.wants(node, "bool"),
                _ => node.is_truthy().into(),
            },
            Scalar::Bytes => self.bytes(node)?,
            Scalar::Double | Scalar::Float => match self.number(scalar, node)? {
                Number::Float(number) if number.is_nan() => "NaN".into(),
                Number::Float(number) if number.is_infinite() => view.text().into_owned().into(),
                number => number.as_f64().into(),
            },
            _ => self.integer(scalar, node)?.into(),
        })
    }

    fn number(&self, scalar: Scalar, node: &Node) -> Result<Number, BodyFault> {
        let is_single = matches!(&node.value, Tree::Number(_) | Tree::Text(_) | Tree::Bool(_));
        let is_nan = View::Rule(node).text() == "NaN";
        match View::Rule(node).number() {
            Some(number) if is_single => Ok(number),
            None if is_nan => Ok(Number::Float(f64::NAN)),
            _ => self.wants(node, scalar.as_str()),
        }
    }

    /// An integer as JSON writes it, which takes text for each.
    fn integer(&self, scalar: Scalar, node: &Node) -> Result<String, BodyFault> {
        #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused next")]
        let integer = match self.number(scalar, node)? {
            Number::Integer(integer) => integer,
            // What a template gives is text, of which a fraction is cut off.
            Number::Float(number)
                if number.is_finite()
                    && (number.fract() == 0.0 || matches!(node.value, Tree::Text(_))) =>
            {
                number.trunc() as i128
            }
            Number::Float(_) => return self.wants(node, scalar.as_str()),
        };
        let (min, max) = match scalar {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => (i32::MIN.into(), i32::MAX.into()),
            Scalar::Uint32 | Scalar::Fixed32 => (0, u32::MAX.into()),
            Scalar::Uint64 | Scalar::Fixed64 => (0, u64::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        if !(min..=max).contains(&integer) {
            let why = format!("{integer} is out of the range of {}", scalar.as_str());
            return Err(self.fault(node, why));
        }
        Ok(integer.to_string())
    }

    fn bytes(&self, node: &Node) -> Result<Json, BodyFault> {
        Ok(match &node.value {
            Tree::Text(text) => text.clone().into(),
            Tree::Bytes(bytes) => STANDARD.encode(bytes).into(),
            Tree::List(items) => {
                let mut bytes = Vec::with_capacity(items.len());
                for item in items {
                    let byte = self.integer(Scalar::Uint32, item)?.parse();
                    bytes.push(byte.map_err(|_| self.fault(item, "a byte is 0 to 255"))?);
                }
                STANDARD.encode::<Vec<u8>>(bytes).into()
            }
            _ => return self.wants(node, "base64"),
        })
    }

    /// What JSON writes in its own way; `None` for any other type.
    fn well_known(
        &mut self,
        owner: MessageType<'_>,
        node: &Node,
    ) -> Result<Option<Json>, BodyFault> {
        let name = owner.full_name();
        let Some(short) = name.strip_prefix("google.protobuf.") else { return Ok(None) };
        let json = self.well_known_json(owner, short, node)?;
        // Here rather than with the whole body, for the sake of the place.
        if let ("Any" | "FieldMask" | "Timestamp" | "Duration", Some(json)) = (short, &json)
            && let Err(error) = self.schema.from_json(name, json)
        {
            return Err(self.fault(node, error.message().to_owned()));
        }
        Ok(json)
    }

    fn well_known_json(
        &mut self,
        owner: MessageType<'_>,
        short: &str,
        node: &Node,
    ) -> Result<Option<Json>, BodyFault> {
        let name = owner.full_name();
        Ok(Some(match short {
            "Timestamp" | "Duration" => match &node.value {
                Tree::Object(_) => {
                    let part = |key| match node.get(key) {
                        Some(part) => self.integer(Scalar::Int64, part),
                        None => Ok("0".to_owned()),
                    };
                    let seconds = part("seconds")?;
                    let nanos = part("nanos")?;
                    self.point(name, &seconds, &nanos).ok_or_else(|| {
                        self.fault(node, format!("{seconds}s and {nanos}ns are not a {name}"))
                    })?
                }
                Tree::Date(text) => timestamp_text(text).into(),
                Tree::Text(text) => text.clone().into(),
                _ => return self.wants(node, name),
            },
            "Any" | "Struct" | "Value" | "ListValue" | "FieldMask" => plain_json(node),
            _ if short.ends_with("Value") => {
                let Some(field) = owner.field("value") else { return Ok(None) };
                let inner = match &node.value {
                    Tree::Object(_) => node.get("value"),
                    _ => Some(node),
                };
                match (inner, field.kind()) {
                    (Some(inner), Kind::One(single)) => {
                        return self.single(single, inner);
                    }
                    (None, Kind::One(Single::Scalar(scalar))) => self.scalar(
                        scalar,
                        &Node { value: Tree::Text(String::new()), ..node.clone() },
                    )?,
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }))
    }

    fn point(&self, type_name: &str, seconds: &str, nanos: &str) -> Option<Json> {
        let mut point = self.schema.message(type_name).ok()?;
        point.set("seconds", seconds.parse::<i64>().ok()?).ok()?;
        point.set("nanos", nanos.parse::<i32>().ok()?).ok()?;
        let style = tidewire_schema::JsonStyle::default();
        serde_json::from_slice(&point.as_ref().print(style).ok()?).ok()
    }
}

/// That a message does not have a field, and which one was probably meant.
pub(crate) fn no_field(owner: MessageType<'_>, name: &str) -> String {
    let known: Vec<_> = owner.fields().map(Field::name).collect();
    format!("{} has no field {name}{}", owner.full_name(), meant(name, &known))
}

/// Whether `null` is a value of a field: of a `google.protobuf.Value`.
fn is_value(field: Field<'_>) -> bool {
    matches!(field.kind(), Kind::One(Single::Message(owner)) if owner.full_name() == "google.protobuf.Value")
}

/// A date as protobuf's JSON wants it.
fn timestamp_text(text: &str) -> String {
    match text.len() {
        10 => format!("{text}T00:00:00Z"),
        _ => {
            let text = text.replacen([' ', 't'], "T", 1);
            let clock = text.split_once('T').map_or("", |(_, clock)| clock);
            let has_zone = clock.ends_with(['Z', 'z']) || clock.contains(['+', '-']);
            if has_zone { text } else { format!("{text}Z") }
        }
    }
}

/// `; did you mean x?`, where something known is near.
pub(crate) fn meant(name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|known| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase()), known)
        })
        .filter(|(distance, known)| *distance <= 2.max(known.len() / 4))
        .min_by_key(|(distance, _)| *distance);
    near.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

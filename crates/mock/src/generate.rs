//! Answers that nobody wrote: a plausible message of a type, from the schema alone.
//!
//! The same seed, method and request give the same answer, on every machine and on every day. A
//! field is what its name says (`email` is an e-mail, `next_page_token` is empty), within what its
//! rules of validation ask for, and an id is that of the request where it has one. The whole is
//! checked against those rules; where a message breaks some, other chance is tried, and of those
//! the one that breaks fewest is taken.
//!
//! | what | where |
//! |---|---|
//! | numbers and texts within rules | `generate/scalar.rs`, `generate/limits.rs` |
//! | what a name says | `generate/words.rs` |
//! | text that a pattern matches | `generate/pattern.rs` |
//! | ids of the request | `generate/ids.rs` |
//!
//! Bounded: messages nest 5 deep and have 2,000 values together.

mod ids;
mod limits;
mod pattern;
mod scalar;
mod words;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tidewire_schema::{
    Field, Kind, Message, MessageType, Path as FieldPath, Scalar, Schema, Single,
};
use tidewire_service::{Codec, Method, Result};
use tidewire_validate::RuleSet;

pub(crate) use self::ids::Ids;
use self::limits::Limits;
use crate::random::Random;
use crate::value::eval_context::{EvalContext, Request};
use crate::value::node::Node;

/// What answers from the schema is to be like.
#[derive(Debug, Clone, Default)]
pub(crate) struct GenerateOptions {
    pub(crate) seed: u64,
    /// How probable it is that an answer breaks a rule of validation.
    pub(crate) violate: f64,
    /// The rules of the schema; without them nothing is checked.
    pub(crate) rules: Option<Arc<RuleSet>>,
    /// What rules ask of each field, as far as it was asked for: reading options is slow.
    pub(crate) limits: Arc<FieldLimits>,
}

/// The limits of fields by the type and the number, kept.
#[derive(Debug, Default)]
pub(crate) struct FieldLimits(Mutex<HashMap<(String, u32), Arc<Limits>>>);

impl FieldLimits {
    fn of(&self, schema: &Schema, owner: MessageType<'_>, field: Field<'_>) -> Arc<Limits> {
        let key = (owner.full_name().to_owned(), field.number());
        let mut known = self.0.lock();
        let limits = known.entry(key).or_insert_with(|| Arc::new(Limits::of(schema, owner, field)));
        Arc::clone(limits)
    }
}

const DEPTH_MAX: usize = 5;
const VALUES_MAX: usize = 2_000;
const TRIES_MAX: usize = 16;

/// The chance of an answer: it follows from the seed, the method and the request.
pub(crate) fn random(options: &GenerateOptions, method: &Method, eval: &EvalContext<'_>) -> Random {
    let bytes = |message: &Message| message.encode(Codec::Proto).unwrap_or_default();
    let requests: Vec<_> = match eval.request {
        Request::One(message) => vec![bytes(message)],
        Request::Many(messages) => messages.iter().map(bytes).collect(),
    };
    let mut parts: Vec<&[u8]> = vec![method.path.as_bytes()];
    parts.extend(requests.iter().map(|bytes| &bytes[..]));
    Random::of(options.seed, &parts)
}

/// A message of a type.
pub(crate) fn message(
    schema: &Schema,
    type_name: &str,
    options: &GenerateOptions,
    now_millis: u64,
    (random, ids): (&mut Random, &Ids),
) -> Result<Message> {
    let breaks = options.violate > 0.0 && random.unit() < options.violate;
    let mut best: Option<(usize, Message)> = None;
    let none = Ids::default();
    for attempt in 0..TRIES_MAX {
        // Where the ids of the request break the rules, others are made.
        let mut maker = Maker {
            schema,
            known: &options.limits,
            now_millis,
            random,
            ids: if attempt < TRIES_MAX / 2 { ids } else { &none },
            within: Vec::new(),
            lists: 0,
            has_own_id: false,
            values: 0,
            breaks,
            broken: false,
        };
        let message = maker.message(type_name, 0)?;
        let violations = violations(options, type_name, &message);
        let is_wanted = (violations > 0) == breaks;
        if is_wanted || options.rules.is_none() {
            return Ok(message);
        }
        let is_better = best.as_ref().is_none_or(|(fewest, _)| violations < *fewest);
        if is_better {
            best = Some((violations, message));
        }
    }
    match best {
        Some((_, message)) => Ok(message),
        None => schema.message(type_name),
    }
}

fn violations(options: &GenerateOptions, type_name: &str, message: &Message) -> usize {
    let Some(rules) = options.rules.as_ref().and_then(|rules| rules.rules(type_name)) else {
        return 0;
    };
    let Ok(bytes) = message.encode(Codec::Proto) else { return 0 };
    match rules.violations(&bytes) {
        Ok(violations) => violations.map_or(0, |violations| violations.iter().len()),
        Err(_) => 1,
    }
}

/// A message with what a rule says over it: a list or a map in place of the other, a message field
/// by field.
pub(crate) fn merged(mut below: Message, said: &Node, over: &Message) -> Result<Message> {
    let schema_type = below.message_type();
    let mut replaced = Vec::new();
    replaced_paths(schema_type, said, "", &mut replaced);
    for path in replaced {
        // What is not there needs no clearing.
        let _ = below.clear(path.as_str());
    }
    below.merge(&over.encode(Codec::Proto)?)?;
    Ok(below)
}

fn replaced_paths(owner: MessageType<'_>, said: &Node, before: &str, replaced: &mut Vec<String>) {
    for member in said.members() {
        let Some(field) = owner.field(&member.key) else { continue };
        let dot = if before.is_empty() { "" } else { "." };
        let path = format!("{before}{dot}{}", field.name());
        match field.kind() {
            Kind::One(Single::Message(inner))
                if member.value.is_object()
                    && !inner.full_name().starts_with("google.protobuf.") =>
            {
                replaced_paths(inner, &member.value, &path, replaced);
            }
            _ => replaced.push(path),
        }
    }
}

struct Maker<'m> {
    schema: &'m Schema,
    known: &'m FieldLimits,
    now_millis: u64,
    random: &'m mut Random,
    /// The ids of the request.
    ids: &'m Ids,
    /// The types of the messages that this one is in.
    within: Vec<String>,
    /// How many lists and maps this message is in.
    lists: usize,
    /// Whether a message has the id that the request names without saying of what.
    has_own_id: bool,
    values: usize,
    /// Whether a rule is to be broken, and whether one is.
    breaks: bool,
    broken: bool,
}

impl Maker<'_> {
    fn message(&mut self, type_name: &str, depth: usize) -> Result<Message> {
        let mut message = self.schema.message(type_name)?;
        let schema = self.schema;
        let Some(owner) = schema.message_type(type_name) else { return Ok(message) };
        self.within.push(type_name.to_owned());
        let mut chosen = Vec::new();
        for oneof in owner.oneofs() {
            let members: Vec<_> = oneof.fields().collect();
            let simple: Vec<_> = members.iter().filter(|field| !is_message(**field)).collect();
            let pick = match depth + 1 >= DEPTH_MAX && !simple.is_empty() {
                true => simple.get(self.random.below(simple.len())).map(|field| field.number()),
                false => members.get(self.random.below(members.len())).map(|field| field.number()),
            };
            chosen.extend(pick);
        }
        for field in owner.fields() {
            if field.oneof().is_some() && !chosen.contains(&field.number()) {
                continue;
            }
            self.values += 1;
            if self.values > VALUES_MAX {
                break;
            }
            let limits = self.known.of(schema, owner, field);
            self.field(&mut message, field, &limits, depth)?;
        }
        self.within.pop();
        Ok(message)
    }

    fn field(
        &mut self,
        message: &mut Message,
        field: Field<'_>,
        limits: &Limits,
        depth: usize,
    ) -> Result<()> {
        let name = field.name();
        match field.kind() {
            Kind::One(single) => {
                self.put(message, FieldPath::field(name), name, single, limits, depth)?;
                if matches!(single, Single::Scalar(_)) {
                    self.echo(message, name, depth);
                }
                Ok(())
            }
            Kind::List(single) => {
                self.lists += 1;
                let (min, max) = limits.count("repeated.min_items", "repeated.max_items");
                let inner = limits.within("repeated.items");
                for index in 0..self.count(single, min, max, depth) {
                    let path = format!("{name}[{index}]");
                    let Ok(path) = path.parse::<FieldPath>() else { continue };
                    self.put(message, path, name, single, &inner, depth)?;
                }
                self.lists -= 1;
                Ok(())
            }
            Kind::Map { key, value } => {
                self.lists += 1;
                let (min, max) = limits.count("map.min_pairs", "map.max_pairs");
                let keys = limits.within("map.keys");
                let values = limits.within("map.values");
                for index in 0..self.count(value, min, max, depth) {
                    let key = self.key(key, &keys, index);
                    let quoted = serde_json::Value::String(key);
                    let Ok(path) = format!("{name}[{quoted}]").parse::<FieldPath>() else {
                        continue;
                    };
                    self.put(message, path, name, value, &values, depth)?;
                }
                self.lists -= 1;
                Ok(())
            }
        }
    }

    /// Sets an id to that of the request, where the request has it.
    fn echo(&mut self, message: &mut Message, name: &str, depth: usize) {
        let place = ids::Place {
            owner: self.within.last().map_or("", String::as_str),
            depth,
            is_listed: self.lists > 0,
            is_first: !self.has_own_id,
        };
        let Some(found) = self.ids.of(name, &place) else { return };
        self.has_own_id |= found.is_plain;
        found.id.set(message, name);
    }

    /// How many elements a list or a map gets.
    fn count(&mut self, single: Single<'_>, min: usize, max: usize, depth: usize) -> usize {
        if matches!(single, Single::Message(_)) && depth + 1 >= DEPTH_MAX {
            return min;
        }
        let wanted = 1 + self.random.below(3);
        wanted.max(min).min(max).min(VALUES_MAX)
    }

    fn key(&mut self, key: Scalar, limits: &Limits, index: usize) -> String {
        match key {
            Scalar::String if limits.has_rules() => self.text("key", limits),
            Scalar::String => {
                format!("{}{index}", words::KEYS[self.random.below(words::KEYS.len())])
            }
            Scalar::Bool => index.is_multiple_of(2).to_string(),
            _ => (index + 1).to_string(),
        }
    }

    /// Sets one value; what does not fit is left out, which the check of the whole then tells.
    fn put(
        &mut self,
        message: &mut Message,
        path: FieldPath,
        name: &str,
        single: Single<'_>,
        limits: &Limits,
        depth: usize,
    ) -> Result<()> {
        match single {
            Single::Scalar(scalar) => {
                let _ = self.scalar(message, &path, name, scalar, limits);
            }
            Single::Enum(owner) => {
                let numbers = limits.enum_numbers(owner);
                if let Some(number) = numbers.get(self.random.below(numbers.len())) {
                    let _ = message.set(&path, *number);
                }
            }
            Single::Message(owner) => {
                if self.well_known(message, &path, name, owner, limits) {
                    return Ok(());
                }
                // A type within itself is made once more, and then left out.
                let again = self.within.iter().filter(|name| *name == owner.full_name()).count();
                let is_wanted = depth + 1 < DEPTH_MAX && again < 2;
                if is_wanted || limits.is_required() && depth < DEPTH_MAX * 3 {
                    let inner = self.message(owner.full_name(), depth + 1)?;
                    let _ = message.set(&path, &inner);
                }
            }
        }
        Ok(())
    }
}

fn is_message(field: Field<'_>) -> bool {
    matches!(field.kind(), Kind::One(Single::Message(_)))
}

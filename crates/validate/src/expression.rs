//! An expression of CEL over names of one's own: what rules of validation are written in, for
//! others to use.
//!
//! It is checked against the types of its names when it is compiled, and bounded in depth and in
//! steps, as rules are. What it gives is JSON.

use std::sync::Arc;

use serde_json::Value as Json;

use super::cel::{Bindings, Budget, Failure, Program, Scope, Type, Value, of_json, to_json};
use tidewire_schema::{MessageRef, Schema};

/// An expression, compiled.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    names: Vec<&'static str>,
    is_truth: bool,
}

/// What is known of a name before it has a value.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum NameType<'a> {
    /// A message of this type.
    Message(&'a str),
    /// A map from text to text.
    Texts,
    /// An integer.
    Integer,
    /// Nothing.
    Unknown,
}

/// The value of a name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NameValue<'a> {
    /// A message.
    Message(MessageRef<'a>),
    /// Values in a row.
    List(Vec<Self>),
    /// Values by name.
    Members(Vec<(&'static str, Self)>),
    /// Whatever JSON writes.
    Json(Json),
}

impl Expression {
    /// How many steps an expression may take that has its own budget.
    pub const STEPS: u64 = Budget::STEPS;

    /// Compiles an expression over names.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn compile(
        schema: &Schema,
        names: &[(&'static str, NameType<'_>)],
        text: &str,
    ) -> Result<Self, String> {
        let pool = schema.pool();
        let mut scope = Scope { pool, names: Vec::with_capacity(names.len()) };
        for (name, known) in names {
            let known = match known {
                NameType::Message(type_name) => match pool.message_index(type_name) {
                    Some(index) => Type::of_message(pool, index),
                    None => return Err(format!("the schema has no message type {type_name}")),
                },
                NameType::Texts => Type::Map(Box::new(Type::Text), Box::new(Type::Text)),
                NameType::Integer => Type::Int,
                NameType::Unknown => Type::Dyn,
            };
            scope.names.push((name, known));
        }
        let (program, gives) = Program::of_any_type(text, &scope)?;
        let names = names.iter().map(|(name, _)| *name);
        let names = names.filter(|name| program.mentions(name)).collect();
        Ok(Self { program, names, is_truth: matches!(gives, Type::Bool | Type::Dyn) })
    }

    /// Whether a name stands in it, so that what it gives may depend on that.
    pub fn mentions(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// Whether it may give a boolean.
    pub fn is_truth(&self) -> bool {
        self.is_truth
    }

    /// What it gives, at a time in nanoseconds since 1970. `given` is asked for the names that
    /// stand in it; one without a value is not defined. What it takes is subtracted from `steps`.
    ///
    /// # Errors
    /// Why it has no value, such as a division by zero, or that it takes too many steps.
    pub fn evaluate<'a>(
        &self,
        given: &mut dyn FnMut(&'static str) -> Option<NameValue<'a>>,
        now: i128,
        steps: &mut u64,
    ) -> Result<Json, String> {
        let mut bindings = Bindings::default();
        for name in &self.names {
            bindings.more.extend(given(name).map(|value| (*name, value_of(value))));
        }
        // A rule's `this` goes before other names.
        if let Some(at) = bindings.more.iter().position(|(name, _)| *name == "this") {
            bindings.this = Some(bindings.more.swap_remove(at).1);
        }
        let mut budget = Budget { steps: *steps, now };
        let json =
            self.program.run(&bindings, &mut budget).and_then(|value| to_json(&value, &mut budget));
        *steps = budget.steps;
        json.map_err(|Failure(why)| why)
    }
}

fn value_of(given: NameValue<'_>) -> Value {
    match given {
        NameValue::Message(message) => Value::of_message(Arc::new(message.as_dynamic().clone())),
        NameValue::List(items) => Value::List(Arc::new(items.into_iter().map(value_of).collect())),
        NameValue::Members(members) => {
            let members = members.into_iter();
            Value::Map(Arc::new(
                members.map(|(name, value)| (Value::text(name), value_of(value))).collect(),
            ))
        }
        NameValue::Json(json) => of_json(&json),
    }
}

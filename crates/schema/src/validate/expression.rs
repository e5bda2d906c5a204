//! An expression of CEL over a message: what rules of validation are written in, for others to use.
//!
//! It is checked against the message's type when it is compiled, and bounded in depth and in steps, as
//! rules are.

use std::sync::Arc;

use super::cel::{Bindings, Budget, Failure, Program, Scope, Type, Value};
use crate::{MessageRef, Schema};

/// An expression that gives a truth or text for a message, which it calls `this`.
#[derive(Debug)]
pub struct Expression(Program);

/// What an expression gives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evaluated {
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(String),
}

impl Expression {
    /// Compiles an expression over messages of a type.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn compile(schema: &Schema, type_name: &str, text: &str) -> Result<Self, String> {
        let pool = &schema.pool;
        let index = pool.message_index(type_name);
        let index = index.ok_or_else(|| format!("the schema has no message type {type_name}"))?;
        let scope = Scope { pool, names: vec![("this", Type::of_message(pool, index))] };
        Program::compile(text, &scope).map(Self)
    }

    /// What it gives for a message, at a time in nanoseconds since 1970.
    ///
    /// # Errors
    /// Why it has no value, such as a division by zero, or that it takes too many steps.
    pub fn evaluate(&self, this: MessageRef<'_>, now: i128) -> Result<Evaluated, String> {
        let this = Some(Value::Message(Arc::new(this.0.clone())));
        let mut budget = Budget { steps: Budget::STEPS, now };
        let bindings = Bindings { this, ..Bindings::default() };
        match self.0.run(&bindings, &mut budget).map_err(|Failure(why)| why)? {
            Value::Bool(value) => Ok(Evaluated::Bool(value)),
            Value::Text(text) => Ok(Evaluated::Text(text.to_string())),
            _ => Err("it gives neither a boolean nor a string".to_owned()),
        }
    }
}

//! The Common Expression Language, as rules use it.
//!
//! ```text
//! text ─▶ parse ─▶ Expr ─▶ check against the types of `this`, `rules`, `rule` ─▶ Program ─▶ evaluate
//! ```
//!
//! Made here, and not taken from a library, for what rules of others' schemas need: an expression
//! that names a field that is not there, or compares a number with text, is refused when the schema
//! is loaded; parsing and evaluation are bounded in depth and in steps, so that no expression and
//! no message can hold a server up.
//!
//! Not there: messages made in an expression (`Type{field: 1}`), time zones by name other than UTC,
//! what is inside an `Any`.

mod ast;
mod check;
mod eval;
mod functions;
mod json;
mod outcome;
mod parse;
mod print;
mod signatures;
mod text;
mod time;
mod types;
mod value;

use std::sync::Arc;

use buffa_descriptor::DescriptorPool;

pub(super) use json::{of_json, to_json};
pub(super) use outcome::{Budget, Failure};
pub use time::{parse_timestamp, print_timestamp};
pub(super) use types::Type;
pub(super) use value::{Value, duration_nanos, is_wrapper};

/// An expression that was parsed and checked.
#[derive(Debug)]
pub(super) struct Program {
    expr: ast::Expr,
}

/// The names that an expression may use, and their types.
pub(super) struct Scope<'a> {
    pub(super) pool: &'a Arc<DescriptorPool>,
    pub(super) names: Vec<(&'static str, Type)>,
}

/// The values of names.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    pub(super) this: Option<Value>,
    pub(super) rules: Option<Value>,
    pub(super) rule: Option<Value>,
    /// Those of expressions that are not rules.
    pub(super) more: Vec<(&'static str, Value)>,
}

impl Program {
    /// Parses and checks an expression that has to give a boolean or a string.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub(super) fn compile(text: &str, scope: &Scope<'_>) -> Result<Self, String> {
        match Self::of_any_type(text, scope)? {
            (program, Type::Bool | Type::Text | Type::Dyn) => Ok(program),
            (_, other) => Err(format!("gives {other}; it has to give a boolean or a string")),
        }
    }

    /// Parses and checks an expression, and says what it gives.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub(super) fn of_any_type(text: &str, scope: &Scope<'_>) -> Result<(Self, Type), String> {
        let expr = parse::parse(text)?;
        let gives = check::check(&expr, scope)?;
        Ok((Self { expr }, gives))
    }

    /// Whether a name stands in it.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.expr.mentions(name)
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// What cannot be evaluated with these values, or that the budget is used up.
    pub(super) fn run(&self, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Failure> {
        eval::Evaluation::new(bindings, budget).run(&self.expr)
    }
}

//! Evaluating an expression, within a budget.
//!
//! Every expression that is looked at costs a step, and more where it makes or searches what is
//! long.

use std::sync::Arc;

use super::Bindings;
use super::ast::{Expr, MacroKind, Operator};
use super::functions;
use super::outcome::{Budget, Failure, Outcome, failure};
use super::value::Value;

pub(super) struct Evaluation<'a> {
    bindings: &'a Bindings,
    budget: &'a mut Budget,
    items: Vec<(&'a str, Value)>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(bindings: &'a Bindings, budget: &'a mut Budget) -> Self {
        Self { bindings, budget, items: Vec::new() }
    }

    pub(super) fn run(&mut self, expr: &'a Expr) -> Outcome {
        self.budget.spend(1)?;
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Name(name) => self.name(name),
            Expr::Select { of, field, test } => match functions::type_named(expr) {
                Some(name) => Ok(Value::Type(name.into())),
                None => {
                    let of = self.run(of)?;
                    functions::field(self.budget, &of, field, *test)
                }
            },
            Expr::Call { name, target, arguments } => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for expr in target.iter().map(|target| &**target).chain(arguments) {
                    values.push(self.run(expr)?);
                }
                functions::call(self.budget, name, values)
            }
            Expr::Operator { name: Operator::And, operands } => self.logic(operands, false),
            Expr::Operator { name: Operator::Or, operands } => self.logic(operands, true),
            Expr::Operator { name, operands } => {
                let left = self.run(&operands[0])?;
                match operands.get(1) {
                    Some(right) => {
                        let right = self.run(right)?;
                        self.budget.spend(left.weight() + right.weight())?;
                        functions::operate(*name, left, right)
                    }
                    None => functions::sign(*name, &left),
                }
            }
            Expr::Choice { condition, yes, no } => match self.run(condition)? {
                Value::Bool(true) => self.run(yes),
                Value::Bool(false) => self.run(no),
                other => failure(format!("the condition is {}", other.type_name())),
            },
            Expr::List(items) => {
                let items: Result<_, _> = items.iter().map(|item| self.run(item)).collect();
                Ok(Value::List(Arc::new(items?)))
            }
            Expr::Map(entries) => {
                let mut map = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    map.push((self.run(key)?, self.run(value)?));
                }
                Ok(Value::Map(Arc::new(map)))
            }
            Expr::Each { kind, of, name, condition, body } => {
                let of = self.run(of)?;
                self.each(*kind, of, name, condition.as_deref(), body)
            }
        }
    }

    fn name(&self, name: &str) -> Outcome {
        if let Some((_, value)) = self.items.iter().rev().find(|(item, _)| *item == name) {
            return Ok(value.clone());
        }
        let bound = match name {
            "this" => self.bindings.this.clone(),
            "rules" => self.bindings.rules.clone(),
            "rule" => self.bindings.rule.clone(),
            "now" => Some(Value::Timestamp(self.budget.now)),
            _ => {
                let more = self.bindings.more.iter().find(|(known, _)| *known == name);
                let more = more.map(|(_, value)| value.clone());
                more.or_else(|| functions::is_type(name).then(|| Value::Type(name.into())))
            }
        };
        bound.map_or_else(|| failure(format!("{name} is not defined")), Ok)
    }

    /// `&&` and `||`: the side that decides does so although the other has no value.
    fn logic(&mut self, operands: &'a [Expr], decides: bool) -> Outcome {
        let mut failed = None;
        for operand in operands {
            match self.run(operand) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(other) => {
                    failed = Some(Failure(format!("{} is not a boolean", other.type_name())))
                }
                Err(_) if self.budget.steps == 0 => return failure("takes too many steps"),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn each(
        &mut self,
        kind: MacroKind,
        of: Value,
        name: &'a str,
        condition: Option<&'a Expr>,
        body: &'a Expr,
    ) -> Outcome {
        let items = match &of {
            Value::List(items) => Arc::clone(items),
            Value::Map(entries) => Arc::new(entries.iter().map(|(key, _)| key.clone()).collect()),
            other => return failure(format!("{} has no items", other.type_name())),
        };
        self.budget.spend(items.len() as u64)?;
        let mut kept = Vec::new();
        let mut count = 0_u64;
        let mut failed = None;
        for item in items.iter() {
            self.items.push((name, item.clone()));
            let found = match condition.map(|condition| self.run(condition)) {
                Some(Ok(Value::Bool(false))) => None,
                Some(Err(why)) => Some(Err(why)),
                _ => Some(self.run(body)),
            };
            self.items.pop();
            match (kind, found) {
                (_, None)
                | (MacroKind::Filter | MacroKind::ExistsOne, Some(Ok(Value::Bool(false)))) => {}
                (MacroKind::All, Some(Ok(Value::Bool(true)))) => {}
                (MacroKind::Exists, Some(Ok(Value::Bool(false)))) => {}
                (MacroKind::All, Some(Ok(Value::Bool(false)))) => return Ok(Value::Bool(false)),
                (MacroKind::Exists, Some(Ok(Value::Bool(true)))) => return Ok(Value::Bool(true)),
                (MacroKind::ExistsOne, Some(Ok(Value::Bool(true)))) => count += 1,
                (MacroKind::Filter, Some(Ok(Value::Bool(true)))) => kept.push(item.clone()),
                (MacroKind::Map, Some(Ok(value))) => kept.push(value),
                (_, Some(Ok(other))) => {
                    failed = Some(Failure(format!("{} is not a boolean", other.type_name())));
                }
                // Another item may decide what one without a value leaves open.
                (MacroKind::All | MacroKind::Exists, Some(Err(why))) if self.budget.steps > 0 => {
                    failed = Some(why);
                }
                (_, Some(Err(why))) => return Err(why),
            }
        }
        match (failed, kind) {
            (Some(why), _) => Err(why),
            (None, MacroKind::All) => Ok(Value::Bool(true)),
            (None, MacroKind::Exists) => Ok(Value::Bool(false)),
            (None, MacroKind::ExistsOne) => Ok(Value::Bool(count == 1)),
            (None, MacroKind::Filter | MacroKind::Map) => Ok(Value::List(Arc::new(kept))),
        }
    }
}

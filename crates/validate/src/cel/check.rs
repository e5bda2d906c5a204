//! The type of an expression, checked before any value is there.
//!
//! What is known is checked: that a field exists, that a function takes what it is given. Where a
//! type is not known (`dyn`), evaluating finds out.

use super::ast::{Expr, MacroKind, Operator};
use super::signatures::signature;
use super::types::Type;
use super::value::Value;
use super::{Scope, functions, time};

/// The type of an expression.
///
/// # Errors
/// What does not fit, in one line.
pub(super) fn check(expr: &Expr, scope: &Scope<'_>) -> Result<Type, String> {
    Checker { scope, items: Vec::new() }.of(expr)
}

struct Checker<'a> {
    scope: &'a Scope<'a>,
    items: Vec<(&'a str, Type)>,
}

impl<'a> Checker<'a> {
    fn of(&mut self, expr: &'a Expr) -> Result<Type, String> {
        match expr {
            Expr::Literal(value) => Ok(Type::of_constant(value)),
            Expr::Name(name) => self.name(name),
            Expr::Select { of, field, test } => {
                // The names of types have dots: google.protobuf.Timestamp.
                if functions::type_named(expr).is_some() {
                    return Ok(Type::Name);
                }
                let of = self.of(of)?;
                let of = self.field(&of, field)?;
                Ok(if *test { Type::Bool } else { of })
            }
            Expr::Call { name, target, arguments } => {
                let target = target.as_deref().map(|target| self.of(target)).transpose()?;
                if let (Some(Type::Timestamp), [Expr::Literal(Value::Text(zone))]) =
                    (target.as_ref().map(Type::plain), &**arguments)
                    && !time::is_zone(zone)
                {
                    return Err(format!("{zone} is not an offset, such as +02:00, or UTC"));
                }
                let arguments = self.all(arguments)?;
                signature(name, target.as_ref(), &arguments)
            }
            Expr::Operator { name, operands } => {
                let operands = self.all(operands)?;
                operator(*name, &operands).ok_or_else(|| {
                    let types: Vec<_> = operands.iter().map(ToString::to_string).collect();
                    format!("{:?} does not take {}", name.sign(), types.join(" and "))
                })
            }
            Expr::Choice { condition, yes, no } => {
                self.truth(condition, "the condition")?;
                let yes = self.of(yes)?;
                let no = self.of(no)?;
                if !yes.fits(&no) {
                    return Err(format!("the branches of ?: give {yes} and {no}"));
                }
                Ok(joined(yes, no))
            }
            Expr::List(items) => {
                let items = self.all(items)?;
                Ok(Type::List(Box::new(items.into_iter().reduce(joined).unwrap_or(Type::Dyn))))
            }
            Expr::Map(entries) => {
                let mut keys = Vec::new();
                let mut values = Vec::new();
                for (key, value) in entries {
                    keys.push(self.of(key)?);
                    values.push(self.of(value)?);
                }
                let of =
                    |types: Vec<_>| Box::new(types.into_iter().reduce(joined).unwrap_or(Type::Dyn));
                Ok(Type::Map(of(keys), of(values)))
            }
            Expr::Each { kind, of, name, condition, body } => {
                let of = self.of(of)?;
                let item = match of.plain() {
                    Type::List(item) | Type::Map(item, _) => (**item).clone(),
                    Type::Dyn => Type::Dyn,
                    other => return Err(format!("{other} has no items to go through")),
                };
                self.items.push((name, item));
                let found = self.each(*kind, of, condition.as_deref(), body);
                self.items.pop();
                found
            }
        }
    }

    fn each(
        &mut self,
        kind: MacroKind,
        of: Type,
        condition: Option<&'a Expr>,
        body: &'a Expr,
    ) -> Result<Type, String> {
        if let Some(condition) = condition {
            self.truth(condition, "the condition of map()")?;
        }
        if kind == MacroKind::Map {
            return Ok(Type::List(Box::new(self.of(body)?)));
        }
        self.truth(body, "what is asked of each item")?;
        Ok(match (kind, of) {
            (MacroKind::Filter, Type::Map(key, _)) => Type::List(key),
            (MacroKind::Filter, of) => of,
            _ => Type::Bool,
        })
    }

    fn all(&mut self, exprs: &'a [Expr]) -> Result<Vec<Type>, String> {
        exprs.iter().map(|expr| self.of(expr)).collect()
    }

    fn truth(&mut self, expr: &'a Expr, what: &str) -> Result<(), String> {
        match self.of(expr)? {
            found if found.fits(&Type::Bool) => Ok(()),
            found => Err(format!("{what} is {found}, not a boolean")),
        }
    }

    fn name(&self, name: &str) -> Result<Type, String> {
        if let Some((_, found)) = self.items.iter().rev().find(|(item, _)| *item == name) {
            return Ok(found.clone());
        }
        if let Some((_, found)) = self.scope.names.iter().find(|(known, _)| *known == name) {
            return Ok(found.clone());
        }
        match name {
            "now" => Ok(Type::Timestamp),
            _ if functions::is_type(name) => Ok(Type::Name),
            _ => Err(format!("{name} is not defined")),
        }
    }

    fn field(&self, of: &Type, field: &str) -> Result<Type, String> {
        match of {
            Type::Dyn => Ok(Type::Dyn),
            Type::Map(_, value) => Ok((**value).clone()),
            Type::Message(index, name) => {
                let message = self.scope.pool.message(*index);
                let found = message.field_by_name(field);
                let found = found.ok_or_else(|| format!("{name} has no field {field}"))?;
                Ok(Type::of_field(self.scope.pool, found))
            }
            other => Err(format!("{other} has no field {field}")),
        }
    }
}

fn joined(one: Type, other: Type) -> Type {
    match (&one, &other) {
        (Type::Null, _) => other,
        (_, Type::Null) => one,
        _ if one == other => one,
        _ => Type::Dyn,
    }
}

fn operator(name: Operator, operands: &[Type]) -> Option<Type> {
    let left = operands.first()?.plain();
    let Some(right) = operands.get(1).map(Type::plain) else { return sign(name, left) };
    let numeric = left.fits(right) && (left.is_number() || *left == Type::Dyn);
    let whole = numeric && *left != Type::Double && *right != Type::Double;
    let known = if *left == Type::Dyn { right } else { left };
    match name {
        Operator::Or | Operator::And => {
            (left.fits(&Type::Bool) && right.fits(&Type::Bool)).then_some(Type::Bool)
        }
        Operator::Equal | Operator::Unequal => operands[0].fits(&operands[1]).then_some(Type::Bool),
        Operator::In => match right {
            Type::List(item) | Type::Map(item, _) => left.fits(item).then_some(Type::Bool),
            Type::Dyn => Some(Type::Bool),
            _ => None,
        },
        Operator::Index => match left {
            Type::List(item) => right.fits(&Type::Int).then(|| (**item).clone()),
            Type::Map(key, value) => right.fits(key).then(|| (**value).clone()),
            Type::Dyn => Some(Type::Dyn),
            _ => None,
        },
        Operator::Add | Operator::Subtract => sum(name, left, right, numeric),
        Operator::Multiply | Operator::Divide => numeric.then(|| known.clone()),
        Operator::Remainder => whole.then(|| known.clone()),
        _ => {
            let ordered = !matches!(left, Type::List(_) | Type::Map(..) | Type::Message(..));
            let fits = left.fits(right) || (left.is_number() && right.is_number());
            (ordered && fits && *left != Type::Null).then_some(Type::Bool)
        }
    }
}

fn sign(name: Operator, operand: &Type) -> Option<Type> {
    let fits = match name {
        Operator::Not => operand.fits(&Type::Bool),
        _ => matches!(operand, Type::Int | Type::Double | Type::Dyn),
    };
    fits.then(|| operand.clone())
}

fn sum(name: Operator, left: &Type, right: &Type, numeric: bool) -> Option<Type> {
    use Type::{Bytes, Duration, Dyn, List, Text, Timestamp};
    let adds = name == Operator::Add;
    match (left, right) {
        (Dyn, Dyn) => Some(Dyn),
        (Timestamp, Timestamp) if !adds => Some(Duration),
        (Timestamp, Duration) => Some(Timestamp),
        (Duration, Timestamp) if adds => Some(Timestamp),
        (Duration, Duration) => Some(Duration),
        (Timestamp | Duration, Dyn) | (Dyn, Timestamp | Duration) => Some(Dyn),
        (Text | Bytes, _) | (_, Text | Bytes) if adds && left.fits(right) => {
            Some(if *left == Dyn { right.clone() } else { left.clone() })
        }
        (List(_), _) | (_, List(_)) if adds && left.fits(right) => {
            Some(joined(left.clone(), right.clone()))
        }
        _ => numeric.then(|| if *left == Dyn { right.clone() } else { left.clone() }),
    }
}
